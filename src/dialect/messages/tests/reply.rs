use proptest::prelude::*;
use serde_json::{Value, json as value};

use super::json;
use super::request_read::WORDS;
use crate::dialect::any_json::any_json;
use crate::dialect::canonical::{Call, CallKind, Candidate, Part, Reply, ReplyContext, Stop, Thinking};
use crate::dialect::literal::Text;
use crate::dialect::messages::{read_reply, write_reply};
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;
use crate::dialect::usage::Usage;

/// The example's complete answer.
const REPLY: &str = r#"{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Now 5+1.","signature":"SIG2"},{"type":"text","text":"5, next:"},{"type":"tool_use","id":"call_2","name":"add","input":{"a":5,"b":1}}],"stop_reason":"tool_use","stop_sequence":null,
"usage":{"input_tokens":80,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":25}}"#;

fn written(reply: &Reply<'_>) -> Value {
    let context = ReplyContext { fallback_id: "req 1".to_owned(), ..ReplyContext::default() };
    json(std::str::from_utf8(&write_reply(reply, &context)).unwrap())
}

fn of_parts(parts: Vec<Part<'static>>) -> Reply<'static> {
    Reply { candidates: vec![Candidate { parts, ..Candidate::default() }], ..Reply::default() }
}

fn call(id: &str, name: &str, kind: CallKind, input: &str) -> Part<'static> {
    let [id, name, input] = [id, name, input].map(Text::of);
    Part::Call(Call { id, name, kind, input, signature: None })
}

#[test]
fn the_worked_example_comes_back_as_it_is() {
    let node = Node::parse(REPLY).unwrap();
    let reply = read_reply(&node).unwrap();
    assert_eq!(written(&reply), json(REPLY));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.total), (Some(120), Some(25), Some(145)));
    assert_eq!((usage.cache_read, usage.prompt_includes_cache), (Some(40), Some(true)));
    assert_eq!(reply.candidates[0].stop, Stop::ToolCall);
}

#[test]
fn every_stop_reason_has_its_meaning() {
    for (reason, sequence, wanted, back) in [
        ("end_turn", None, Stop::End, "end_turn"),
        ("stop_sequence", Some("END"), Stop::Sequence(Some(Text::of("END"))), "stop_sequence"),
        ("max_tokens", None, Stop::OutputLimit, "max_tokens"),
        ("model_context_window_exceeded", None, Stop::ContextFull, "model_context_window_exceeded"),
        ("refusal", None, Stop::Filtered, "refusal"),
        ("pause_turn", None, Stop::Paused, "pause_turn"),
        ("tool_use", None, Stop::ToolCall, "end_turn"),
        ("completed", None, Stop::End, "end_turn"),
        ("max_output_tokens", None, Stop::OutputLimit, "max_tokens"),
        ("length", None, Stop::OutputLimit, "max_tokens"),
        ("incomplete", None, Stop::OutputLimit, "max_tokens"),
        ("content_filter", None, Stop::Filtered, "refusal"),
        ("tool_calls", None, Stop::ToolCall, "end_turn"),
        ("function_call", None, Stop::ToolCall, "end_turn"),
        ("new_reason", None, Stop::End, "end_turn"),
    ] {
        let body = value!({"content":[],"stop_reason":reason,"stop_sequence":sequence}).to_string();
        let node = Node::parse(&body).unwrap();
        let reply = read_reply(&node).unwrap();
        assert_eq!(reply.candidates[0].stop, wanted, "{reason}");
        let back_again = written(&reply);
        assert_eq!(back_again["stop_reason"], back, "{reason}");
        assert_eq!(back_again["stop_sequence"], value!(sequence), "{reason}");
    }
}

#[test]
fn a_plain_end_with_calls_is_a_tool_call_and_a_limit_stays_a_limit() {
    let with_call = |reason: &str| {
        let call = value!({"type":"tool_use","id":"a","name":"f","input":{}});
        let body = value!({"content":[call],"stop_reason":reason}).to_string();
        let node = Node::parse(&body).unwrap();
        let reply = read_reply(&node).unwrap();
        (reply.candidates[0].stop.clone().into_owned(), written(&reply)["stop_reason"].clone())
    };
    assert_eq!(with_call("end_turn"), (Stop::ToolCall, value!("tool_use")));
    assert_eq!(with_call("max_tokens"), (Stop::OutputLimit, value!("max_tokens")));
    assert_eq!(with_call("refusal"), (Stop::Filtered, value!("refusal")));
    let plain = of_parts(vec![call("a", "f", CallKind::Function, "")]);
    assert_eq!(written(&plain)["stop_reason"], "tool_use");
}

