//! Complete answers.

use serde_json::{Value, json};

use super::context;
use crate::dialect::canonical::{Candidate, Part, Reply, Stop, Thinking};
use crate::dialect::gemini::{read_reply, write_reply};
use crate::dialect::literal::Text;
use crate::dialect::signature::{Signature, untag_bytes};
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// The example's complete answer.
pub(super) fn printed() -> Value {
    json!({"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Now 5+1.","thought":true},
            {"text":"5, next:"},{"functionCall":{"id":"call_2","name":"add","args":{"a":5,"b":1}}}]},"finishReason":"STOP"}],
        "usageMetadata":{"promptTokenCount":120,"cachedContentTokenCount":40,"candidatesTokenCount":16,
            "thoughtsTokenCount":9,"totalTokenCount":145},
        "modelVersion":"m","responseId":"msg_01"})
}

fn through(body: &Value) -> Result<Value, UpstreamError> {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    read_reply(&node).map(|reply| serde_json::from_slice(&write_reply(&reply, &context())).unwrap())
}

fn saying(parts: Value, reason: &str) -> Value {
    json!({"candidates":[{"index":0,"content":{"role":"model","parts":parts},"finishReason":reason}],
        "modelVersion":"m","responseId":"r-9"})
}

fn stop_of(body: &Value) -> Stop<'static> {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    match &read_reply(&node).unwrap().candidates[0].stop {
        Stop::End => Stop::End,
        Stop::ToolCall => Stop::ToolCall,
        Stop::OutputLimit => Stop::OutputLimit,
        Stop::Filtered => Stop::Filtered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_printed_answer_goes_through_unchanged() {
    assert_eq!(through(&printed()), Ok(printed()));
    let enveloped = json!({"response":printed(),"traceId":"x"});
    assert_eq!(through(&enveloped), Ok(printed()));
}

#[test]
fn proofs_and_pictures_go_through_unchanged() {
    let body = saying(
        json!([{"text":"t","thought":true,"thoughtSignature":"Cq=="},
            {"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"Dq=="},
            {"inlineData":{"mimeType":"image/png","data":"iVBO"}}]),
        "STOP",
    );
    assert_eq!(through(&body), Ok(body));
}

#[test]
fn the_reason_to_stop_is_understood() {
    let text = json!([{"text":"x"}]);
    let call = json!([{"functionCall":{"name":"f"}}]);
    for (reason, with_text, with_call) in [
        ("STOP", Stop::End, Stop::ToolCall),
        ("OTHER", Stop::End, Stop::ToolCall),
        ("MAX_TOKENS", Stop::OutputLimit, Stop::OutputLimit),
        ("SAFETY", Stop::Filtered, Stop::Filtered),
        ("RECITATION", Stop::Filtered, Stop::Filtered),
        ("BLOCKLIST", Stop::Filtered, Stop::Filtered),
        ("PROHIBITED_CONTENT", Stop::Filtered, Stop::Filtered),
        ("SPII", Stop::Filtered, Stop::Filtered),
    ] {
        assert_eq!(stop_of(&saying(text.clone(), reason)), with_text, "{reason}");
        assert_eq!(stop_of(&saying(call.clone(), reason)), with_call, "{reason}");
    }
    assert_eq!(stop_of(&json!({"promptFeedback":{"blockReason":"SAFETY"}})), Stop::Filtered);
    for (stop, word) in [
        (Stop::End, "STOP"),
        (Stop::Sequence(None), "STOP"),
        (Stop::ToolCall, "STOP"),
        (Stop::Paused, "STOP"),
        (Stop::OutputLimit, "MAX_TOKENS"),
        (Stop::ContextFull, "MAX_TOKENS"),
        (Stop::Filtered, "SAFETY"),
    ] {
        let reply =
            Reply { candidates: vec![Candidate { stop, ..Candidate::default() }], ..Reply::default() };
        let written: Value = serde_json::from_slice(&write_reply(&reply, &context())).unwrap();
        assert_eq!(written["candidates"][0]["finishReason"], word);
        assert_eq!(written["responseId"], "r1");
    }
}

#[test]
fn calls_without_ids_get_one_by_their_place() {
    let body = saying(json!([{"text":"x"},{"functionCall":{"name":"f","args":{}}}]), "STOP");
    let written = through(&body).unwrap();
    assert_eq!(written["candidates"][0]["content"]["parts"][1]["functionCall"]["id"], "call_0");
}

#[test]
fn failures_are_no_answers() {
    for (body, wanted) in [
        (json!({"error":{"code":429,"message":"busy","status":"RESOURCE_EXHAUSTED"}}), "busy"),
        (json!([{"error":{"message":"listed"}}]), "listed"),
        (json!({}), "Upstream's answer has no candidates"),
        (json!({"candidates":[]}), "Upstream's answer has no candidates"),
    ] {
        assert_eq!(through(&body).unwrap_err().message, wanted, "{body}");
    }
}

#[test]
fn a_call_that_the_model_could_not_put_together_ends_the_answer() {
    for (parts, reason) in
        [(json!([{"text":"x"}]), "MALFORMED_FUNCTION_CALL"), (json!([]), "UNEXPECTED_TOOL_CALL")]
    {
        let written = through(&saying(parts.clone(), reason)).unwrap();
        let candidate = &written["candidates"][0];
        assert_eq!(candidate["finishReason"], "MALFORMED_FUNCTION_CALL");
        assert_eq!(
            candidate["content"]["parts"].as_array().map_or(0, Vec::len),
            parts.as_array().unwrap().len()
        );
    }
}

#[test]
fn proofs_of_others_are_carried_as_one() {
    let signature = Some(Signature::Anthropic(Text::plain("S")));
    let parts = vec![
        Part::Thinking(Thinking { text: Text::plain("t"), signature }),
        Part::Thinking(Thinking {
            text: Text::EMPTY,
            signature: Some(Signature::AnthropicRedacted(Text::plain("R"))),
        }),
        Part::Refusal(Text::plain("no")),
    ];
    let reply = Reply { candidates: vec![Candidate { parts, ..Candidate::default() }], ..Reply::default() };
    let written: Value = serde_json::from_slice(&write_reply(&reply, &context())).unwrap();
    // They are carried in the place of Google's own, as one tag.
    let parts = &written["candidates"][0]["content"]["parts"];
    assert_eq!((&parts[0], &parts[1]), (&json!({"text":"t","thought":true}), &json!({"text":"no"})));
    let tag = parts[2]["thoughtSignature"].as_str().unwrap();
    assert_eq!(untag_bytes(&Text::of(tag)).unwrap().len(), 2);
}
