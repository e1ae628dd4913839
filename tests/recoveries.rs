//! A request that is refused for its form is sent once more in another form, and a compaction goes to a channel that works
//! without one.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, COMPACT, MESSAGES, RESPONSES};
use crate::support::wire::refusal;
use crate::support::{Gateway, Reply, Request, Upstream, wire};

const MODEL: &str = "model-recovered";

fn started(platform: &str, variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::with(variables), Upstream::start(&[MODEL]));
    gateway.add_as(&json!({"name": "site", "platform": platform}), &upstream);
    (gateway, upstream)
}

#[test]
fn thinking_that_is_refused_is_asked_for_in_the_other_form_also_by_a_client_of_the_same_dialect() {
    let (gateway, upstream) = started("claude", &[]);
    let refused = "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\"";
    upstream.answer_once(MESSAGES, refusal(refused));
    let ask = json!({"model": MODEL, "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 3000},
        "messages": [{"role": "user", "content": "Which way?"}]});
    gateway.client().post(MESSAGES, &ask).expect(200);
    let sent = upstream.last(MESSAGES).json();
    assert_eq!(sent["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(sent["output_config"], json!({"effort": "medium"}));
}

#[test]
fn betas_that_an_upstream_refuses_are_left_out() {
    let (gateway, upstream) = started("claude", &[]);
    let client = gateway.client();
    let asks_with = |betas: &str| {
        let ask = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        client.send(Request::post(MESSAGES).header("anthropic-beta", betas).json(&ask)).expect(200);
        upstream.last(MESSAGES).header("anthropic-beta").map(str::to_owned)
    };
    let (known, refused) = ("interleaved-thinking-2025-05-14", "context-management-2025-06-27");
    let both = format!("{known},{refused}");
    let named = format!("Unexpected value(s) `{refused}` for the `anthropic-beta` header.");
    upstream.answer_once(MESSAGES, refusal(&named));
    assert_eq!(asks_with(&both).as_deref(), Some(known));
    assert_eq!(upstream.asked_for(MESSAGES).len(), 2);
    // It is left out of the next request at once.
    assert_eq!(asks_with(&both).as_deref(), Some(known));
    assert_eq!(upstream.asked_for(MESSAGES).len(), 3);
    // An upstream that does not say which gets none, but the next request has them again.
    upstream.answer_once(MESSAGES, refusal("invalid beta flag"));
    assert_eq!(asks_with(known), None);
    assert_eq!(asks_with(known).as_deref(), Some(known));
}

fn full() -> Value {
    json!({"model": MODEL, "input": "Which way?", "metadata": {"a": "b"}, "temperature": 0.5, "novelty": 1,
        "include": [], "tools": [{"type": "function", "name": "f", "parameters": {}}]})
}

fn without(fields: &[&str]) -> Value {
    let mut body = full();
    for field in fields {
        body.as_object_mut().expect("an object").remove(*field);
    }
    body
}

#[test]
fn what_a_responses_upstream_does_not_know_is_left_out_step_by_step() {
    let bodies = [
        full(),
        without(&["metadata"]),
        without(&["metadata", "novelty"]),
        without(&["metadata", "novelty", "temperature", "include"]),
    ];
    for refusals in 1..=4 {
        let (gateway, upstream) = started("new-api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
        for _ in 0..refusals {
            upstream.answer_once(RESPONSES, refusal("Unsupported parameter: 'metadata'"));
        }
        let answer =
            gateway.client().send(Request::post(RESPONSES).header("session_id", "s-1").json(&full()));
        let asked: Vec<Value> = upstream.asked_for(RESPONSES).iter().map(|asked| asked.json()).collect();
        // At most three further attempts; tools are never removed.
        assert_eq!(asked, bodies[..(refusals + 1).min(4)], "{refusals}");
        assert_eq!(answer.status, if refusals < 4 { 200 } else { 400 }, "{refusals}: {}", answer.text());
        let rows = gateway.wait_for_logs(1);
        assert_eq!(rows[0]["status"] == "success", refusals < 4);
        assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "no fault of the channel");
    }
}

#[test]
fn what_a_model_does_not_take_of_the_sampling_is_left_out() {
    for (path, message, left_out) in [
        (
            CHAT,
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            "temperature",
        ),
        (CHAT, "Unrecognized request argument supplied: presence_penalty", "presence_penalty"),
        (RESPONSES, "Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        (
            MESSAGES,
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            "top_p",
        ),
    ] {
        let (gateway, upstream) = started("new-api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
        upstream.answer_once(path, refusal(message));
        let mut body = json!({"model": MODEL, "max_tokens": 9, "temperature": 0.2, "top_p": 0.9, "presence_penalty": 1,
            "messages": [{"role": "user", "content": "Which way?"}]});
        if path == RESPONSES {
            body = json!({"model": MODEL, "temperature": 0.2, "input": "Which way?", "reasoning": {"effort": "low"},
                "metadata": {"a": "b"}});
        }
        gateway.client().post(path, &body).expect(200);
        let asked: Vec<Value> = upstream.asked_for(path).iter().map(|asked| asked.json()).collect();
        assert_eq!(asked[0], body, "first as the client wrote it");
        body.as_object_mut().expect("an object").remove(left_out);
        assert_eq!(asked[1..], [body], "{message}");
    }
}

#[test]
fn a_model_that_refuses_one_member_of_the_sampling_after_the_other_is_sent_none_of_them() {
    let (gateway, upstream) = started("new-api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
    let refused = ["temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias", "seed"];
    let mut body = json!({"model": MODEL, "max_tokens": 9, "user": "ann", "temperature": 0.2, "top_p": 0.9,
        "presence_penalty": 1, "frequency_penalty": 1, "logit_bias": {"7": 1}, "seed": 3,
        "messages": [{"role": "user", "content": "Which way?"}]});
    for member in refused {
        let message = format!("Unsupported parameter: '{member}' is not supported with this model.");
        upstream.answer_once(CHAT, refusal(&message));
    }
    gateway.client().post(CHAT, &body).expect(200);
    let asked = upstream.asked_for(CHAT);
    for member in refused {
        body.as_object_mut().expect("an object").remove(member);
    }
    assert_eq!((asked.len(), asked.last().expect("a request").json()), (7, body));
}

#[test]
fn what_a_model_never_takes_is_left_out_of_the_next_request_at_once() {
    for (message, is_remembered) in [
        ("Unsupported parameter: 'temperature' is not supported with this model.", true),
        (
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            true,
        ),
        (
            "Unsupported value: 'temperature' does not support 0.2 with this model. Supported values are: 1, 2.",
            false,
        ),
        ("`temperature` and `top_p` cannot both be specified for this model.", false),
    ] {
        let (gateway, upstream) = started("new-api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
        let body = json!({"model": MODEL, "temperature": 0.2, "messages": [{"role": "user", "content": "Which way?"}]});
        upstream.answer_once(CHAT, refusal(message));
        gateway.client().post(CHAT, &body).expect(200);
        gateway.client().post(CHAT, &body).expect(200);
        let asked: Vec<bool> =
            upstream.asked_for(CHAT).iter().map(|asked| asked.json().get("temperature").is_some()).collect();
        assert_eq!(asked, [true, false, !is_remembered], "{message}");
        gateway.admin().post("/api/settings/maintenance/clear-cache", &json!({})).expect(202);
        gateway.client().post(CHAT, &body).expect(200);
        assert_eq!(upstream.asked_for(CHAT)[3].json(), body, "forgotten on request");
    }
}

#[test]
fn an_effort_that_an_upstream_does_not_know_is_left_out_of_a_converted_request() {
    let upstream = Upstream::with_one_path(MODEL, MESSAGES);
    let gateway = Gateway::start().in_front_of("claude", &upstream);
    upstream.answer_once(MESSAGES, refusal("output_config: Extra inputs are not permitted"));
    let body = json!({"model": MODEL, "max_tokens": 4000, "reasoning_effort": "low",
        "messages": [{"role": "user", "content": "Which way?"}]});
    gateway.client().post(CHAT, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()).collect();
    let [mut first, second] = <[Value; 2]>::try_from(asked).expect("two requests");
    assert!(first.as_object_mut().expect("an object").remove("output_config").is_some(), "{first}");
    assert_eq!(first, second, "nothing else is left out");
}

#[test]
fn a_limit_is_sent_under_its_other_name_where_an_upstream_wants_that() {
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    upstream.answer_once(CHAT, refusal(message));
    let body =
        json!({"model": MODEL, "max_tokens": 4000, "messages": [{"role": "user", "content": "Which way?"}]});
    gateway.client().post(CHAT, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(CHAT).iter().map(|asked| asked.json()).collect();
    assert_eq!((&asked[0]["max_tokens"], &asked[1]["max_completion_tokens"]), (&json!(4000), &json!(4000)));
    assert_eq!(asked[1].get("max_tokens"), None);
}

#[test]
fn a_wish_for_reasoning_in_the_form_of_aggregators_becomes_the_effort_that_openai_takes() {
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    upstream.answer_once(CHAT, refusal("Unknown parameter: 'reasoning'."));
    let mut body = json!({"model": MODEL, "reasoning": {"effort": "low", "exclude": true},
        "messages": [{"role": "user", "content": "Which way?"}]});
    gateway.client().post(CHAT, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(CHAT).iter().map(|asked| asked.json()).collect();
    assert_eq!(asked[0], body, "first as the client wrote it");
    body.as_object_mut().expect("an object").remove("reasoning");
    body["reasoning_effort"] = json!("low");
    assert_eq!(asked[1..], [body]);
}

#[test]
fn what_a_model_of_googles_does_not_take_is_left_out() {
    let (gateway, upstream) = Gateway::serving_as("gemini", &[MODEL]);
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Left."}]}, "finishReason": "STOP"}]});
    upstream.answer(&path, Reply::json(200, &answer));
    let refused = json!({"error": {"code": 400, "message": "Penalty is not enabled for this model", "status": "INVALID_ARGUMENT"}});
    upstream.answer_once(&path, Reply::json(400, &refused));
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}],
        "generationConfig": {"presencePenalty": 0.5, "topK": 3}});
    gateway.client().post(&path, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(&path).iter().map(|asked| asked.json()).collect();
    body["generationConfig"] = json!({"topK": 3});
    assert_eq!(asked[1..], [body]);
}

#[test]
fn an_organization_that_may_not_see_summaries_is_answered_without() {
    let (gateway, upstream) = (Gateway::start(), Upstream::with_one_path(MODEL, RESPONSES));
    gateway.add_as(&json!({"name": "site", "platform": "openai"}), &upstream);
    let refused = json!({"error": {"message": "Your organization must be verified to generate reasoning summaries. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.",
        "type": "invalid_request_error", "param": "reasoning.summary", "code": "unsupported_value"}});
    upstream.answer_once(RESPONSES, Reply::json(400, &refused));
    let body = json!({"model": MODEL, "max_tokens": 4000, "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"}, "messages": [{"role": "user", "content": "Which way?"}]});
    for _ in 0..2 {
        gateway.client().post(MESSAGES, &body).expect(200);
    }
    let asked: Vec<Value> =
        upstream.asked_for(RESPONSES).iter().map(|asked| asked.json()["reasoning"].clone()).collect();
    let without = json!({"effort": "high"});
    assert_eq!(asked, [json!({"effort": "high", "summary": "auto"}), without.clone(), without]);
}

/// Returns the requests that Google's model gets when it refuses a chat client's request with this message.
fn asked_of_google(body: &Value, message: &str) -> Vec<Value> {
    let (gateway, upstream) = Gateway::serving_as("gemini", &[MODEL]);
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Left."}]}, "finishReason": "STOP"}]});
    upstream.answer(&path, Reply::json(200, &answer));
    upstream.answer("/v1beta/openai/chat/completions", Reply::error(404, "Not found"));
    let refused = json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}});
    upstream.answer_once(&path, Reply::json(400, &refused));
    gateway.client().post(MESSAGES, body).expect(200);
    upstream.asked_for(&path).iter().map(|asked| asked.json()).collect()
}

