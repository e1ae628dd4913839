//! Properties that hold for any input.

use crate::dialect::stream_event::StreamEvent;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::dialect::any_json::any_json;

/// The words of this dialect.
const WORDS: &[&str] = &[
    "type",
    "role",
    "user",
    "assistant",
    "message",
    "input",
    "output",
    "reasoning",
    "function_call",
    "call_id",
    "custom_tool_call",
    "function_call_output",
    "item",
    "response",
    "response.completed",
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "delta",
    "text",
    "response.function_call_arguments.delta",
    "arguments",
    "name",
    "content",
    "summary",
    "encrypted_content",
    "sy1:openai:e30",
    "output_index",
    "content_index",
    "summary_index",
    "tools",
    "tool_choice",
    "error",
    "status",
    "input_image",
    "image_url",
    "data:image/png;base64,aa",
    "id",
    "msg_sy1",
    "instructions",
    "usage",
    "include",
];

proptest! {
    #[test]
    fn any_body_gives_a_request_or_says_why_not(body in any_json(WORDS), input in any_json(WORDS)) {
        for body in [body, json!({"input": input.clone()}), json!({"input": [input]})] {
            let text = body.to_string();
            let node = Node::parse(&text).unwrap();
            if let Ok(request) = read_request(&node) {
                let _ = written(&request);
            }
            let _ = validate(&node);
            for bytes in [without_own_ids(&node), Some(merge_turn(&node, &[&text], &node)), Some(whole_turn(&node))].into_iter().flatten() {
                prop_assert!(serde_json::from_slice::<Value>(&bytes).is_ok());
            }
            for (_, value) in echo(&node) {
                prop_assert!(serde_json::from_str::<Value>(&value).is_ok());
            }
        }
    }

    #[test]
    fn any_answer_is_read_and_written(body in any_json(WORDS), output in any_json(WORDS)) {
        for body in [body, json!({"output": [output]})] {
            let text = body.to_string();
            if let Ok(reply) = read_reply(&Node::parse(&text).unwrap()) {
                let bytes = write_reply(&reply, &context());
                prop_assert!(serde_json::from_slice::<Value>(&bytes).is_ok());
            }
        }
    }

    #[test]
    fn any_events_keep_the_grammar(events in prop::collection::vec(any_json(WORDS), 0..12)) {
        let (mut reader, context) = (StreamReader::default(), context());
        let mut writer = StreamWriter::new(&context);
        let (mut out, mut open, mut next, mut over, mut wrong) = (String::new(), Vec::new(), 0, false, false);
        for event in &events {
            reader.read(&StreamEvent::new(b"", &event.to_string()), &mut |event| {
                wrong |= over;
                match &event {
                    Event::PartStart { key, .. } => {
                        wrong |= *key != next;
                        next += 1;
                        open.push(*key);
                    }
                    Event::Delta { key, .. }
                    | Event::Signature { key, .. }
                    | Event::Cite { key, .. }
                    | Event::SearchOutcome { key, .. }
                    | Event::Logprobs { key, .. } => wrong |= !open.contains(key),
                    Event::PartStop { key } => {
                        wrong |= !open.contains(key);
                        open.retain(|own| own != key);
                    }
                    Event::Finish(_) => wrong |= !open.is_empty(),
                    Event::Fail(_) | Event::End => over = true,
                    Event::Start { .. } | Event::Model(_) | Event::Usage(_) => {}
                }
                writer.write(&event, &context, &mut out);
            });
        }
        prop_assert!(!wrong);
        events_of(&out);
    }

    #[test]
    fn a_text_cut_anywhere_is_the_same_text(text in "\\PC{1,40}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.chars().count())).collect();
        places.sort_unstable();
        let mut pieces = vec![String::new()];
        for (at, letter) in text.chars().enumerate() {
            if places.contains(&at) {
                pieces.push(String::new());
            }
            pieces.last_mut().unwrap().push(letter);
        }
        let mut events: Vec<Value> = pieces.iter().map(|piece| json!({"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":piece})).collect();
        events.push(json!({"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":text}]}]}}));
        let (mut reader, context) = (StreamReader::default(), context());
        let mut writer = StreamWriter::new(&context);
        let mut out = String::new();
        for event in &events {
            reader.read(&StreamEvent::new(b"", &event.to_string()), &mut |event| writer.write(&event, &context, &mut out));
        }
        let written = events_of(&out);
        let last = &written.last().unwrap()["response"]["output"][0]["content"][0]["text"];
        prop_assert_eq!(last, &json!(text));
    }
}
