//! What providers cache of a prompt is found again in the next turn, and only by its own conversation.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Gateway, Reply, Request, Upstream};

const MODEL: &str = "model-cached";
const GEMINI: &str = "/v1beta/models/model-cached:generateContent";
const PATHS: [&str; 4] = [CHAT, RESPONSES, MESSAGES, GEMINI];

/// Starts an upstream that offers one of the dialects.
fn offer(path: &str) -> (Gateway, Upstream) {
    let gateway = Gateway::start();
    if path != GEMINI {
        let upstream = Upstream::with_one_path(MODEL, path);
        gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
        gateway.wait_for_channels(MODEL, 1);
        return (gateway, upstream);
    }
    let upstream = Upstream::start(&[MODEL]);
    upstream.serve(|asked| {
        let listed = json!({"models": [{"name": format!("models/{MODEL}"),
            "supportedGenerationMethods": ["generateContent"]}]});
        let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]},
            "finishReason": "STOP"}]});
        Some(match asked.path() {
            "/v1beta/models" => Reply::json(200, &listed),
            GEMINI => Reply::json(200, &answer),
            _ => Reply::error(404, "Not found"),
        })
    });
    gateway.add_as(&json!({"name": "site", "platform": "gemini"}), &upstream);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

/// Returns the member that holds the conversation.
fn said(path: &str) -> &'static str {
    match path {
        RESPONSES => "input",
        GEMINI => "contents",
        _ => "messages",
    }
}

/// Cuts the conversation in a body to its first `count` entries.
fn cut(path: &str, mut body: Value, count: usize) -> Value {
    body[said(path)].as_array_mut().expect("a list").truncate(count);
    body
}

/// Returns the three turns of a conversation with Claude Code, as it sends them: with reminders in between, and with
/// another billing header and other places of the marks in each.
fn of_claude_code() -> Vec<Value> {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "/a"}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "1→fn main() {}"});
    let thought = json!({"type": "thinking", "thinking": "Look first.", "signature": "EqQB"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let reminder = text("<system-reminder>\nToday's date is 2026-11-23.\n</system-reminder>");
    let messages = json!([
        {"role": "user", "content": [reminder, text("Mend main.rs")]},
        {"role": "assistant", "content": [thought, text("I look."), call("toolu_1"), call("toolu_2")]},
        {"role": "user", "content": [result("toolu_1"), result("toolu_2"), text("<system-reminder>Be quick.</system-reminder>")]},
        {"role": "assistant", "content": [text("Done.")]},
        {"role": "system", "content": "The user has opened lib.rs."},
        {"role": "user", "content": "Thanks. And now?"}]);
    let body = json!({"model": MODEL, "max_tokens": 32000, "stream": false, "temperature": 1,
        "thinking": {"type": "enabled", "budget_tokens": 31999}, "context_management": {"edits": []},
        "metadata": {"user_id": json!({"device_id": "d", "account_uuid": "", "session_id": "s-1"}).to_string()},
        "tools": [{"name": "Read", "description": "Reads", "input_schema": {"type": "object", "properties": {}}}],
        "messages": messages});
    let turn = |count: usize| {
        let mut body = cut(MESSAGES, body.clone(), count);
        let mark = json!({"type": "ephemeral", "ttl": "1h"});
        let billing = format!("x-anthropic-billing-header: cc_version=2.1; cch={count};");
        body["system"] =
            json!([text(&billing), {"type": "text", "text": "You are Claude Code.", "cache_control": mark}]);
        let last = &mut body["messages"][count - 1]["content"];
        if let Some(words) = last.as_str() {
            *last = json!([text(words)]);
        }
        let blocks = last.as_array_mut().expect("blocks");
        blocks.last_mut().expect("a block")["cache_control"] = mark;
        body
    };
    [1, 3, 6].map(turn).into()
}

/// Returns three turns as Codex sends them.
fn of_codex() -> Vec<Value> {
    let message = |role: &str, text: &str| {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    };
    let input = json!([
        message("developer", "<permissions instructions>Ask first.</permissions instructions>"),
        message("user", "<environment_context><cwd>/a</cwd></environment_context>"),
        message("user", "Mend main.rs"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look"}], "encrypted_content": "gAAA"},
        {"type": "function_call", "call_id": "call_1", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch\n"},
        {"type": "function_call_output", "call_id": "call_1", "output": "main.rs"},
        message("developer", "The sandbox has changed."),
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "ok"},
        message("assistant", "Done."),
        message("developer", "<collaboration_mode>plan</collaboration_mode>"),
        message("user", "And now?")]);
    let body = json!({"model": MODEL, "instructions": "You are Codex.", "stream": false, "store": false,
        "tools": [{"type": "function", "name": "exec_command", "strict": false, "parameters": {"type": "object", "properties": {}}},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}}],
        "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "s-1", "input": input});
    [3, 9, 12].map(|count| cut(RESPONSES, body.clone(), count)).into()
}

fn of_chat() -> Vec<Value> {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}});
    let body = json!({"model": MODEL, "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]},
            {"role": "assistant", "content": null, "reasoning_content": "Look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "A cat."},
            {"role": "assistant", "content": "A cat."},
            {"role": "system", "content": "It is evening."},
            {"role": "user", "content": "Sure?"}]});
    [2, 4, 7].map(|count| cut(CHAT, body.clone(), count)).into()
}

