//! Complete answers.

use serde_json::{Value, json};

use super::context;
use crate::dialect::canonical::{Candidate, Part, Reply, Stop, Thinking};
use crate::dialect::chat::{read_reply, write_reply};
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;

/// The example's complete answer as a chat client sees it.
fn printed() -> Value {
    let tag = "sy1:anthropic:W3sidCI6Ik5vdyA1KzEuIiwicyI6IlNJRzIifV0";
    json!({"id":"msg_01","object":"chat.completion","created":1790000000,"model":"m","choices":[{"index":0,
        "message":{"role":"assistant","content":"5, next:","reasoning_content":"Now 5+1.","reasoning_signature":tag,
            "tool_calls":[{"id":"call_2","type":"function",
                "function":{"name":"add","arguments":"{\"a\":5,\"b\":1}"}}]},
        "logprobs":null,"finish_reason":"tool_calls"}],
        "usage":{"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,
            "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":9}}})
}

fn through(body: &Value) -> Result<Value, UpstreamError> {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    read_reply(&node).map(|reply| written(&reply))
}

fn written(reply: &Reply<'_>) -> Value {
    serde_json::from_slice(&write_reply(reply, &context())).unwrap()
}

/// An answer with this message.
fn saying(message: Value, reason: &str) -> Value {
    json!({"id":"c","created":1,"model":"m","choices":[{"index":0,"message":message,"finish_reason":reason}]})
}

fn message(body: &Value) -> Value {
    through(body).unwrap()["choices"][0]["message"].clone()
}

#[test]
fn the_printed_answer_goes_through_unchanged() {
    assert_eq!(through(&printed()), Ok(printed()));
}

#[test]
fn messages_of_every_kind_go_through_unchanged() {
    let custom = json!({"id":"c","type":"custom","custom":{"name":"patch","input":"*** x"}});
    let signed = json!({"id":"c","type":"function","function":{"name":"f","arguments":"{}"},
        "extra_content":{"google":{"thought_signature":"Cq"}}});
    for said in [
        json!({"role":"assistant","content":"a \n"}),
        json!({"role":"assistant","content":null,"refusal":"no"}),
        json!({"role":"assistant","content":null,"tool_calls":[custom]}),
        json!({"role":"assistant","content":null,"tool_calls":[signed]}),
        json!({"role":"assistant","content":"x","reasoning_content":"t","reasoning_signature":"EqQB"}),
    ] {
        assert_eq!(message(&saying(said.clone(), "stop")), said);
    }
}

