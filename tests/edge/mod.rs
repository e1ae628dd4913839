//! The edge: literal bytes in, and the answer that a client or an attacker gets.

mod bodies;

use serde_json::{Value, json};

use crate::support::{Gateway, PROXY_TOKEN, Request, SOON};

const MODEL: &str = "model-edge";

/// Builds a POST of a chat completion with these head lines (each with its line end) and this body.
fn raw_chat(head: &str, body: &str) -> Vec<u8> {
    let start = "POST /v1/chat/completions HTTP/1.1\r\n";
    let token = format!("authorization: Bearer {PROXY_TOKEN}\r\n");
    format!("{start}{token}{head}\r\n{body}").into_bytes()
}

fn chat_body() -> String {
    json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}).to_string()
}

// === what hyper alone would let through ===

#[test]
fn a_request_needs_exactly_one_host() {
    let gateway = Gateway::start();
    for head in ["", "host: a\r\nhost: b\r\n", "host: a\r\nhost: a\r\n"] {
        let request = format!("GET /api/desktop/health HTTP/1.1\r\n{head}\r\n");
        let answer = gateway.anyone().connect().exchange(request.as_bytes());
        assert_eq!(answer.status, 400, "{head:?}");
    }
}

#[test]
fn an_absolute_target_for_another_host_is_not_believed() {
    let gateway = Gateway::start();
    let request =
        b"GET http://other.example/api/sites HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n";
    let answer = gateway.anyone().connect().exchange(request);
    assert!([400, 401].contains(&answer.status), "{}", answer.status);
}

#[test]
fn a_body_length_that_is_said_twice_is_refused() {
    let gateway = Gateway::start();
    let chunked = "5\r\nhello\r\n0\r\n\r\n";
    for (head, body) in [
        ("host: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n", chunked),
        ("host: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n", chunked),
        ("host: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n", "hello!"),
        ("host: x\r\ncontent-length: 5, 6\r\n", "hello!"),
        ("host: x\r\ncontent-length: +5\r\n", "hello"),
        ("host: x\r\ncontent-length: -5\r\n", "hello"),
        ("host: x\r\ncontent-length : 5\r\n", "hello"),
        ("host: x\r\ntransfer-encoding: chunked, gzip\r\n", chunked),
    ] {
        let mut connection = gateway.anyone().connect();
        let answer = connection.exchange(&raw_chat(head, body));
        assert_eq!(answer.status, 400, "{head:?}");
        assert!(connection.closes_within(SOON), "no second request is read after {head:?}");
    }
}

#[test]
fn a_transfer_coding_that_nobody_undoes_is_not_implemented() {
    let gateway = Gateway::start();
    let head = "host: x\r\ntransfer-encoding: gzip, chunked\r\n";
    let answer = gateway.anyone().connect().exchange(&raw_chat(head, "0\r\n\r\n"));
    assert_eq!(answer.status, 501);
}

#[test]
fn an_unknown_expectation_fails() {
    let gateway = Gateway::start();
    let head = "host: x\r\ncontent-length: 2\r\nexpect: 200-ok\r\n";
    let answer = gateway.anyone().connect().exchange(&raw_chat(head, "{}"));
    assert_eq!(answer.status, 417);
}

#[test]
fn a_client_that_expects_to_be_asked_for_its_body_is_asked() {
    let (gateway, _upstream) = Gateway::serving(&[MODEL]);
    let body = chat_body();
    let head = format!(
        "host: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n",
        body.len()
    );
    let answer = gateway.anyone().connect().exchange(&raw_chat(&head, &body));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn nobody_is_tunnelled_and_a_star_is_no_page() {
    let gateway = Gateway::start();
    for request in [
        "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let answer = gateway.anyone().connect().exchange(request.as_bytes());
        assert!([400, 404, 405].contains(&answer.status), "{request:?} {}", answer.status);
    }
}

#[test]
fn a_malformed_head_is_refused() {
    let gateway = Gateway::start();
    let lines = |count: usize| "x-many: y\r\n".repeat(count);
    let long = "a".repeat(600 << 10);
    for (request, wanted) in [
        ("GET / api HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: x\r\nx-folded: a\r\n b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: x\r\nx-nul: a\0b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n".to_owned(), 400),
        ("nonsense\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", lines(200)), 431),
        (format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(70_000)), 414),
    ] {
        let answer = gateway.anyone().connect().exchange(request.as_bytes());
        let start: String = request.chars().take(60).collect();
        assert_eq!(answer.status, wanted, "{start:?}");
    }
    gateway.anyone().get("/api/desktop/health").expect(200);
}

