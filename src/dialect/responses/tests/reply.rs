//! Complete answers.

use serde_json::{Value, json};

use super::{answer_of, context, echo, read_reply, write_reply};
use crate::dialect::canonical::*;
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::tree::Node;
use crate::dialect::usage::Usage;

fn of_parts(parts: Vec<Part<'static>>, stop: Stop<'static>) -> Value {
    let reply =
        Reply { candidates: vec![Candidate { parts, stop, ..Candidate::default() }], ..Reply::default() };
    serde_json::from_slice(&write_reply(&reply, &context())).unwrap()
}

fn call(id: &'static str, kind: CallKind, input: &str) -> Part<'static> {
    let (id, name) = (Text::plain(id), Text::plain("f"));
    Part::Call(Call { id, name, kind, input: Text::of(input), signature: None })
}

#[test]
fn an_answer_has_every_member_that_types_want() {
    let out = of_parts(vec![Part::Text(Text::of("hi"))], Stop::End);
    for key in [
        "id",
        "object",
        "created_at",
        "status",
        "error",
        "incomplete_details",
        "instructions",
        "metadata",
        "model",
        "output",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "tool_choice",
        "tools",
        "text",
        "truncation",
        "reasoning",
        "previous_response_id",
        "max_output_tokens",
        "store",
        "usage",
    ] {
        assert!(out.get(key).is_some(), "{key}");
    }
    assert_eq!((&out["id"], &out["created_at"]), (&json!("resp_req-1"), &json!(1_790_000_000)));
}

#[test]
fn an_answer_repeats_what_was_asked() {
    let request = json!({"temperature":0.2,"tools":[{"type":"custom","name":"p"}],"tool_choice":"required","metadata":{"a":"b"},
        "max_output_tokens":99,"prompt_cache_key":"k","reasoning":{"effort":"low","summary":"auto"},"store":true,"user":"u"});
    let text = request.to_string();
    let context = ReplyContext { echo: echo(&Node::parse(&text).unwrap()), ..context() };
    let out: Value = serde_json::from_slice(&write_reply(&Reply::default(), &context)).unwrap();
    for (key, value) in request.as_object().unwrap() {
        assert_eq!(&out[key], value, "{key}");
    }
}

#[test]
fn an_answer_and_its_items_have_the_id_that_they_are_given_else_the_upstreams() {
    let own = "0123456789abcdef0123456789abcdef";
    for (id, given, wanted, item) in [
        ("resp_68", None, "resp_68", "msg_sy0"),
        ("", None, "resp_req-1", "msg_sy0"),
        (
            "chatcmpl-1",
            Some(own),
            "resp_0123456789abcdef0123456789abcdef",
            "msg_sy0123456789abcdef0123456789abcdef0",
        ),
    ] {
        let context = ReplyContext { answer_id: given.map(str::to_owned), ..context() };
        let candidate = Candidate { parts: vec![Part::Text(Text::of("hi"))], ..Candidate::default() };
        let reply = Reply { id: Text::of(id), candidates: vec![candidate], ..Reply::default() };
        let out: Value = serde_json::from_slice(&write_reply(&reply, &context)).unwrap();
        assert_eq!((&out["id"], &out["output"][0]["id"]), (&json!(wanted), &json!(item)));
        assert_eq!(answer_of(item), given, "{item}");
    }
    for foreign in
        ["", "msg_sy", "msg_0123456789abcdef0123456789abcdef0", "msg_sy0123456789abcdef0123456789abcdef"]
    {
        assert_eq!(answer_of(foreign), None, "{foreign}");
    }
}

#[test]
fn stops_become_states() {
    let max = json!({"reason":"max_output_tokens"});
    for (stop, status, details) in [
        (Stop::End, "completed", json!(null)),
        (Stop::Sequence(Some(Text::of("x"))), "completed", json!(null)),
        (Stop::ToolCall, "completed", json!(null)),
        (Stop::Paused, "completed", json!(null)),
        (Stop::OutputLimit, "incomplete", max.clone()),
        (Stop::ContextFull, "incomplete", max),
        (Stop::Filtered, "incomplete", json!({"reason":"content_filter"})),
    ] {
        let out = of_parts(vec![Part::Text(Text::of("hi"))], stop);
        assert_eq!((&out["status"], &out["incomplete_details"]), (&json!(status), &details));
        assert_eq!(out["output"][0]["status"], status);
    }
}

#[test]
fn a_call_that_was_cut_off_is_incomplete() {
    for (arguments, status) in [("{\"a\":", "incomplete"), ("{}", "completed")] {
        let out = of_parts(vec![call("c", CallKind::Function, arguments)], Stop::OutputLimit);
        assert_eq!((&out["status"], &out["output"][0]["status"]), (&json!("incomplete"), &json!(status)));
    }
}

#[test]
fn states_become_stops() {
    let call = json!({"type":"function_call","call_id":"c","name":"f","arguments":"{"});
    for (more, stop) in [
        (json!({"status":"completed"}), Stop::End),
        (json!({}), Stop::End),
        (json!({"output":[call]}), Stop::ToolCall),
        (json!({"status":"incomplete"}), Stop::OutputLimit),
        (
            json!({"status":"incomplete","output":[call],"incomplete_details":{"reason":"max_output_tokens"}}),
            Stop::OutputLimit,
        ),
        (json!({"status":"incomplete","incomplete_details":{"reason":"content_filter"}}), Stop::Filtered),
    ] {
        let mut body = json!({"output":[]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let text = body.to_string();
        assert_eq!(read_reply(&Node::parse(&text).unwrap()).unwrap().candidates[0].stop, stop, "{body}");
    }
}

#[test]
fn a_failed_answer_is_an_error() {
    for (body, message, code) in [
        (
            json!({"status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"slow down"}}),
            "slow down",
            Some("rate_limit_exceeded"),
        ),
        (
            json!({"status":"failed","output":[],"error":null}),
            "Upstream reported that the response failed",
            None,
        ),
        (json!({"error":{"message":"no"}}), "no", None),
        (json!({"choices":[]}), "Upstream's answer has no output", None),
        (json!(7), "Upstream's answer has no output", None),
    ] {
        let text = body.to_string();
        let error = read_reply(&Node::parse(&text).unwrap()).unwrap_err();
        assert_eq!((error.message.as_str(), error.code.as_deref()), (message, code), "{body}");
    }
}

#[test]
fn what_was_said_in_one_breath_is_one_message() {
    let text = |text: &str| Part::Text(Text::of(text));
    let thinking = Part::Thinking(Thinking { text: Text::of("t\n"), signature: None });
    let parts = vec![
        text("a"),
        text(""),
        Part::Refusal(Text::of("No.")),
        thinking,
        text("b"),
        call("", CallKind::Function, ""),
        call("c", CallKind::Custom, ""),
    ];
    let out = of_parts(parts, Stop::ToolCall);
    assert_eq!(
        out["output"],
        json!([
            {"id":"msg_sy0","type":"message","status":"completed","role":"assistant","content":[
                {"type":"output_text","text":"a","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"No."}]},
            {"id":"rs_sy1","type":"reasoning","summary":[{"type":"summary_text","text":"t\n"}]},
            {"id":"msg_sy2","type":"message","status":"completed","role":"assistant","content":[
                {"type":"output_text","text":"b","annotations":[],"logprobs":[]}]},
            {"id":"fc_sy3","type":"function_call","status":"completed","call_id":"call_3","name":"f","arguments":"{}"},
            {"id":"fc_sy4","type":"custom_tool_call","status":"completed","call_id":"c","name":"f","input":""}])
    );
}

#[test]
fn proofs_of_others_come_as_tags_and_own_ones_as_they_were() {
    let thinking =
        |text: &str, signature| Part::Thinking(Thinking { text: Text::of(text), signature: Some(signature) });
    let openai = Signature::OpenAi {
        id: Some(Text::of("rs_7")),
        encrypted: Text::of("gAAA"),
        summary: vec![Text::of("A"), Text::of("B")],
    };
    let out = of_parts(
        vec![
            thinking("Now 5+1.", Signature::Anthropic(Text::of("SIG2"))),
            thinking("", Signature::AnthropicRedacted(Text::of("EvAF"))),
            thinking("A\n\nB", openai),
            thinking("x", Signature::Unknown(Text::of("?"))),
            Part::Thinking(Thinking::default()),
        ],
        Stop::End,
    );
    let output = out["output"].as_array().unwrap();
    assert_eq!(output.len(), 4);
    assert!(output[0]["encrypted_content"].as_str().unwrap().starts_with("sy1:anthropic:"));
    assert_eq!(output[1]["summary"], json!([]));
    assert_eq!((&output[2]["id"], &output[2]["encrypted_content"]), (&json!("rs_7"), &json!("gAAA")));
    assert_eq!(output[2]["summary"].as_array().unwrap().len(), 2);
    assert_eq!(output[3].get("encrypted_content"), None);
}

#[test]
fn odd_answers_are_read() {
    let read = |body: Value| {
        let text = body.to_string();
        format!("{:?}", read_reply(&Node::parse(&text).unwrap()).unwrap().candidates[0].parts)
    };
    assert_eq!(read(json!({"output":[],"output_text":"hi"})), r#"[Text("hi")]"#);
    assert_eq!(
        read(json!({"output":[{"type":"message","content":"hi"}],"output_text":"hi"})),
        r#"[Text("hi")]"#
    );
    assert_eq!(
        read(
            json!({"output":[{"type":"web_search_call","id":"ws","action":{"type":"open_page"}},{"type":"file_search_call","id":"fs"},{"type":"message","content":[{"type":"odd"},{"type":"refusal","refusal":"r"}]}]})
        ),
        r#"[Refusal("r")]"#
    );
    assert_eq!(read(json!({"output":[{"type":"function_call","call_id":"c","name":" "}]})), "[]");
    assert!(
        read(json!({"output":[{"type":"custom_tool_call","id":"ctc","name":"p","input":"x"}]}))
            .contains("Custom")
    );
}

#[test]
fn usage_always_has_both_details() {
    let written = |usage: Usage| -> Value {
        let reply = Reply { usage: Some(usage), ..Reply::default() };
        serde_json::from_slice::<Value>(&write_reply(&reply, &context())).unwrap()["usage"].clone()
    };
    assert_eq!(
        written(Usage { prompt: Some(5), completion: Some(7), ..Usage::default() }),
        json!({"input_tokens":5,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":7,
            "output_tokens_details":{"reasoning_tokens":0},"total_tokens":12})
    );
    assert_eq!(
        written(Usage { prompt: Some(9), cache_read: Some(2), cache_creation: Some(3), ..Usage::default() })
            ["input_tokens_details"],
        json!({"cached_tokens":2,"cache_write_tokens":3,"cache_creation_tokens":3})
    );
    let read = |usage: Value| {
        let text = json!({"output":[],"usage":usage}).to_string();
        read_reply(&Node::parse(&text).unwrap()).unwrap().usage
    };
    let usage =
        read(json!({"input_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens":1})).unwrap();
    assert_eq!((usage.prompt, usage.cache_read, usage.total), (Some(5), Some(4), Some(6)));
    let usage = read(json!({"input_tokens":5,"cache_read_input_tokens":40,"output_tokens":1})).unwrap();
    assert_eq!((usage.prompt, usage.total, usage.prompt_includes_cache), (Some(45), Some(46), Some(true)));
    assert_eq!(read(json!(null)), None);
}