fn of_gemini() -> Vec<Value> {
    let part = |part: Value| json!({"role": "user", "parts": [part]});
    let body = json!({"systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT", "properties": {}}}]}],
        "generationConfig": {"responseMimeType": "application/json", "maxOutputTokens": 4000},
        "contents": [
            part(json!({"text": "What is it?"})),
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "Cq"}]},
            part(json!({"functionResponse": {"name": "look", "response": {"result": "A cat."}}})),
            {"role": "model", "parts": [{"text": "A cat."}]},
            part(json!({"text": "As JSON?"}))]});
    [1, 3, 5].map(|count| cut(GEMINI, body.clone(), count)).into()
}

/// Removes the cache marks, which may move.
fn unmarked(mut value: Value) -> Value {
    fn unmark(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("cache_control");
                members.values_mut().for_each(unmark);
            }
            Value::Array(items) => items.iter_mut().for_each(unmark),
            _ => {}
        }
    }
    unmark(&mut value);
    value
}

/// Splits the conversation into pieces, each with its role: a message, or each block of one.
fn pieces(path: &str, body: &mut Value) -> Vec<(Value, Value)> {
    let said = body.as_object_mut().expect("an object").remove(said(path)).expect("messages");
    let inner = if path == GEMINI { "parts" } else { "content" };
    let mut pieces = Vec::new();
    for message in said.as_array().expect("a list") {
        match message[inner].as_array() {
            Some(blocks) => {
                // The only text of the last message may be in a list.
                let text = |block: &Value| {
                    if block["type"] == "input_text" && blocks.len() == 1 {
                        block["text"].clone()
                    } else {
                        block.clone()
                    }
                };
                pieces.extend(blocks.iter().map(|block| (message["role"].clone(), text(block))));
            }
            None if message["content"].is_string() && message.get("tool_calls").is_none() => {
                pieces.push((message["role"].clone(), message["content"].clone()));
            }
            None => pieces.push((message["role"].clone(), message.clone())),
        }
    }
    pieces
}

#[test]
fn each_turn_reaches_an_upstream_of_another_dialect_as_the_beginning_of_the_next() {
    let conversations =
        [(MESSAGES, of_claude_code()), (RESPONSES, of_codex()), (CHAT, of_chat()), (GEMINI, of_gemini())];
    for offered in PATHS {
        let (gateway, upstream) = offer(offered);
        for (path, turns) in conversations.iter().filter(|(path, _)| *path != offered) {
            let before = upstream.asked_for(offered).len();
            turns.iter().for_each(|turn| drop(gateway.client().post(path, turn).expect(200)));
            let sent: Vec<Value> =
                upstream.asked_for(offered)[before..].iter().map(|asked| unmarked(asked.json())).collect();
            assert_eq!(sent.len(), turns.len(), "{path} at {offered}");
            for pair in sent.windows(2) {
                let (mut earlier, mut later) = (pair[0].clone(), pair[1].clone());
                let (said, goes_on) = (pieces(offered, &mut earlier), pieces(offered, &mut later));
                assert_eq!(earlier, later, "{path} at {offered}");
                assert!(goes_on.len() > said.len(), "{path} at {offered}");
                assert_eq!(goes_on[..said.len()], said, "{path} at {offered}");
            }
        }
    }
}