#[test]
fn a_broken_chunk_is_a_bad_request_and_not_too_large() {
    let gateway = Gateway::start();
    for body in ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "fffffffffffffffff\r\n"] {
        let head = "host: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n";
        let answer = gateway.anyone().connect().exchange(&raw_chat(head, body));
        assert_eq!(answer.status, 400, "{body:?}: {}", answer.text());
    }
}

#[test]
fn trailers_and_chunk_extensions_stay_on_this_side() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    let body = chat_body();
    let chunked = format!("{:x};secret=1\r\n{body}\r\n0\r\nx-trailer: kept\r\n\r\n", body.len());
    let head =
        "host: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\ntrailer: x-trailer\r\n";
    let answer = gateway.anyone().connect().exchange(&raw_chat(head, &chunked));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.last("/v1/chat/completions");
    assert_eq!(asked.json()["model"], MODEL);
    assert_eq!(asked.header("x-trailer"), None);
    assert_eq!(asked.header("trailer"), None);
}

#[test]
fn dot_segments_are_literal() {
    let gateway = Gateway::start();
    for path in ["/v1/%2e%2e/api/sites", "/v1/../api/sites", "/api/./sites", "/api//sites"] {
        assert_eq!(gateway.admin().get(path).status, 404, "{path}");
    }
}

#[test]
fn a_body_that_stops_coming_is_not_waited_for_forever() {
    let gateway = Gateway::with(&[("CLIENT_IDLE_TIMEOUT_SEC", "1")]);
    let mut connection = gateway.anyone().connect();
    let head = "host: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n";
    connection.write(&raw_chat(head, "{")).expect("sent");
    let answer = connection.read_answer(false).expect("an answer");
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert!(connection.closes_within(SOON));
}

#[test]
fn a_head_that_stops_coming_is_not_waited_for_forever() {
    let gateway = Gateway::with(&[("REQUEST_HEADER_TIMEOUT_SEC", "1")]);
    for start in ["", "GET /api/desktop/health HTT"] {
        let mut connection = gateway.anyone().connect();
        connection.write(start.as_bytes()).expect("sent");
        assert!(connection.closes_within(SOON), "{start:?}");
    }
}

#[test]
fn connections_beyond_the_limit_wait_for_a_place() {
    let gateway = Gateway::with(&[("MAX_CONNECTIONS", "2")]);
    let caller = gateway.anyone();
    let health = || caller.bytes(Request::new("GET", "/api/desktop/health"));
    let mut first = caller.connect();
    let mut second = caller.connect();
    for connection in [&mut first, &mut second] {
        assert_eq!(connection.exchange(&health()).status, 200);
    }
    let mut third = caller.connect();
    third.write(&health()).expect("the kernel takes it");
    assert_eq!(second.exchange(&health()).status, 200, "those inside are served");
    drop(first);
    assert_eq!(third.read_answer(false).expect("an answer at last").status, 200);
}

// === routing of paths ===

#[test]
fn an_encoded_path_does_not_skip_authentication() {
    let gateway = Gateway::start();
    for path in ["/%61pi/sites", "/api/%73ites", "/%61%70%69/%73%69%74%65%73"] {
        let refused = gateway.anyone().get(path);
        assert_eq!(refused.status, 401, "{path}: {}", refused.text());
        gateway.admin().get(path).expect(200);
    }
    let refused = gateway.anyone().get("/%761/models");
    assert_eq!(refused.status, 401, "{}", refused.text());
}

#[test]
fn a_path_of_an_interface_that_is_not_spoken_here_is_refused_in_its_own_shape() {
    let gateway = Gateway::start();
    for (path, message) in [
        ("/v2/chat", "/message"),
        ("/api/chat", "/error"),
        ("/api/generate", "/error"),
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", "/error/message"),
        ("/upload/v1beta/files", "/error/message"),
        ("/v1beta/files", "/error/message"),
    ] {
        for caller in [gateway.anyone(), gateway.client(), gateway.admin()] {
            let refused = caller.post(path, &json!({})).expect(404);
            assert!(refused.get("success").is_none(), "{path}: {refused}");
            let message = refused.pointer(message).and_then(Value::as_str);
            assert!(message.is_some_and(|text| text.starts_with("Not found")), "{path}: {refused}");
        }
    }
    let tags = gateway.anyone().get("/api/tags").expect(404);
    assert!(tags["error"].is_string(), "{tags}");
    let upload = gateway.anyone().post("/upload/v1beta/files", &json!({})).expect(404);
    assert_eq!((&upload["error"]["code"], &upload["error"]["status"]), (&json!(404), &json!("NOT_FOUND")));
}