#[test]
fn thinking_that_google_refuses_by_its_budget_is_left_to_the_model() {
    let body = json!({"model": MODEL, "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000},
        "messages": [{"role": "user", "content": "Which way?"}]});
    for message in [
        "Unable to submit request because thinking_level is not supported by this model.",
        "Unable to submit request because thinking_budget is out of range; supported values are integers from 1 to 24576.",
        "The thinking budget 1024 is invalid. Please choose a value between 512 and 24576.",
        "The thinking budget (52428) is invalid.",
        "Budget 0 is invalid. This model only works in thinking mode.",
    ] {
        let asked = asked_of_google(&body, message);
        assert_eq!(asked.len(), 2, "{message}");
        assert!(asked[0]["generationConfig"]["thinkingConfig"].is_object(), "{}", asked[0]);
        assert_eq!(asked[1]["generationConfig"], json!({"maxOutputTokens": 4000}), "{message}");
    }
}

#[test]
fn a_google_that_knows_no_ids_of_calls_gets_none() {
    let body = json!({"model": MODEL, "max_tokens": 4000, "messages": [{"role": "user", "content": "Which way?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {"id": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "a map"}]}]});
    let message = concat!(
        "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.\n",
        "Invalid JSON payload received. Unknown name \"id\" at 'contents[2].parts[0].function_response': Cannot find field."
    );
    let asked = asked_of_google(&body, message);
    assert_eq!(asked.len(), 2);
    let mut wanted = asked[0].clone();
    for (turn, part) in [(1, "functionCall"), (2, "functionResponse")] {
        let call = wanted["contents"][turn]["parts"][0][part].as_object_mut().expect("a call");
        assert_eq!(call.remove("id"), Some(json!("call_1")));
    }
    assert_eq!(asked[1], wanted);
}

#[test]
fn the_bare_minimum_still_says_that_nothing_is_to_be_stored() {
    const CODEX: &str = "/responses";
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_codex(&upstream, MODEL);
    for _ in 0..2 {
        upstream.answer_once(CODEX, refusal("Unsupported parameter: 'novelty'"));
    }
    gateway.client().post(RESPONSES, &full());
    let last = upstream.last(CODEX).json();
    let mut fields: Vec<&String> = last.as_object().expect("an object").keys().collect();
    fields.sort();
    assert_eq!(fields, ["input", "instructions", "model", "store", "stream", "tools"]);
    assert_eq!(last["store"], false);
}

#[test]
fn an_ordinary_mistake_is_sent_once() {
    let (gateway, upstream) = started("openai", &[]);
    let too_long = json!({"error": {"message": "This model's maximum context length is 8192 tokens.",
        "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}});
    upstream.answer(RESPONSES, Reply::json(400, &too_long));
    let error = gateway.client().post(RESPONSES, &full()).expect(400);
    assert_eq!(error["error"]["code"], "context_length_exceeded");
    assert_eq!(upstream.asked().iter().filter(|asked| asked.method == "POST").count(), 1);
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null);
}

#[test]
fn a_complaint_about_the_content_type_gets_only_the_headers_that_are_needed() {
    for (path, platform, body) in [
        (CHAT, "openai", json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]})),
        (
            MESSAGES,
            "claude",
            json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}),
        ),
    ] {
        let (gateway, upstream) = started(platform, &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
        upstream.answer_once(
            path,
            Reply::error(415, "Unsupported Media Type: Content-Type must be application/json"),
        );
        let ask = Request::post(path).header("session_id", "s-1").header("anthropic-beta", "b-1").json(&body);
        gateway.client().send(ask).expect(200);
        let asked = upstream.asked_for(path);
        assert_eq!(asked.len(), 2, "{path}");
        assert_eq!(asked[0].body, asked[1].body);
        let sessions: Vec<_> = asked.iter().map(|asked| asked.header("session_id").is_some()).collect();
        assert_eq!(sessions, [true, false], "{path}");
        assert_eq!(asked[1].header("anthropic-beta").is_some(), path == MESSAGES);
        assert_eq!(asked[1].header("content-type"), Some("application/json"));
        let credential = if path == MESSAGES { "x-api-key" } else { "authorization" };
        assert!(asked[1].header(credential).is_some_and(|value| value.contains("sk-upstream-key")));
    }
}

#[test]
fn a_messages_upstream_that_finds_no_messages_gets_them_written_anew() {
    let (gateway, upstream) = started("claude", &[]);
    upstream.answer_once(MESSAGES, refusal("messages is required"));
    let body = json!({"model": MODEL, "max_tokens": 9, "novelty": 1,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]});
    gateway.client().post(MESSAGES, &body).expect(200);
    let asked: Vec<Value> = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], body);
    assert_eq!((&asked[1]["model"], &asked[1]["novelty"]), (&json!(MODEL), &Value::Null), "{}", asked[1]);
    assert!(asked[1]["messages"].to_string().contains("\"x\""), "{}", asked[1]);
}

