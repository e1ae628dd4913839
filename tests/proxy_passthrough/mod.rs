//! Requests of the dialect that the upstream speaks: bytes that need no change are not touched, in either direction.

mod headers;

use serde_json::{Value, json};

use crate::support::{Caller, Gateway, PROXY_TOKEN, Reply, Request, Upstream, split_events, wire};

const MODEL: &str = "model-through";

/// Returns every surface that goes upstream unchanged, with a small valid body.
fn surfaces() -> Vec<(&'static str, Value)> {
    let messages = json!([{"role": "user", "content": "Which way?"}]);
    vec![
        ("/v1/chat/completions", json!({"model": MODEL, "messages": messages})),
        ("/v1/responses", json!({"model": MODEL, "input": "Which way?"})),
        ("/v1/messages", json!({"model": MODEL, "max_tokens": 64, "messages": messages})),
        ("/v1/completions", json!({"model": MODEL, "prompt": "Which way?"})),
        ("/v1/embeddings", json!({"model": MODEL, "input": "Which way?"})),
        ("/v1/images/generations", json!({"model": MODEL, "prompt": "A signal box"})),
    ]
}

/// The surfaces that stream.
const STREAMED: [&str; 4] = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"];

/// Starts a gateway in front of a stub that speaks every dialect.
fn through() -> (Gateway, Upstream) {
    Gateway::serving_as("new-api", &[MODEL])
}

fn ask(path: &str, body: &Value) -> Request {
    Request::post(path).json(body)
}

// === bodies ===

#[test]
fn a_request_body_goes_upstream_byte_for_byte() {
    let (gateway, upstream) = through();
    for (path, body) in surfaces() {
        let Value::Object(fields) = &body else { unreachable!("surfaces are objects") };
        // Odd but valid JSON: spacing, key order, number spelling, escapes, repeated and unknown keys.
        let mut text = String::from("\n{ \"zeta\" : 1.50e+2 ,\t\"big\":123456789012345678901234567890,");
        text +=
            "\"nested\":{\"model\":\"decoy\",\"a\":1,\"a\":2},\"escaped\":\"\\u00e9\\/\\ud83d\\ude00 é\",";
        text += "\"null\":null,\"empty\":{},\"list\":[ ],";
        for (name, value) in fields {
            text += &format!(" {} :{value},", json!(name));
        }
        text += "\"last\":\"\\\"model\\\":\\\"decoy\\\"\"}\r\n";
        let answer = gateway.client().send(Request::post(path).json_text(text.clone()));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let asked = upstream.last(path);
        assert_eq!(String::from_utf8_lossy(&asked.body), text, "{path}");
        assert_eq!(asked.header("content-type"), Some("application/json"), "{path}");
    }
}

#[test]
fn a_model_spelled_with_escapes_is_still_that_model() {
    let (gateway, upstream) = through();
    let text = "{\"a\":1,\"mod\\u0065l\":\"model-thr\\u006fugh\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    let answer = gateway.client().send(Request::post("/v1/chat/completions").json_text(text));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.last("/v1/chat/completions").json()["model"], MODEL);
}

#[test]
fn a_large_request_body_arrives_whole() {
    let (gateway, upstream) = through();
    for size in [0, 100 << 10, 8 << 20] {
        let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "é".repeat(size / 2)}]});
        gateway.client().post("/v1/chat/completions", &body).expect(200);
        assert_eq!(upstream.last("/v1/chat/completions").body, body.to_string().into_bytes());
    }
}

