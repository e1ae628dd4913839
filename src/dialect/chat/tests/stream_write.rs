//! Streams, written: the order of their chunks, which the SDKs rely on.

use serde_json::{Value, json};

use super::{chunk, context, data, finish, rewritten};
use crate::dialect::canonical::{Event, PartKind, ReplyContext, Stop};
use crate::dialect::chat::StreamWriter;
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;

/// The deltas of the example's streamed answer.
fn printed() -> Vec<Value> {
    let tag = "sy1:anthropic:W3sidCI6Ik5vdyA1KzEuIiwicyI6IlNJRzIifV0";
    let arguments = |text: &str| json!({"tool_calls":[{"index":0,"function":{"arguments":text}}]});
    vec![
        json!({"role":"assistant","content":""}),
        json!({"reasoning_content":"Now 5+1."}),
        json!({"reasoning_signature":tag}),
        json!({"content":"5, "}),
        json!({"content":"next:"}),
        json!({"tool_calls":[{"index":0,"id":"call_2","type":"function","function":{"name":"add","arguments":""}}]}),
        arguments("{\"a\":5,"),
        arguments("\"b\":1}"),
    ]
}

fn usage() -> Value {
    json!({"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,
        "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":9}})
}

fn write(events: &[Event<'_>], context: &ReplyContext) -> Vec<Value> {
    let mut writer = StreamWriter::of_choice(0, context);
    let mut out = String::new();
    events.iter().for_each(|event| writer.write(event, context, &mut out));
    data(&out)
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks.iter().filter_map(|chunk| chunk["choices"].get(0)).map(|choice| choice["delta"].clone()).collect()
}

#[test]
fn the_printed_stream_goes_through_unchanged() {
    let mut chunks: Vec<_> = printed().into_iter().map(chunk).collect();
    chunks.push(finish("tool_calls"));
    chunks.push(json!({"choices":[],"usage":usage()}).to_string());
    chunks.push("[DONE]".to_owned());

    let quiet = ReplyContext { usage_chunk: false, ..context() };
    let written = rewritten(&chunks, &quiet);
    let mut wanted: Vec<Value> =
        chunks[..9].iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
    wanted.push(json!("[DONE]"));
    assert_eq!(written, wanted);

    let written = rewritten(&chunks, &context());
    for chunk in &mut wanted[..9] {
        chunk["usage"] = Value::Null;
    }
    let trailing = json!({"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","choices":[],"usage":usage()});
    wanted.insert(9, trailing);
    assert_eq!(written, wanted);
    assert!(written[8].as_object().unwrap().contains_key("usage"));
}

#[test]
fn nothing_is_written_before_there_is_something_to_say() {
    let start = Event::Start { id: Text::plain("c"), model: Text::plain("m"), created: None };
    let usage = Event::Usage(Usage { prompt: Some(1), ..Usage::default() });
    assert!(write(&[start.clone(), usage], &context()).is_empty());
    let written = write(&[start, Event::PartStart { key: 0, part: PartKind::Text }], &context());
    assert_eq!(deltas(&written), [json!({"role":"assistant","content":""})]);
    assert_eq!(written[0]["created"], 7);
}

#[test]
fn a_failed_stream_says_so_and_nothing_more() {
    let fail = Event::Fail(UpstreamError::new("gone"));
    let error = json!({"error":{"message":"gone","type":"stream_error","param":null,"code":null}});
    let part = Event::PartStart { key: 0, part: PartKind::Text };
    let written = write(&[part.clone(), fail.clone(), Event::Finish(Stop::End), Event::End], &context());
    assert_eq!(written[1..], *std::slice::from_ref(&error));
    assert_eq!(write(&[fail, part], &context()), [error]);
}

#[test]
fn what_is_missing_is_made_up_for() {
    let call = |key, id| {
        let (id, name) = (Text::plain(id), Text::plain("f"));
        Event::PartStart { key, part: PartKind::Call { id, name, kind: Default::default(), signature: None } }
    };
    let written = write(&[call(4, ""), call(9, "x"), Event::PartStop { key: 4 }, Event::End], &context());
    let calls: Vec<_> = deltas(&written).iter().map(|delta| delta["tool_calls"][0].clone()).collect();
    assert_eq!(calls[1]["id"], "call_0");
    assert_eq!((&calls[2]["id"], &calls[2]["index"]), (&json!("x"), &json!(1)));
    assert_eq!(calls[3], json!({"index":0,"function":{"arguments":"{}"}}));
    assert_eq!(calls[4], json!({"index":1,"function":{"arguments":"{}"}}), "open to the end");
    assert_eq!(written[0]["id"], "chatcmpl-r1");
    assert_eq!(written[5]["choices"][0]["finish_reason"], "stop");
    assert_eq!(written[6], "[DONE]", "no usage was reported, and none is invented");
}

#[test]
fn events_of_unknown_parts_are_ignored() {
    let text = Text::plain("x");
    let stray = [
        Event::Delta { key: 3, text: text.clone() },
        Event::Signature { key: 3, signature: Signature::Gemini(text) },
        Event::PartStop { key: 3 },
    ];
    assert!(write(&stray, &context()).is_empty());
}

#[test]
fn custom_calls_and_proofs_of_gemini_keep_their_places() {
    let mut signed = json!({"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{}"}});
    signed["extra_content"] = json!({"google":{"thought_signature":"Cq"}});
    let custom = json!({"index":1,"id":"y","type":"custom","custom":{"name":"p","input":"free"}});
    let chunks = [chunk(json!({"tool_calls":[signed, custom]})), finish("tool_calls")];
    let calls: Vec<_> =
        deltas(&rewritten(&chunks, &context())).iter().map(|delta| delta["tool_calls"][0].clone()).collect();
    let wanted = [
        json!({"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""},
            "extra_content":{"google":{"thought_signature":"Cq"}}}),
        json!({"index":0,"function":{"arguments":"{}"}}),
        json!({"index":1,"id":"y","type":"custom","custom":{"name":"p","input":""}}),
        json!({"index":1,"custom":{"input":"free"}}),
    ];
    assert_eq!(calls[1..5], wanted);
}

#[test]
fn several_pieces_of_thinking_are_proven_at_once() {
    let thinking = |key, text: &'static str, proof: Option<&'static str>| {
        let proof = proof.map(|proof| Signature::Anthropic(Text::plain(proof)));
        let mut events = vec![Event::PartStart { key, part: PartKind::Thinking }];
        events.push(Event::Delta { key, text: Text::plain(text) });
        events.extend(proof.map(|signature| Event::Signature { key, signature }));
        events.push(Event::PartStop { key });
        events
    };
    let mut events = thinking(0, "a", Some("S"));
    events.extend(thinking(1, "b", None));
    events.extend(thinking(2, "c", Some("T")));
    events.push(Event::PartStart { key: 3, part: PartKind::Text });
    events.extend([Event::PartStop { key: 3 }, Event::Finish(Stop::End), Event::End]);
    let deltas = deltas(&write(&events, &context()));
    let proofs: Vec<_> = deltas.iter().filter_map(|delta| delta["reasoning_signature"].as_str()).collect();
    let [proof] = proofs[..] else { panic!("one tag: {proofs:?}") };
    let pieces = crate::dialect::signature::untag(&Text::of(proof)).unwrap();
    let wanted = [("a", "S"), ("c", "T")]
        .map(|(text, proof)| (Text::plain(text), Signature::Anthropic(Text::plain(proof))));
    assert_eq!(pieces, wanted);
}
