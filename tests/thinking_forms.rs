//! A model's name may suggest features that the model refuses: adaptive thinking, a budget, or a schema.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES};
use crate::support::{Gateway, Reply};

fn refusal(message: &str) -> Reply {
    Reply::json(400, &json!({"type":"error","error":{"type":"invalid_request_error","message":message}}))
}

/// Sends a chat request to `model` that asks for thinking. Returns the client's status, the `thinking` member of each request
/// to the upstream, and the status of each log row.
fn ask(model: &str, refusals: &[&str]) -> (u16, Vec<Value>, Vec<Value>) {
    let (gateway, upstream) = Gateway::serving_as("claude", &[model]);
    gateway.wait_for_channels(model, 1);
    for message in refusals.iter().rev() {
        upstream.answer_once(MESSAGES, refusal(message));
    }
    let body = json!({"model": model, "max_completion_tokens": 4000, "reasoning_effort": "medium",
        "messages": [{"role": "user", "content": "Hi"}]});
    let status = gateway.client().post(CHAT, &body).status;
    let asked = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()["thinking"].clone()).collect();
    let logged = gateway.wait_for_logs(1).iter().map(|row| row["status"].clone()).collect();
    (status, asked, logged)
}

const NO_ADAPTIVE: &str = "adaptive thinking is not supported on this model";
const NO_BUDGET: &str = "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.";

#[test]
fn a_refused_form_of_thinking_is_sent_once_more_in_the_other() {
    let adaptive = json!({"type":"adaptive"});
    // With a budget the thinking is shown, so the adaptive form has to ask for that.
    let shown = json!({"type":"adaptive","display":"summarized"});
    let budget = json!({"type":"enabled","budget_tokens":3200});
    for (model, refusal, forms) in [
        ("claude-latest", NO_ADAPTIVE, [&adaptive, &budget]),
        ("claude-sonnet-4-5", NO_BUDGET, [&budget, &shown]),
    ] {
        let (status, asked, logged) = ask(model, &[refusal]);
        assert_eq!(status, 200, "{model}");
        assert_eq!(asked.iter().collect::<Vec<_>>(), forms, "{model}");
        assert_eq!(logged, ["success"], "no failure of the channel: {model}");
    }
}

#[test]
fn an_effort_that_was_cut_down_to_a_budget_is_asked_for_whole_in_the_other_form() {
    let model = "claude-3-7-sonnet";
    let (gateway, upstream) = Gateway::serving_as("claude", &[model]);
    gateway.wait_for_channels(model, 1);
    upstream.answer_once(MESSAGES, refusal(NO_BUDGET));
    let body = json!({"model": model, "max_tokens": 9000, "reasoning_effort": "high",
        "messages": [{"role": "user", "content": "Hi"}]});
    gateway.client().post(CHAT, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()).collect();
    assert_eq!(asked[0]["thinking"]["budget_tokens"], 7200);
    assert_eq!(asked[1]["output_config"], json!({"effort": "high"}));
}

#[test]
fn a_form_refused_twice_is_no_thinking_at_all() {
    let (status, asked, _) = ask("claude-latest", &[NO_ADAPTIVE, NO_BUDGET]);
    assert_eq!((status, asked.len(), &asked[2]), (200, 3, &Value::Null));
    let (status, asked, _) = ask("claude-latest", &[NO_ADAPTIVE, NO_BUDGET, NO_BUDGET]);
    assert_eq!((status, asked.len()), (400, 3));
    let (status, asked, _) = ask("claude-latest", &["prompt is too long"]);
    assert_eq!((status, asked.len()), (400, 1));
}

