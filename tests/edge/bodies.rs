//! Bodies: how long they may be, compressed ones, and those that are not JSON objects.

use serde_json::json;

use super::{MODEL, chat_body, raw_chat};
use crate::support::{Gateway, Request, Upstream, wire};

#[test]
fn a_body_for_an_operator_is_bounded_by_what_it_takes_to_read_it() {
    let gateway = Gateway::start();
    let of = |bytes: usize| format!("{{\"name\":\"{}\"}}", "a".repeat(bytes));
    let many = |values: usize| format!("{{\"name\":[\",\"{}]}}", ",0.0000000000".repeat(values));
    let admin = gateway.admin();
    for (body, status) in [
        (of(1 << 20), 400),
        (of(19 << 20), 400),
        (of(20 << 20), 413),
        (many(190_000), 400),
        (many(300_000), 413),
    ] {
        let bytes = body.len();
        assert_eq!(admin.send(Request::post("/api/sites").json_text(body)).status, status, "{bytes}");
    }
    // Requests in the proxy test may be as long as those of clients.
    let tried = admin.send(Request::post("/api/test/proxy").json_text(of(3 << 20)));
    assert_eq!(tried.status, 400, "{}", tried.text());
}

#[test]
fn a_body_over_the_limit_is_too_large_however_it_is_framed() {
    let gateway = Gateway::with(&[("REQUEST_BODY_LIMIT_BYTES", "1048576")]);
    let big = format!("{{\"name\":\"{}\"}}", "a".repeat(1 << 20));
    let admin = gateway.admin();
    assert_eq!(admin.send(Request::post("/api/sites").json_text(big.clone())).status, 413);
    let proxy = gateway.client().send(Request::post("/v1/chat/completions").json_text(big.clone()));
    let error = proxy.expect(413);
    assert!(error["error"]["message"].is_string(), "{error}");
    // Only announced: it is refused before it is sent.
    let head = "host: x\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n";
    assert_eq!(gateway.anyone().connect().exchange(&raw_chat(head, "")).status, 413);
    // Never announced: its bytes are counted.
    let head = "host: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let chunked = format!("{:x}\r\n{big}\r\n0\r\n\r\n", big.len());
    assert_eq!(gateway.anyone().connect().exchange(&raw_chat(head, &chunked)).status, 413);
}

#[test]
fn a_client_that_sends_a_body_over_the_limit_to_its_end_reads_the_answer() {
    let gateway = Gateway::with(&[("REQUEST_BODY_LIMIT_BYTES", "1048576")]);
    // Far more than the socket buffers hold: a closed connection would break the pipe.
    let body = "x".repeat(24 << 20);
    let head = "host: x\r\ncontent-type: application/json\r\n";
    let counted = raw_chat(&format!("{head}content-length: {}\r\n", body.len()), &body);
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let chunked = raw_chat(&format!("{head}transfer-encoding: chunked\r\n"), &chunks);
    for ask in [counted, chunked] {
        let mut connection = gateway.anyone().connect();
        connection.write(&ask).expect("all of it is taken");
        assert_eq!(connection.read_answer(false).expect("an answer").status, 413);
    }
}

#[test]
fn a_body_just_under_the_limit_passes() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(&[("REQUEST_BODY_LIMIT_BYTES", "1048576")]).in_front_of("openai", &upstream);
    let body = json!({"model": MODEL,
        "messages": [{"role": "user", "content": "a".repeat((1 << 20) - 200)}]});
    gateway.client().post("/v1/chat/completions", &body).expect(200);
}

#[test]
fn a_compressed_body_is_read_and_counted_as_what_it_unfolds_to() {
    let gateway = Gateway::with(&[("REQUEST_BODY_LIMIT_BYTES", "1048576")]);
    let upstream = Upstream::start(&[MODEL]);
    gateway.add("site", &upstream);
    let sent = |coding: &str, body: Vec<u8>| {
        let ask = Request::new("POST", "/v1/chat/completions").header("content-encoding", coding);
        gateway.client().send(ask.header("content-type", "application/json").body(body))
    };
    let plain = chat_body().into_bytes();
    type Encode = fn(&[u8]) -> Vec<u8>;
    let codings = [("gzip", wire::gzip as Encode), ("br", wire::brotli), ("zstd", wire::zstd)];
    for (coding, encode) in codings {
        sent(coding, encode(&plain)).expect(200);
        let asked = upstream.last("/v1/chat/completions");
        assert_eq!((asked.json()["model"].as_str(), asked.header("content-encoding")), (Some(MODEL), None));
        let cut = encode(&plain);
        let message =
            sent(coding, cut[..cut.len() - 20].to_vec()).expect(400)["error"]["message"].to_string();
        assert!(message.contains("cannot be decoded") && message.contains(coding), "{message}");
    }
    sent("gzip, zstd", wire::zstd(&wire::gzip(&plain))).expect(200);
    sent("identity", plain.clone()).expect(200);
    sent("gzip", plain.clone()).expect(200);
    sent("zstd", wire::zstd_of_blanks(1 << 30)).expect(413);
    let refused = sent("rot13", plain);
    assert_eq!(refused.header("accept-encoding"), Some("gzip, deflate, br, zstd"));
    let error = refused.expect(415);
    assert_eq!(error["error"]["type"], "invalid_request_error");
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("Content-Encoding \"rot13\"")));

    // Far more than the socket buffers hold, and the client can still read the answer.
    assert_eq!(sent("rot13", vec![b'x'; 1 << 20]).status, 415);
    let malformed = |length| [&[0x1f, 0x8b, 8, 0][..], &vec![0xff; length]].concat();
    assert_eq!(sent("gzip", malformed(1 << 19)).status, 400);
    assert_eq!(sent("gzip", malformed(24 << 20)).status, 413);

    let site = wire::gzip(json!({"name": "b", "url": "http://127.0.0.1:9"}).to_string().as_bytes());
    let ask = Request::new("POST", "/api/sites").header("content-encoding", "gzip");
    gateway.admin().send(ask.header("content-type", "application/json").body(site)).expect(200);
}