#[test]
fn reasoning_that_an_upstream_cannot_read_is_left_out_once() {
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let said = json!({"type": "message", "role": "user", "content": "And now?"});
    let invalid = json!({"error": {"message": "The encrypted content gAAA could not be verified.",
        "type": "invalid_request_error", "param": null, "code": "invalid_encrypted_content"}});
    let body = json!({"model": MODEL, "input": [said, thought, said], "store": false});
    for refusals in 1..=2 {
        let (gateway, upstream) = started("openai", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
        for _ in 0..refusals {
            upstream.answer_once(RESPONSES, Reply::json(400, &invalid));
        }
        let answer = gateway.client().post(RESPONSES, &body);
        let asked: Vec<Value> = upstream.asked_for(RESPONSES).iter().map(|asked| asked.json()).collect();
        assert_eq!(asked, [body.clone(), json!({"model": MODEL, "input": [said, said], "store": false})]);
        assert_eq!(answer.status, if refusals == 1 { 200 } else { 400 }, "{}", answer.text());
        assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "no fault of the channel");
    }
}

#[test]
fn ids_of_calls_that_another_provider_gave_are_replaced() {
    let (gateway, upstream) = started("claude", &[]);
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "functions.f:0", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "functions.f:0", "content": "y"}]}]});
    let message = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'";
    upstream.answer_once(MESSAGES, refusal(message));
    gateway.client().post(MESSAGES, &body).expect(200);
    let sent = upstream.last(MESSAGES).json();
    let id = sent["messages"][1]["content"][0]["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("call_") && id.len() == 29, "{id}");
    assert_eq!(sent["messages"][2]["content"][0]["tool_use_id"], id);
}