#[test]
fn a_refused_schema_is_closed_and_then_said_in_words() {
    let open = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let mut closed = open.clone();
    closed["additionalProperties"] = json!(false);
    const OPEN: &str = "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false";
    const UNKNOWN: &str = "output_config: Extra inputs are not permitted";
    for (refusals, schemas, status) in [
        (&[][..], vec![&open], 200),
        (&[OPEN], vec![&open, &closed], 200),
        (&[UNKNOWN, UNKNOWN], vec![&open, &closed, &Value::Null], 200),
        (&["prompt is too long"], vec![&open], 400),
    ] {
        let (gateway, upstream) = Gateway::serving_as("claude", &["claude-opus-4-6"]);
        gateway.wait_for_channels("claude-opus-4-6", 1);
        for message in refusals.iter().rev() {
            upstream.answer_once(MESSAGES, refusal(message));
        }
        let body = json!({"model": "claude-opus-4-6", "messages": [{"role": "user", "content": "Hi"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "out", "schema": open}}});
        gateway.client().post(CHAT, &body).expect(status);
        let asked = upstream.asked_for(MESSAGES);
        let asked: Vec<Value> = asked.iter().map(|asked| asked.json()).collect();
        let said: Vec<&Value> = asked.iter().map(|body| &body["output_config"]["format"]["schema"]).collect();
        assert_eq!(said, schemas, "{refusals:?}");
        let in_words = asked.last().is_some_and(|body| body["system"].to_string().contains("JSON schema"));
        assert_eq!(in_words, schemas.len() == 3);
    }
}

#[test]
fn thoughts_that_another_provider_left_unsigned_are_taken_out_when_refused() {
    let (gateway, upstream) = Gateway::serving_as("claude", &["claude-opus-4-6"]);
    gateway.wait_for_channels("claude-opus-4-6", 1);
    upstream.answer_once(MESSAGES, refusal("messages.1.content.0: Invalid `signature` in `thinking` block"));
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": ""});
    let word = json!({"type": "text", "text": "Hello."});
    let body = json!({"model": "claude-opus-4-6", "max_tokens": 5, "messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": [thought, word]},
        {"role": "user", "content": "And?"}]});
    gateway.client().post(MESSAGES, &body).expect(200);
    let asked = upstream.asked_for(MESSAGES);
    let said: Vec<Value> = asked.iter().map(|asked| asked.json()["messages"][1]["content"].clone()).collect();
    assert_eq!(said, [json!([thought, word]), json!([word])], "first as the client wrote it");
}

#[test]
fn what_was_mended_stays_so_when_something_else_is_refused() {
    const OPEN: &str = "output_config.format.schema: 'additionalProperties' must be explicitly set to false";
    const UNKNOWN: &str = "output_config.format: Extra inputs are not permitted";
    let model = "claude-opus-4-6";
    let (gateway, upstream) = Gateway::serving_as("claude", &[model]);
    gateway.wait_for_channels(model, 1);
    for message in [UNKNOWN, OPEN, NO_ADAPTIVE] {
        upstream.answer_once(MESSAGES, refusal(message));
    }
    let open = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let body = json!({"model": model, "max_completion_tokens": 4000, "reasoning_effort": "medium",
        "messages": [{"role": "user", "content": "Hi"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "out", "schema": open}}});
    gateway.client().post(CHAT, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()).collect();
    let thinking: Vec<&Value> = asked.iter().map(|body| &body["thinking"]["type"]).collect();
    assert_eq!(thinking, ["adaptive", "enabled", "enabled", "enabled"]);
    let shut = |body: &Value| body["output_config"]["format"]["schema"]["additionalProperties"].clone();
    assert_eq!(
        asked.iter().map(shut).collect::<Vec<_>>(),
        [json!(null), json!(null), json!(false), json!(null)]
    );
    let said = asked[3]["system"].to_string();
    assert!(said.contains("JSON schema") && asked[3].get("output_config").is_none(), "{}", asked[3]);
}

#[test]
fn an_effort_that_is_refused_is_not_taken_for_the_schema() {
    let model = "claude-opus-4-6";
    let (gateway, upstream) = Gateway::serving_as("claude", &[model]);
    gateway.wait_for_channels(model, 1);
    for _ in 0..2 {
        upstream.answer_once(MESSAGES, refusal("output_config.effort: Extra inputs are not permitted"));
    }
    let body = json!({"model": model, "max_completion_tokens": 4000, "reasoning_effort": "medium",
        "messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_schema",
            "json_schema": {"name": "out", "schema": {"type": "object", "properties": {}}}}});
    gateway.client().post(CHAT, &body).expect(400);
    let asked: Vec<Value> = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()).collect();
    assert_eq!(asked.len(), 2, "the form of thinking is all there is to change");
    assert_eq!(asked[0]["output_config"]["format"], asked[1]["output_config"]["format"]);
}
