//! Odd but legal names, headers and answers, which occur in practice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::conversion;
use crate::support::paths::{CHAT, COMPLETIONS, MESSAGES, RESPONSES};
use crate::support::{Caller, Gateway, PROXY_TOKEN, Pair, Reply, Request, Upstream, wire};

const MODEL: &str = "model-odd";

fn through() -> (Gateway, Upstream) {
    Gateway::serving(&[MODEL])
}

// === requests ===

#[test]
fn a_model_may_have_any_name() {
    let names = ["vendor/family/model:free", "modèle-été", "模型", "a b", "x{y}%25", "\"quoted\\"];
    let upstream = Upstream::start(&names);
    let gateway = Gateway::start().in_front_of("openai", &upstream);
    let mut listed = gateway.models();
    listed.sort();
    let mut wanted = names.map(str::to_owned);
    wanted.sort();
    assert_eq!(listed, wanted);
    for name in names {
        gateway.client().chat(name).expect(200);
        assert_eq!(upstream.last(CHAT).json()["model"], name);
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(gateway.client().get(&format!("/v1/models/{encoded}")).expect(200)["id"], name);
    }
    let long = "x".repeat(600);
    let error = gateway.client().send(Caller::chat_ask(&long, false)).expect(400);
    assert_eq!(error["error"]["param"], "model", "{error}");
}

#[test]
fn of_two_credentials_in_one_place_the_first_counts() {
    let gateway = Gateway::start();
    let status = |first: &str, second: &str| {
        let ask =
            Request::new("GET", "/v1/models").header("authorization", first).header("authorization", second);
        gateway.anyone().send(ask).status
    };
    let right = format!("Bearer {PROXY_TOKEN}");
    assert_eq!(status(&right, "Bearer wrong"), 200);
    assert_eq!(status("Bearer wrong", &right), 403);
}

#[test]
fn a_header_that_is_no_text_is_no_trouble() {
    let (gateway, upstream) = through();
    let ask = Caller::chat_ask(MODEL, false).header("user-agent", "agént/1").header("x-odd", "ü");
    gateway.client().send(ask).expect(200);
    assert!(upstream.last(CHAT).header("user-agent").is_some());
    let ask = Request::new("GET", "/v1/models").header("authorization", "Bearer schlüssel");
    assert_eq!(gateway.anyone().send(ask).status, 403);
}

#[test]
fn a_key_in_the_query_is_in_no_log() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(&[("LOG_LEVEL", "trace")]).in_front_of("openai", &upstream);
    let ask = Request::post(&format!("{CHAT}?key={PROXY_TOKEN}"));
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]});
    gateway.anyone().send(ask.json(&body)).expect(200);
    let wrong = Request::new("GET", "/v1/nowhere?key=sk-mistyped-secret");
    gateway.anyone().send(wrong).expect(404);
    assert!(!json!(gateway.wait_for_logs(1)).to_string().contains(PROXY_TOKEN));
    let output = gateway.output();
    assert!(!output.contains(PROXY_TOKEN) && !output.contains("sk-mistyped-secret"), "{output}");
}

