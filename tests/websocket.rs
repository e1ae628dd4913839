//! The WebSocket protocol at `/v1/responses`: handshake, frames, close codes, memory.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::RESPONSES;
use crate::support::{
    BINARY, CLOSE, CONTINUED, Caller, Gateway, Incoming, PING, PROXY_TOKEN, Reply, Request, Socket, TEXT,
    Upstream, eventually, head, wire,
};

const MODEL: &str = "model-socket";
/// The longest message of a client, in bytes.
const LONGEST: usize = 20 << 20;

fn serving(variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(variables).in_front_of("openai", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

fn frame() -> String {
    json!({"type": "response.create", "model": MODEL, "input": "Which way? \u{1f686}"}).to_string()
}

#[track_caller]
fn is_answered(socket: &mut Socket) {
    let events = socket.turn();
    assert_eq!(events.last().expect("an event")["type"], "response.completed", "{events:?}");
}

// === the handshake ===

#[test]
fn a_socket_is_opened_at_both_paths_with_any_form_of_token() {
    let gateway = Gateway::start();
    for path in [RESPONSES, "/responses"] {
        let ask = || Caller::socket_ask(path);
        let with_query = Caller::socket_ask(&format!("{path}?key={PROXY_TOKEN}"));
        for ask in [
            ask().header("authorization", &format!("Bearer {PROXY_TOKEN}")),
            ask().header("x-api-key", PROXY_TOKEN),
            with_query,
        ] {
            let ask = ask
                .header("x-codex-turn-state", "state-1")
                .header("sec-websocket-extensions", "permessage-deflate; client_max_window_bits");
            let socket = gateway.anyone().try_socket(ask).unwrap_or_else(|answer| panic!("{answer:?}"));
            let opened = &socket.opened;
            assert_eq!(opened.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
            assert_eq!(opened.header("upgrade"), Some("websocket"));
            assert_eq!(opened.header("connection").map(str::to_lowercase).as_deref(), Some("upgrade"));
            assert_eq!(opened.header("x-codex-turn-state"), Some("state-1"));
            assert_eq!(opened.header("sec-websocket-extensions"), None, "none is spoken");
        }
    }
}

#[test]
fn a_caller_that_is_not_let_in_gets_a_plain_answer() {
    let gateway = Gateway::start();
    for (token, status, code) in [(None, 401, "missing_api_key"), (Some("wrong"), 403, "invalid_api_key")] {
        let mut ask = Caller::socket_ask(RESPONSES);
        if let Some(token) = token {
            ask = ask.header("authorization", &format!("Bearer {token}")).header("x-api-key", PROXY_TOKEN);
        }
        let answer = gateway.anyone().try_socket(ask).err().expect("refused");
        assert_eq!(answer.expect(status)["error"]["code"], code);
        assert_eq!(answer.header("connection"), Some("close"));
    }
}

#[test]
fn a_handshake_that_is_none_is_refused() {
    let gateway = Gateway::start();
    let plain =
        || Request::new("GET", RESPONSES).header("upgrade", "websocket").header("connection", "upgrade");
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    for (ask, status) in [
        (Request::new("GET", RESPONSES), 426),
        (Request::new("GET", "/responses"), 426),
        (Request::new("GET", "/v1/responses/compact"), 426),
        (Request::new("GET", RESPONSES).header("upgrade", "h2c").header("connection", "upgrade"), 426),
        (Request::new("GET", RESPONSES).header("upgrade", "websocket"), 426),
        (plain().header("sec-websocket-key", key), 426),
        (plain().header("sec-websocket-key", key).header("sec-websocket-version", "8"), 426),
        (plain().header("sec-websocket-version", "13"), 400),
        (plain().header("sec-websocket-version", "13").header("sec-websocket-key", "c2hvcnQ="), 400),
        (Caller::socket_ask(RESPONSES).body("x"), 400),
    ] {
        let answer = gateway.client().try_socket(ask).err().expect("refused");
        let error = answer.expect(status)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{answer:?}");
    }
    let old = plain().header("sec-websocket-key", key).header("sec-websocket-version", "8");
    let answer = gateway.client().try_socket(old).err().expect("refused");
    assert_eq!(answer.header("sec-websocket-version"), Some("13"));
    // Other paths do not speak it, and no client is left hanging.
    for (path, status) in [("/v1/models", 200), ("/v1/nothing", 404), ("/api/desktop/health", 200)] {
        let answer = gateway.client().try_socket(Caller::socket_ask(path)).err().expect("no socket");
        assert_eq!(answer.status, status, "{path}");
    }
}

// === frames ===

#[test]
fn a_message_in_fragments_with_pings_between_them_is_one_message() {
    let (gateway, upstream) = serving(&[]);
    let mut socket = gateway.client().socket();
    let text = frame().into_bytes();
    // Each byte in its own frame, so that characters are cut as well.
    for (index, byte) in text.iter().enumerate() {
        socket.frame(index + 1 == text.len(), if index == 0 { TEXT } else { CONTINUED }, &[*byte]);
        if index == 20 {
            socket.frame(true, PING, b"still there?");
        }
    }
    assert_eq!(socket.next(), Incoming::Pong(b"still there?".to_vec()));
    is_answered(&mut socket);
    assert!(upstream.last(RESPONSES).json().to_string().contains("Which way? \u{1f686}"));
}

#[test]
fn a_ping_is_answered_during_a_turn() {
    let (gateway, upstream) = serving(&[]);
    upstream.answer(RESPONSES, Reply::stall());
    let mut socket = gateway.client().socket();
    socket.send_text(&frame());
    upstream.last(RESPONSES);
    socket.frame(true, PING, b"1");
    assert_eq!(socket.next(), Incoming::Pong(b"1".to_vec()));
}

#[test]
fn a_close_is_echoed() {
    let gateway = Gateway::start();
    for code in [1000, 1001, 4000] {
        let mut socket = gateway.client().socket();
        socket.close(code);
        assert_eq!(socket.next(), Incoming::Close(code));
        assert_eq!(socket.next(), Incoming::End);
    }
}

#[test]
fn what_is_not_the_protocol_closes_the_socket_with_the_code_that_says_why() {
    let gateway = Gateway::start();
    let unmasked = [head(true, TEXT, 2, false), b"{}".to_vec()].concat();
    let mut extended = head(true, TEXT, 2, true);
    extended[0] |= 0x40;
    extended.extend([0, 0, 0, 0, b'{', b'}']);
    let masked = |is_last, kind, payload: &[u8]| {
        [head(is_last, kind, payload.len(), true), vec![0; 4], payload.to_vec()].concat()
    };
    for (bytes, code, what) in [
        (unmasked, 1002, "a client must mask"),
        (extended, 1002, "no extension was agreed on"),
        (masked(true, CONTINUED, b"x"), 1002, "nothing to be continued"),
        (masked(false, PING, b"x"), 1002, "control frames are whole"),
        (masked(true, PING, &[b'x'; 126]), 1002, "control frames are short"),
        (masked(true, 3, b"x"), 1002, "an unknown kind of frame"),
        (masked(true, TEXT, b"\xff\xfe"), 1007, "text is UTF-8"),
        (masked(true, CLOSE, b"x"), 1002, "half a close code"),
    ] {
        let mut socket = gateway.client().socket();
        socket.write(&bytes);
        assert_eq!(socket.closed_with(), code, "{what}");
    }
}

#[test]
fn a_binary_frame_is_refused_in_words_and_closes_the_socket() {
    let gateway = Gateway::start();
    let mut socket = gateway.client().socket();
    socket.frame(true, BINARY, frame().as_bytes());
    assert_eq!(socket.event()["status"], 400);
    assert_eq!(socket.closed_with(), 1003);
}

#[test]
fn a_message_over_the_limit_is_refused_before_it_is_read() {
    let (gateway, upstream) = serving(&[]);
    let before = gateway.resident_kib();
    let mut socket = gateway.client().socket();
    // Only announced.
    socket.write(&head(true, TEXT, LONGEST + 1, true));
    socket.write(&[0; 4]);
    assert_eq!(socket.event()["status"], 413);
    assert_eq!(socket.closed_with(), 1009);
    // In fragments, each of which would be short enough.
    let mut socket = gateway.client().socket();
    let piece = vec![b' '; 3 << 20];
    for index in 0..7 {
        socket.frame(false, if index == 0 { TEXT } else { CONTINUED }, &piece);
    }
    assert_eq!(socket.event()["status"], 413);
    assert_eq!(socket.closed_with(), 1009);
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "memory grew by {grown} KiB");
    // The longest allowed message is accepted.
    let mut socket = gateway.client().socket();
    let mut longest = json!({"type": "response.create", "model": MODEL, "input": ""});
    let room = LONGEST - longest.to_string().len() - 64;
    longest["input"] = json!("x".repeat(room));
    socket.send(&longest);
    is_answered(&mut socket);
    assert!(upstream.last(RESPONSES).body.len() > room);
}

#[test]
fn fragments_without_content_are_read_only_so_long() {
    let (gateway, _upstream) = serving(&[("REQUEST_BODY_LIMIT_BYTES", "1048576")]);
    let mut socket = gateway.client().socket();
    socket.frame(false, TEXT, b"");
    socket.flood_with(false, CONTINUED, b"", 4 << 20);
    assert_eq!(socket.event()["status"], 413);
    assert_eq!(socket.next(), Incoming::Close(1009));
}

#[test]
fn only_so_much_may_wait_for_a_turn() {
    let (gateway, upstream) = serving(&[]);
    upstream.answer(RESPONSES, Reply::stall());
    for (frames, length) in [(17, 10), (3, 9 << 20)] {
        let mut socket = gateway.client().socket();
        socket.send_text(&frame());
        let asked = upstream.last(RESPONSES);
        let waiting = "x".repeat(length);
        for _ in 0..frames {
            socket.send_text(&waiting);
        }
        assert_eq!(socket.closed_with(), 1008);
        eventually("the turn ends with its socket", || asked.hung_up().then_some(()));
    }
}

#[test]
fn an_idle_socket_outlives_the_limits_of_idle_connections() {
    let (gateway, _upstream) =
        serving(&[("REQUEST_HEADER_TIMEOUT_SEC", "1"), ("CLIENT_IDLE_TIMEOUT_SEC", "1")]);
    let mut idle_connection = gateway.client().connect();
    let mut socket = gateway.client().socket();
    assert!(idle_connection.closes_within(Duration::from_secs(10)));
    assert!(socket.is_silent_for(Duration::from_millis(1500)));
    socket.send_text(&frame());
    is_answered(&mut socket);
}

#[test]
fn a_socket_keeps_its_place_among_the_connections() {
    let (gateway, _upstream) = serving(&[("MAX_CONNECTIONS", "16")]);
    let mut sockets: Vec<Socket> = (0..15).map(|_| gateway.client().socket()).collect();
    let mut last = gateway.client().connect();
    // One more has to wait until another leaves.
    let mut waiting = gateway.client().connect();
    let health = b"GET /api/desktop/health HTTP/1.1\r\nhost: x\r\n\r\n";
    assert_eq!(last.exchange(health).status, 200);
    waiting.write(health).expect("sent");
    sockets.pop().expect("a socket").hang_up();
    assert_eq!(waiting.read_answer(false).expect("an answer").status, 200);
    sockets[0].send_text(&frame());
    is_answered(&mut sockets[0]);
}

// === memory and numbers ===

#[test]
fn a_slow_reader_slows_the_upstream_down_instead_of_filling_memory() {
    const READERS: usize = 8;
    let (gateway, upstream) = serving(&[]);
    let mut events = wire::response_events(MODEL);
    let delta = |text: &str| {
        wire::named(&json!({"type": "response.output_text.delta", "item_id": "msg_stub", "output_index": 0,
            "content_index": 0, "delta": text, "logprobs": []}))
    };
    let (filler, count) = (delta(&"x".repeat(16 << 10)), 4096);
    events.splice(5..5, std::iter::repeat_n(filler, count));
    let length: u64 = events.iter().map(|event| event.len() as u64).sum();
    upstream.answer(RESPONSES, Reply::events(&events));
    let before = gateway.resident_kib();
    let mut sockets: Vec<Socket> = (0..READERS).map(|_| gateway.client().socket()).collect();
    sockets.iter_mut().for_each(|socket| socket.send_text(&frame()));
    let sent = upstream.wait_until_stalled(RESPONSES, READERS);
    assert!(sent.iter().all(|&sent| sent < length), "{sent:?} of {length}");
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < (READERS as u64) << 10, "{grown} KiB for {READERS} readers: more than 1 MiB each");
    let events = sockets[0].turn();
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    assert_eq!(deltas.count(), count + 3, "a reader that wakes up gets everything");
}

#[test]
fn sockets_keep_no_memory_for_messages_that_have_passed() {
    const SOCKETS: u64 = 8;
    const LENGTH: u64 = 6 << 20;
    let gateway = Gateway::start();
    let before = gateway.resident_kib();
    let long = json!({"type": "of no turn", "text": "x".repeat(LENGTH as usize)});
    let _sockets: Vec<Socket> = (0..SOCKETS)
        .map(|_| {
            let mut socket = gateway.client().socket();
            socket.send(&long);
            assert_eq!(socket.event()["status"], 400);
            socket
        })
        .collect();
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < SOCKETS * LENGTH / 2 / 1024, "{grown} KiB for {SOCKETS} idle sockets");
}

