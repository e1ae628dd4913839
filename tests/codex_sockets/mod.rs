//! Codex over WebSockets, if the operator enables that: clients get the same answers as over HTTP.

mod codex;
mod header_defaults;
mod sessions;

use std::io::Write;
use std::sync::{Arc, Mutex};

use codex::{Codex, Talk, answer};
use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Home, Proxy, Request, Setup, certificates, eventually};

const MODEL: &str = "model-of-codex";
const SWITCH: (&str, &str) = ("CODEX_UPSTREAM_WEBSOCKET_ENABLED", "true");

/// Starts a gateway with an account at each upstream, of which the first one is always asked first.
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

/// Returns the question in every dialect.
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
    // An upstream that has no WebSockets is not asked for one again; one that has none at present is.
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

#[test]
fn sockets_go_over_tls_and_through_the_proxies_of_their_site() {
    // A proxy that forwards single requests cannot pass frames, so the upstream is asked over HTTP.
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