#[test]
fn a_client_that_leaves_while_it_sends_leaves_nothing_behind() {
    let (gateway, upstream) = through();
    let mut connection = gateway.client().connect();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {PROXY_TOKEN}\r\ncontent-length: 100\r\n\r\n{{"
    );
    connection.write(head.as_bytes()).expect("sent");
    drop(connection);
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(upstream.asked_for(CHAT).len(), 1);
    assert_eq!(gateway.wait_for_logs(1).len(), 1);
}

#[test]
fn what_another_providers_tools_did_for_an_earlier_answer_stands_in_no_conversations_way() {
    let said = json!([
        {"type": "server_tool_call", "id": "srv_1", "name": "web_search", "args": {"query": "x"}},
        {"type": "server_tool_result", "tool_call_id": "srv_1", "status": "success", "output": [{"title": "y"}]},
        {"type": "non_standard", "value": {"type": "container_upload", "file_id": "f"}},
        {"type": "text", "text": "North."},
    ]);
    let ask = |role: &str| {
        let messages = json!([{"role": "user", "content": "Which way?"}, {"role": role, "content": said}]);
        json!({"model": conversion::MODEL, "messages": messages})
    };
    for offered in [MESSAGES, RESPONSES] {
        let (gateway, upstream) = conversion::narrow(offered, &[]);
        gateway.client().post(CHAT, &ask("assistant")).expect(200);
        let sent = upstream.last(offered).json();
        let turn = if offered == MESSAGES { &sent["messages"][1] } else { &sent["input"][1] };
        let content = turn["content"].as_array().expect("parts");
        assert_eq!((content.len(), &content[0]["text"]), (1, &json!("North.")), "{offered}: {turn}");
        // A user's own parts are not left out unsaid.
        let error = gateway.client().post(CHAT, &ask("user")).expect(400);
        assert_eq!(error["error"]["param"], "server_tool_call", "{offered}: {error}");
    }
}

// === answers ===

#[test]
fn a_stream_is_one_whatever_its_upstream_calls_it() {
    let (gateway, upstream) = through();
    let whole = wire::chat_events(MODEL).concat();
    for kind in ["text/plain", "application/json", "application/octet-stream"] {
        upstream.answer(CHAT, Reply::bytes(200, kind, whole.as_str()));
        let answer = gateway.client().chat_streamed(MODEL);
        assert_eq!(answer.text(), whole, "{kind}");
        let got = answer.header("content-type").unwrap_or_default();
        assert!(got.starts_with("text/event-stream"), "{kind}: {got}");
    }
}

#[test]
fn a_completion_in_the_wrong_form_is_brought_into_the_right_one() {
    let (gateway, upstream) = through();
    let ask = |streamed: bool| {
        let body = json!({"model": MODEL, "prompt": "x", "stream": streamed});
        gateway.client().send(Request::post(COMPLETIONS).json(&body))
    };
    let piece = |text: &str, reason: Option<&str>| json!({"id": "cmpl-1", "choices": [{"text": text, "index": 0, "logprobs": null, "finish_reason": reason}]});
    let whole = piece("Hello", Some("stop"));
    upstream.answer(COMPLETIONS, Reply::json(200, &whole));
    assert_eq!(ask(true).text(), format!("{}{}", wire::data(&whole), wire::DONE));
    let events = [piece("Hel", None), piece("lo", Some("stop"))].map(|piece| wire::data(&piece));
    upstream.answer(COMPLETIONS, Reply::events([events.concat().as_str(), wire::DONE]));
    assert_eq!(ask(false).expect(200), whole);
}

#[test]
fn a_stream_may_end_without_a_reason() {
    let (gateway, upstream) = through();
    let events = [wire::chat_content(MODEL, "x"), "data: [DONE]\n\n".to_owned()];
    upstream.answer(CHAT, Reply::events(&events));
    assert_eq!(gateway.client().chat_streamed(MODEL).text(), events.concat());
    assert_eq!(gateway.wait_for_logs(1)[0]["status"], "success");
}

#[test]
fn a_reason_speaks_of_the_calls_that_were_made() {
    let (gateway, upstream) = through();
    let piece = |delta: Value, reason: &str| wire::chat_chunk(MODEL, &delta, json!(reason));
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "add", "arguments": "{}"}}]});
    let legacy = json!({"function_call": {"name": "add", "arguments": "{}"}});
    for (event, wanted) in [
        (piece(call, "stop"), "tool_calls"),
        (piece(legacy, "function_call"), "tool_calls"),
        (piece(json!({"content": "Cut o"}), "length"), "length"),
    ] {
        // Streamed although not requested: collected into one answer.
        upstream.answer_once(CHAT, Reply::events([event.as_str(), wire::DONE]));
        let answer = gateway.client().chat(MODEL).expect(200);
        assert_eq!(answer["choices"][0]["finish_reason"], wanted, "{answer}");
    }
}

#[test]
fn a_good_status_with_nothing_behind_it_is_no_answer() {
    for (status, streamed) in [(200, false), (204, false), (200, true), (204, true)] {
        let pair = Pair::start();
        pair.first.answer(CHAT, Reply::bytes(status, "application/json", ""));
        let answer = pair.gateway.client().stream(Caller::chat_ask(Pair::MODEL, streamed)).whole();
        assert_eq!(answer.status, 200, "{status} {streamed}: {}", answer.text());
        assert_eq!(pair.second.asked_for(CHAT).len(), 1, "{status} {streamed}");
    }
}