#[test]
fn an_answer_comes_back_byte_for_byte_and_its_usage_is_in_the_log() {
    let (gateway, upstream) = through();
    for (path, body) in surfaces() {
        // The stub's own answer, formatted as none of our serializers would format it.
        let faithful = match path {
            "/v1/chat/completions" => wire::chat(MODEL),
            "/v1/responses" => wire::response(MODEL),
            "/v1/messages" => wire::message(MODEL),
            "/v1/completions" => wire::completion(MODEL),
            "/v1/embeddings" => wire::embedding(MODEL),
            _ => wire::image(),
        };
        let pretty = serde_json::to_string_pretty(&faithful).expect("JSON") + "\n  ";
        upstream.answer(path, Reply::bytes(200, "application/json", pretty.clone()));
        let answer = gateway.client().send(ask(path, &body));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.text(), pretty, "{path}");
        assert!(answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json")));
    }
    let log = gateway.wait_for_logs(6);
    for (row, (path, _)) in log.iter().zip(surfaces()) {
        assert_success(row, false);
        let (prompt, completion) = match path {
            "/v1/images/generations" => continue,
            "/v1/embeddings" => (wire::PROMPT_TOKENS, 0),
            _ => (wire::PROMPT_TOKENS, wire::COMPLETION_TOKENS),
        };
        assert_eq!(row["promptTokens"], prompt, "{path}: {row}");
        assert_eq!(row["completionTokens"].as_u64().unwrap_or(0), completion, "{path}: {row}");
        assert_eq!(row["totalTokens"], prompt + completion, "{path}: {row}");
        assert_eq!(row["usageSource"], "upstream", "{path}: {row}");
    }
}

fn assert_success(row: &Value, streamed: bool) {
    for (field, value) in [
        ("status", json!("success")),
        ("httpStatus", json!(200)),
        ("modelRequested", json!(MODEL)),
        ("modelActual", json!(MODEL)),
        ("isStream", json!(streamed)),
        ("retryCount", json!(0)),
        ("siteName", json!("site")),
    ] {
        assert_eq!(row[field], value, "{field}: {row}");
    }
    for field in ["routeId", "channelId", "accountId", "latencyMs", "firstByteLatencyMs"] {
        assert!(row[field].as_i64().is_some_and(|value| value >= 1), "{field}: {row}");
    }
}

// === streams ===

#[test]
fn a_stream_comes_back_byte_for_byte_and_its_usage_is_in_the_log() {
    let (gateway, _upstream) = through();
    for path in STREAMED {
        let (_, mut body) = surfaces().into_iter().find(|(other, _)| *other == path).expect("a surface");
        body["stream"] = json!(true);
        let events = match path {
            "/v1/chat/completions" => wire::chat_events(MODEL),
            "/v1/responses" => wire::response_events(MODEL),
            "/v1/messages" => wire::message_events(MODEL),
            _ => wire::completion_events(MODEL),
        };
        let answer = gateway.client().stream(ask(path, &body)).whole();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(split_events(&answer.body), events, "{path}");
        let content_type = answer.header("content-type").unwrap_or_default();
        assert!(content_type.starts_with("text/event-stream"), "{path}: {content_type}");
        let cache = answer.header("cache-control").unwrap_or_default();
        assert!(cache.contains("no-cache") && cache.contains("no-transform"), "{path}: {cache}");
        assert_eq!(answer.header("x-accel-buffering"), Some("no"), "{path}");
        assert!(answer.header("content-length").is_none(), "{path}");
    }
    for (row, path) in gateway.wait_for_logs(STREAMED.len()).iter().zip(STREAMED) {
        assert_success(row, true);
        assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS, "{path}: {row}");
        assert_eq!(row["completionTokens"], wire::COMPLETION_TOKENS, "{path}: {row}");
    }
}