#[test]
fn reasoning_that_an_upstream_does_not_find_by_its_id_is_left_out() {
    let thought = json!({"type": "reasoning", "id": "rs_68aa", "summary": []});
    let said = json!({"type": "message", "role": "user", "content": "And now?"});
    let body = json!({"model": MODEL, "input": [thought, said]});
    for status in [400, 404] {
        let (gateway, upstream) = started("openai", &[]);
        let message =
            "Item with id 'rs_68aa' not found. Items are not persisted when `store` is set to false.";
        upstream.answer_once(RESPONSES, Reply::error(status, message));
        let client = gateway.client();
        client.post(RESPONSES, &body).expect(200);
        let asked: Vec<Value> = upstream.asked_for(RESPONSES).iter().map(|asked| asked.json()).collect();
        assert_eq!(asked, [body.clone(), json!({"model": MODEL, "input": [said]})], "{status}");
        client.post(RESPONSES, &json!({"model": MODEL, "input": [said]})).expect(200);
        assert_eq!(upstream.asked_for(RESPONSES).len(), 3, "the site has the dialect, {status}");
        assert!(upstream.asked_for(CHAT).is_empty(), "{status}");
    }
}

#[test]
fn who_cannot_compact_is_asked_for_an_answer_when_the_operator_says_so() {
    let body = json!({"model": MODEL, "input": "long", "stream": false});
    for (platform, refusal) in [
        ("new-api", Reply::error(404, "Not found")),
        ("openai", Reply::error(405, "Method not allowed")),
        ("openai", Reply::error(400, "compact is unsupported here")),
        ("sub2api", Reply::error(501, "Not implemented")),
    ] {
        let (gateway, upstream) = started(platform, &[]);
        upstream.answer(COMPACT, refusal);
        let refused = gateway.client().post(COMPACT, &body);
        assert!(refused.status >= 400 && upstream.asked_for(RESPONSES).is_empty(), "{platform}");
        let (gateway, upstream) = started(platform, &[]);
        upstream.answer(COMPACT, Reply::error(404, "Not found"));
        let setting = json!({"responsesCompactFallbackToResponsesEnabled": true});
        gateway.admin().put("/api/settings/runtime", &setting).expect(200);
        let compacted = gateway.client().post(COMPACT, &body).expect(200);
        assert_eq!(compacted["object"], "response.compaction", "{compacted}");
        assert!(compacted["id"].as_str().is_some_and(|id| id.starts_with("resp_")), "{compacted}");
        assert_eq!(compacted["output"][0]["content"][0]["text"], wire::TEXT, "{compacted}");
        assert_eq!(compacted["usage"]["input_tokens"], wire::PROMPT_TOKENS);
        assert_eq!((upstream.asked_for(COMPACT).len(), upstream.asked_for(RESPONSES).len()), (1, 1));
        assert_eq!(gateway.wait_for_logs(1)[0]["status"], "success");
    }
}

