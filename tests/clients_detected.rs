//! Clients are told apart by what they say of themselves, and the log shows it.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Gateway, Reply, Request, Upstream};

const MODEL: &str = "model-client";
const UUID: &str = "0190c0de-1234-4abc-8def-0123456789ab";

/// A surface, headers, a body, the log's description of the client, and the beginning of the log message.
type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], Value, [Value; 4], Option<&'c str>);

fn body(path: &str) -> Value {
    match path {
        RESPONSES => json!({"model": MODEL, "input": "Which way?"}),
        MESSAGES => {
            json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}]})
        }
        _ => json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}]}),
    }
}

fn started() -> (Gateway, Upstream) {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

fn ask(gateway: &Gateway, path: &str, headers: &[(&str, &str)], body: &Value) {
    let ask =
        headers.iter().fold(Request::post(path).json(body), |ask, (name, value)| ask.header(name, value));
    gateway.client().send(ask).expect(200);
}

#[test]
fn the_log_tells_clients_apart() {
    let (gateway, _upstream) = started();
    let claude_code = {
        let mut body = body(MESSAGES);
        let user = format!("user_{}_account__session_{UUID}", "0f".repeat(32));
        body["metadata"] = json!({ "user_id": user });
        body
    };
    let cases: Vec<Case<'_>> = vec![
        (
            MESSAGES,
            &[("anthropic-version", "2023-06-01")],
            claude_code,
            [json!("claude_code"), json!("claude_code"), json!("Claude Code"), json!("exact")],
            Some(
                "[client:claude_code] [session:0190c0de-1234-4abc-8def-0123456789ab] [downstream:/v1/messages]",
            ),
        ),
        (
            RESPONSES,
            &[("originator", "codex_cli_rs"), ("session_id", "s-1")],
            body(RESPONSES),
            [json!("codex"), json!("codex_cli_rs"), json!("Codex CLI"), json!("exact")],
            Some("[client:codex] [session:s-1] [downstream:/v1/responses]"),
        ),
        (
            RESPONSES,
            &[("conversation_id", "c-1")],
            body(RESPONSES),
            [json!("codex"), Value::Null, Value::Null, json!("heuristic")],
            Some("[client:codex] [session:c-1] [downstream:/v1/responses]"),
        ),
        (
            CHAT,
            &[("x-title", "Cherry Studio")],
            body(CHAT),
            [json!("generic"), json!("cherry_studio"), json!("Cherry Studio"), json!("heuristic")],
            Some("[downstream:/v1/chat/completions]"),
        ),
        (
            CHAT,
            &[("x-stainless-lang", "js"), ("openai-beta", "x")],
            body(CHAT),
            [json!("generic"), Value::Null, Value::Null, json!("unknown")],
            Some("[downstream:/v1/chat/completions]"),
        ),
    ];
    for (path, headers, body, ..) in &cases {
        ask(&gateway, path, headers, body);
    }
    let rows = gateway.wait_for_logs(cases.len());
    for ((path, _, _, expected, message), row) in cases.iter().zip(&rows) {
        let names = ["clientFamily", "clientAppId", "clientAppName", "clientConfidence"];
        assert_eq!(names.map(|name| row[name].clone()), *expected, "{path}: {row}");
        let text = row["errorMessage"].as_str().unwrap_or_default();
        assert!(text.starts_with(message.unwrap_or_default()), "{path}: {text}");
    }
}

#[test]
fn the_log_is_filtered_by_client() {
    let (gateway, _upstream) = started();
    ask(&gateway, RESPONSES, &[("originator", "codex_cli_rs")], &body(RESPONSES));
    ask(&gateway, RESPONSES, &[("x-codex-turn-state", "t")], &body(RESPONSES));
    ask(&gateway, CHAT, &[("user-agent", "opencode/1.0")], &body(CHAT));
    ask(&gateway, CHAT, &[], &body(CHAT));
    gateway.wait_for_logs(4);
    let page = |query: &str| gateway.admin().get(&format!("/api/stats/proxy-logs{query}")).expect(200);
    for (query, count) in [
        ("?client=family:codex", 2),
        ("?client=FAMILY:Codex", 2),
        ("?client=app:codex_cli_rs", 1),
        ("?client=app:opencode", 1),
        ("?client=family:generic", 2),
        ("?client=family:claude_code", 0),
    ] {
        assert_eq!(page(query)["total"], count, "{query}");
    }
    let options = json!([
        {"value": "app:codex_cli_rs", "label": "App · Codex CLI"},
        {"value": "app:opencode", "label": "App · OpenCode"},
        {"value": "family:codex", "label": "Protocol · Codex"},
    ]);
    assert_eq!(page("?client=app:opencode")["clientOptions"], options, "whatever the client filter says");
}

#[test]
fn codex_is_given_back_what_it_thought_whether_it_says_so_or_not() {
    let (gateway, upstream) = started();
    let codex = &[("originator", "codex_cli_rs")];
    let mut said = body(RESPONSES);
    said["include"] = json!([]);
    for (headers, asked, wanted) in [
        (&codex[..], body(RESPONSES), json!(["reasoning.encrypted_content"])),
        (&codex[..], said, json!([])),
        (&[], body(RESPONSES), Value::Null),
    ] {
        ask(&gateway, RESPONSES, headers, &asked);
        assert_eq!(upstream.last(RESPONSES).json()["include"], wanted, "{asked}");
    }
}

#[test]
fn a_tier_nobody_knows_goes_to_the_vendor_alone() {
    for (platform, given, wanted) in [
        ("new-api", "fast", json!("priority")),
        ("new-api", "flex", json!("flex")),
        ("new-api", "scale", Value::Null),
        ("openai", "fast", json!("priority")),
        ("openai", "scale", json!("scale")),
    ] {
        let (gateway, upstream) = Gateway::serving_as(platform, &[MODEL]);
        let mut asked = body(RESPONSES);
        asked["service_tier"] = json!(given);
        ask(&gateway, RESPONSES, &[], &asked);
        assert_eq!(upstream.last(RESPONSES).json()["service_tier"], wanted, "{platform} {given}");
        // Also where the site speaks only chat.
        upstream.answer(RESPONSES, Reply::error(404, "Not found"));
        ask(&gateway, RESPONSES, &[], &asked);
        assert_eq!(upstream.last(CHAT).json()["service_tier"], wanted, "chat: {platform} {given}");
    }
}