#[test]
fn an_unknown_path_is_json_in_the_shape_of_its_interface() {
    let gateway = Gateway::start();
    let admin = gateway.admin().get("/api/no-such-thing").expect(404);
    assert_eq!(admin["error"], "Not found");
    // Only the admin is told which paths exist under /api.
    for path in ["/api/no-such-thing", "/api/accounts/login", "/%61pi/accounts/login", "/api"] {
        gateway.anyone().get(path).expect(401);
        gateway.client().get(path).expect(403);
    }
    gateway.admin().get("/api/accounts/login").expect(405);
    let proxy = gateway.client().get("/v1/no-such-thing").expect(404);
    assert!(proxy["error"]["message"].is_string(), "{proxy}");
    assert!(proxy["error"]["type"].is_string(), "{proxy}");
}

#[test]
fn a_refusal_before_any_handler_is_in_the_shape_of_its_surface() {
    let gateway = Gateway::start();
    let anthropic = ("anthropic-version", "2023-06-01");
    for (method, path, header, status, kind) in [
        ("GET", "/v1/messages", None, 405, "invalid_request_error"),
        ("POST", "/v1/messages/nothing", None, 404, "not_found_error"),
        ("POST", "/v1/messages/count_tokens", None, 400, "invalid_request_error"),
        ("GET", "/v1/nothing", Some(anthropic), 404, "not_found_error"),
    ] {
        let ask =
            header.into_iter().fold(Request::new(method, path), |ask, (name, value)| ask.header(name, value));
        let answer = gateway.client().send(ask);
        let id = answer.header("request-id").map(str::to_owned);
        let error = answer.expect(status);
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!(kind)), "{path}");
        assert_eq!(error["request_id"].as_str(), id.as_deref(), "{path}");
    }
    for (method, path, status, word) in [
        ("POST", "/v1beta/nothing", 404, "NOT_FOUND"),
        ("POST", "/gemini/v1/nothing", 404, "NOT_FOUND"),
        ("POST", "/v1internal:loadCodeAssist", 404, "NOT_FOUND"),
    ] {
        let error = gateway.client().send(Request::new(method, path)).expect(status);
        assert_eq!(error["error"]["status"], word, "{path}: {error}");
        assert_eq!(error["error"]["code"], status, "{path}: {error}");
    }
    for (method, path, status, kind) in [
        ("PUT", "/chat/completions", 405, "invalid_request_error"),
        ("PUT", "/v1/responses", 405, "invalid_request_error"),
        ("POST", "/responses/anything", 404, "invalid_request_error"),
        ("POST", "/responses/anything/compact", 404, "invalid_request_error"),
        ("POST", "/v1/responses/anything", 405, "invalid_request_error"),
        ("POST", "/responses/compact", 400, "invalid_request_error"),
        ("GET", "/responses/compact", 426, "invalid_request_error"),
    ] {
        let error = gateway.client().send(Request::new(method, path)).expect(status);
        assert_eq!(error["error"]["type"], kind, "{method} {path}: {error}");
        assert_eq!(error["error"].get("param"), Some(&json!(null)), "{method} {path}: {error}");
    }
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let gateway = Gateway::start();
    for (method, path, allowed) in [
        ("PATCH", "/api/sites", &["GET", "POST"][..]),
        ("POST", "/api/sites/1", &["PUT", "DELETE"]),
        ("GET", "/v1/chat/completions", &["POST"]),
        ("DELETE", "/v1/models", &["GET"]),
    ] {
        let caller = if path.starts_with("/v1") { gateway.client() } else { gateway.admin() };
        let answer = caller.send(Request::new(method, path));
        assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text());
        let allow = answer.header("allow").unwrap_or_default().to_owned();
        let listed: Vec<&str> = allow.split(',').map(str::trim).collect();
        for method in allowed {
            assert!(listed.contains(method), "{path}: Allow: {allow}");
        }
        assert!(answer.json().is_object());
    }
}

#[test]
fn every_get_answers_head_without_a_body() {
    let gateway = Gateway::start();
    for (caller, path) in [
        (gateway.anyone(), "/api/desktop/health"),
        (gateway.admin(), "/api/sites"),
        (gateway.client(), "/v1/models"),
    ] {
        let mut connection = caller.connect();
        connection.write(&caller.bytes(Request::new("HEAD", path))).expect("sent");
        let head = connection.read_answer(true).expect("an answer");
        assert_eq!(head.status, 200, "{path}");
        // No body follows: the next answer begins right after the head.
        let next = connection.exchange(&caller.bytes(Request::new("GET", path)));
        assert_eq!(next.status, 200, "{path}");
        assert!(!next.body.is_empty(), "{path}");
    }
}

