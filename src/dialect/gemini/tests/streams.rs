//! Streams.

use crate::dialect::stream_event::StreamEvent;
use serde_json::{Value, json};

use super::answers::printed;
use super::context;
use crate::dialect::canonical::{Event, PartKind, Stop};
use crate::dialect::gemini::{StreamReader, StreamWriter};
use crate::dialect::literal::Text;
use crate::dialect::upstream_error::UpstreamError;

fn chunk(parts: Value) -> Value {
    json!({"candidates":[{"index":0,"content":{"role":"model","parts":parts}}],"modelVersion":"m","responseId":"msg_01"})
}

/// The example's answer as four events.
fn printed_stream() -> Vec<Value> {
    let whole = printed();
    let mut last = chunk(json!([whole["candidates"][0]["content"]["parts"][2]]));
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = whole["usageMetadata"].clone();
    vec![
        chunk(json!([{"text":"Now 5+1.","thought":true}])),
        chunk(json!([{"text":"5, "}])),
        chunk(json!([{"text":"next:"}])),
        last,
    ]
}

fn rewritten(chunks: &[Value]) -> Vec<Value> {
    let mut reader = StreamReader::default();
    let mut writer = StreamWriter::default();
    let mut out = String::new();
    for chunk in chunks {
        reader.read(&StreamEvent::new(b"", &chunk.to_string()), &mut |event| {
            writer.write(&event, &context(), &mut out)
        });
    }
    reader.close(&mut |event| writer.write(&event, &context(), &mut out));
    data(&out)
}

fn data(out: &str) -> Vec<Value> {
    let lines = out.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

fn events(chunks: &[Value]) -> Vec<String> {
    let mut reader = StreamReader::default();
    let mut seen = Vec::new();
    for chunk in chunks {
        reader.read(&StreamEvent::new(b"", &chunk.to_string()), &mut |event| seen.push(format!("{event:?}")));
    }
    seen.push("Close".to_owned());
    reader.close(&mut |event| seen.push(format!("{event:?}")));
    seen
}

#[test]
fn the_printed_stream_goes_through_with_a_usage_in_every_event() {
    let mut wanted = printed_stream();
    let (_, early) = wanted.split_last_mut().unwrap();
    early
        .iter_mut()
        .for_each(|chunk| chunk["usageMetadata"] = json!({"promptTokenCount":0,"totalTokenCount":0}));
    assert_eq!(rewritten(&printed_stream()), wanted);
}

#[test]
fn parts_of_a_kind_are_one_part() {
    let seen = events(&printed_stream());
    let starts: Vec<_> = seen.iter().filter(|event| event.starts_with("PartStart")).collect();
    assert_eq!(starts.len(), 3, "{seen:?}");
    let wanted = ["Close", "Finish(ToolCall)", "End"];
    assert_eq!(seen[seen.len() - 3..], wanted);
}

#[test]
fn a_reason_to_stop_in_every_chunk_ends_nothing() {
    let mut chunks = vec![chunk(json!([{"text":"a"}])), chunk(json!([{"text":"b"}]))];
    chunks.iter_mut().for_each(|chunk| chunk["candidates"][0]["finishReason"] = json!("STOP"));
    let seen = events(&chunks);
    let deltas = seen.iter().filter(|event| event.starts_with("Delta")).count();
    assert_eq!((deltas, seen.last().map(String::as_str)), (2, Some("End")), "{seen:?}");
}

#[test]
fn an_answer_that_breaks_off_has_no_end() {
    let seen = events(&[chunk(json!([{"text":"a"}]))]);
    assert_eq!(seen.last().unwrap(), "Close");
}

#[test]
fn failures_are_told() {
    for (chunk, wanted) in [
        (json!({"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}), "busy"),
        (json!([{"error":{"message":"listed"}}]), "listed"),
    ] {
        let seen = events(&[chunk]);
        assert!(seen.iter().any(|event| event.starts_with("Fail") && event.contains(wanted)), "{seen:?}");
        assert_eq!(seen.last().unwrap(), "Close");
    }
    let error = UpstreamError {
        code: Some("503".into()),
        kind: Some("UNAVAILABLE".into()),
        ..UpstreamError::new("busy")
    };
    for (error, code, status, kind) in [
        (error, 503, "UNAVAILABLE", "server_error"),
        (UpstreamError::new("busy"), 500, "INTERNAL", "stream_error"),
    ] {
        let mut writer = StreamWriter::default();
        let mut out = String::new();
        writer.write(&Event::Fail(error), &context(), &mut out);
        writer.write(&Event::End, &context(), &mut out);
        let wanted = json!({"error":{"code":code,"message":"busy","status":status,"type":kind}});
        assert_eq!(data(&out), [wanted]);
    }
}

#[test]
fn a_question_that_was_refused_is_filtered() {
    let seen = events(&[json!({"promptFeedback":{"blockReason":"SAFETY"}})]);
    assert_eq!(seen[seen.len() - 2..], ["Finish(Filtered)", "End"]);
}

#[test]
fn calls_in_a_row_are_written_whole_in_one_event() {
    let call = |key, id| {
        let (id, name) = (Text::plain(id), Text::plain("f"));
        Event::PartStart { key, part: PartKind::Call { id, name, kind: Default::default(), signature: None } }
    };
    let delta = |key, text: &str| Event::Delta { key, text: Text::of(text) };
    let mut writer = StreamWriter::default();
    let mut out = String::new();
    for event in [
        call(0, "x"),
        call(1, "y"),
        delta(0, "{\"a\""),
        delta(1, "{}"),
        delta(0, ":1}"),
        Event::PartStop { key: 0 },
        Event::PartStop { key: 1 },
        Event::PartStart { key: 2, part: PartKind::Text },
        delta(2, "t"),
        Event::PartStop { key: 2 },
        Event::Finish(Stop::OutputLimit),
        Event::End,
    ] {
        writer.write(&event, &context(), &mut out);
    }
    let parts: Vec<_> =
        data(&out).iter().map(|chunk| chunk["candidates"][0]["content"]["parts"].clone()).collect();
    let wanted = [
        json!([
            {"functionCall":{"id":"x","name":"f","args":{"a":1}}},
            {"functionCall":{"id":"y","name":"f","args":{}}},
        ]),
        json!([{"text":"t"}]),
        json!([{"text":""}]),
    ];
    assert_eq!(parts, wanted);
    assert_eq!(data(&out)[2]["candidates"][0]["finishReason"], "MAX_TOKENS");
}

#[test]
fn odd_chunks_do_no_harm() {
    for data in ["", "5", "[]", "{}", "not json", "{\"candidates\":[{}]}", "{\"candidates\":[5]}", "[DONE]"] {
        let mut reader = StreamReader::default();
        reader.read(&StreamEvent::new(b"", data), &mut |event| {
            assert!(matches!(event, Event::Start { .. }), "{data}")
        });
        reader.close(&mut |event| panic!("{event:?}"));
    }
}
