use crate::dialect::stream_event::StreamEvent;
use proptest::prelude::*;
use serde_json::{Value, json as value};

use super::json;
use super::request_read::WORDS;
use crate::dialect::any_json::any_json;
use crate::dialect::canonical::{CallKind, Event, PartKind, ReplyContext, Stop};
use crate::dialect::literal::Text;
use crate::dialect::messages::{StreamReader, StreamWriter};
use crate::dialect::signature::{self, Signature};
use crate::dialect::sse::Scanner;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;

/// The example's answer as a stream, an event a line.
const STREAM: [&str; 15] = [
    r#"{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":80,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Now 5+1."}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SIG2"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"5, "}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"next:"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_2","name":"add","input":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":5,"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"b\":1}"}}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":80,"cache_read_input_tokens":40,"output_tokens":25}}"#,
    r#"{"type":"message_stop"}"#,
];

fn context() -> ReplyContext {
    ReplyContext { fallback_id: "r".to_owned(), ..ReplyContext::default() }
}

/// Returns the events of a stream with these data lines, as text, because borrowed events cannot be kept.
fn read(datas: &[&str]) -> Vec<String> {
    let mut reader = StreamReader::default();
    let mut events = Vec::new();
    for data in datas {
        reader.read(&StreamEvent::new(b"", data), &mut |event| events.push(format!("{event:?}")));
    }
    reader.close(&mut |event| events.push(format!("{event:?}")));
    events
}

/// Returns the data lines that a client gets for these events; checks their names.
fn written(events: &[Event<'_>]) -> Vec<Value> {
    let context = context();
    let (mut writer, mut out) = (StreamWriter::new(&context), String::new());
    for event in events {
        writer.write(event, &context, &mut out);
    }
    datas(&out)
}

fn datas(stream: &str) -> Vec<Value> {
    let mut datas = Vec::new();
    let mut scanner = Scanner::new(1 << 20);
    scanner.feed(stream.as_bytes(), |event| {
        let data = json(std::str::from_utf8(event.data).unwrap());
        assert_eq!(data["type"].as_str().unwrap().as_bytes(), event.name);
        datas.push(data);
    });
    datas
}

/// Reads a stream and writes it again.
fn round(inputs: &[&str]) -> Vec<Value> {
    let context = context();
    let (mut reader, mut writer, mut out) =
        (StreamReader::default(), StreamWriter::new(&context), String::new());
    for data in inputs {
        reader.read(&StreamEvent::new(b"", data), &mut |event| writer.write(&event, &context, &mut out));
    }
    datas(&out)
}

fn start() -> Event<'static> {
    Event::Start { id: Text::of("msg_1"), model: Text::of("m"), created: None }
}

fn part(key: u32, part: PartKind<'static>) -> Event<'static> {
    Event::PartStart { key, part }
}

fn call(key: u32, id: &str, name: &str) -> Event<'static> {
    let (id, name) = (Text::of(id), Text::of(name));
    part(key, PartKind::Call { id, name, kind: CallKind::Function, signature: None })
}

fn delta(key: u32, text: &str) -> Event<'static> {
    Event::Delta { key, text: Text::of(text) }
}

/// Returns the blocks that an SDK accumulates, and checks the grammar of the stream.
fn accumulated(datas: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut open = false;
    assert_eq!(datas[0]["type"], "message_start");
    for data in &datas[1..] {
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(!open, "two blocks open");
                assert_eq!(data["index"], blocks.len(), "indexes are contiguous");
                open = true;
                blocks.push(data["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(open && data["index"] == blocks.len() - 1, "a delta of the open block");
                let block = blocks.last_mut().unwrap();
                let (member, field) = match data["delta"]["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "signature_delta" => ("signature", "signature"),
                    "input_json_delta" => ("partial_json", "json"),
                    other => panic!("{other}"),
                };
                let so_far = block[field].as_str().unwrap_or_default().to_owned();
                block[field] = Value::from(so_far + data["delta"][member].as_str().unwrap());
            }
            "content_block_stop" => {
                assert!(open && data["index"] == blocks.len() - 1, "the open block stops");
                open = false;
            }
            "message_delta" | "message_stop" | "error" => assert!(!open, "all blocks are closed"),
            other => panic!("{other}"),
        }
    }
    blocks
}

#[test]
fn the_worked_example_comes_back_as_it_is() {
    let wanted: Vec<_> = STREAM.iter().map(|line| json(line)).collect();
    assert_eq!(round(&STREAM), wanted);
}

