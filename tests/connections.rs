//! Connections of clients: what happens to one after a refusal, how it ends, how much a client may hold that never
//! completes a request, and where one request ends and the next begins.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::{self, Answer, Connection, Gateway, PROXY_TOKEN, Request, SOON};

const MODEL: &str = "model-lines";
const HEALTH: &[u8] = b"GET /api/desktop/health HTTP/1.1\r\nhost: x\r\n\r\n";

fn is_closing(answer: &Answer) -> bool {
    answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

fn serves_on(connection: &mut Connection) {
    assert_eq!(connection.exchange(HEALTH).status, 200);
}

/// Builds the head of a POST with this line, and with the framing of its body.
fn head(path: &str, lines: &str, framing: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{lines}{framing}\r\n")
        .into_bytes()
}

/// Builds a body of this length with the header that frames it, in both ways.
fn framed(length: usize) -> [(String, Vec<u8>); 2] {
    let chunk = 1000.min(length);
    let mut chunked = format!("{chunk:x}\r\n{}\r\n", "x".repeat(chunk)).repeat(length / chunk);
    chunked += "0\r\n\r\n";
    [
        (format!("content-length: {length}\r\n"), vec![b'x'; length]),
        ("transfer-encoding: chunked\r\n".to_owned(), chunked.into_bytes()),
    ]
}

/// Returns requests that are refused before their bodies are read: a gateway, a path, a header, the status.
fn refusals() -> Vec<(Gateway, &'static str, String, u16)> {
    let bearer = |token: &str| format!("authorization: Bearer {token}\r\n");
    let (chat, admin) = ("/v1/chat/completions", "/api/sites");
    let with_key = Gateway::start();
    let key = json!({"name": "k", "key": "sk-disabled-key", "supportedModels": ["*"], "enabled": false});
    with_key.admin().post("/api/downstream-keys", &key).expect(200);
    // Longer than the start of the other gateways takes.
    let window = ("REQUEST_RATE_LIMIT_WINDOW_MS", "600000");
    let asked_often = Gateway::with(&[("REQUEST_RATE_LIMIT_MAX", "1"), window]);
    asked_often.client().get("/v1/models");
    let used_often = Gateway::with(&[("AUTHENTICATED_RATE_LIMIT_MAX", "1"), window]);
    used_often.client().get("/v1/models").expect(200);
    let coded = format!("{}content-encoding: rot13\r\n", bearer(PROXY_TOKEN));
    vec![
        (Gateway::start(), chat, String::new(), 401),
        (Gateway::start(), chat, bearer("sk-nobodys-key"), 403),
        (with_key, chat, bearer("sk-disabled-key"), 403),
        (asked_often, chat, bearer(PROXY_TOKEN), 429),
        (used_often, chat, bearer(PROXY_TOKEN), 429),
        (Gateway::start(), "/v1/nothing", bearer(PROXY_TOKEN), 404),
        (Gateway::start(), "/v1/models", bearer(PROXY_TOKEN), 405),
        (Gateway::start(), chat, coded, 415),
        (Gateway::start(), admin, String::new(), 401),
        (Gateway::start(), admin, bearer(PROXY_TOKEN), 403),
        (Gateway::start(), "/api/nothing", bearer(support::ADMIN_TOKEN), 404),
        (Gateway::start(), "/v1/files", String::new(), 401),
    ]
}

// === refusals ===

#[test]
fn a_refusal_reads_a_small_body_away_and_keeps_the_connection() {
    for (gateway, path, header, status) in refusals() {
        for (framing, body) in framed(20_000) {
            let mut connection = gateway.anyone().connect();
            connection.write(&head(path, &header, &framing)).expect("sent");
            connection.write(&body).expect("sent");
            let answer = connection.read_answer(false).expect("an answer");
            assert_eq!(answer.status, status, "{path} {framing}: {}", answer.text());
            assert!(!is_closing(&answer), "{path} {status} {framing}");
            serves_on(&mut connection);
        }
    }
}

#[test]
fn a_refusal_of_a_large_body_says_that_the_connection_ends_and_is_read_by_who_sends_it_all() {
    for (gateway, path, header, status) in refusals() {
        for (framing, body) in framed(2_000_000) {
            let mut socket = TcpStream::connect(gateway.address()).expect("connected");
            socket.set_read_timeout(Some(SOON)).expect("a time-out");
            socket.write_all(&head(path, &header, &framing)).expect("sent");
            socket.write_all(&body).expect("all of it is taken");
            let mut answer = String::new();
            socket.read_to_string(&mut answer).expect("the end, and no reset");
            let start = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&start), "{path} {framing}: {answer}");
            assert!(
                answer.to_lowercase().contains("\r\nconnection: close\r\n"),
                "{path} {framing}: {answer}"
            );
        }
    }
}

