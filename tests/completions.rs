//! Legacy completions: passed on if an upstream has them, bridged to chat if none has. The conversion of each field is
//! tested beside the dialects.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, COMPLETIONS, MESSAGES, RESPONSES};
use crate::support::{Answer, Gateway, Reply, Request, Upstream, split_events, wire};

const MODEL: &str = "model-legacy";
const PATHS: [&str; 4] = [COMPLETIONS, CHAT, RESPONSES, MESSAGES];

/// Starts an upstream that offers only this path.
fn upstream(offered: &str, refusal: &Reply) -> Upstream {
    let upstream = Upstream::start(&[MODEL]);
    for path in PATHS.into_iter().filter(|path| *path != offered) {
        upstream.answer(path, refusal.clone());
    }
    upstream
}

/// Starts a gateway in front of an upstream that offers only this path.
fn narrow(offered: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::with_one_path(MODEL, offered);
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    (gateway, upstream)
}

fn with(members: Value) -> Value {
    let mut body = json!({"model": MODEL, "prompt": "Which way?", "max_tokens": 64});
    let members = members.as_object().cloned().unwrap_or_default();
    members.into_iter().for_each(|(key, value)| body[key] = value);
    body
}

fn ask(gateway: &Gateway, members: Value) -> Answer {
    gateway.client().send(Request::post(COMPLETIONS).json(&with(members)))
}

/// Returns the chunks of a stream, which must end properly.
fn chunks(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = split_events(&answer.body);
    let mut data: Vec<&str> = events.iter().filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(data.pop().map(str::trim), Some("[DONE]"), "{events:?}");
    data.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn text(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect()
}

#[test]
fn a_completion_is_answered_by_every_upstream() {
    for offered in [CHAT, RESPONSES, MESSAGES] {
        let (gateway, upstream) = narrow(offered);
        let answer = ask(&gateway, json!({})).expect(200);
        assert_eq!(answer["object"], "text_completion", "{offered}: {answer}");
        assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"), "{answer}");
        let choice = json!({"text": wire::TEXT, "index": 0, "logprobs": null, "finish_reason": "stop"});
        assert_eq!(answer["choices"], json!([choice]), "{offered}");
        let usage = &answer["usage"];
        let counted = (&usage["prompt_tokens"], &usage["completion_tokens"]);
        assert_eq!(counted, (&json!(wire::PROMPT_TOKENS), &json!(wire::COMPLETION_TOKENS)), "{offered}");

        let plain = chunks(&ask(&gateway, json!({"stream": true})));
        assert_eq!(text(&plain), wire::TEXT, "{offered}: {plain:?}");
        assert!(plain.iter().all(|chunk| chunk["object"] == "text_completion"), "{plain:?}");
        assert!(plain.iter().all(|chunk| chunk.get("usage").is_none()), "{plain:?}");
        assert_eq!(plain.last().unwrap()["choices"][0]["finish_reason"], "stop");

        let options = json!({"stream": true, "stream_options": {"include_usage": true}, "echo": true});
        let counted = chunks(&ask(&gateway, options));
        assert_eq!(text(&counted), format!("Which way?{}", wire::TEXT), "{offered}");
        let last = counted.last().unwrap();
        assert_eq!(
            (&last["choices"], &last["usage"]["prompt_tokens"]),
            (&json!([]), &json!(wire::PROMPT_TOKENS))
        );

        // The upstream was asked for completions once; since then it is known to lack them.
        let asked = [upstream.asked_for(COMPLETIONS).len(), upstream.asked_for(offered).len()];
        assert_eq!(asked, [1, 3], "{offered}");
        let sent = upstream.asked_for(offered)[0].json();
        assert!(sent.to_string().contains("Which way?") && sent.get("prompt").is_none(), "{sent}");
        let rows = gateway.wait_for_logs_of(offered, 3);
        assert!(rows.iter().all(|row| row["status"] == "success"), "{rows:?}");
        assert!(
            rows.iter().all(|row| text_of(&row["errorMessage"]).starts_with("[downstream:/v1/completions]")),
            "{rows:?}"
        );
    }
}

#[test]
fn platforms_that_are_known_to_have_none_are_not_asked_for_them() {
    for (platform, path) in [("claude", MESSAGES), ("gemini", "/v1beta/openai/chat/completions")] {
        let upstream = Upstream::start(&[MODEL]);
        upstream.answer("/v1beta/openai/chat/completions", Reply::json(200, &wire::chat(MODEL)));
        let models = json!({"models": [{"name": format!("models/{MODEL}")}]});
        upstream.answer("/v1beta/models", Reply::json(200, &models));
        let gateway = Gateway::start().in_front_of(platform, &upstream);
        assert_eq!(ask(&gateway, json!({})).expect(200)["choices"][0]["text"], wire::TEXT, "{platform}");
        assert_eq!(
            [upstream.asked_for(COMPLETIONS).len(), upstream.asked_for(path).len()],
            [0, 1],
            "{platform}"
        );
    }
}

#[test]
fn who_has_completions_goes_before_who_has_to_be_asked_otherwise() {
    let native = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let claude = Upstream::start(&[MODEL]);
    gateway.add_as(&json!({"name": "claude", "platform": "claude"}), &claude);
    let chats = upstream(CHAT, &Reply::error(405, "Method not allowed"));
    gateway.add_as(&json!({"name": "chats", "platform": "new-api"}), &chats);
    // The gateway has yet to find out that the second one has none.
    ask(&gateway, json!({})).expect(200);
    assert_eq!((chats.asked_for(CHAT).len(), claude.asked_for(MESSAGES).len()), (1, 0));
    gateway.add_as(&json!({"name": "native", "platform": "new-api"}), &native);
    gateway.wait_for_channels(MODEL, 3);
    let others = claude.asked_for(MESSAGES).len() + chats.asked_for(CHAT).len();
    for times in 1..=6 {
        // Requests that no bridge can express pass unchanged here, byte by byte.
        let answer = ask(&gateway, json!({"prompt": ["one", "two"], "best_of": 3}));
        assert_eq!(answer.expect(200), wire::completion(MODEL));
        assert_eq!(native.asked_for(COMPLETIONS).len(), times);
    }
    assert_eq!(claude.asked_for(MESSAGES).len() + chats.asked_for(CHAT).len(), others);
    // If it fails, the others are tried.
    native.answer(COMPLETIONS, Reply::error(503, "resting"));
    assert_eq!(ask(&gateway, json!({})).expect(200)["choices"][0]["text"], wire::TEXT);
}

#[test]
fn what_no_bridge_can_say_is_named() {
    let (gateway, upstream) = narrow(MESSAGES);
    for (members, field) in [
        (json!({"prompt": ["one", "two"]}), "prompt"),
        (json!({"prompt": [1, 2, 3]}), "prompt"),
        (json!({"suffix": "."}), "suffix"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"n": 2}), "n"),
        (json!({"logprobs": 1}), "logprobs"),
    ] {
        let refusal = ask(&gateway, members).expect(400);
        assert_eq!(refusal["error"]["param"], field, "{refusal}");
        assert_eq!(refusal["error"]["type"], "invalid_request_error", "{refusal}");
    }
    let refusal = ask(&gateway, json!({"prompt": ["one", "two"]})).expect(400);
    let said =
        "prompt as a list of several texts or of tokens is not supported by any upstream of this model";
    assert_eq!(refusal["error"]["message"], said);
    assert!(upstream.asked_for(MESSAGES).is_empty());
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "no fault of the channel");
}