#[test]
fn pings_of_a_client_that_takes_no_pongs_fill_no_memory() {
    let (gateway, _upstream) = serving(&[]);
    let mut socket = gateway.client().socket();
    let before = gateway.resident_kib();
    socket.flood(PING, &[b'x'; 125], 160 << 20);
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    assert_eq!(socket.next(), Incoming::Pong(vec![b'x'; 125]), "a reader that wakes up is answered");
}

#[test]
fn a_reader_that_stops_for_good_is_let_go() {
    let (gateway, upstream) = serving(&[("CLIENT_IDLE_TIMEOUT_SEC", "1")]);
    let mut events = wire::response_events(MODEL);
    events
        .splice(5..5, std::iter::repeat_n(events[4].clone().replace("Signals", &"x".repeat(16 << 10)), 4096));
    upstream.answer(RESPONSES, Reply::events(&events));
    let mut socket = gateway.client().socket();
    socket.send_text(&frame());
    let asked = upstream.last(RESPONSES);
    eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
    drop(socket);
}

#[test]
fn open_sockets_are_counted() {
    let gateway = Gateway::start();
    let open = || -> Option<Value> {
        let page = gateway.admin().get("/metrics").text();
        let line = page.lines().find_map(|line| line.strip_prefix("switchyard_websockets_open "))?;
        serde_json::from_str(line).ok()
    };
    assert_eq!(open(), Some(json!(0)));
    let sockets: Vec<Socket> = (0..3).map(|_| gateway.client().socket()).collect();
    eventually("all three are counted", || (open() == Some(json!(3))).then_some(()));
    drop(sockets);
    eventually("none is left", || (open() == Some(json!(0))).then_some(()));
}