#[test]
fn a_stream_is_read_into_parts() {
    let usage = |completion, prompt| Usage {
        prompt: Some(prompt),
        completion: Some(completion),
        total: Some(completion + prompt),
        cache_read: Some(40),
        cache_creation: Some(0),
        prompt_includes_cache: Some(true),
        ..Usage::default()
    };
    let id_and_name = PartKind::Call {
        id: Text::of("call_2"),
        name: Text::of("add"),
        kind: CallKind::Function,
        signature: None,
    };
    let wanted = [
        Event::Start { id: Text::of("msg_01"), model: Text::of("m"), created: None },
        Event::Usage(usage(1, 120)),
        part(0, PartKind::Thinking),
        delta(0, "Now 5+1."),
        Event::Signature { key: 0, signature: Signature::Anthropic(Text::of("SIG2")) },
        Event::PartStop { key: 0 },
        part(1, PartKind::Text),
        delta(1, "5, "),
        delta(1, "next:"),
        Event::PartStop { key: 1 },
        part(2, id_and_name),
        delta(2, "{\"a\":5,"),
        delta(2, "\"b\":1}"),
        Event::PartStop { key: 2 },
        Event::Usage(usage(25, 120)),
        Event::Finish(Stop::ToolCall),
        Event::End,
    ];
    assert_eq!(read(&STREAM), wanted.map(|event| format!("{event:?}")));
}

#[test]
fn what_is_no_part_of_the_answer_is_passed_over() {
    let start = |index: usize, block: &str| {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
    };
    let datas = [
        r#"{"type":"ping"}"#.to_owned(),
        start(0, r#"{"type":"server_tool_use","id":"s","name":"web_fetch","input":{}}"#),
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#.to_owned(),
        r#"{"type":"content_block_stop","index":0}"#.to_owned(),
        start(1, r#"{"type":"web_search_tool_result","tool_use_id":"unknown","content":[]}"#),
        r#"{"type":"content_block_stop","index":1}"#.to_owned(),
        start(2, r#"{"type":"text","text":"whole"}"#),
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{}}}"#.to_owned(),
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":""}}"#.to_owned(),
        r#"{"type":"new_event"}"#.to_owned(),
        "not json".to_owned(),
        r#"{"type":"content_block_stop","index":2}"#.to_owned(),
        start(3, r#"{"type":"tool_use","id":"a","name":"","input":{"a":1}}"#),
        r#"{"type":"content_block_stop","index":3}"#.to_owned(),
        r#"{"type":"message_stop"}"#.to_owned(),
        r#"{"type":"ping"}"#.to_owned(),
    ];
    let datas: Vec<_> = datas.iter().map(String::as_str).collect();
    let wanted = [
        Event::Start { id: Text::EMPTY, model: Text::EMPTY, created: None },
        part(0, PartKind::Text),
        delta(0, "whole"),
        Event::PartStop { key: 0 },
        Event::Finish(Stop::End),
        Event::End,
    ];
    assert_eq!(read(&datas), wanted.map(|event| format!("{event:?}")));
}

#[test]
fn calls_may_be_told_in_turns() {
    let start = |index: u64, name: &str| {
        value!({"type":"content_block_start","index":index,"content_block":{"type":"tool_use","id":name,"name":name,"input":{}}}).to_string()
    };
    let more = |index: u64, text: &str| {
        value!({"type":"content_block_delta","index":index,"delta":{"type":"input_json_delta","partial_json":text}}).to_string()
    };
    let stop = |index: u64| value!({"type":"content_block_stop","index":index}).to_string();
    let text = value!({"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"t"}});
    let datas = [
        start(0, "f"),
        start(1, "g"),
        more(1, "1"),
        more(0, "0"),
        more(1, "1"),
        stop(1),
        text.to_string(),
        stop(0),
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#.to_owned(),
    ];
    let call = |key: u32, name: &str| Event::PartStart {
        key,
        part: PartKind::Call {
            id: Text::of(name),
            name: Text::of(name),
            kind: CallKind::Function,
            signature: None,
        },
    };
    let wanted = [
        call(0, "f"),
        call(1, "g"),
        delta(1, "1"),
        delta(0, "0"),
        delta(1, "1"),
        Event::PartStop { key: 1 },
        Event::PartStart { key: 2, part: PartKind::Text },
        delta(2, "t"),
        Event::PartStop { key: 0 },
        Event::PartStop { key: 2 },
        Event::Finish(Stop::ToolCall),
    ];
    let wanted: Vec<_> = wanted.iter().map(|event| format!("{event:?}")).collect();
    let datas: Vec<_> = datas.iter().map(String::as_str).collect();
    assert_eq!(read(&datas)[1..], wanted);
}

#[test]
fn blocks_that_come_whole_are_read() {
    let openai = Signature::OpenAi { id: None, encrypted: Text::of("e"), summary: vec![] };
    let tag = signature::tag(&[(Text::EMPTY, openai.clone())]).unwrap();
    let redacted = |data: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"redacted_thinking","data":"{data}"}}}}"#
        )
    };
    for (block, wanted) in [
        (redacted("R"), vec![Event::Signature { key: 0, signature: Signature::AnthropicRedacted(Text::of("R")) }]),
        (redacted(tag.literal()), vec![Event::Signature { key: 0, signature: openai }]),
        (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"x": 1}}}"#.to_owned(),
            vec![delta(0, "{\"x\":1}")],
        ),
        (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"S"}}"#.to_owned(),
            vec![delta(0, "t"), Event::Signature { key: 0, signature: Signature::Anthropic(Text::of("S")) }],
        ),
    ] {
        let events = read(&[&block, r#"{"type":"content_block_stop","index":0}"#]);
        let wanted: Vec<_> = wanted.iter().map(|event| format!("{event:?}")).collect();
        assert_eq!(events[2..events.len() - 1], wanted, "{block}");
    }
}

#[test]
fn a_stream_without_its_preambles_is_understood() {
    let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let thinking =
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"b"}}"#;
    let wanted = [
        Event::Start { id: Text::EMPTY, model: Text::EMPTY, created: None },
        part(0, PartKind::Text),
        delta(0, "a"),
        Event::PartStop { key: 0 },
        part(1, PartKind::Thinking),
        delta(1, "b"),
        Event::PartStop { key: 1 },
        Event::Finish(Stop::OutputLimit),
        Event::End,
    ];
    let limit = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#;
    let later = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    assert_eq!(read(&[text, thinking, limit, later, "[DONE]"]), wanted.map(|event| format!("{event:?}")));

    let mut reader = StreamReader::default();
    let mut events = Vec::new();
    let unnamed = r#"{"index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    reader.read(&StreamEvent::new(b"content_block_delta", unnamed), &mut |event| {
        events.push(format!("{event:?}"))
    });
    assert_eq!(events.len(), 3);
}