#[test]
fn the_spelling_of_a_stream_is_the_upstreams_business() {
    let (gateway, upstream) = through();
    let content = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let usage = "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8}";
    let odd = [
        "\u{feff}: a comment first\n\n".to_owned(),
        format!("data:{}\n\n", content("no space")),
        format!("event: whatever\r\nid: 7\r\nretry: 10\r\ndata: {}\r\n\r\n", content("carriage")),
        format!("data: {{\ndata: \"choices\":[],{usage}}}\n\n"),
        ": keepalive\n\n".to_owned(),
        "data: {\"unknown\":\"event\"}\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    // Cut within lines, within UTF-8 characters and within the word usage.
    let pieces: Vec<Vec<u8>> = odd.as_bytes().chunks(7).map(<[u8]>::to_vec).collect();
    upstream.answer("/v1/chat/completions", Reply::events(pieces));
    let answer = gateway.client().chat_streamed(MODEL);
    assert_eq!(answer.text(), odd);
    let row = &gateway.wait_for_logs(1)[0];
    assert_success(row, true);
    assert_eq!(row["promptTokens"], 3, "{row}");
    assert_eq!(row["completionTokens"], 5, "{row}");
}

#[test]
fn an_answer_without_usage_is_logged_as_unknown() {
    let (gateway, upstream) = through();
    let mut answer = wire::chat(MODEL);
    answer.as_object_mut().expect("an object").remove("usage");
    upstream.answer("/v1/chat/completions", Reply::json(200, &answer));
    gateway.client().chat(MODEL).expect(200);
    let row = &gateway.wait_for_logs(1)[0];
    for field in ["promptTokens", "completionTokens", "totalTokens"] {
        assert_eq!(row[field], json!(null), "{field}: {row}");
    }
    assert_eq!(row["usageSource"], "unknown", "{row}");
}

// === headers ===

#[test]
fn an_upstream_that_compresses_unasked_is_decoded() {
    let (gateway, upstream) = through();
    let plain = wire::chat(MODEL).to_string();
    type Encode = fn(&[u8]) -> Vec<u8>;
    let encodings = [("gzip", wire::gzip as Encode), ("br", wire::brotli), ("zstd", wire::zstd)];
    for (name, encode) in encodings {
        let reply = Reply::bytes(200, "application/json", encode(plain.as_bytes()));
        upstream.answer("/v1/chat/completions", reply.header("content-encoding", name));
        let answer = gateway.client().chat(MODEL);
        assert_eq!(answer.text(), plain, "{name}");
        assert_eq!(answer.header("content-encoding"), None, "{name}");

        let events = wire::chat_events(MODEL).concat();
        let reply = Reply::bytes(200, "text/event-stream", encode(events.as_bytes()));
        upstream.answer("/v1/chat/completions", reply.header("content-encoding", name));
        assert_eq!(gateway.client().chat_streamed(MODEL).text(), events, "{name}, streamed");
    }
    for row in gateway.wait_for_logs(6) {
        assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS, "{row}");
    }
}

#[test]
fn upstream_connections_are_used_again() {
    let (gateway, upstream) = through();
    for round in 0..6 {
        if round % 2 == 0 {
            gateway.client().chat(MODEL).expect(200);
        } else {
            gateway.client().chat_streamed(MODEL);
        }
    }
    let asked = upstream.asked_for("/v1/chat/completions");
    let connections: std::collections::HashSet<usize> = asked.iter().map(|a| a.connection).collect();
    assert_eq!(connections.len(), 1, "one request after the other needs one connection");
}

#[test]
fn a_kept_connection_that_died_meanwhile_is_not_the_clients_problem() {
    let (gateway, upstream) = through();
    for _ in 0..4 {
        gateway.client().chat(MODEL).expect(200);
        upstream.hang_up();
    }
    let log = gateway.wait_for_logs(4);
    assert!(log.iter().all(|row| row["status"] == "success"), "{log:#?}");
}

// === model lists ===

