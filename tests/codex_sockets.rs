//! Codex over WebSockets, where the operator wants that: what clients get is what they would have got by HTTP.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::scope;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};
use support::{Gate, Gateway, Home, Proxy, Request, Setup, certificates, eventually, secured, wire};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

const MODEL: &str = "model-of-codex";
const SWITCH: (&str, &str) = ("CODEX_UPSTREAM_WEBSOCKET_ENABLED", "true");

/// A Codex that takes WebSockets, or refuses them.
struct Codex {
    address: SocketAddr,
    scheme: &'static str,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request, or a frame.
#[derive(Clone, Debug)]
struct Asked {
    /// `GET` for an upgrade.
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    /// What the only frame says, or the body.
    said: Value,
}

/// A connection, in clear or not.
trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// The stub's end of a WebSocket.
struct Talk(WebSocket<Box<dyn Wire>>);

/// What is done with a frame.
type Script = dyn Fn(&mut Talk) + Send + Sync;

// === impl Codex ===

impl Codex {
    fn start(script: impl Fn(&mut Talk) + Send + Sync + 'static) -> Self {
        Self::with("http", None, script)
    }

    /// One whose connections are over TLS.
    fn secured(script: impl Fn(&mut Talk) + Send + Sync + 'static) -> Self {
        Self::with("https", None, script)
    }

    /// Every upgrade is refused with this status; by HTTP it answers.
    fn refusing(status: u16) -> Self {
        Self::with("http", Some(status), |_| {})
    }

    fn with(
        scheme: &'static str,
        refusal: Option<u16>,
        script: impl Fn(&mut Talk) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (script, seen): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                std::thread::spawn(move || {
                    let wire: Box<dyn Wire> = match scheme {
                        "https" => Box::new(secured(stream)),
                        _ => Box::new(stream),
                    };
                    serve(wire, refusal, &*script, &seen);
                });
            }
        });
        Self { address, scheme, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic there").clone()
    }

    fn methods(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.method).collect()
    }

    fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

// === impl Asked ===

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

// === impl Talk ===

impl Talk {
    fn say(&mut self, frame: &Value) {
        self.send(&frame.to_string());
    }

    fn send(&mut self, text: &str) {
        // The other side may be gone.
        let _ = self.0.send(Message::Text(Utf8Bytes::from(text)));
    }

    /// So many frames of a whole answer.
    fn answer_in(&mut self, frames: usize) {
        for frame in answer().iter().take(frames) {
            self.say(frame);
        }
    }

    fn answer(&mut self) {
        self.answer_in(usize::MAX);
        self.wait_for_end();
    }

    /// The next request over the same socket; `None` when the other end leaves.
    fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.read() {
                Ok(Message::Text(frame)) => return serde_json::from_str(&frame).ok(),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                _ => return None,
            }
        }
    }

    fn wait_for_end(&mut self) {
        while self.0.read().is_ok() {}
    }
}

/// The frames of an answer.
fn answer() -> Vec<Value> {
    let data = |event: String| {
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect("data").to_owned();
        serde_json::from_str(&data).expect("JSON")
    };
    wire::response_events(MODEL).into_iter().map(data).collect()
}

fn serve(mut stream: Box<dyn Wire>, refusal: Option<u16>, script: &Script, seen: &Mutex<Vec<Asked>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let mut lines = head.lines();
    let mut line = lines.next().expect("a request line").split(' ').map(str::to_owned);
    let (method, target) = (line.next().expect("a method"), line.next().expect("a target"));
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut asked = Asked { method, target, headers, said: Value::Null };
    if asked.header("upgrade").is_none() {
        let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("a body");
        asked.said = serde_json::from_slice(&body).unwrap_or_default();
        seen.lock().expect("no panic there").push(asked);
        let events = wire::response_events(MODEL).concat();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
        let _ = stream.write_all(format!("{head}\r\n\r\n{events}").as_bytes());
        return;
    }
    if let Some(status) = refusal {
        seen.lock().expect("no panic there").push(asked);
        let _ = stream.write_all(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n").as_bytes());
        return;
    }
    let key = asked.header("sec-websocket-key").expect("a key").to_owned();
    let accept =
        digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    let accept = BASE64.encode(accept);
    let opened = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {accept}\r\nx-request-id: of-the-stub\r\n\r\n"
    );
    stream.write_all(opened.as_bytes()).expect("the client waits");
    let mut talk = Talk(WebSocket::from_raw_socket(stream, Role::Server, None));
    let Ok(Message::Text(frame)) = talk.0.read() else { return };
    asked.said = serde_json::from_str(&frame).expect("JSON");
    seen.lock().expect("no panic there").push(asked);
    script(&mut talk);
}