#[test]
fn only_message_stop_ends_a_stream() {
    for cut in 0..STREAM.len() {
        let ended = read(&STREAM[..cut]).iter().any(|event| event == "End");
        assert!(!ended, "{cut}");
    }
    assert!(!read(&["[DONE]"]).contains(&"End".to_owned()));
}

#[test]
fn an_error_fails_the_stream_and_nothing_follows() {
    for error in [
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
        r#"{"error":{"message":"busy","type":"overloaded_error"}}"#,
    ] {
        let events = read(&[STREAM[0], STREAM[5], error, STREAM[14]]);
        let (message, kind) = ("busy".to_owned(), Some("overloaded_error".to_owned()));
        let failed = UpstreamError { message, kind, ..UpstreamError::default() };
        assert_eq!(events.last(), Some(&format!("{:?}", Event::Fail(failed))));
        assert!(!events.contains(&"End".to_owned()));
    }
    let mut reader = StreamReader::default();
    let mut events = Vec::new();
    reader.read(&StreamEvent::new(b"error", "gone away"), &mut |event| events.push(format!("{event:?}")));
    assert!(events[0].contains("gone away"));
}

#[test]
fn input_that_is_reported_in_parts_adds_up() {
    let start =
        r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":80,"output_tokens":1}}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"cache_read_input_tokens":40,"output_tokens":25}}"#;
    let datas = round(&[start, end, STREAM[14]]);
    let wanted = value!({"input_tokens":80,"cache_read_input_tokens":40,"output_tokens":25});
    assert_eq!(datas[1]["usage"], wanted);
}

#[test]
fn calls_that_come_together_are_written_one_after_another() {
    let stop = |key| Event::PartStop { key };
    let datas = written(&[
        start(),
        call(0, "a", "f"),
        delta(0, "{"),
        call(1, "b", "g"),
        delta(1, "[1"),
        delta(0, "}"),
        delta(1, "]"),
        stop(0),
        part(2, PartKind::Text),
        delta(2, "after"),
        stop(2),
        stop(1),
        Event::Finish(Stop::End),
        Event::End,
    ]);
    let blocks = accumulated(&datas);
    let wanted = value!([{"type":"tool_use","id":"a","name":"f","input":{},"json":"{}"},
        {"type":"tool_use","id":"b","name":"g","input":{},"json":"[1]"},
        {"type":"text","text":"after"}]);
    assert_eq!(Value::from(blocks), wanted);
    assert_eq!(datas[datas.len() - 2]["delta"]["stop_reason"], "tool_use");
    // The second was held back until the first had ended, and came in one piece.
    assert_eq!(datas.iter().filter(|data| data["index"] == 1).count(), 3);
}