#[test]
fn json_is_json_whatever_its_upstream_calls_it() {
    let (gateway, upstream) = through();
    for (given, wanted) in [
        ("text/plain", "application/json"),
        ("text/html; charset=utf-8", "application/json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
    ] {
        let answer = wire::chat(MODEL).to_string();
        upstream.answer(CHAT, Reply::bytes(200, given, answer.as_str()));
        let got = gateway.client().chat(MODEL);
        assert_eq!(got.header("content-type"), Some(wanted), "{given}");
        assert_eq!(got.text(), answer);
    }
}

#[test]
fn a_long_answer_passes_with_its_usage_and_a_long_page_does_not() {
    let (gateway, upstream) = through();
    let mut long = wire::chat(MODEL);
    long["choices"][0]["message"]["content"] = json!("x".repeat(3 << 20));
    upstream.answer(CHAT, Reply::json(200, &long));
    assert_eq!(gateway.client().chat(MODEL).expect(200), long);
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!(row["status"], "success", "{row}");
    assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS, "{row}");
    // Some relays put the usage first.
    let usage = long.as_object_mut().and_then(|answer| answer.remove("usage")).expect("a usage");
    let rest = long.to_string();
    let usage_first = format!(r#"{{"usage":{usage},{}"#, &rest[1..]);
    upstream.answer(CHAT, Reply::bytes(200, "application/json", usage_first));
    gateway.client().chat(MODEL).expect(200);
    let row = &gateway.wait_for_logs(2)[1];
    assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS, "{row}");
    let page = format!("<html><title>Sign in</title>{}</html>", " ".repeat(3 << 20));
    upstream.answer(CHAT, Reply::html(200, &page));
    let error = gateway.client().chat(MODEL).expect(502);
    assert_eq!(error["error"]["message"], "Upstream returned an HTML page: Sign in");
}

#[test]
fn an_answer_is_read_under_the_name_of_a_stream_and_behind_a_byte_order_mark() {
    let (gateway, upstream) = through();
    let whole = wire::chat(MODEL).to_string();
    let marked = format!("\u{feff}{whole}");
    for (body, kind) in [(&whole, "text/event-stream"), (&marked, "application/json")] {
        upstream.answer(CHAT, Reply::bytes(200, kind, body.as_bytes()));
        let answer = gateway.client().chat(MODEL);
        assert_eq!(answer.expect(200), wire::chat(MODEL), "{kind}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let told = gateway.client().chat_streamed(MODEL).text();
        assert!(told.starts_with("data: {") && told.ends_with("data: [DONE]\n\n"), "{kind}: {told}");
    }
}

#[test]
fn the_form_of_an_answer_does_not_depend_on_where_the_network_cuts_it() {
    let (gateway, upstream) = through();
    let cut = |kind: &str, body: &str, at: usize| {
        let (first, rest) = body.as_bytes().split_at(at);
        Reply::pieces(kind, [first, rest]).paced(Duration::from_millis(50))
    };
    let events = wire::chat_events(MODEL).concat();
    for at in [1, 4] {
        upstream.answer(CHAT, cut("text/plain", &events, at));
        assert_eq!(gateway.client().chat_streamed(MODEL).text(), events, "{at}");
        let answer = gateway.client().chat(MODEL).expect(200);
        assert_eq!(answer["choices"][0]["message"]["content"], wire::TEXT, "{at}");
    }
    let whole = wire::chat(MODEL);
    let (behind_line, marked) = (format!("\n{whole}"), format!("\u{feff}{whole}"));
    for (kind, body) in [("text/event-stream", behind_line), ("application/json", marked)] {
        upstream.answer(CHAT, cut(kind, &body, 1));
        assert_eq!(gateway.client().chat(MODEL).expect(200), whole, "{kind}");
    }
}

#[test]
fn an_absurd_usage_spoils_no_sum() {
    let (gateway, upstream) = through();
    for prompt in [json!(i64::MAX), json!(1e300), json!(7)] {
        let mut answer = wire::chat(MODEL);
        answer["usage"] =
            json!({"prompt_tokens": prompt, "completion_tokens": i64::MAX, "total_tokens": i64::MAX});
        upstream.answer(CHAT, Reply::json(200, &answer));
        gateway.client().chat(MODEL).expect(200);
    }
    let log = gateway.wait_for_logs(3);
    assert_eq!(log[2]["promptTokens"], 7, "what makes sense is kept: {log:?}");
    let page = gateway.admin().get("/api/stats/proxy-logs").expect(200);
    assert_eq!(page["summary"]["totalTokensAll"], 7, "{page}");
    for path in ["/api/stats/dashboard?refresh=1", "/api/downstream-keys/summary"] {
        gateway.admin().get(path).expect(200);
    }
}

#[test]
fn who_names_a_version_of_the_messages_api_reads_errors_as_it_has_them() {
    let (gateway, upstream) = through();
    let words = json!({"error": {"message": "top_p is too high", "type": "invalid_request_error",
        "param": "top_p", "code": null}});
    upstream.answer(CHAT, Reply::json(400, &words));
    let ask =
        |path: &str, body: &Value| Request::post(path).json(body).header("anthropic-version", "2023-06-01");
    let chat = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "x"}]});
    let (client, nobody) = (gateway.client(), gateway.anyone());
    for (caller, path, body, status, kind) in [
        (&nobody, CHAT, chat(MODEL), 401, "authentication_error"),
        (&client, CHAT, json!({}), 400, "invalid_request_error"),
        (&client, CHAT, chat("no-such-model"), 503, "overloaded_error"),
        (&client, CHAT, chat(MODEL), 400, "invalid_request_error"),
        (&client, "/v1/embeddings", json!({"model": "none", "input": "x"}), 503, "overloaded_error"),
        (&client, "/v1/responses", json!([]), 400, "invalid_request_error"),
        (&client, "/v1/search", json!({}), 400, "invalid_request_error"),
    ] {
        let answer = caller.send(ask(path, &body));
        let id = answer.header("request-id").map(str::to_owned);
        let error = answer.expect(status);
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!(kind)), "{path}");
        assert!(id.is_some() && error["request_id"].as_str() == id.as_deref(), "{path}: {error}");
    }
    let error = client.send(ask("/v1beta/models/none:generateContent", &json!({"contents": []}))).expect(503);
    assert_eq!(error["error"]["status"], "UNAVAILABLE", "gemini's surface has a shape of its own: {error}");
    let told = client.chat(MODEL).expect(400);
    assert_eq!(told, words, "who names none is told as before");
}