#[test]
fn models_are_listed_in_the_shape_of_the_asking_client() {
    let (gateway, _upstream) = Gateway::serving(&["m-b", "m-a"]);
    let list = gateway.client().get("/v1/models").expect(200);
    assert_eq!(list["object"], "list");
    for (item, id) in list["data"].as_array().expect("a list").iter().zip(["m-a", "m-b"]) {
        assert_eq!(item["id"], id, "sorted");
        assert_eq!(item["object"], "model");
        assert!(item["created"].is_u64() && item["owned_by"].is_string(), "{item}");
    }
    let ask = Request::new("GET", "/v1/models").header("anthropic-version", "2023-06-01");
    let list = gateway.client().send(ask).expect(200);
    assert_eq!(list["data"][0]["type"], "model");
    assert_eq!(list["data"][0]["id"], "m-a");
    assert!(list["data"][0]["display_name"].is_string() && list["data"][0]["created_at"].is_string());
    assert_eq!(list["data"][0]["lifecycle"], "active");
    assert_eq!((&list["first_id"], &list["last_id"]), (&json!("m-a"), &json!("m-b")));
    assert_eq!(list["has_more"], false);

    let one = gateway.client().get("/v1/models/m-b").expect(200);
    assert_eq!(one["id"], "m-b");
    let error = gateway.client().get("/v1/models/m-c").expect(404);
    assert_eq!(error["error"]["code"], "model_not_found", "{error}");
}

#[test]
fn the_time_a_model_was_created_does_not_change() {
    let (gateway, _upstream) = through();
    let first = gateway.client().get("/v1/models").expect(200);
    std::thread::sleep(std::time::Duration::from_millis(1100)); // the value counts whole seconds
    assert_eq!(gateway.client().get("/v1/models").expect(200), first);
}

#[test]
fn an_empty_list_is_a_list() {
    let gateway = Gateway::start();
    let list = gateway.client().get("/v1/models").expect(200);
    assert_eq!(list["data"], json!([]));
    let ask = Request::new("GET", "/v1/models").header("anthropic-version", "2023-06-01");
    let list = gateway.client().send(ask).expect(200);
    assert_eq!((&list["first_id"], &list["last_id"]), (&json!(null), &json!(null)));
}

// === authentication ===

#[test]
fn the_first_place_with_a_token_decides() {
    let (gateway, _upstream) = through();
    let status = |query: &str, headers: &[(&str, &str)]| {
        let ask = Request::new("GET", &format!("/v1/models{query}"));
        let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
        gateway.anyone().send(ask).status
    };
    let right = PROXY_TOKEN;
    let bearer = format!("Bearer {right}");
    let lower = format!("bearer   {right} ");
    let query = format!("?key={right}");
    for headers in [
        vec![("authorization", bearer.as_str())],
        vec![("authorization", &lower)],
        vec![("authorization", right)],
        vec![("x-api-key", right)],
        vec![("x-goog-api-key", right)],
        vec![("authorization", &bearer), ("x-api-key", "wrong")],
        vec![("authorization", ""), ("x-api-key", right)],
        vec![("x-api-key", " "), ("x-goog-api-key", right)],
    ] {
        assert_eq!(status("", &headers), 200, "{headers:?}");
    }
    assert_eq!(status(&query, &[]), 200);
    for headers in [
        vec![("authorization", "Bearer wrong"), ("x-api-key", right)],
        vec![("x-api-key", "wrong"), ("x-goog-api-key", right)],
        vec![("x-goog-api-key", "wrong")],
    ] {
        assert_eq!(status(&query, &headers), 403, "{headers:?}");
    }
    assert_eq!(status("", &[]), 401);
    assert_eq!(status("?key=", &[]), 401);
}

#[test]
fn a_key_in_the_query_is_not_forwarded() {
    let (gateway, upstream) = through();
    let path = format!("/v1/chat/completions?key={PROXY_TOKEN}");
    let (_, body) = surfaces().remove(0);
    gateway.anyone().post(&path, &body).expect(200);
    assert!(!upstream.last("/v1/chat/completions").target.contains("key="));
}