#[test]
fn odd_calls_are_written_as_the_table_says() {
    let custom = PartKind::Call {
        id: Text::of("c"),
        name: Text::of("patch"),
        kind: CallKind::Custom,
        signature: None,
    };
    let stop = |key| Event::PartStop { key };
    let datas = written(&[
        call(0, "", "f"),
        stop(0),
        call(1, "x", ""),
        delta(1, "{}"),
        stop(1),
        part(2, custom),
        delta(2, "say \"hi\"\n"),
        delta(2, "\\é"),
        stop(2),
        Event::Finish(Stop::ToolCall),
        Event::End,
    ]);
    assert_eq!(datas[0]["message"]["id"], "msg_r");
    let blocks = accumulated(&datas);
    assert_eq!(blocks.len(), 2);
    assert_eq!((&blocks[0]["id"], blocks[0].get("json")), (&value!("call_0"), None));
    assert_eq!(json(blocks[1]["json"].as_str().unwrap()), value!({"input":"say \"hi\"\n\\é"}));
}

#[test]
fn proofs_of_thinking_reach_the_client() {
    let openai = Signature::OpenAi { id: Some(Text::of("rs")), encrypted: Text::of("e"), summary: vec![] };
    let tag = signature::tag(&[(Text::EMPTY, openai.clone())]).unwrap().decode().into_owned();
    for (text, signature, wanted) in [
        ("t", None, value!([{"type":"thinking","thinking":"t","signature":""}])),
        ("", None, value!([])),
        (
            "t",
            Some(Signature::Anthropic(Text::of("S"))),
            value!([{"type":"thinking","thinking":"t","signature":"S"}]),
        ),
        (
            "",
            Some(Signature::Anthropic(Text::of("S"))),
            value!([{"type":"thinking","thinking":"","signature":"S"}]),
        ),
        (
            "",
            Some(Signature::AnthropicRedacted(Text::of("R"))),
            value!([{"type":"redacted_thinking","data":"R"}]),
        ),
        (
            "t",
            Some(Signature::AnthropicRedacted(Text::of("R"))),
            value!([{"type":"thinking","thinking":"t","signature":""},{"type":"redacted_thinking","data":"R"}]),
        ),
        ("t", Some(openai.clone()), value!([{"type":"thinking","thinking":"t","signature":tag.clone()}])),
        ("", Some(openai.clone()), value!([{"type":"redacted_thinking","data":tag}])),
        (
            "t",
            Some(Signature::Unknown(Text::of("?"))),
            value!([{"type":"thinking","thinking":"t","signature":""}]),
        ),
    ] {
        let signature = signature.map(|signature| Event::Signature { key: 0, signature });
        // The signature may come before the text it proves.
        for early in [false, true] {
            let mut events = vec![start(), part(0, PartKind::Thinking)];
            events.extend(signature.clone().filter(|_| early));
            events.push(delta(0, text));
            events.extend(signature.clone().filter(|_| !early));
            events.extend([Event::PartStop { key: 0 }, Event::Finish(Stop::End), Event::End]);
            let datas = written(&events);
            assert_eq!(Value::from(accumulated(&datas)), wanted, "{text} {signature:?}");
            // Some clients look for the signature there alone, an empty one, too.
            if !text.is_empty() {
                let last = datas.iter().rposition(|data| data["type"] == "content_block_delta").unwrap();
                assert_eq!(datas[last]["delta"]["type"], "signature_delta", "{text} {signature:?}");
                assert_eq!(datas[last + 1]["type"], "content_block_stop");
            }
        }
    }
}

#[test]
fn usage_that_comes_late_stands_in_the_last_delta() {
    let usage = Usage {
        prompt: Some(120),
        completion: Some(25),
        cache_read: Some(40),
        cache_creation: Some(10),
        prompt_includes_cache: Some(true),
        ..Usage::default()
    };
    let datas = written(&[
        start(),
        part(0, PartKind::Text),
        delta(0, "a"),
        Event::PartStop { key: 0 },
        Event::Finish(Stop::Sequence(Some(Text::of("END")))),
        Event::Usage(usage),
        Event::End,
    ]);
    assert_eq!(datas[0]["message"]["usage"]["input_tokens"], 0);
    let wanted = value!({"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"},
        "usage":{"input_tokens":70,"cache_read_input_tokens":40,"cache_creation_input_tokens":10,"output_tokens":25}});
    assert_eq!(datas[datas.len() - 2], wanted);
}