#[test]
fn a_model_for_chats_is_asked_as_one() {
    let upstream = Upstream::start(&[MODEL]);
    let message = "This is a chat model and not supported in the v1/completions endpoint. Did you mean to use v1/chat/completions?";
    upstream.answer(COMPLETIONS, Reply::error(404, message));
    let gateway = Gateway::start().in_front_of("openai", &upstream);
    for _ in 0..2 {
        assert_eq!(ask(&gateway, json!({})).expect(200)["choices"][0]["text"], wire::TEXT);
    }
    let asked = PATHS.map(|path| upstream.asked_for(path).len());
    assert_eq!(asked, [1, 2, 0, 0]);
}

#[test]
fn a_refusal_of_everything_reaches_the_client_as_it_came() {
    let (gateway, upstream) = narrow("/v1/nowhere");
    let refusal = ask(&gateway, json!({})).expect(404);
    assert_eq!(refusal["error"]["message"], "Not found");
    assert_eq!(PATHS.map(|path| upstream.asked_for(path).len()), [1, 1, 1, 1]);
}

#[test]
fn a_site_may_be_kept_to_one_dialect() {
    let upstream = upstream(CHAT, &Reply::error(404, "Not found"));
    let gateway =
        Gateway::with(&[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]).in_front_of("new-api", &upstream);
    ask(&gateway, json!({})).expect(404);
    assert!(upstream.asked_for(CHAT).is_empty());
}

#[test]
fn a_break_after_output_is_an_error_of_the_clients_dialect() {
    let (gateway, upstream) = narrow(MESSAGES);
    ask(&gateway, json!({})).expect(200);
    let events: Vec<String> = wire::message_events(MODEL);
    upstream.answer(MESSAGES, Reply::events(&events).cut_after(events.len() - 3));
    let answer = ask(&gateway, json!({"stream": true}));
    let events = split_events(&answer.body);
    let last: Value = serde_json::from_str(events.last().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert!(last["error"]["message"].is_string(), "{events:?}");
    assert!(!answer.text().contains("[DONE]"), "{events:?}");
}