#[test]
fn requests_follow_each_other_on_one_connection_whatever_they_get() {
    let gateway = Gateway::start();
    let admin = gateway.admin();
    let mut connection = admin.connect();
    for (ask, status) in [
        (Request::new("GET", "/api/sites"), 200),
        (Request::post("/api/sites").json(&json!({"name": 7})), 400),
        (Request::new("GET", "/api/nothing"), 404),
        (Request::post("/api/sites").json_text("{"), 400),
        (Request::new("GET", "/api/sites"), 200),
    ] {
        assert_eq!(connection.exchange(&admin.bytes(ask)).status, status);
    }
}

// === CORS and request ids ===

#[test]
fn a_preflight_is_answered_without_authentication() {
    let gateway = Gateway::start();
    for path in ["/api/sites", "/v1/chat/completions"] {
        let ask = Request::new("OPTIONS", path)
            .header("origin", "https://console.example")
            .header("access-control-request-method", "PUT")
            .header("access-control-request-headers", "authorization, x-custom");
        let answer = gateway.anyone().send(ask);
        assert_eq!(answer.status, 204, "{}", answer.text());
        assert!(answer.body.is_empty());
        let allowed = path.starts_with("/v1").then_some("*");
        assert_eq!(answer.header("access-control-allow-origin"), allowed, "{path}");
        assert_eq!(answer.header("access-control-allow-headers"), Some("authorization, x-custom"));
        let methods = answer.header("access-control-allow-methods").unwrap_or_default();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
            assert!(methods.contains(method), "{method} is not in {methods}");
        }
        let vary = answer.header("vary").unwrap_or_default().to_lowercase();
        assert!(vary.contains("access-control-request-headers"), "vary: {vary}");
    }
}

#[test]
fn options_that_is_no_preflight_is_a_bad_request() {
    let gateway = Gateway::start();
    let answer = gateway.anyone().send(Request::new("OPTIONS", "/api/sites"));
    assert_eq!(answer.status, 400);
}

#[test]
fn pages_of_any_origin_may_read_the_proxy_and_only_its_own_the_admin_api() {
    let foreign = "https://console.example";
    let gateway = Gateway::start();
    let own = format!("http://{}", gateway.address());
    let any = Gateway::with(&[("CORS_ALLOWED_ORIGINS", "*")]);
    let named = Gateway::with(&[("CORS_ALLOWED_ORIGINS", "https://console.example/")]);
    for (gateway, path, origin, status, allowed) in [
        (&gateway, "/v1/models", foreign, 401, Some("*")),
        (&gateway, "/api/sites", foreign, 401, None),
        (&gateway, "/%61pi/sites", foreign, 401, None),
        (&gateway, "/api/desktop/health", foreign, 200, None),
        (&gateway, "/metrics", foreign, 401, None),
        (&gateway, "/api/sites", own.as_str(), 401, Some(own.as_str())),
        (&any, "/api/sites", foreign, 401, Some("*")),
        (&named, "/api/sites", foreign, 401, Some(foreign)),
        (&named, "/v1/models", foreign, 401, Some(foreign)),
        (&named, "/v1/models", "https://other.example", 401, None),
    ] {
        let answer = gateway.anyone().send(Request::new("GET", path).header("origin", origin));
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), allowed, "{path} {origin}");
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let exposed = answer.header("access-control-expose-headers").unwrap_or_default();
        assert_eq!(exposed.to_lowercase().contains("retry-after"), allowed.is_some(), "{path}: {exposed:?}");
        // All others: x-should-retry, x-switchyard-estimated, limits.
        assert_eq!(exposed.ends_with(", *"), allowed.is_some(), "{path}: {exposed:?}");
        let varies = answer.header("vary").unwrap_or_default().to_lowercase().contains("origin");
        assert_eq!(varies, allowed != Some("*"), "{path} {origin}");
    }
}

#[test]
fn every_proxy_answer_has_a_request_id_of_its_own() {
    let gateway = Gateway::start();
    let mut seen = std::collections::HashSet::new();
    for path in ["/v1/models", "/v1/models", "/v1/nothing"] {
        let answer = gateway.client().get(path);
        let id = answer.header("x-request-id").expect("an x-request-id").to_owned();
        assert!(seen.insert(id), "a request id came twice");
    }
}

#[test]
fn a_panic_or_an_odd_request_never_takes_the_process_down() {
    let mut gateway = Gateway::start();
    let odd: [Value; 4] = [json!({"model": "\u{0}"}), json!({"model": "é/../%00"}), json!({}), json!([])];
    for body in odd {
        for path in ["/v1/chat/completions", "/v1/messages", "/api/sites", "/api/accounts"] {
            let caller = if path.starts_with("/v1") { gateway.client() } else { gateway.admin() };
            let status = caller.post(path, &body).status;
            assert!((400..=503).contains(&status) && status != 500, "{path} {body}: {status}");
        }
    }
    assert!(gateway.is_running());
}