#[test]
fn a_refused_client_that_waits_to_be_asked_for_its_body_is_not_asked() {
    let gateway = Gateway::start();
    let mut socket = TcpStream::connect(gateway.address()).expect("connected");
    socket.set_read_timeout(Some(SOON)).expect("a time-out");
    let framing = "expect: 100-continue\r\ncontent-length: 9\r\n";
    socket.write_all(&head("/v1/chat/completions", "", framing)).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("the end, and no reset");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
}

#[test]
fn clients_that_keep_their_connections_lose_no_request_to_a_refusal() {
    let gateway = Gateway::start();
    let body =
        json!({"model": MODEL, "messages": [{"role": "user", "content": "x".repeat(30_000)}]}).to_string();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let wrong = gateway.with_token("sk-nobodys-key");
                let mut connection = wrong.connect();
                for _ in 0..30 {
                    let ask = Request::post("/v1/chat/completions").json_text(body.clone());
                    let bytes = wrong.bytes(ask);
                    // The head comes first, as from clients that produce the body while they send it.
                    let (first, second) = bytes.split_at(bytes.len() - body.len());
                    connection.write(first).expect("the connection is open");
                    connection.write(second).expect("the connection is open");
                    let answer = connection.read_answer(false).expect("an answer");
                    assert_eq!(answer.status, 403, "{}", answer.text());
                    assert!(!is_closing(&answer));
                }
            });
        }
    });
}

// === requests that never become complete ===

#[test]
fn a_half_sent_request_does_not_hold_up_the_exit() {
    let json = "content-type: application/json\r\ncontent-length: 100\r\n";
    let form = "content-type: multipart/form-data; boundary=b\r\ncontent-length: 100\r\n";
    let ask = |path: &str, lines: &str, body: &str| {
        let token = format!("authorization: Bearer {PROXY_TOKEN}\r\n");
        format!("POST {path} HTTP/1.1\r\nhost: x\r\n{token}{lines}\r\n{body}")
    };
    for (bytes, status) in [
        ("GET /api/desktop/health HT".to_owned(), None),
        ("GET /api/desktop/health HTTP/1.1\r\nhost: x\r\n".to_owned(), None),
        (ask("/v1/chat/completions", json, "{"), Some(503)),
        (ask("/v1/files", form, "--b\r\n"), Some(503)),
    ] {
        // So long that the test would not wait for it.
        let mut gateway = Gateway::with(&[("SHUTDOWN_GRACE_SEC", "600"), ("CLIENT_IDLE_TIMEOUT_SEC", "600")]);
        let mut connection = gateway.anyone().connect();
        // Once the first request is answered, the second has been read.
        connection.write(&[HEALTH, bytes.as_bytes()].concat()).expect("sent");
        assert_eq!(connection.read_answer(false).expect("an answer").status, 200);
        gateway.signal("TERM");
        if let Some(status) = status {
            assert_eq!(connection.read_answer(false).expect("an answer").status, status, "{bytes}");
        }
        assert!(connection.closes_within(SOON), "{bytes}");
        assert_eq!(gateway.wait_for_exit().code(), Some(0), "{bytes}");
    }
}

#[test]
fn a_body_that_comes_too_slowly_is_not_waited_for() {
    let (gateway, _upstream) = Gateway::serving(&[MODEL]);
    let form = "multipart/form-data; boundary=b";
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    std::thread::scope(|scope| {
        for (path, token, kind, start) in [
            ("/v1/chat/completions", bearer(PROXY_TOKEN), "application/json", "{"),
            ("/api/sites", bearer(support::ADMIN_TOKEN), "application/json", "{"),
            (
                "/v1/files",
                bearer(PROXY_TOKEN),
                form,
                "--b\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\n",
            ),
            ("/v1/images/edits", bearer(PROXY_TOKEN), form, "--b\r\n"),
        ] {
            let address = gateway.address();
            scope.spawn(move || {
                let mut socket = TcpStream::connect(address).expect("connected");
                socket.set_read_timeout(Some(4 * SOON)).expect("a time-out");
                let mut writer = socket.try_clone().expect("a second handle");
                let head = format!(
                    "POST {path} HTTP/1.1\r\nhost: x\r\n{token}\r\ncontent-type: {kind}\r\ncontent-length: 9999\r\n\r\n"
                );
                writer.write_all((head + start).as_bytes()).expect("sent");
                // A byte now and then, so that it is never silent.
                let trickle = std::thread::spawn(move || {
                    while writer.write_all(b" ").is_ok() {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                });
                let mut answer = String::new();
                let read = socket.read_to_string(&mut answer);
                assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {read:?} {answer}");
                assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{path}: {answer}");
                drop(socket);
                trickle.join().expect("no panic there");
            });
        }
    });
}

#[test]
fn a_head_that_is_too_long_is_refused_before_its_end() {
    let gateway = Gateway::start();
    let long = "a".repeat(17 << 10);
    for (start, end, status) in [
        (format!("GET /{long}"), " HTTP/1.1\r\nhost: x\r\n\r\n", 414),
        (format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}"), "\r\n\r\n", 431),
    ] {
        for whole in [start.clone(), format!("{start}{end}")] {
            let mut connection = gateway.anyone().connect();
            let answer = connection.exchange(whole.as_bytes());
            assert_eq!(answer.status, status, "{}", &start[..20]);
            assert!(is_closing(&answer));
            assert!(connection.closes_within(SOON));
        }
    }
    let fits =
        format!("GET /api/desktop/health HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", &long[..15 << 10]);
    let mut connection = gateway.anyone().connect();
    assert_eq!(connection.exchange(fits.as_bytes()).status, 200);
    assert_eq!(connection.exchange(fits.as_bytes()).status, 200);
}

#[test]
fn unfinished_heads_are_bounded_together_and_the_oldest_make_room() {
    let gateway = Gateway::start();
    let start = format!("GET /api/desktop/health HTTP/1.1\r\nhost: x\r\nx-long: {}", "a".repeat(15 << 10));
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut connection = gateway.anyone().connect();
        connection.write(start.as_bytes()).expect("sent");
        held.push(connection);
    }
    let (mut oldest, mut newest) = (held.remove(0), held.remove(298));
    let answer = oldest.read_answer(false).expect("an answer");
    assert_eq!(answer.status, 408);
    assert!(is_closing(&answer) && oldest.closes_within(SOON));
    assert_eq!(newest.exchange(b"\r\n\r\n").status, 200, "who goes on is served");
}