#[test]
fn an_answer_of_gemini_without_content_or_a_reason_for_its_end_is_none_in_either_form() {
    let call = |streamed: bool| {
        let action = if streamed { "streamGenerateContent" } else { "generateContent" };
        format!("/v1beta/models/{MODEL}:{action}")
    };
    let silent = json!({"candidates": [{"index": 0, "content": {"role": "model"}}],
        "usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11}});
    let chat = json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]});
    let gemini = json!({"contents": [{"parts": [{"text": "x"}]}]});
    for (path, body, streamed) in [
        (CHAT, &chat, false),
        (CHAT, &chat, true),
        (&call(false), &gemini, false),
        (&call(true), &gemini, true),
    ] {
        let upstream = Upstream::of_google(&[MODEL]);
        upstream.answer("/v1beta/openai/chat/completions", Reply::error(404, "Not found"));
        upstream.answer(&call(false), Reply::json(200, &silent));
        upstream.answer(&call(true), Reply::events([wire::data(&silent)]));
        let gateway = Gateway::start().in_front_of("gemini", &upstream);
        let mut body = body.clone();
        if path == CHAT {
            body["stream"] = json!(streamed);
        }
        gateway.client().post(path, &body).expect(502);
        assert_ne!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "{path}");
    }
}

#[test]
fn an_answer_of_chat_without_content_or_a_reason_for_its_end_leads_to_the_next_channel_in_either_form() {
    let choice = |content: &str| json!({"index": 0, content: {"role": "assistant", "content": null}, "finish_reason": null});
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 0, "total_tokens": 11});
    let silent =
        json!({"id": "c", "object": "chat.completion", "choices": [choice("message")], "usage": usage});
    let streamed = json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice("delta")]});
    for is_streamed in [false, true] {
        let pair = Pair::start();
        let reply = if is_streamed {
            Reply::events([wire::data(&streamed), wire::DONE.to_owned()])
        } else {
            Reply::json(200, &silent)
        };
        pair.first.answer(CHAT, reply);
        let answer = pair.gateway.client().send(Caller::chat_ask(Pair::MODEL, is_streamed));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(pair.second.asked_for(CHAT).len(), 1, "{is_streamed}");
        assert_ne!(pair.channel("first")["cooldownUntil"], Value::Null, "{is_streamed}");
    }
}
