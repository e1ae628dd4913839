//! Turns a complete answer of this dialect into a stream, for a client of this dialect that asked for one. Blocks
//! that no other dialect has are kept as they are.

use super::reply::message_id;
use super::stream_write::put_event;
use crate::dialect::canonical::ReplyContext;
use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text, compact};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Appends the events of the answer.
pub fn replay(answer: &Node<'_>, context: &ReplyContext, out: &mut String) {
    let body = compact(answer.raw());
    let id =
        serde_json::Value::from(&*message_id(&answer.text_at("id").unwrap_or_default(), context).decode());
    let model = serde_json::Value::from(context.model.as_str());
    let (id, model) = (id.to_string(), model.to_string());
    let mut set = vec![("content", "[]"), ("stop_reason", "null"), ("stop_sequence", "null")];
    for (key, value) in
        [("id", id.as_str()), ("type", "\"message\""), ("role", "\"assistant\""), ("model", &model)]
    {
        if answer.get(key).is_none() {
            set.push((key, value));
        }
    }
    if answer.get("usage").is_none() {
        set.push(("usage", r#"{"input_tokens":0,"output_tokens":0}"#));
    }
    let message = edit(&body, &set, &[]);
    put_event(out, "message_start", |o| o.field("message", Json::checked(&message)));
    let mut index = 0;
    if let Some(text) = answer.text_at("content").filter(|text| !text.is_empty()) {
        let block = format!("{{\"type\":\"text\",\"text\":\"{}\"}}", text.literal());
        if let Ok(block) = Node::parse(&block) {
            replay_block(&block, index, out);
            index += 1;
        }
    }
    for block in answer.items_at("content") {
        replay_block(block, index, out);
        index += 1;
    }
    put_event(out, "message_delta", |o| {
        o.object_at("delta", |o| {
            match answer.get("stop_reason") {
                Some(reason) => o.field("stop_reason", reason.json()),
                None => o.field("stop_reason", "end_turn"),
            }
            o.field("stop_sequence", answer.json_at("stop_sequence"));
        });
        match answer.get("usage") {
            Some(usage) => o.field("usage", Json::checked(&compact(usage.raw()))),
            None => o.object_at("usage", |o| o.field("output_tokens", 0u64)),
        }
    });
    put_event(out, "message_stop", |_| {});
}

fn replay_block(block: &Node<'_>, index: u64, out: &mut String) {
    let kind = block.str_at("type");
    // Members that come in deltas are empty at the start.
    let empty: &[(&str, &str)] = match kind.as_ref() {
        "text" if block.get("citations").is_some() => &[("text", "\"\""), ("citations", "[]")],
        "text" => &[("text", "\"\"")],
        "thinking" => &[("thinking", "\"\""), ("signature", "\"\"")],
        _ if block.get("input").is_some_and(Node::is_object) => &[("input", "{}")],
        _ => &[],
    };
    let body = compact(block.raw());
    let start = edit(&body, empty, &[]);
    put_event(out, "content_block_start", |o| {
        o.field("index", index);
        o.field("content_block", Json::checked(&start));
    });
    let mut delta = |kind: &str, inside: &dyn Fn(&mut Writer)| {
        put_event(out, "content_block_delta", |o| {
            o.field("index", index);
            o.object_at("delta", |o| {
                o.field("type", kind);
                inside(o);
            });
        });
    };
    let text = |key: &str| block.text_at(key).filter(|text| !text.is_empty());
    match kind.as_ref() {
        "text" => {
            if let Some(text) = text("text") {
                delta("text_delta", &|o| o.field("text", &text));
            }
            for citation in block.items_at("citations") {
                delta("citations_delta", &|o| o.field("citation", Json::checked(&compact(citation.raw()))));
            }
        }
        "thinking" => {
            if let Some(text) = text("thinking") {
                delta("thinking_delta", &|o| o.field("thinking", &text));
            }
            if let Some(signature) = text("signature") {
                delta("signature_delta", &|o| o.field("signature", &signature));
            }
        }
        _ if !empty.is_empty() => {
            let input = block.get("input").map(|input| compact(input.raw())).unwrap_or_default();
            if input != "{}" {
                delta("input_json_delta", &|o| o.field("partial_json", Text::of(&input)));
            }
        }
        _ => {}
    }
    put_event(out, "content_block_stop", |o| o.field("index", index));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::messages::Accumulator;
    use crate::dialect::stream_event::StreamEvent;

    const ANSWER: &str = concat!(
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":["#,
        r#"{"type":"thinking","thinking":"hm","signature":"S"},{"type":"redacted_thinking","data":"R"},"#,
        r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"url":"u"}]},"#,
        r#"{"type":"text","text":"Found \ud83d","citations":[{"type":"web_search_result_location","url":"u"}]},"#,
        r#"{"type":"tool_use","id":"t","name":"now","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"#,
        r#""usage":{"input_tokens":3,"output_tokens":2,"server_tool_use":{"web_search_requests":1}},"container":null}"#
    );

    #[test]
    fn an_answer_replayed_and_accumulated_is_the_same_to_the_byte() {
        let mut out = String::new();
        replay(&Node::parse(ANSWER).unwrap(), &ReplyContext::default(), &mut out);
        let mut accumulator = Accumulator::default();
        for event in out.split_terminator("\n\n") {
            let (name, data) = event.split_once("\ndata: ").unwrap();
            assert!(data.starts_with(&format!("{{\"type\":\"{}\"", name.strip_prefix("event: ").unwrap())));
            accumulator.read(&StreamEvent::new(b"", data));
        }
        assert_eq!(accumulator.finish(&ReplyContext::default()).unwrap(), ANSWER);
    }

    #[test]
    fn what_an_answer_lacks_is_made_up() {
        let context = ReplyContext { fallback_id: "r".into(), model: "m".into(), ..ReplyContext::default() };
        let mut out = String::new();
        replay(&Node::parse(r#"{"content":"Hi"}"#).unwrap(), &context, &mut out);
        for wanted in [
            r#""id":"msg_r""#,
            r#""model":"m""#,
            r#""type":"text_delta","text":"Hi""#,
            r#""stop_reason":"end_turn""#,
        ] {
            assert!(out.contains(wanted), "{wanted} in {out}");
        }
    }
}