/// Builds a request of a messages client in a session.
fn asked_in(session: &str) -> Request {
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let ask = Request::post(MESSAGES).json(&body);
    if session.is_empty() { ask } else { ask.header("x-claude-code-session-id", session) }
}

fn on(platform: &str) -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::start(), Upstream::with_one_path(MODEL, RESPONSES));
    gateway.add_as(&json!({"name": "site", "platform": platform}), &upstream);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

fn cache_key(upstream: &Upstream, path: &str) -> Value {
    upstream.last(path).json()["prompt_cache_key"].clone()
}

#[test]
fn a_conversation_has_a_cache_key_at_openai_that_is_its_own() {
    let (gateway, upstream) = on("openai");
    let key_of = |gateway: &Gateway, ask: Request| {
        gateway.client().send(ask).expect(200);
        cache_key(&upstream, RESPONSES)
    };
    let key = key_of(&gateway, asked_in("one"));
    let text = key.as_str().expect("a key");
    assert!(
        text.len() == 32 && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it)),
        "{text}"
    );
    assert_eq!(key_of(&gateway, asked_in("one")), key);
    let other = key_of(&gateway, asked_in("two"));
    assert!(other.is_string() && other != key);
    assert_eq!(key_of(&gateway, asked_in("")), Value::Null, "no session is known");

    // Two callers with equal session names have separate conversations.
    let managed = json!({"name": "k", "key": "sk-managed-key-1", "supportedModels": ["*"]});
    gateway.admin().post("/api/downstream-keys", &managed).expect(200);
    let managed = asked_in("one").header("authorization", "Bearer sk-managed-key-1");
    assert!(![Value::Null, key.clone()].contains(&key_of(&gateway, managed)));

    // Claude Code's user id is a device with many conversations, unless it names one.
    let user = format!("user_{}_account__session_", "0f".repeat(32));
    let body = |user: &str| {
        json!({"model": MODEL, "max_tokens": 9, "metadata": {"user_id": user},
            "messages": [{"role": "user", "content": "Hi"}]})
    };
    let id = "6b8a3ac3-3c2b-4d0e-9a3f-000000000001";
    let named = key_of(&gateway, Request::post(MESSAGES).json(&body(&format!("{user}{id}"))));
    assert_eq!(key_of(&gateway, asked_in(id)), named);
    let device = [
        ("user-agent", "claude-cli/2.0.14 (external, cli)"),
        ("anthropic-beta", "b"),
        ("anthropic-version", "2023-06-01"),
        ("x-app", "cli"),
    ];
    let ask = Request::post(MESSAGES).json(&body(user.strip_suffix("_session_").expect("a suffix")));
    let ask = device.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    assert_eq!(key_of(&gateway, ask), Value::Null);

    // A key that the client sends identifies the conversation.
    let mut own = body("u");
    own["prompt_cache_key"] = json!("mine");
    assert_eq!(key_of(&gateway, Request::post(MESSAGES).json(&own)), "mine");

    let gateway = gateway.restart();
    gateway.wait_for_channels(MODEL, 1);
    assert_eq!(key_of(&gateway, asked_in("one")), key, "the same after a restart");

    let (gateway, upstream) = on("new-api");
    gateway.client().send(asked_in("one")).expect(200);
    assert_eq!(cache_key(&upstream, RESPONSES), Value::Null, "only OpenAI is known to have it");
}

#[test]
fn a_site_that_refuses_the_cache_key_is_spared_it() {
    for message in
        ["Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key: Extra inputs are not permitted"]
    {
        let (gateway, upstream) = on("openai");
        gateway.client().send(asked_in("one")).expect(200);
        upstream.answer_once(
            RESPONSES,
            Reply::json(400, &json!({"error": {"message": message, "type": "invalid_request_error"}})),
        );
        for _ in 0..2 {
            gateway.client().send(asked_in("one")).expect(200);
        }
        let asked = upstream.asked_for(RESPONSES);
        let keys: Vec<_> = asked.iter().map(|asked| asked.json().get("prompt_cache_key").is_some()).collect();
        assert_eq!(keys, [true, true, false, false], "{message}");
        let (mut refused, taken) = (asked[1].json(), asked[2].json());
        refused.as_object_mut().expect("an object").remove("prompt_cache_key");
        assert_eq!(refused, taken, "nothing else is left out");
        gateway.admin().post("/api/settings/maintenance/clear-cache", &json!({}));
        gateway.wait_for_channels(MODEL, 1);
        gateway.client().send(asked_in("one")).expect(200);
        assert!(cache_key(&upstream, RESPONSES).is_string(), "what is forgotten is tried again");
    }
}