#[test]
fn foreign_forms_of_a_message_are_understood() {
    for (spelling, usual) in [
        (json!({"content":"<think>t</think>x"}), json!({"content":"x","reasoning_content":"t"})),
        (json!({"content":"x <think>t</think>"}), json!({"content":"x <think>t</think>"})),
        (
            json!({"reasoning":"r","content":"<think>t</think>"}),
            json!({"content":"<think>t</think>","reasoning_content":"r"}),
        ),
        (
            json!({"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}),
            json!({"content":"ab","reasoning_content":"t"}),
        ),
        (json!({"content":"","tool_calls":[],"refusal":null}), json!({"content":null})),
        (
            json!({"function_call":{"name":"f","arguments":{"a": 1}}}),
            json!({"content":null,"tool_calls":[{"id":"call_0","type":"function",
                "function":{"name":"f","arguments":"{\"a\":1}"}}]}),
        ),
        (
            json!({"tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{}},{"id":"z","function":{"name":"g"}}]}),
            json!({"content":null,"tool_calls":[
                {"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}},
                {"id":"z","type":"function","function":{"name":"g","arguments":"{}"}}]}),
        ),
    ] {
        let mut usual = usual;
        usual["role"] = json!("assistant");
        assert_eq!(message(&saying(spelling.clone(), "stop")), usual, "{spelling}");
    }
}

#[test]
fn the_reason_to_stop_is_read_tolerantly() {
    let call = json!({"tool_calls":[{"id":"c","function":{"name":"f"}}]});
    let text = json!({"content":"x"});
    for (reason, with_text, with_call) in [
        ("stop", "stop", "tool_calls"),
        ("eos", "stop", "tool_calls"),
        ("whatever", "stop", "tool_calls"),
        ("tool_calls", "stop", "tool_calls"),
        ("function_call", "stop", "tool_calls"),
        ("stop_sequence", "stop", "tool_calls"),
        ("pause_turn", "stop", "stop"),
        ("length", "length", "length"),
        ("max_tokens", "length", "length"),
        ("MAX_TOKENS", "length", "length"),
        ("incomplete", "length", "length"),
        ("model_context_window_exceeded", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("SAFETY", "content_filter", "content_filter"),
        ("refusal", "content_filter", "content_filter"),
    ] {
        for (message, wanted) in [(&text, with_text), (&call, with_call)] {
            let answer = through(&saying(message.clone(), reason)).unwrap();
            assert_eq!(answer["choices"][0]["finish_reason"], wanted, "{reason} {message}");
        }
    }
}

#[test]
fn failures_are_no_answers() {
    for (body, wanted) in [
        (json!({"error":{"message":"no","code":"c"}}), "no"),
        (json!({"error":"plain"}), "plain"),
        (json!({"code":400,"message":"bare"}), "bare"),
        (json!({"choices":[]}), "Upstream's answer has no choices"),
        (json!({}), "Upstream's answer has no choices"),
        (json!([]), "Upstream's answer has no choices"),
        (json!({"choices":[{"finish_reason":"error"}]}), "Upstream reported an error in its answer"),
        (json!({"choices":[{"finish_reason":"error","error":{"message":"cut"}}]}), "cut"),
    ] {
        assert_eq!(through(&body).unwrap_err().message, wanted, "{body}");
    }
    let odd = json!({"error":null,"message":"m","choices":[{"message":{"content":"x"}}]});
    assert!(through(&odd).is_ok());
}

#[test]
fn all_input_is_counted_wherever_the_vendor_puts_it() {
    for (record, prompt, cached, total) in [
        (json!({"usage":{"prompt_tokens":10,"completion_tokens":5}}), 10, 0, 15),
        (json!({"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4}}), 10, 4, 15),
        (json!({"usage":{"input_tokens":10,"cache_read_input_tokens":4,"output_tokens":5}}), 14, 4, 19),
        // A total that includes the cache already.
        (
            json!({"usage":{"prompt_tokens":10,"cache_read_input_tokens":4,"completion_tokens":5,"total_tokens":19}}),
            14,
            4,
            19,
        ),
        (json!({"x_groq":{"usage":{"prompt_tokens":10,"completion_tokens":5}}}), 10, 0, 15),
    ] {
        let mut body = saying(json!({"content":"x"}), "stop");
        body.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
        let usage = through(&body).unwrap()["usage"].clone();
        assert_eq!(usage["prompt_tokens"], prompt, "{record}");
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], cached, "{record}");
        assert_eq!(usage["total_tokens"], total, "{record}");
    }
    assert_eq!(through(&saying(json!({"content":"x"}), "stop")).unwrap().get("usage"), None);
    let usage = Usage { prompt: Some(9), cache_creation: Some(3), ..Usage::default() };
    let written = written(&Reply { usage: Some(usage), ..Reply::default() });
    let wanted = json!({"cached_tokens":0,"cache_write_tokens":3,"cache_creation_tokens":3});
    assert_eq!(written["usage"]["prompt_tokens_details"], wanted);
    assert_eq!(written["usage"]["completion_tokens_details"], json!({"reasoning_tokens":0}));
}

#[test]
fn what_the_upstream_did_not_say_is_filled_in() {
    let written = written(&Reply { candidates: vec![Candidate::default()], ..Reply::default() });
    let wanted = json!({"id":"chatcmpl-r1","object":"chat.completion","created":7,"model":"","choices":[
        {"index":0,"message":{"role":"assistant","content":null},"logprobs":null,"finish_reason":"stop"}]});
    assert_eq!(written, wanted);
}

#[test]
fn several_pieces_of_thinking_share_one_tag() {
    let thought = |text: &str, signature| Part::Thinking(Thinking { text: Text::of(text), signature });
    let signed = Signature::Anthropic(Text::plain("S"));
    let redacted = Signature::AnthropicRedacted(Text::plain("R"));
    let parts = vec![thought("a", Some(signed)), thought("", Some(redacted)), thought("b", None)];
    let reply = Reply {
        candidates: vec![Candidate { parts: parts.clone(), stop: Stop::Filtered, ..Candidate::default() }],
        ..Reply::default()
    };
    let written = written(&reply);
    assert_eq!(written["choices"][0]["message"]["reasoning_content"], "ab");
    let text = written.to_string();
    let node = Node::parse(&text).unwrap();
    assert_eq!(read_reply(&node).unwrap().candidates[0].parts, parts[..2]);
}

#[test]
fn all_choices_are_kept() {
    let body =
        json!({"choices":[{"index":0,"message":{"content":"a"}},{"index":1,"message":{"content":"b"}}]});
    let written = through(&body).unwrap();
    assert_eq!(written["choices"][1]["message"]["content"], "b");
    assert_eq!(written["choices"][1]["index"], 1);
}
