//! Answers with more parts and choices than any model gives.

use super::*;
use crate::dialect::canonical::{MAX_CHOICES, MAX_OPEN_PARTS};

/// Builds a chunk of chat with a piece of a call.
fn piece(call: usize, start: bool, arguments: &str) -> String {
    let (id, name) = if start { (format!("c{call}"), "f") } else { Default::default() };
    let delta = serde_json::json!({"tool_calls": [{"index": call, "id": id, "function":
        {"name": name, "arguments": arguments}}]});
    format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": delta}]}))
}

#[test]
fn calls_that_stand_open_side_by_side_each_get_their_own() {
    const CALLS: usize = 1000;
    let starts = (0..CALLS).map(|call| piece(call, true, "{\"a\":"));
    let ends = (0..CALLS).map(|call| piece(call, false, &format!("{call}}}")));
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let stream: String = starts.chain(ends).chain([end.to_owned()]).collect();
    for to in [Dialect::Responses, Dialect::Messages, Dialect::Gemini] {
        let there = Way::new(Dialect::Chat, to).stream_text(&stream);
        // Back in chat all calls have the same form.
        let answer = Way::new(to, Dialect::Chat).accumulated(&there);
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), CALLS, "{to:?}");
        for (call, told) in calls.iter().enumerate() {
            assert_eq!(told["function"]["arguments"], format!("{{\"a\":{call}}}"), "{to:?}");
        }
    }
}

#[test]
fn calls_one_after_the_other_are_never_open_together() {
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let calls = (0..3).map(|call| piece(call, true, "{") + &piece(call, false, "}"));
    let stream: String = calls.chain([end.to_owned()]).collect();
    let there = Way::new(Dialect::Chat, Dialect::Responses).stream_text(&stream);
    let names = ["response.output_item.added", "response.output_item.done"];
    let items: Vec<_> = there
        .lines()
        .filter_map(|line| names.iter().position(|name| line == format!("event: {name}")))
        .collect();
    assert_eq!(items, [0, 1, 0, 1, 0, 1], "{there}");
}

#[test]
fn a_stream_that_opens_parts_without_end_fails() {
    let open = |calls: usize| (0..calls).map(|call| piece(call, true, "{")).collect::<String>();
    let nameless = |calls: usize| (0..calls).map(|call| piece(call, false, "{")).collect::<String>();
    for to in [Dialect::Responses, Dialect::Messages, Dialect::Gemini] {
        let way = Way::new(Dialect::Chat, to);
        assert_eq!(way.failure(&open(MAX_OPEN_PARTS)), None);
        for stream in [open(MAX_OPEN_PARTS + 1), nameless(MAX_OPEN_PARTS + 1)] {
            let failure = way.failure(&stream).unwrap_or_default();
            assert!(failure.contains("more than 4096 parts"), "{to:?}: {failure}");
        }
    }
}

#[test]
fn an_answer_is_read_up_to_as_many_choices_as_anyone_gives() {
    const CHOICES: usize = 3 * MAX_CHOICES;
    let many = |choice: &dyn Fn(usize) -> Value| (0..CHOICES).map(choice).collect::<Vec<Value>>();
    let said =
        |index| serde_json::json!({"index": index, "message": {"content": "x"}, "finish_reason": "stop"});
    let whole = serde_json::json!({"choices": many(&said)});
    let candidate = |index| serde_json::json!({"index": index, "content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"});
    let of_gemini = serde_json::json!({"candidates": many(&candidate)});
    let count =
        |answer: &Value| answer["choices"].as_array().or(answer["candidates"].as_array()).map(Vec::len);
    for (from, to, answer) in
        [(Dialect::Chat, Dialect::Gemini, &whole), (Dialect::Gemini, Dialect::Chat, &of_gemini)]
    {
        assert_eq!(count(&Way::new(from, to).reply(answer)), Some(MAX_CHOICES), "{from:?}");
    }
    let text = |index| serde_json::json!({"index": index, "text": "x", "finish_reason": "stop"});
    for (dialect, chunk) in [
        (Dialect::Chat, &whole),
        (Dialect::Completions, &serde_json::json!({"choices": many(&text)})),
        (Dialect::Gemini, &of_gemini),
    ] {
        let gathered = Way::new(dialect, dialect).accumulated(&format!("data: {chunk}\n\ndata: [DONE]\n\n"));
        assert_eq!(count(&gathered), Some(MAX_CHOICES), "{dialect:?}");
    }
}