#[test]
fn a_compressed_body_that_comes_to_little_is_bounded_too() {
    let gateway = Gateway::with(&[("REQUEST_BODY_LIMIT_BYTES", "1048576")]);
    let upstream = Upstream::start(&[MODEL]);
    gateway.add("site", &upstream);
    let sent = |coding: &str, body: &[u8]| {
        let ask = Request::new("POST", "/v1/chat/completions").header("content-encoding", coding);
        gateway.client().send(ask.header("content-type", "application/json").body(body))
    };
    let plain = chat_body().into_bytes();
    let skipped = |length: u32| [&[0x50, 0x2a, 0x4d, 0x18][..], &length.to_le_bytes()].concat();
    let blanks = wire::zstd_of_blanks(1 << 30);

    // On the wire: skippable frames count although they decode to nothing.
    let padded = |length: u32| [skipped(length), vec![0; length as usize], wire::zstd(&plain)].concat();
    sent("zstd", &padded(1 << 19)).expect(200);
    sent("zstd", &padded(1 << 20)).expect(413);
    // Between two codings: the outer one unfolds into a frame that the inner one skips.
    sent("zstd, zstd", &[wire::zstd(&skipped(1 << 30)), blanks.clone()].concat()).expect(413);
    // After the end of the inner one.
    let error = sent("gzip, zstd", &[wire::zstd(&wire::gzip(&plain)), blanks].concat()).expect(400);
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("not valid gzip")), "{error}");
    // And too many codings.
    sent("deflate, deflate, deflate", &plain).expect(415);
}

/// Returns bodies that are not a JSON object, as text or bytes.
fn not_an_object() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("cut off", b"{\"model\":".to_vec()),
        ("two values", b"{} {}".to_vec()),
        ("trailing comma", b"{\"a\":1,}".to_vec()),
        ("an array", b"[]".to_vec()),
        ("a string", b"\"x\"".to_vec()),
        ("null", b"null".to_vec()),
        ("a number", b"17".to_vec()),
        ("not UTF-8", b"{\"model\":\"\xff\xfe\",\"name\":\"\xff\"}".to_vec()),
        ("a lone surrogate half cut", b"{\"model\":\"\\ud8\"}".to_vec()),
        ("bare control character", b"{\"model\":\"a\nb\"}".to_vec()),
        ("nested too deeply", {
            let deep = [vec![b'['; 5000], vec![b']'; 5000]].concat();
            [&b"{\"model\":\"m\",\"messages\":"[..], &deep, b"}"].concat()
        }),
        ("nested too deeply and never closed", vec![b'['; 200_000]),
    ]
}

#[test]
fn a_body_that_is_not_a_json_object_is_a_bad_request_on_the_admin_api() {
    let gateway = Gateway::start();
    for (what, body) in not_an_object() {
        let answer = gateway.admin().send(Request::post("/api/sites").json_text(body));
        let error = answer.expect(400);
        assert!(error["error"].is_string(), "{what}: {error}");
        assert!(error["message"].is_string(), "{what}: {error}");
    }
}

#[test]
fn a_body_that_is_not_a_json_object_is_a_bad_request_on_every_proxy_surface() {
    let gateway = Gateway::start();
    for path in [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/images/generations",
    ] {
        for (what, body) in not_an_object() {
            let answer = gateway.client().send(Request::post(path).json_text(body));
            let error = answer.expect(400);
            assert_eq!(error["error"]["type"], "invalid_request_error", "{path}, {what}");
            assert!(error["error"]["message"].is_string(), "{path}, {what}");
            assert_eq!(error["type"] == "error", path == "/v1/messages", "{path}: {error}");
        }
    }
}

#[test]
fn a_missing_or_blank_model_is_named() {
    let gateway = Gateway::start();
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"] {
        for model in [json!(null), json!(""), json!("  "), json!(7), json!(["m"])] {
            let body = json!({"model": model, "input": "x", "max_tokens": 5,
                "messages": [{"role": "user", "content": "x"}]});
            let error = gateway.client().post(path, &body).expect(400);
            let message = error["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("model"), "{path} {model}: {error}");
        }
    }
}

#[test]
fn an_empty_body_is_an_empty_object_on_the_admin_api() {
    let gateway = Gateway::start();
    let answer = gateway.admin().send(Request::post("/api/sites").header("content-type", "application/json"));
    let error = answer.expect(400);
    let message = error["error"].as_str().unwrap_or_default();
    assert!(message.contains("name"), "the first required field is named: {error}");
}
