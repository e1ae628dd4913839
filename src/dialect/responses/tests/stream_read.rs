//! Streams of native upstreams, complete ones and those with missing events.

use crate::dialect::literal::looks;
use crate::dialect::stream_event::StreamEvent;
use serde_json::{Value, json};

use super::{StreamReader, read_events};

/// The events' short names.
fn kinds(read: &[String]) -> Vec<&str> {
    read.iter().map(|line| line.split([' ', '(']).next().unwrap_or_default()).collect()
}

fn completed(output: Value) -> Value {
    json!({"type":"response.completed","response":{"id":"resp_1","model":"m","status":"completed","output":output,
        "usage":{"input_tokens":3,"output_tokens":2}}})
}

fn delta(index: u64, text: &str) -> Value {
    json!({"type":"response.output_text.delta","item_id":"msg_1","output_index":index,"content_index":0,"delta":text})
}

#[test]
fn a_whole_stream_is_read_once() {
    let message = json!({"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"hel"}]});
    let read = read_events(&[
        json!({"type":"response.created","response":{"id":"resp_1","model":"m","created_at":7}}),
        json!({"type":"response.in_progress","response":{"id":"resp_1"}}),
        json!({"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","content":[]}}),
        json!({"type":"response.content_part.added","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}),
        delta(0, "he"),
        delta(0, "l"),
        json!({"type":"response.output_text.done","output_index":0,"content_index":0,"text":"hel"}),
        json!({"type":"response.content_part.done","output_index":0,"content_index":0,"part":{"type":"output_text","text":"hel"}}),
        json!({"type":"response.output_item.done","output_index":0,"item":message}),
        json!({"type":"response.rate_limits.updated"}),
        completed(json!([message])),
        delta(0, "after the end"),
    ]);
    assert_eq!(read[0], r#"Start { id: "resp_1", model: "m", created: Some(7) }"#);
    assert_eq!(read[1], "PartStart { key: 0, part: Text }");
    assert_eq!(read[2], r#"Delta { key: 0, text: "he" }"#);
    assert_eq!(read[3], r#"Delta { key: 0, text: "l" }"#);
    assert_eq!(kinds(&read[4..]), ["PartStop", "Usage", "Finish", "End"]);
}

#[test]
fn what_no_delta_said_is_supplied_later() {
    let message = json!({"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hi"}]});
    let wanted =
        ["PartStart { key: 0, part: Text }", r#"Delta { key: 0, text: "hi" }"#, "PartStop { key: 0 }"];
    for events in [
        vec![delta(0, "hi")],
        vec![json!({"type":"response.output_text.delta","delta":"hi"})],
        vec![json!({"type":"response.output_text.done","output_index":0,"content_index":0,"text":"hi"})],
        vec![
            json!({"type":"response.content_part.done","output_index":0,"content_index":0,"part":message["content"][0]}),
        ],
        vec![json!({"type":"response.output_item.done","output_index":0,"item":message})],
        vec![json!({"type":"response.output_item.done","item":message})],
        vec![completed(json!([message]))],
        vec![delta(0, "hi"), completed(json!([message]))],
        vec![delta(5, "hi"), completed(json!([message]))],
        vec![
            json!({"type":"response.output_item.done","output_index":0,"item":message}),
            completed(json!([message])),
        ],
        vec![json!({"type":"response.completed","response":{"output":[],"output_text":"hi"}})],
    ] {
        let mut events = events;
        if events.last().unwrap()["type"] != "response.completed" {
            events.push(completed(json!([])));
        }
        let mut read = read_events(&events);
        // The stream may tell the model's name anywhere, even at the end.
        read.retain(|line| !line.starts_with("Start"));
        let from = read.iter().position(|line| line.starts_with("PartStart")).unwrap();
        assert_eq!(read[from..from + 3], wanted, "{events:?}");
        assert_eq!(kinds(&read).iter().filter(|kind| **kind == "Delta").count(), 1, "{events:?}");
        assert_eq!(kinds(&read).last(), Some(&"End"));
    }
}

#[test]
fn calls_wait_for_their_name_and_may_stand_open_together() {
    let added = |index: u64, name: &str| {
        json!({"type":"response.output_item.added","output_index":index,
        "item":{"type":"function_call","id":format!("fc_{index}"),"call_id":format!("call_{index}"),"name":name,"arguments":""}})
    };
    let delta = |index: u64, text: &str| json!({"type":"response.function_call_arguments.delta","output_index":index,"item_id":format!("fc_{index}"),"delta":text});
    let done = |index: u64, arguments: &str| {
        json!({"type":"response.output_item.done","output_index":index,
        "item":{"type":"function_call","id":format!("fc_{index}"),"call_id":format!("call_{index}"),"name":"f","arguments":arguments}})
    };
    let read_of = read_events(&[
        added(0, "f"),
        added(1, "g"),
        delta(0, "{"),
        delta(1, "[1"),
        delta(0, "}"),
        done(0, "{}"),
        delta(1, "]"),
        completed(json!([])),
    ]);
    assert_eq!(
        read_of[..7],
        [
            r#"PartStart { key: 0, part: Call { id: "call_0", name: "f", kind: Function, signature: None } }"#,
            r#"PartStart { key: 1, part: Call { id: "call_1", name: "g", kind: Function, signature: None } }"#,
            r#"Delta { key: 0, text: "{" }"#,
            r#"Delta { key: 1, text: "[1" }"#,
            r#"Delta { key: 0, text: "}" }"#,
            "PartStop { key: 0 }",
            r#"Delta { key: 1, text: "]" }"#,
        ]
    );
    assert!(read_of.contains(&"Finish(ToolCall)".to_owned()));

    // The name comes only when the item is done, or there is no event but the last.
    for events in [
        vec![delta(0, "{"), delta(0, "}"), done(0, "{}")],
        vec![added(0, ""), delta(0, "{}"), done(0, "{}")],
        vec![
            json!({"type":"response.function_call_arguments.done","output_index":0,"arguments":"{}"}),
            done(0, "{}"),
        ],
        vec![done(0, "{}")],
        vec![completed(json!([done(0, "{}")["item"]]))],
        vec![added(0, "f"), completed(json!([done(0, "{}")["item"]]))],
    ] {
        let mut events = events;
        events.push(completed(json!([])));
        let read = read_events(&events);
        let text: String =
            read.iter().filter_map(|line| line.split("text: \"").nth(1)?.strip_suffix("\" }")).collect();
        assert_eq!(text, "{}", "{events:?}");
        assert_eq!(kinds(&read).iter().filter(|kind| **kind == "PartStart").count(), 1, "{events:?}");
    }
    let nameless = read_events(&[delta(0, "{}"), completed(json!([]))]);
    assert_eq!(kinds(&nameless), ["Start", "Usage", "Finish", "End"]);
}

#[test]
fn custom_calls_and_refusals_are_read() {
    let item = json!({"type":"custom_tool_call","id":"ctc_1","call_id":"c","name":"patch","input":"a\nb"});
    let read = read_events(&[
        json!({"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","id":"ctc_1","call_id":"c","name":"patch","input":""}}),
        json!({"type":"response.custom_tool_call_input.delta","output_index":0,"item_id":"ctc_1","delta":"a\n"}),
        json!({"type":"response.custom_tool_call_input.delta","output_index":0,"item_id":"ctc_1","delta":"b"}),
        json!({"type":"response.custom_tool_call_input.done","output_index":0,"item_id":"ctc_1","input":"a\nb"}),
        json!({"type":"response.output_item.done","output_index":0,"item":item}),
        json!({"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"No"}),
        json!({"type":"response.refusal.done","output_index":1,"content_index":0,"refusal":"No"}),
        completed(json!([])),
    ]);
    assert_eq!(
        read[0],
        r#"PartStart { key: 0, part: Call { id: "c", name: "patch", kind: Custom, signature: None } }"#
    );
    assert_eq!(read[4], "PartStart { key: 1, part: Refusal }");
    assert_eq!(read[5], r#"Delta { key: 1, text: "No" }"#);
}

#[test]
fn thinking_is_read_with_its_parts_and_its_signature() {
    let summary = json!([{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}]);
    let done = json!({"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":summary,"encrypted_content":"gAAA"}});
    let delta = |part: u64, text: &str| json!({"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":part,"delta":text});
    let proof = r#"Signature { key: 0, signature: OpenAi { id: Some("rs_1"), encrypted: "gAAA", summary: ["A", "B"] } }"#;
    let wanted = [
        "PartStart { key: 0, part: Thinking }",
        r#"Delta { key: 0, text: "A" }"#,
        r#"Delta { key: 0, text: "\n\n" }"#,
        r#"Delta { key: 0, text: "B" }"#,
        proof,
        "PartStop { key: 0 }",
    ];
    for events in [
        vec![delta(0, "A"), delta(1, "B"), done.clone()],
        vec![delta(0, "A"), done.clone()],
        vec![done.clone()],
    ] {
        let mut events = events;
        events.push(completed(json!([done["item"]])));
        assert_eq!(read_events(&events)[..6], wanted, "{events:?}");
    }
    let redacted = json!({"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}});
    assert_eq!(kinds(&read_events(&[redacted]))[..3], ["PartStart", "Signature", "PartStop"]);

    // Open models send their raw reasoning, and may send a summary as well.
    let raw = |text: &str| json!({"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":text});
    let read_raw = read_events(&[raw("x"), delta(0, "summary"), raw("y"), completed(json!([]))]);
    assert_eq!(read_raw[1..3], [r#"Delta { key: 0, text: "x" }"#, r#"Delta { key: 0, text: "y" }"#]);
}

#[test]
fn a_text_ends_where_another_part_begins() {
    let part = |part: u64, text: &str| json!({"type":"response.output_text.delta","output_index":0,"content_index":part,"delta":text});
    let call = json!({"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f"}});
    let read = read_events(&[part(0, "a"), part(1, "b"), call, completed(json!([]))]);
    assert_eq!(
        kinds(&read)[..7],
        ["PartStart", "Delta", "PartStop", "PartStart", "Delta", "PartStop", "PartStart"]
    );
}

#[test]
fn a_failure_is_read_as_one() {
    for (event, message, code) in [
        (
            json!({"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}),
            "boom",
            Some("server_error"),
        ),
        (
            json!({"type":"response.failed","response":{"status":"failed"}}),
            "Upstream reported that the response failed",
            None,
        ),
        (json!({"type":"error","code":"x","message":"boom","param":null}), "boom", Some("x")),
        (json!({"type":"error","error":{"message":"boom"}}), "boom", None),
        (json!({"error":{"message":"boom","code":"x"}}), "boom", Some("x")),
        (
            json!({"type":"response.completed","response":{"status":"failed","error":{"message":"boom"}}}),
            "boom",
            None,
        ),
    ] {
        let read = read_events(&[delta(0, "a"), event.clone(), completed(json!([]))]);
        let last = read.last().unwrap();
        assert!(
            last.starts_with("Fail(") && last.contains(&format!("message: {message:?}")),
            "{event} {last}"
        );
        assert!(last.contains(&format!("code: {code:?}")), "{event} {last}");
    }
}

#[test]
fn a_stream_without_its_last_event_has_no_end() {
    let read = read_events(&[
        delta(0, "a"),
        json!({"type":"response.content_part.done","part":{"type":"output_text","text":"a"}}),
    ]);
    assert_eq!(kinds(&read), ["PartStart", "Delta", "PartStop"]);
    let mut reader = StreamReader::default();
    reader.read(&StreamEvent::new(b"", "[DONE]"), &mut |event| panic!("{event:?}"));
    reader.read(&StreamEvent::new(b"", "no json"), &mut |event| panic!("{event:?}"));
}

#[test]
fn twice_the_items_are_twice_the_steps() {
    let message = |at: usize| json!({"type":"message","id":format!("m{at}"),"content":[{"type":"output_text","text":"t"}]});
    let call = |at: usize| json!({"type":"function_call","id":format!("c{at}"),"call_id":format!("c{at}"),"name":"f","arguments":"{}"});
    type Stream = fn(usize, &dyn Fn(usize) -> Value) -> Vec<Value>;
    let streams: [(&str, Stream); 3] = [
        ("told at the end alone", |n, item| vec![completed((0..n).map(item).collect())]),
        ("added", |n, item| {
            let added = |at| json!({"type":"response.output_item.added","output_index":at,"item":item(at)});
            (0..n).map(added).chain([completed((0..n).map(item).collect())]).collect()
        }),
        ("done in reverse, without a place", |n, item| {
            let done = |at| json!({"type":"response.output_item.done","item":item(at)});
            (0..n).rev().map(done).chain([completed((0..n).map(item).collect())]).collect()
        }),
    ];
    let steps = |events: Vec<Value>| {
        looks::take();
        read_events(&events);
        looks::take()
    };
    for (name, stream) in streams {
        for item in [&message as &dyn Fn(usize) -> Value, &call] {
            let (once, twice) = (steps(stream(200, item)), steps(stream(400, item)));
            // Keys of the maps collide now and then, more or less often in each run.
            assert!(twice <= 3 * once + 400, "{name}: {once} steps, then {twice}");
        }
    }
}