#[test]
fn parts_become_blocks() {
    let openai = |summary: &str| Signature::OpenAi {
        id: Some(Text::of("rs_1")),
        encrypted: Text::of("gAAA"),
        summary: (!summary.is_empty()).then(|| Text::of(summary)).into_iter().collect(),
    };
    let tag = |signature: &Signature<'_>| {
        signature::tag(&[(Text::EMPTY, signature.clone())]).unwrap().decode().into_owned()
    };
    let thought = |text: &str, signature| Part::Thinking(Thinking { text: Text::of(text), signature });
    for (part, wanted) in [
        (Part::Text(Text::of("a\n")), value!([{"type":"text","text":"a\n"}])),
        (Part::Text(Text::EMPTY), value!([])),
        (Part::Refusal(Text::of("no")), value!([{"type":"text","text":"no"}])),
        (thought("Hm.", None), value!([{"type":"thinking","thinking":"Hm.","signature":""}])),
        (thought("", None), value!([])),
        (
            thought("Hm.\n", Some(Signature::Anthropic(Text::of("S")))),
            value!([{"type":"thinking","thinking":"Hm.\n","signature":"S"}]),
        ),
        (
            thought("", Some(Signature::Anthropic(Text::of("S")))),
            value!([{"type":"thinking","thinking":"","signature":"S"}]),
        ),
        (
            thought("", Some(Signature::AnthropicRedacted(Text::of("R")))),
            value!([{"type":"redacted_thinking","data":"R"}]),
        ),
        (
            thought("Sum.", Some(openai("Sum."))),
            value!([{"type":"thinking","thinking":"Sum.","signature":tag(&openai("Sum."))}]),
        ),
        (thought("", Some(openai(""))), value!([{"type":"redacted_thinking","data":tag(&openai(""))}])),
        (
            thought("Hm.", Some(Signature::Unknown(Text::of("?")))),
            value!([{"type":"thinking","thinking":"Hm.","signature":""}]),
        ),
        (
            call("toolu_1", "f", CallKind::Function, "{\"a\": 1}"),
            value!([{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}]),
        ),
        (
            call("", "f", CallKind::Function, ""),
            value!([{"type":"tool_use","id":"call_0","name":"f","input":{}}]),
        ),
        (
            call("a", "f", CallKind::Function, "{\"a\""),
            value!([{"type":"tool_use","id":"a","name":"f","input":{"_raw":"{\"a\""}}]),
        ),
        (
            call("a", "f", CallKind::Custom, "say \"hi\"\n"),
            value!([{"type":"tool_use","id":"a","name":"f","input":{"input":"say \"hi\"\n"}}]),
        ),
        (call("a", "", CallKind::Function, "{}"), value!([])),
    ] {
        assert_eq!(written(&of_parts(vec![part]))["content"], wanted);
    }
}

#[test]
fn what_the_upstream_ran_itself_is_passed_over() {
    let body = r#"{"content":[{"type":"server_tool_use","id":"s","name":"web_fetch","input":{}},
        {"type":"web_search_tool_result","tool_use_id":"s","content":[]},
        {"type":"redacted_thinking","data":"R"},{"type":"text","text":"a","citations":[]},
        {"type":"tool_use","id":"a","name":"","input":{}},{"type":"new"},5],"stop_reason":"end_turn"}"#;
    let node = Node::parse(body).unwrap();
    let redacted =
        Thinking { text: Text::EMPTY, signature: Some(Signature::AnthropicRedacted(Text::of("R"))) };
    let wanted = [Part::Thinking(redacted), Part::Text(Text::of("a"))];
    assert_eq!(read_reply(&node).unwrap().candidates[0].parts, wanted);
}

#[test]
fn usage_counts_all_input_on_the_way_in_and_apart_on_the_way_out() {
    let [input, read, created, output] =
        ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"];
    for (record, prompt, back) in [
        (value!({input:80,read:40,created:0,output:25}), Some(120), [80, 40, 0, 25]),
        (value!({input:5,output:6}), Some(5), [5, 0, 0, 6]),
        (
            value!({input:5,read:1,output:6,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3}}),
            Some(11),
            [5, 1, 5, 6],
        ),
        (value!({output:6}), None, [0, 0, 0, 6]),
    ] {
        let body = value!({"content":[],"usage":record}).to_string();
        let node = Node::parse(&body).unwrap();
        let reply = read_reply(&node).unwrap();
        assert_eq!(reply.usage.unwrap().prompt, prompt, "{body}");
        let usage = written(&reply)["usage"].take();
        assert_eq!([input, read, created, output].map(|key| usage[key].as_u64().unwrap()), back, "{body}");
        assert_eq!(usage.as_object().unwrap().len(), 4);
    }
    // As a chat upstream counts.
    let usage = Usage {
        prompt: Some(120),
        completion: Some(25),
        cache_read: Some(40),
        prompt_includes_cache: Some(true),
        ..Usage::default()
    };
    let body = written(&Reply { usage: Some(usage), ..Reply::default() });
    assert_eq!(body["usage"]["input_tokens"], 80);
}

#[test]
fn ids_begin_as_this_dialect_has_them() {
    for (id, wanted) in [
        ("msg_01", "msg_01"),
        ("chatcmpl-a.b", "msg_a_b"),
        ("resp_01", "msg_01"),
        ("x", "msg_x"),
        ("", "msg_req_1"),
    ] {
        assert_eq!(written(&Reply { id: Text::of(id), ..Reply::default() })["id"], wanted, "{id}");
    }
}

#[test]
fn a_failure_is_no_answer() {
    let read = |body: &str| read_reply(&Node::parse(body).unwrap()).map(|_| ()).unwrap_err();
    let error = read(r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#);
    assert_eq!((error.message.as_str(), error.kind.as_deref()), ("busy", Some("overloaded_error")));
    assert_eq!(read(r#"{"error":"no"}"#).message, "no");
    assert!(!read(r#"{"type":"error"}"#).message.is_empty());
    assert!(!read("[]").message.is_empty());
    assert!(read_reply(&Node::parse(r#"{"error":null,"content":[]}"#).unwrap()).is_ok());
}

proptest! {
    #[test]
    fn any_answer_gives_a_value_or_an_error(body in any_json(WORDS), content in any_json(WORDS)) {
        let mut body = body;
        if let Some(members) = body.as_object_mut() {
            members.insert("content".into(), content);
        }
        let text = body.to_string();
        let node = Node::parse(&text).unwrap();
        if let Ok(reply) = read_reply(&node) {
            written(&reply);
        }
    }
}
