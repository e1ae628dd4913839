//! An operator's rules for request bodies, and their effect.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, RESPONSES};
use crate::support::{Gateway, Reply, Request, Upstream};

const MODEL: &str = "gpt-ruled";

fn before(platform: &str) -> (Gateway, Upstream) {
    Gateway::serving_as(platform, &[MODEL])
}

fn rule(gateway: &Gateway, rules: &Value) {
    gateway.admin().put("/api/settings/runtime", &json!({"payloadRules": rules})).expect(200);
}

fn chat() -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}], "temperature": 0.5})
}

#[test]
fn rules_change_the_body_that_goes_upstream_until_they_are_cleared() {
    let (gateway, upstream) = before("openai");
    let models = json!([{"name": "GPT-*"}]);
    rule(
        &gateway,
        &json!({
            "default": [{"models": models, "params": {"temperature": 1, "top_p": 0.9}}],
            "override": [{"models": models, "params": {"metadata.team": "red"}}],
            "override-raw": [{"models": models, "params": {"response_format": "{\"type\":\"json_object\"}"}}],
            "filter": [{"models": models, "params": ["messages.0.name", "user"]}],
        }),
    );
    let mut body = chat();
    body["user"] = json!("u-1");
    gateway.client().post(CHAT, &body).expect(200);
    let mut expected = chat();
    expected["top_p"] = json!(0.9);
    expected["metadata"] = json!({"team": "red"});
    expected["response_format"] = json!({"type": "json_object"});
    assert_eq!(upstream.last(CHAT).json(), expected);

    rule(&gateway, &Value::Null);
    gateway.client().post(CHAT, &body).expect(200);
    assert_eq!(upstream.last(CHAT).json(), body);
}

#[test]
fn rules_hold_for_every_surface_with_a_json_body() {
    let (gateway, upstream) = before("openai");
    rule(&gateway, &json!({"override": [{"models": [{"name": "gpt-*"}], "params": {"user": "ruled"}}]}));
    let surfaces = [
        ("/v1/completions", json!({"prompt": "Once"})),
        ("/v1/embeddings", json!({"input": "Once"})),
        ("/v1/images/generations", json!({"prompt": "a cat"})),
        ("/v1/rerank", json!({"query": "q", "documents": ["a"]})),
        ("/v1/moderations", json!({"input": "Once"})),
        ("/v1/audio/speech", json!({"input": "Once", "voice": "alloy"})),
    ];
    for (path, mut body) in surfaces {
        body["model"] = json!(MODEL);
        // Whether the stub's answer is one of this surface does not matter here.
        let _ = gateway.client().post(path, &body);
        body["user"] = json!("ruled");
        let sent = upstream.asked_for(path);
        assert_eq!(sent.first().map(|sent| sent.json()), Some(body), "{path}");
    }
}

#[test]
fn rules_for_others_leave_every_byte_alone() {
    let (gateway, upstream) = before("openai");
    rule(
        &gateway,
        &json!({"override": [{"models": [{"name": "claude-*"}], "params": {"a": 1}},
            {"models": [{"name": "*", "protocol": "codex"}], "params": {"a": 1}}],
            "default": [{"models": [{"name": "*"}], "params": {"model": "never"}}]}),
    );
    let text = format!(
        "{{ \"n\":1.50, \"model\" : \"{MODEL}\",\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}] }}"
    );
    assert_eq!(gateway.client().send(Request::post(CHAT).json_text(text.clone())).status, 200);
    assert_eq!(String::from_utf8_lossy(&upstream.last(CHAT).body), text);
}

#[test]
fn rules_apply_behind_the_conversion() {
    let (gateway, upstream) = before("new-api");
    upstream.answer(CHAT, Reply::error(404, "Not found"));
    upstream.answer("/v1/messages", Reply::error(404, "Not found"));
    rule(
        &gateway,
        &json!({"override": [{"models": [{"name": MODEL}], "params": {"reasoning.effort": "high"}}],
            "filter": [{"models": [{"name": MODEL}], "params": ["temperature"]}]}),
    );
    gateway.client().post(CHAT, &chat()).expect(200);
    let asked = upstream.last(RESPONSES).json();
    assert_eq!(asked["reasoning"]["effort"], "high", "{asked}");
    assert_eq!(asked["temperature"], Value::Null, "{asked}");
    assert_eq!(asked["input"][0]["role"], "user", "{asked}");
}

#[test]
fn no_rule_gives_codex_what_it_refuses() {
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_codex(&upstream, MODEL);
    let rules = json!({"override": [{"models": [{"name": "*", "protocol": "codex"}],
        "params": {"store": true, "max_output_tokens": 5, "reasoning.effort": "low"}}]});
    rule(&gateway, &rules);
    gateway.client().post(RESPONSES, &json!({"model": MODEL, "input": "Hi"}));
    let asked = upstream.last("/responses").json();
    assert_eq!(asked["store"], false, "{asked}");
    assert_eq!(asked["max_output_tokens"], Value::Null, "{asked}");
    assert_eq!(asked["reasoning"]["effort"], "low", "{asked}");
}