#[test]
fn what_keeps_nothing_is_not_asked_to_go_on() {
    let (gateway, upstream) = started("sub2api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
    let body = json!({"model": MODEL, "input": "and then?", "previous_response_id": "resp_1"});
    let error = gateway.client().post(RESPONSES, &body).expect(400);
    assert_eq!(error["error"]["code"], "previous_response_not_found", "{error}");
    assert_eq!(upstream.asked_for(RESPONSES).len(), 0);
    // If answers are stored, the id is passed on.
    let (gateway, upstream) = started("openai", &[]);
    gateway.client().post(RESPONSES, &body).expect(200);
    assert_eq!(upstream.last(RESPONSES).json(), body);
}

#[test]
fn an_answer_that_the_upstream_has_forgotten_is_referred_to_no_more() {
    let (gateway, upstream) = started("openai", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
    let forgotten = || {
        Reply::json(
            400,
            &json!({"error": {"message": "Previous response with id 'resp_1' not found.",
            "type": "invalid_request_error", "param": "previous_response_id", "code": "previous_response_not_found"}}),
        )
    };
    let body = json!({"model": MODEL, "previous_response_id": "resp_1", "input": "And then?", "metadata": {"a": "b"}});
    upstream.answer_once(RESPONSES, forgotten());
    gateway.client().post(RESPONSES, &body).expect(200);
    let mut without = body.clone();
    without.as_object_mut().expect("an object").remove("previous_response_id");
    let asked: Vec<Value> = upstream.asked_for(RESPONSES).iter().map(|asked| asked.json()).collect();
    assert_eq!(asked, [body.clone(), without]);

    // The output of a call means nothing without the call: the client gets an error, and sends everything.
    let output = json!({"type": "function_call_output", "call_id": "call_1", "output": "5"});
    let continued = json!({"model": MODEL, "previous_response_id": "resp_1", "input": [output]});
    upstream.answer(RESPONSES, forgotten());
    let refused = gateway.client().post(RESPONSES, &continued).expect(400);
    assert_eq!(refused["error"]["code"], "previous_response_not_found", "{refused}");
    assert_eq!(upstream.asked_for(RESPONSES).len(), 3);
    // It is tried again only once.
    gateway.client().post(RESPONSES, &body).expect(400);
    assert_eq!(upstream.asked_for(RESPONSES).len(), 5);

    // Other dialects, where available, are not tried: they do not have the answer either, and this dialect works as well as
    // before.
    let (gateway, upstream) = started("new-api", &[]);
    upstream.answer(RESPONSES, forgotten());
    let refused = gateway.client().post(RESPONSES, &continued).expect(400);
    assert_eq!(refused["error"]["code"], "previous_response_not_found", "{refused}");
    upstream.answer_faithfully();
    gateway.client().post(RESPONSES, &json!({"model": MODEL, "input": "Again"})).expect(200);
    assert_eq!((upstream.asked_for(RESPONSES).len(), upstream.asked_for(CHAT).len()), (2, 0));
}

#[test]
fn a_picture_that_the_model_cannot_read_is_sent_once() {
    let (gateway, upstream) = started("openai", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
    let unreadable = "You uploaded an unsupported image. Please make sure your image is valid.";
    upstream.answer(RESPONSES, refusal(unreadable));
    let picture = json!({"type": "input_image", "image_url": "data:image/heic;base64,QQ=="});
    let ask = json!({"model": MODEL, "max_output_tokens": 90, "store": false,
        "input": [{"role": "user", "content": [picture]}]});
    gateway.client().post(RESPONSES, &ask).expect(400);
    assert_eq!(upstream.asked_for(RESPONSES).len(), 1);
}

#[test]
fn a_search_that_is_refused_beside_functions_is_left_out() {
    const MODEL: &str = "gemini-3-pro-preview";
    const GEMINI: &str = "/v1beta/models/gemini-3-pro-preview:generateContent";
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {}, "id": "a"}, "thoughtSignature": "QQ=="},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {}, "id": "a"}, "thoughtSignature": "QQ=="},
        {"text": "North."}]}, "finishReason": "STOP"}]});
    let (gateway, upstream) = Gateway::serving_as("gemini", &[MODEL]);
    gateway.wait_for_channels(MODEL, 1);
    upstream.answer(GEMINI, Reply::json(200, &answer));
    let body = json!({"model": MODEL, "input": "Which way?", "tools": [
        {"type": "web_search"}, {"type": "function", "name": "f", "strict": false, "parameters": {"type": "object"}}]});
    let answered = gateway.client().post(RESPONSES, &body).expect(200);
    assert_eq!(answered["output"][0]["content"][0]["text"], "North.", "{answered}");
    let sent = upstream.last(GEMINI).json();
    assert_eq!(sent["tools"][1], json!({"googleSearch": {}}), "{sent}");
    assert_eq!(sent["toolConfig"], json!({"includeServerSideToolInvocations": true}), "{sent}");

    let unknown = "Invalid JSON payload received. Unknown name \"includeServerSideToolInvocations\" at 'tool_config': Cannot find field.";
    upstream.answer_once(GEMINI, refusal(unknown));
    for sends in [3, 4] {
        gateway.client().post(RESPONSES, &body).expect(200);
        let asked = upstream.asked_for(GEMINI);
        assert_eq!(asked.len(), sends, "the refusal is remembered");
        let sent = asked[sends - 1].json();
        assert_eq!((&sent["toolConfig"], &sent["tools"][1]), (&json!({}), &Value::Null), "{sent}");
    }
}

#[test]
fn two_refusals_in_a_row_are_both_heeded() {
    for swapped in [false, true] {
        let (gateway, upstream) = started("new-api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
        let mut refusals = [
            refusal("Unsupported parameter: 'metadata'"),
            refusal("Previous response with id 'resp_1' not found."),
        ];
        if swapped {
            refusals.reverse();
        }
        for refusal in refusals {
            upstream.answer_once(RESPONSES, refusal);
        }
        let mut body = full();
        body["previous_response_id"] = json!("resp_1");
        gateway.client().post(RESPONSES, &body).expect(200);
        let asked = upstream.asked_for(RESPONSES);
        let asked: Vec<Value> = asked.iter().map(|asked| asked.json()).collect();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert_eq!(asked[2], without(&["metadata"]), "neither the one nor the other");
    }
}