#[test]
fn nothing_is_written_before_the_first_part() {
    let context = context();
    let (mut writer, mut out) = (StreamWriter::new(&context), String::new());
    for event in [start(), Event::Usage(Usage::default())] {
        writer.write(&event, &context, &mut out);
    }
    assert_eq!(out, "");
    writer.write(&part(0, PartKind::Text), &context, &mut out);
    assert!(out.starts_with("event: message_start\n"));
}

#[test]
fn an_empty_answer_is_a_whole_message() {
    let datas = written(&[start(), Event::Finish(Stop::Filtered), Event::End, Event::End]);
    let kinds: Vec<_> = datas.iter().map(|data| data["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message_start", "message_delta", "message_stop"]);
    assert_eq!(datas[1]["delta"]["stop_reason"], "refusal");
}

#[test]
fn a_failure_closes_the_open_block_and_ends_without_an_end() {
    let error = UpstreamError::new("gone");
    let wanted = value!({"type":"error","error":{"type":"api_error","message":"gone"}});
    let datas = written(&[
        start(),
        call(0, "a", "f"),
        delta(0, "{"),
        call(1, "b", "g"),
        delta(1, "{}"),
        Event::Fail(error.clone()),
        Event::End,
    ]);
    assert_eq!(accumulated(&datas).len(), 1);
    assert_eq!(datas[datas.len() - 2]["type"], "content_block_stop");
    assert_eq!(datas[datas.len() - 1], wanted);
    assert_eq!(written(&[Event::Fail(error)]), [wanted]);
}

#[test]
fn a_stream_cut_anywhere_says_the_same() {
    let named = |line: &&str| {
        let kind = Node::parse(line).unwrap().str_at("type").into_owned();
        format!("event: {kind}\ndata: {line}\n\n")
    };
    let text = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"é😀\ud83d\ude00 half \ud83d"}}"#;
    let mut lines = STREAM.to_vec();
    lines.insert(7, text);
    let stream: String = lines.iter().map(named).collect();
    let context = context();
    let convert = |chunks: &[&[u8]]| {
        let (mut reader, mut writer, mut out) =
            (StreamReader::default(), StreamWriter::new(&context), String::new());
        let mut scanner = Scanner::new(1 << 20);
        for chunk in chunks {
            scanner.feed(chunk, |event| {
                let data = std::str::from_utf8(event.data).unwrap();
                reader.read(&StreamEvent::new(event.name, data), &mut |event| {
                    writer.write(&event, &context, &mut out)
                });
            });
        }
        out
    };
    let whole = convert(&[stream.as_bytes()]);
    assert!(whole.contains(r#""text":"é😀\ud83d\ude00 half \ud83d""#));
    for at in 0..stream.len() {
        let (before, after) = stream.as_bytes().split_at(at);
        assert_eq!(convert(&[before, after]), whole, "{at}");
    }
}

proptest! {
    #[test]
    fn any_events_give_a_grammatical_stream(kinds in prop::collection::vec(0..STREAM.len(), 0..30), noise in any_json(WORDS), at in 0usize..30) {
        let context = context();
        let (mut reader, mut writer, mut out) = (StreamReader::default(), StreamWriter::new(&context), String::new());
        let noise = noise.to_string();
        let mut inputs: Vec<&str> = kinds.iter().map(|kind| STREAM[*kind]).collect();
        inputs.insert(at.min(inputs.len()), &noise);
        let mut open = std::collections::HashSet::new();
        let mut finished = false;
        for data in inputs {
            reader.read(&StreamEvent::new(b"", data), &mut |event| {
                match &event {
                    Event::PartStart { key, .. } => assert!(!finished && open.insert(*key)),
                    Event::Delta { key, .. } | Event::Signature { key, .. } => assert!(open.contains(key)),
                    Event::PartStop { key } => assert!(open.remove(key)),
                    Event::Finish(_) => {
                        assert!(open.is_empty() && !finished);
                        finished = true;
                    }
                    Event::End => assert!(finished),
                    _ => {}
                }
                writer.write(&event, &context, &mut out);
            });
        }
        let datas = datas(&out);
        if datas.first().is_some_and(|data| data["type"] != "error") {
            accumulated(&datas);
        }
    }
}