#[test]
fn an_optional_member_that_an_upstream_names_is_left_out_once() {
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let body = json!({"model": MODEL, "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000},
        "context_management": {"edits": []}, "service_tier": "auto",
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"ttl": {"type": "integer"}}}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "cache_control", "cache_control": mark}]}]});
    let without = |members: &[&str]| {
        let mut body = body.clone();
        members.iter().for_each(|member| drop(body.as_object_mut().expect("an object").remove(*member)));
        body
    };
    let mut unmarked = body.clone();
    unmarked["messages"][0]["content"][0].as_object_mut().expect("a block").remove("cache_control");
    let mut without_ttl = body.clone();
    without_ttl["messages"][0]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    for (message, second) in [
        ("messages.0.content.0.text.cache_control.ttl: Extra inputs are not permitted", Some(&without_ttl)),
        ("cache_control is not supported here", Some(&unmarked)),
        ("context_management: Extra inputs are not permitted", Some(&without(&["context_management"]))),
        ("thinking is not available for this model", Some(&without(&["thinking", "context_management"]))),
        ("service_tier: Extra inputs are not permitted", Some(&without(&["service_tier"]))),
        ("max_tokens: must be greater than thinking.budget_tokens", None),
        ("prompt is too long", None),
    ] {
        let (gateway, upstream) = Gateway::serving_as("claude", &[MODEL]);
        let refusal =
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        upstream.answer_once(MESSAGES, Reply::json(400, &refusal));
        let answer = gateway.client().post(MESSAGES, &body);
        let asked: Vec<Value> = upstream.asked_for(MESSAGES).iter().map(|asked| asked.json()).collect();
        assert_eq!(asked[0], body, "first as the client wrote it");
        assert_eq!(asked.get(1), second, "{message}");
        assert_eq!(answer.status, if second.is_some() { 200 } else { 400 }, "{message}: {}", answer.text());
        assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "no fault of the channel");
    }
}

#[test]
fn tools_that_a_client_searches_for_itself_reach_other_dialects_once_they_are_found() {
    let tool = |name: &str, is_deferred: bool| json!({"name": name, "defer_loading": is_deferred, "input_schema": {"type": "object", "properties": {}}});
    let searched = json!([
        {"role": "user", "content": "Look it up."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {"query": "look"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [
            {"type": "tool_reference", "tool_name": "LookUp"}]}]}]);
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": searched,
        "tools": [tool("LookUp", true), tool("ToolSearch", false), tool("Rest", true), tool("Read", false)]});
    let (gateway, upstream) = offer(CHAT);
    for (count, expected) in [(1, vec!["ToolSearch", "Read"]), (3, vec!["ToolSearch", "Read", "LookUp"])] {
        gateway.client().post(MESSAGES, &cut(MESSAGES, body.clone(), count)).expect(200);
        let sent = upstream.last(CHAT).json();
        let tools = sent["tools"].as_array().expect("tools").iter();
        let names: Vec<_> = tools.map(|tool| tool["function"]["name"].as_str().expect("a name")).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn a_tool_that_an_upstream_would_run_is_refused_only_where_none_does() {
    let body = |kind: &str| {
        json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": kind, "name": "it"}]})
    };
    for kind in ["web_fetch_20250910", "code_execution_20250825"] {
        let (gateway, upstream) = offer(MESSAGES);
        gateway.client().post(MESSAGES, &body(kind)).expect(200);
        assert_eq!(upstream.last(MESSAGES).json(), body(kind), "as the client wrote it");

        let (gateway, upstream) = offer(CHAT);
        let refused = gateway.client().post(MESSAGES, &body(kind)).expect(400);
        assert_eq!(refused["error"]["type"], "invalid_request_error", "{refused}");
        let message = refused["error"]["message"].as_str().expect("a message");
        assert!(
            message.starts_with(&format!("tools of the type {kind} "))
                && message.contains("not supported by any upstream"),
            "{message}"
        );
        assert!(upstream.asked_for(CHAT).is_empty());
    }
}