// === where a request ends ===

#[test]
fn a_body_length_that_is_said_twice_is_refused_however_the_head_comes() {
    let gateway = Gateway::start();
    let token = format!("authorization: Bearer {PROXY_TOKEN}\r\n");
    for lines in [
        ["content-length: 5\r\n", "transfer-encoding: chunked\r\n"],
        ["transfer-encoding: chunked\r\n", "content-length: 5\r\n"],
    ] {
        let [first, second] = lines;
        let start = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{token}{first}");
        let end = format!("{second}\r\n5\r\nhello\r\n0\r\n\r\n");
        // Once the request before it is answered, the first half has been read.
        let mut connection = gateway.anyone().connect();
        connection.write(&[HEALTH, start.as_bytes()].concat()).expect("sent");
        assert_eq!(connection.read_answer(false).expect("an answer").status, 200);
        let answer = connection.exchange(end.as_bytes());
        assert_eq!(answer.status, 400, "in two segments: {}", answer.text());
        assert!(is_closing(&answer) && connection.closes_within(SOON));

        let mut connection = gateway.anyone().connect();
        let whole = [HEALTH, start.as_bytes(), end.as_bytes(), HEALTH].concat();
        connection.write(&whole).expect("sent");
        assert_eq!(connection.read_answer(false).expect("an answer").status, 200);
        let answer = connection.read_answer(false).expect("an answer");
        assert_eq!(answer.status, 400, "the second of three: {}", answer.text());
        assert!(is_closing(&answer) && connection.closes_within(SOON));
    }
}

#[test]
fn a_body_that_quotes_such_a_head_is_a_body() {
    let (gateway, _upstream) = Gateway::serving(&[MODEL]);
    let quoted = "\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}).to_string();
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunks = [chunk(&body), chunk(quoted), "0\r\n\r\n".to_owned()].concat();
    let lines = format!("authorization: Bearer {PROXY_TOKEN}\r\n");
    let quoting =
        [&head("/v1/chat/completions", &lines, "transfer-encoding: chunked\r\n")[..], chunks.as_bytes()]
            .concat();
    let honest = format!("content-length: {}\r\n", body.len());
    let honest = [&head("/v1/chat/completions", &lines, &honest)[..], body.as_bytes()].concat();
    let mut connection = gateway.anyone().connect();
    // With these bytes after it, it is not JSON, as its reader says; the next request is not affected.
    assert_eq!(connection.exchange(&quoting).status, 400);
    let answer = connection.exchange(&honest);
    assert_eq!(answer.status, 200, "{}", answer.text());
    serves_on(&mut connection);
}

#[test]
fn an_idle_connection_keeps_a_small_buffer_of_a_long_request_and_serves_on() {
    const CONNECTIONS: u64 = 300;
    let gateway = Gateway::start();
    let request =
        gateway.client().bytes(Request::post("/v1/chat/completions").json_text("x".repeat(300_000)));
    let refuse = |connection: &mut Connection| assert_eq!(connection.exchange(&request).status, 400);
    refuse(&mut Connection::open(gateway.address()));
    let before = gateway.resident_kib();
    let mut idle: Vec<Connection> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = Connection::open(gateway.address());
            refuse(&mut connection);
            connection
        })
        .collect();
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < CONNECTIONS * 160, "{CONNECTIONS} idle connections take {grown} KiB");
    for connection in &mut idle {
        serves_on(connection);
        refuse(connection);
        serves_on(connection);
    }
}
