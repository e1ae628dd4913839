//! Streams towards clients: the SDKs' helpers follow every event.

use serde_json::{Value, json};

use super::{context, write_all};
use crate::dialect::canonical::*;
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;

fn part(key: u32, part: PartKind<'static>) -> Event<'static> {
    Event::PartStart { key, part }
}

fn delta(key: u32, text: &str) -> Event<'static> {
    Event::Delta { key, text: Text::of(text) }
}

fn call(id: &'static str, kind: CallKind) -> PartKind<'static> {
    PartKind::Call { id: Text::plain(id), name: Text::plain("f"), kind, signature: None }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().trim_start_matches("response.")).collect()
}

/// Rebuilds the response like a stream helper of an SDK: it fails on an event that is out of place.
fn follow(events: &[Value]) -> Value {
    let mut response = Value::Null;
    for (sequence, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], sequence as u64);
        let at = |name: &str| event[name].as_u64().unwrap() as usize;
        if let Some(id) = event.get("item_id") {
            assert_eq!(response["output"][at("output_index")]["id"], *id, "{event}");
        }
        let append = |place: &mut Value| {
            let text = place.as_str().expect("a place").to_owned() + event["delta"].as_str().unwrap();
            *place = json!(text);
        };
        match event["type"].as_str().unwrap() {
            "response.created" => {
                assert_eq!(sequence, 0);
                response = event["response"].clone();
            }
            "response.output_item.added" => {
                let output = response["output"].as_array_mut().unwrap();
                assert_eq!(output.len(), at("output_index"));
                output.push(event["item"].clone());
            }
            "response.content_part.added" => {
                let content = response["output"][at("output_index")]["content"].as_array_mut().unwrap();
                assert_eq!(content.len(), at("content_index"));
                content.push(event["part"].clone());
            }
            "response.reasoning_summary_part.added" => {
                let summary = response["output"][at("output_index")]["summary"].as_array_mut().unwrap();
                summary.push(event["part"].clone());
            }
            "response.output_text.delta" => {
                append(&mut response["output"][at("output_index")]["content"][at("content_index")]["text"]);
            }
            "response.refusal.delta" => {
                append(
                    &mut response["output"][at("output_index")]["content"][at("content_index")]["refusal"],
                );
            }
            "response.reasoning_summary_text.delta" => {
                append(&mut response["output"][at("output_index")]["summary"][at("summary_index")]["text"]);
            }
            "response.function_call_arguments.delta" => {
                append(&mut response["output"][at("output_index")]["arguments"]);
            }
            "response.custom_tool_call_input.delta" => {
                append(&mut response["output"][at("output_index")]["input"])
            }
            "response.output_item.done" => {
                let item = &mut response["output"][at("output_index")];
                for key in ["content", "input", "summary", "id", "name", "call_id"] {
                    assert_eq!(item.get(key), event["item"].get(key), "{key}");
                }
                *item = event["item"].clone();
            }
            "response.completed" | "response.incomplete" => {
                assert_eq!(response["output"], event["response"]["output"]);
                response = event["response"].clone();
            }
            _ => {}
        }
    }
    response
}

fn answer() -> Vec<Event<'static>> {
    vec![
        Event::Start { id: Text::plain("resp_01"), model: Text::plain("m"), created: Some(7) },
        part(0, PartKind::Thinking),
        delta(0, "Now\n"),
        delta(0, ""),
        Event::Signature { key: 0, signature: Signature::Anthropic(Text::plain("SIG")) },
        Event::PartStop { key: 0 },
        part(1, PartKind::Text),
        delta(1, "hel"),
        delta(1, "lo f("),
        Event::PartStop { key: 1 },
        part(2, PartKind::Refusal),
        delta(2, "No."),
        Event::PartStop { key: 2 },
        part(3, call("c1", CallKind::Function)),
        part(4, call("", CallKind::Custom)),
        delta(4, "*** a\n"),
        delta(3, "{\"a\":"),
        Event::PartStop { key: 4 },
        delta(3, "1}"),
        Event::PartStop { key: 3 },
        part(5, call("c3", CallKind::Function)),
        Event::PartStop { key: 5 },
        Event::Finish(Stop::ToolCall),
        Event::Usage(Usage { prompt: Some(5), completion: Some(6), ..Usage::default() }),
        Event::End,
    ]
}