/// A gateway with an account at each, of which the first is certain to be asked first.
fn gateway(variables: &[(&str, &str)], upstreams: &[&Codex]) -> Gateway {
    let setup = variables.iter().fold(Setup::default(), |setup, (name, value)| setup.with(name, value));
    gateway_in(setup.with(SWITCH.0, SWITCH.1), Home::new(), upstreams)
}

fn gateway_in(setup: Setup, home: Arc<Home>, upstreams: &[&Codex]) -> Gateway {
    let gateway = setup.start_in(home);
    for (number, upstream) in upstreams.iter().enumerate() {
        let site = json!({"name": format!("site {number}"), "platform": "codex", "url": upstream.url()});
        let site = gateway.create_site(&site);
        let account = json!({"siteId": site["id"], "accessToken": "sk-upstream-key",
            "credentialMode": "apikey", "skipModelFetch": true});
        let account = gateway.admin().post("/api/accounts", &account).expect(200);
        let models = format!("/api/accounts/{}/models/manual", account["id"]);
        gateway.admin().post(&models, &json!({"models": [MODEL]})).expect(200);
    }
    gateway.wait_for_channels(MODEL, upstreams.len());
    if upstreams.len() > 1 {
        gateway.make_first_choice(MODEL, "site 0");
    }
    gateway
}

fn question(stream: bool) -> Request {
    Request::post("/v1/responses").json(&json!({"model": MODEL, "stream": stream, "input": "Which way?"}))
}

/// The question in every dialect.
fn questions(stream: bool) -> Vec<(String, Value)> {
    let turns = json!([{"role": "user", "content": "Which way?"}]);
    let action = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    vec![
        ("/v1/responses".to_owned(), json!({"model": MODEL, "stream": stream, "input": "Which way?"})),
        ("/v1/chat/completions".to_owned(), json!({"model": MODEL, "stream": stream, "messages": turns})),
        (
            "/v1/messages".to_owned(),
            json!({"model": MODEL, "stream": stream, "max_tokens": 50, "messages": turns}),
        ),
        (
            format!("/v1beta/models/{MODEL}:{action}"),
            json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}]}),
        ),
    ]
}