#[test]
fn authentication_errors_are_in_the_shape_of_the_surface() {
    let gateway = Gateway::start();
    for (path, body) in surfaces() {
        let nothing = gateway.anyone().send(ask(path, &body));
        let wrong = gateway.anyone().send(ask(path, &body).header("authorization", "Bearer wrong"));
        for (answer, status, code) in [(nothing, 401, "missing_api_key"), (wrong, 403, "invalid_api_key")] {
            let id = answer.header("request-id").map(str::to_owned);
            let error = answer.expect(status);
            assert!(error["error"]["message"].is_string(), "{path}: {error}");
            if path == "/v1/messages" {
                let kind = if status == 401 { "authentication_error" } else { "permission_error" };
                assert_eq!(error["type"], "error", "{error}");
                assert_eq!(error["error"]["type"], kind, "{error}");
                assert!(id.is_some(), "the request-id header");
                assert_eq!(error["request_id"].as_str(), id.as_deref());
            } else {
                assert_eq!(error["error"]["code"], code, "{path}: {error}");
                assert_eq!(error["error"].get("param"), Some(&json!(null)), "{path}: {error}");
            }
        }
    }
}

#[test]
fn authentication_comes_before_the_body() {
    let gateway = Gateway::start();
    let ask = Request::post("/v1/chat/completions").json_text("not json");
    assert_eq!(gateway.anyone().send(ask).status, 401);
}

// === errors ===

#[test]
fn a_model_without_channels_is_unavailable() {
    let (gateway, _upstream) = through();
    for (path, mut body) in surfaces() {
        body["model"] = json!("no-such-model");
        let error = gateway.client().send(ask(path, &body)).expect(503);
        assert_eq!(error["error"]["message"], "No available channels for this model", "{path}");
        let kind = if path == "/v1/messages" { "overloaded_error" } else { "server_error" };
        assert_eq!(error["error"]["type"], kind, "{path}: {error}");
    }
}

#[test]
fn an_upstreams_own_error_keeps_its_type_code_and_param() {
    let (gateway, upstream) = through();
    let refusal = json!({"error": {"message": "This model's maximum context length is 8192 tokens.",
        "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}});
    upstream.answer("/v1/chat/completions", Reply::json(400, &refusal));
    let error = gateway.client().chat(MODEL).expect(400);
    let message = error["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("maximum context length"), "{error}");
    assert_eq!(error["error"]["code"], "context_length_exceeded");
    assert_eq!(error["error"]["param"], "messages");
    assert!(!error.to_string().contains("127.0.0.1"), "no upstream address: {error}");

    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}});
    upstream.answer("/v1/messages", Reply::json(400, &refusal));
    let (_, body) = surfaces().remove(2);
    let error = gateway.client().post("/v1/messages", &body).expect(400);
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"]["type"], "invalid_request_error");
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("too large")), "{error}");
}

#[test]
fn an_image_request_without_a_model_has_a_default() {
    let (gateway, upstream) = Gateway::serving(&["gpt-image-1"]);
    gateway.client().post("/v1/images/generations", &json!({"prompt": "A signal box"})).expect(200);
    let asked = upstream.last("/v1/images/generations").json();
    assert!(asked["model"].is_null() || asked["model"] == "gpt-image-1", "{asked}");
    assert_eq!(asked["prompt"], "A signal box");
}

#[test]
fn a_path_without_the_version_is_the_same_surface() {
    let (gateway, upstream) = through();
    for (path, body) in surfaces().into_iter().take(2) {
        gateway.client().post(path.trim_start_matches("/v1"), &body).expect(200);
        assert_eq!(upstream.asked_for(path).len(), 1, "{path}");
    }
}

#[test]
fn responses_are_not_fetched_over_plain_get() {
    let gateway = Gateway::start();
    for path in ["/v1/responses", "/responses", "/v1/responses/compact", "/responses/compact"] {
        let error = gateway.client().get(path).expect(426);
        assert_eq!(error["error"]["type"], "invalid_request_error", "{path}");
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("GET /v1/responses "), "{path} names the canonical path: {message}");
    }
}