#[test]
fn a_stream_helper_can_follow() {
    let response = follow(&write_all(answer(), &context()));
    assert_eq!(
        (&response["id"], &response["created_at"], &response["status"]),
        (&json!("resp_01"), &json!(7), &json!("completed"))
    );
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.len(), 5);
    assert_eq!(output[0]["summary"], json!([{"type":"summary_text","text":"Now\n"}]));
    assert!(output[0]["encrypted_content"].as_str().unwrap().starts_with("sy1:anthropic:"));
    assert_eq!(
        (&output[1]["content"][0]["text"], &output[1]["content"][1]["refusal"]),
        (&json!("hello f("), &json!("No."))
    );
    assert_eq!((&output[2]["call_id"], &output[2]["arguments"]), (&json!("c1"), &json!("{\"a\":1}")));
    assert_eq!((&output[3]["call_id"], &output[3]["input"]), (&json!("call_3"), &json!("*** a\n")));
    assert_eq!(output[4]["arguments"], "{}");
    assert_eq!(response["usage"]["total_tokens"], 11);
}

#[test]
fn each_kind_of_part_has_its_events() {
    let events = write_all(answer(), &context());
    assert_eq!(
        types(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "content_part.added",
            "refusal.delta",
            "refusal.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "output_item.added",
            "custom_tool_call_input.delta",
            "function_call_arguments.delta",
            "custom_tool_call_input.done",
            "output_item.done",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
}

#[test]
fn an_answer_that_was_cut_is_incomplete() {
    for (stop, reason) in [
        (Stop::OutputLimit, "max_output_tokens"),
        (Stop::ContextFull, "max_output_tokens"),
        (Stop::Filtered, "content_filter"),
    ] {
        let events =
            write_all([part(0, PartKind::Text), delta(0, "a"), Event::Finish(stop), Event::End], &context());
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.incomplete");
        assert_eq!(last["response"]["incomplete_details"]["reason"], reason);
        assert_eq!(last["response"]["output"][0]["status"], "incomplete");
        follow(&events);
    }
}

#[test]
fn a_call_that_was_cut_off_is_incomplete_and_a_whole_one_beside_it_is_not() {
    let events = [
        part(0, call("whole", CallKind::Function)),
        delta(0, r#"{"a":1}"#),
        part(1, call("cut", CallKind::Function)),
        delta(1, r#"{"a":"#),
        Event::Finish(Stop::OutputLimit),
        Event::End,
    ];
    let events = write_all(events, &context());
    let statuses =
        |items: Vec<&Value>| items.into_iter().map(|item| item["status"].clone()).collect::<Vec<_>>();
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    assert_eq!(statuses(done.map(|event| &event["item"]).collect()), ["completed", "incomplete"]);
    let output = events.last().unwrap()["response"]["output"].as_array().unwrap();
    assert_eq!(statuses(output.iter().collect()), ["completed", "incomplete"]);
    follow(&events);
}

#[test]
fn nothing_is_written_before_there_is_something() {
    let start = Event::Start { id: Text::EMPTY, model: Text::plain("m"), created: None };
    assert!(write_all([start.clone()], &context()).is_empty());
    let events = write_all([start, Event::Finish(Stop::End), Event::End], &context());
    assert_eq!(types(&events), ["created", "in_progress", "completed"]);
    assert_eq!(events[0]["response"]["id"], "resp_req-1");
    assert_eq!(events[0]["response"]["created_at"], 1_790_000_000);
    assert_eq!(
        (&events[0]["response"]["usage"], &events[2]["response"]["usage"]["total_tokens"]),
        (&json!(null), &json!(0))
    );
}

#[test]
fn a_failure_is_the_last_word() {
    let error = UpstreamError { code: Some("x".into()), ..UpstreamError::new("boom") };
    let thought = [part(0, PartKind::Thinking), delta(0, "t"), Event::PartStop { key: 0 }];
    let broken = [
        part(1, PartKind::Text),
        delta(1, "a"),
        Event::PartStop { key: 1 },
        part(2, call("c", CallKind::Custom)),
        delta(2, "rm -r"),
        part(3, PartKind::Text),
        delta(3, "b"),
        Event::Fail(error),
        delta(3, "c"),
        Event::End,
    ];
    let events = write_all(thought.into_iter().chain(broken), &context());
    follow(&events);
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<_> = done.map(|event| event["item"]["type"].as_str().unwrap()).collect();
    assert_eq!(done, ["reasoning", "message", "message"], "half a call is nothing to run");
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    assert_eq!(last["response"]["status"], "failed");
    assert_eq!(last["response"]["error"], json!({"code":"x","message":"boom"}));
    let output = last["response"]["output"].as_array().unwrap();
    assert_eq!(
        output.iter().map(|item| &item["type"]).collect::<Vec<_>>(),
        ["reasoning", "message", "custom_tool_call", "message"]
    );
    assert_eq!(output[2]["input"], "rm -r");
    assert_eq!(output[3]["content"][0]["text"], "b");
    for cut in &output[2..] {
        assert_eq!(cut["status"], "incomplete", "{cut}");
    }
    let first = write_all([Event::Fail(UpstreamError::new("early"))], &context());
    assert_eq!(types(&first), ["created", "in_progress", "failed"]);
    assert_eq!(first[2]["response"]["error"]["code"], "server_error");
}