#[test]
fn clients_of_every_dialect_are_served_over_a_socket_as_by_http() {
    let (with, without) = (Codex::start(Talk::answer), Codex::start(Talk::answer));
    let over_sockets = gateway(&[], &[&with]);
    let by_http = gateway_in(Setup::default(), Home::new(), &[&without]);
    for stream in [false, true] {
        for (path, body) in questions(stream) {
            let [one, other] = [&over_sockets, &by_http].map(|gateway| {
                let answer = gateway.client().send(Request::post(&path).json(&body));
                assert_eq!(answer.status, 200, "{path}: {}", answer.text());
                (answer.header("content-type").map(str::to_owned), answer.text().len())
            });
            assert_eq!(one, other, "{path}");
        }
    }
    assert_eq!(with.methods(), ["GET"; 8]);
    assert_eq!(without.methods(), ["POST"; 8]);
    let (frame, request) = (&with.asked()[0], &without.asked()[0]);
    assert_eq!(frame.target, "/responses");
    for (name, value) in [
        ("authorization", Some("Bearer sk-upstream-key")),
        ("openai-beta", Some("responses_websockets=2026-02-06")),
        ("sec-websocket-version", Some("13")),
        ("connection", Some("upgrade")),
        ("sec-websocket-extensions", None),
        ("content-type", None),
        ("content-length", None),
    ] {
        assert_eq!(frame.header(name), value, "{name}");
    }
    let mut said = frame.said.clone();
    assert_eq!(said["type"].take(), "response.create");
    said.as_object_mut().expect("an object").remove("type");
    assert_eq!(said, request.said, "the frame is the body of the request");
    let tokens = |gateway: &Gateway| {
        let rows = gateway.wait_for_logs(8);
        rows.iter().map(|row| (row["status"].clone(), row["totalTokens"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(tokens(&over_sockets), tokens(&by_http));
}

#[test]
fn a_streamed_answer_comes_as_the_frames_do() {
    let gate = Gate::new();
    let open = gate.clone();
    let codex = Codex::start(move |talk| {
        let frames = answer();
        frames[..6].iter().for_each(|frame| talk.say(frame));
        open.wait();
        frames[6..].iter().for_each(|frame| talk.say(frame));
        talk.wait_for_end();
    });
    let gateway = gateway(&[], &[&codex]);
    let mut stream = gateway.client().stream(question(true));
    let first = stream.next_event().expect("an event").expect("one more");
    assert!(first.starts_with("event: response.created\ndata: {"), "{first}");
    gate.open();
    let (rest, ended) = stream.rest();
    ended.expect("a whole stream");
    assert!(String::from_utf8_lossy(&rest).contains("event: response.completed\n"));
}

#[test]
fn an_upstream_that_refuses_the_upgrade_is_asked_by_http() {
    // One that has no WebSockets is not asked for one again; one that has none now is.
    for (status, methods) in [(426, &["GET", "POST", "POST"][..]), (503, &["GET", "POST", "GET", "POST"])] {
        let codex = Codex::refusing(status);
        let gateway = gateway(&[], &[&codex]);
        gateway.client().send(question(false)).expect(200);
        gateway.client().send(question(false)).expect(200);
        assert_eq!(codex.methods(), methods, "{status}");
        assert_eq!(gateway.wait_for_logs(2).len(), 2, "the refusal of an upgrade is no failure");
    }
}

#[test]
fn an_error_before_any_event_is_the_refusal_that_it_would_be_by_http() {
    let refusing = || {
        Codex::start(|talk| {
            talk.say(&json!({"type": "codex.rate_limits", "rate_limits": {"primary": {"used_percent": 41,
                "window_minutes": 300, "reset_after_seconds": 3600}}}));
            talk.say(&json!({"type": "error", "status": 429, "headers": {"retry-after": "77",
                "x-codex-secondary-used-percent": "99.5", "x-codex-secondary-window-minutes": 10080,
                "x-codex-secondary-reset-after-seconds": 7200},
                "error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}}));
            talk.wait_for_end();
        })
    };
    let (first, second) = (refusing(), Codex::start(Talk::answer));
    let pair = gateway(&[], &[&first, &second]);
    pair.client().send(question(false)).expect(200);
    assert_eq!((first.asked().len(), second.asked().len()), (1, 1));
    pair.client().send(question(false)).expect(200);
    assert_eq!((first.asked().len(), second.asked().len()), (1, 2), "the refused channel rests");
    let alone = refusing();
    let alone = gateway(&[], &[&alone]);
    let refused = alone.client().send(question(true));
    let error = refused.expect(429)["error"].clone();
    assert_eq!(error["message"], "The usage limit has been reached", "{error}");
    assert_eq!(refused.header("retry-after"), Some("77"));
    let account = alone.admin().get("/api/accounts?refresh=1").expect(200)["accounts"][0].clone();
    let windows = account["limitWindows"].as_array().expect("windows").clone();
    let windows: Vec<_> = windows.iter().map(|window| (&window["name"], &window["usedPercent"])).collect();
    assert_eq!(windows, [(&json!("5h"), &json!(41)), (&json!("7d"), &json!(99.5))]);
}

#[test]
fn a_socket_that_breaks_before_any_output_leads_to_the_next_channel() {
    for frames in [0, 2] {
        let broken = Codex::start(move |talk| talk.answer_in(frames));
        let second = Codex::start(Talk::answer);
        let gateway = gateway(&[], &[&broken, &second]);
        let answer = gateway.client().send(question(true));
        assert_eq!(answer.status, 200, "{frames}");
        assert!(answer.text().contains("event: response.completed\n"), "{frames}: {}", answer.text());
        assert_eq!((broken.asked().len(), second.asked().len()), (1, 1), "{frames}");
    }
}

#[test]
fn a_socket_that_breaks_in_the_middle_of_an_answer_is_told_as_by_http() {
    let codex = Codex::start(|talk| talk.answer_in(6));
    let gateway = gateway(&[], &[&codex]);
    let text = gateway.client().stream(question(true)).whole().text();
    assert!(text.contains("event: response.output_text.delta\n"), "{text}");
    assert!(text.contains("event: response.failed\n") && !text.contains("response.completed\n"), "{text}");
    let row = gateway.wait_for_logs(1).remove(0);
    assert_eq!(row["status"], "failed", "{row}");
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_head() {
    let codex = Codex::start(|talk| {
        let mut head = vec![0x81, 127];
        head.extend((64_u64 << 20).to_be_bytes());
        talk.0.get_mut().write_all(&head).expect("sent");
        talk.wait_for_end();
    });
    let gateway = gateway(&[], &[&codex]);
    gateway.client().send(question(false)).expect(502);
    let row = gateway.wait_for_logs(1).remove(0);
    let told = row["errorMessage"].as_str().unwrap_or_default();
    assert!(told.contains("WebSocket is malformed") && told.contains("too long"), "{row}");
}

#[test]
fn the_socket_is_closed_when_the_client_leaves() {
    let ended: Arc<Mutex<bool>> = Arc::default();
    let seen = Arc::clone(&ended);
    let codex = Codex::start(move |talk| {
        talk.answer_in(6);
        talk.wait_for_end();
        *seen.lock().expect("no panic there") = true;
    });
    let gateway = gateway(&[], &[&codex]);
    let mut stream = gateway.client().stream(question(true));
    assert!(stream.next_event().expect("an event").is_some());
    assert!(!*ended.lock().expect("no panic there"));
    drop(stream);
    eventually("the upstream sees it", || ended.lock().expect("no panic there").then_some(()));
}

/// A turn of a conversation that the client names.
fn turn(gateway: &Gateway, session: &str, stream: bool) {
    let answer = gateway.client().send(question(stream).header("session_id", session));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn the_turns_of_a_conversation_go_over_one_socket() {
    let later: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&later);
    let codex = Codex::start(move |talk| {
        talk.answer_in(usize::MAX);
        while let Some(said) = talk.next() {
            seen.lock().expect("no panic there").push(said);
            talk.answer_in(usize::MAX);
        }
    });
    let gateway = gateway(&[], &[&codex]);
    for stream in [false, true, true] {
        turn(&gateway, "a", stream);
    }
    assert_eq!(codex.methods().len(), 1);
    let said = later.lock().expect("no panic there").clone();
    assert_eq!(said.len(), 2);
    for said in said {
        assert_eq!((&said["type"], &said["model"]), (&json!("response.create"), &json!(MODEL)), "{said}");
        assert!(said["previous_response_id"].is_null(), "each turn says all that was said: {said}");
    }
    turn(&gateway, "b", false);
    assert_eq!(codex.methods().len(), 2, "another conversation has a socket of its own");
    for _ in 0..2 {
        gateway.client().send(question(false)).expect(200);
    }
    assert_eq!(codex.methods().len(), 4, "nobody knows what follows on a question without a name");
    turn(&gateway, "a", false);
    assert_eq!(codex.methods().len(), 4);
    assert!(gateway.wait_for_logs(7).iter().all(|row| row["status"] == "success"));
}

#[test]
fn a_socket_that_its_upstream_ends_between_two_turns_is_missed_by_nobody() {
    let limit = json!({"type": "error", "status": 400, "error": {"type": "invalid_request_error",
        "code": "websocket_connection_limit_reached", "message": "Create a new WebSocket connection"}});
    for says_goodbye in [true, false] {
        let ended = Gate::new();
        let (limit, open) = (limit.clone(), ended.clone());
        let codex = Codex::start(move |talk| {
            talk.answer_in(usize::MAX);
            if says_goodbye {
                let _ = talk.0.close(None);
                let _ = talk.0.flush();
                open.open();
            } else if talk.next().is_some() {
                talk.say(&limit);
            }
            talk.wait_for_end();
        });
        let gateway = gateway(&[], &[&codex]);
        turn(&gateway, "a", false);
        if says_goodbye {
            ended.wait();
        }
        turn(&gateway, "a", true);
        assert_eq!(codex.methods(), ["GET", "GET"]);
        let row = gateway.wait_for_logs(2).remove(0);
        assert_eq!((&row["status"], &row["retryCount"]), (&json!("success"), &json!(0)), "{row}");
    }
}

/// A gateway whose only account is one that sessions share, so many of them at once and the others waiting so long.
fn shared_by_sessions(codex: &Codex, at_once: &str, wait: &str) -> Gateway {
    let home = Home::new();
    let limits = [
        SWITCH,
        ("PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT", at_once),
        ("PROXY_SESSION_CHANNEL_QUEUE_WAIT_MS", wait),
    ];
    let setup = limits.iter().fold(Setup::default(), |setup, (name, value)| setup.with(name, value));
    let mut gateway = gateway_in(setup, home.clone(), &[codex]);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let update = "UPDATE accounts SET oauth_provider = 'codex', access_token = 'sk-upstream-key'";
    home.database().run(update);
    gateway.restart()
}

fn says(gateway: &Gateway, session: &str) -> u16 {
    gateway.client().send(question(false).header("session_id", session)).status
}

#[test]
fn a_session_beyond_those_that_may_be_at_work_over_sockets_is_refused_after_its_wait() {
    let gate = Gate::new();
    let open = gate.clone();
    let codex = Codex::start(move |talk| {
        open.wait();
        talk.answer();
    });
    let gateway = shared_by_sessions(&codex, "1", "1");
    scope(|scope| {
        let first = scope.spawn(|| says(&gateway, "a"));
        eventually("one is at work", || (codex.asked().len() == 1).then_some(()));
        assert_eq!(says(&gateway, "b"), 503);
        assert_eq!(codex.asked().len(), 1);
        gate.open();
        assert_eq!(first.join().expect("no panic"), 200);
    });
    assert_eq!(says(&gateway, "b"), 200, "the place is free again");
    assert!(codex.methods().iter().all(|method| method == "GET"));
}

#[test]
fn sessions_wait_for_their_turn_over_sockets_and_all_of_them_get_it() {
    const AT_ONCE: usize = 2;
    let gate = Gate::new();
    let open = gate.clone();
    let (at_work, most): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    let (now, seen) = (Arc::clone(&at_work), Arc::clone(&most));
    let codex = Codex::start(move |talk| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        open.wait();
        // Long enough for those that do not wait for their turn to be at work meanwhile.
        std::thread::sleep(Duration::from_millis(100));
        // The place is free with the last frame, which may be read before this goes on.
        talk.answer_in(answer().len() - 1);
        now.fetch_sub(1, Ordering::SeqCst);
        talk.say(answer().last().expect("a frame"));
        talk.wait_for_end();
    });
    let gateway = shared_by_sessions(&codex, "2", "60000");
    let sessions: Vec<String> = (0..7).map(|number| format!("session-{number}")).collect();
    scope(|scope| {
        let asks: Vec<_> = sessions.iter().map(|session| scope.spawn(|| says(&gateway, session))).collect();
        eventually("as many as may be are at work", || (codex.asked().len() >= AT_ONCE).then_some(()));
        gate.open();
        for ask in asks {
            assert_eq!(ask.join().expect("no panic"), 200);
        }
    });
    assert_eq!(codex.methods(), ["GET"; 7]);
    let most = most.load(Ordering::SeqCst);
    assert!(most <= AT_ONCE, "{most} at once");
}

#[test]
fn sockets_go_over_tls_and_through_the_proxies_of_their_site() {
    // A proxy that passes single requests on passes no frames: there the upstream is asked by HTTP.
    for (secured, scheme, protocol, method) in [
        (true, None, None, "GET"),
        (true, Some("http"), Some("connect"), "GET"),
        (true, Some("socks5h"), Some("socks5"), "GET"),
        (false, Some("socks5"), Some("socks5"), "GET"),
        (false, Some("http"), Some("forward"), "POST"),
    ] {
        let codex = if secured { Codex::secured(Talk::answer) } else { Codex::start(Talk::answer) };
        let (home, proxy) = (Home::new(), Proxy::start());
        let authority = home.path().join("authority.pem");
        std::fs::write(&authority, certificates::AUTHORITY).expect("written");
        let setup = Setup::default().with(SWITCH.0, SWITCH.1);
        let setup = setup.with("SSL_CERT_FILE", authority.to_str().expect("a path"));
        let gateway = gateway_in(setup, home, &[&codex]);
        if let Some(scheme) = scheme {
            let site = gateway.admin().get("/api/sites").expect(200)[0]["id"].clone();
            let proxied = json!({"proxyUrl": proxy.url(scheme, "")});
            gateway.admin().put(&format!("/api/sites/{site}"), &proxied).expect(200);
        }
        let answer = gateway.client().send(question(true));
        assert_eq!(answer.status, 200, "{secured} {scheme:?}: {}", answer.text());
        assert!(answer.text().contains("event: response.completed\n"), "{secured} {scheme:?}");
        assert_eq!(codex.methods(), [method], "{secured} {scheme:?}");
        let seen = proxy.seen();
        assert_eq!(seen.first().map(|crossing| crossing.protocol), protocol, "{secured} {scheme:?}");
        assert!(seen.iter().all(|crossing| crossing.target == codex.address.to_string()), "{seen:?}");
    }
}

#[test]
fn an_upstream_whose_certificate_nobody_vouches_for_gets_no_socket() {
    let codex = Codex::secured(Talk::answer);
    let gateway = gateway(&[], &[&codex]);
    gateway.client().send(question(false)).expect(502);
    assert!(codex.asked().is_empty());
}

#[test]
fn an_account_may_be_asked_by_http_alone_and_the_switch_works_at_once() {
    let codex = Codex::start(Talk::answer);
    let gateway = gateway_in(Setup::default(), Home::new(), &[&codex]);
    let ask = || {
        gateway.client().send(question(false)).expect(200);
        codex.methods().pop()
    };
    let switch = |on: bool| {
        let body = json!({"codexUpstreamWebsocketEnabled": on});
        gateway.admin().put("/api/settings/runtime", &body).expect(200);
    };
    assert_eq!(ask().as_deref(), Some("POST"));
    switch(true);
    assert_eq!(ask().as_deref(), Some("GET"));
    let account = gateway.admin().get("/api/accounts?refresh=1").expect(200)["accounts"][0]["id"].clone();
    let path = format!("/api/accounts/{account}");
    gateway.admin().put(&path, &json!({"extraConfig": {"websockets": false}})).expect(200);
    assert_eq!(ask().as_deref(), Some("POST"));
    gateway.admin().put(&path, &json!({"extraConfig": {"websockets": true}})).expect(200);
    assert_eq!(ask().as_deref(), Some("GET"));
    switch(false);
    assert_eq!(ask().as_deref(), Some("POST"));
}
