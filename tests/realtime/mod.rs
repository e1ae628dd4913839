//! A conversation in speech: frames pass both ways, and their usage is counted.

mod keys;
mod voice;

use std::net::TcpStream;

use serde_json::{Value, json};

use self::voice::{MODEL, REFUSES_IN_THE_SOCKET, Voice};
use crate::support::{BINARY, Caller, Gateway, Incoming, Reply, Request, Socket, eventually};

const PATH: &str = "/v1/realtime?model=model-speech";

fn gateway(variables: &[(&str, &str)], voices: &[(&str, &Voice)]) -> Gateway {
    let gateway = Gateway::with(variables);
    for (name, voice) in voices {
        let site = gateway.create_site(&json!({"name": name, "url": format!("http://{}", voice.address),
            "platform": "openai"}));
        let account = gateway.create_account(&site, "sk-upstream-key");
        gateway.wait_for_task(&account);
    }
    gateway.wait_for_channels(MODEL, voices.len());
    gateway
}

fn ask() -> Request {
    Caller::socket_ask(PATH)
}

#[track_caller]
fn opened(caller: &Caller) -> Socket {
    let mut socket = caller.try_socket(ask()).unwrap_or_else(|answer| panic!("{answer:?}"));
    assert_eq!(socket.event()["type"], "session.created");
    socket
}

/// Requests a response and reads it to its end.
#[track_caller]
fn talk(socket: &mut Socket, kind: &str) {
    socket.send(&json!({"type": kind}));
    for expected in ["response.created", "response.output_audio.delta", "response.done"] {
        assert_eq!(socket.event()["type"], expected);
    }
}

fn with_key(gateway: &Gateway, more: &Value) -> Caller {
    let mut key = json!({"name": "k", "key": "sk-client-voice", "supportedModels": ["*"]});
    for (name, value) in more.as_object().expect("an object") {
        key[name] = value.clone();
    }
    gateway.add_key(&key)
}

#[test]
fn frames_pass_both_ways_and_each_response_is_logged_with_its_usage() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let ask = Caller::socket_ask(&format!("{PATH}&x=1&key=no")).header("openai-beta", "realtime=v1");
    let mut socket = gateway.client().try_socket(ask).unwrap();
    assert_eq!(socket.event()["type"], "session.created");
    let said = json!({"type": "input_audio_buffer.append", "audio": "x".repeat(300_000)});
    socket.send(&said);
    assert_eq!(socket.event(), json!({"type": "echo", "of": said}));
    talk(&mut socket, "response.create");
    talk(&mut socket, "somebody.speaks");
    let rows = gateway.wait_for_logs(2);
    for row in &rows {
        let told = [&row["status"], &row["promptTokens"], &row["completionTokens"], &row["cacheReadTokens"]];
        assert_eq!(told, [&json!("success"), &json!(20), &json!(10), &json!(5)]);
        assert_eq!(row["modelRequested"], MODEL);
    }
    socket.close(1000);
    assert_eq!(socket.next(), Incoming::Close(1000));
    let head = &voice.asked()[0];
    assert!(head.starts_with("GET /v1/realtime?model=model-speech&x=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: Bearer sk-upstream-key\r\n"), "{head}");
    assert!(head.contains("\r\nopenai-beta: realtime=v1\r\n"), "{head}");
}

#[test]
fn bytes_that_are_no_text_pass_as_well() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.frame(true, BINARY, &[0, 1, 255]);
    assert_eq!(socket.next(), Incoming::Binary(vec![255, 1, 0]));
    talk(&mut socket, "response.create");
}

#[test]
fn what_cannot_be_opened_is_refused_over_http() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let client = gateway.client();
    let refused = |caller: &Caller, path: &str| match caller.try_socket(Caller::socket_ask(path)) {
        Ok(_) => panic!("{path} was opened"),
        Err(answer) => answer,
    };
    assert_eq!(client.get(PATH).expect(426)["error"]["type"], "invalid_request_error");
    assert_eq!(refused(&client, "/v1/realtime").expect(400)["error"]["param"], "model");
    assert_eq!(refused(&client, "/v1/realtime?model=").expect(400)["error"]["param"], "model");
    assert_eq!(
        refused(&client, "/v1/realtime?model=unheard-of").expect(503)["error"]["type"],
        "server_error"
    );
    assert_eq!(refused(&gateway.anyone(), PATH).expect(401)["error"]["type"], "authentication_error");
    let other = with_key(&gateway, &json!({"supportedModels": ["another"]}));
    refused(&other, PATH).expect(403);
    assert_eq!(voice.asked().len(), 0);
    // A browser cannot send its key in a header.
    let protocols = "realtime, openai-insecure-api-key.sk-client-none";
    let ask = ask().header("sec-websocket-protocol", protocols);
    let Err(answer) = gateway.anyone().try_socket(ask) else { panic!("a wrong key was let in") };
    answer.expect(403);
}

#[test]
fn a_site_that_opens_no_socket_gives_way_to_the_next() {
    for (refusal, cools) in [(404, false), (200, false), (426, false), (500, true), (401, true)] {
        let (first, second) = (Voice::with(Some(refusal)), Voice::start());
        let gateway = gateway(&[], &[("first", &first), ("second", &second)]);
        gateway.make_first_choice(MODEL, "first");
        talk(&mut opened(&gateway.client()), "response.create");
        assert_eq!((first.asked().len(), second.asked().len()), (1, 1), "{refusal}");
        let channels = gateway.channels(MODEL);
        let channel = channels.iter().find(|channel| channel["site"]["name"] == "first").unwrap();
        assert_eq!(!channel["cooldownUntil"].is_null(), cools, "{refusal}: {channel}");
    }
}

#[test]
fn an_upstreams_refusal_reaches_the_client_with_its_status_and_its_message() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    for (status, kind) in [(400, "invalid_request_error"), (429, "insufficient_quota")] {
        let error = json!({"error": {"message": "No voice is left for you.", "type": kind, "code": kind}});
        upstream.answer("/v1/realtime", Reply::json(status, &error));
        let Err(answer) = gateway.client().try_socket(ask()) else { panic!("a socket was opened") };
        let told = &answer.expect(status)["error"];
        assert!(told["message"].as_str().is_some_and(|text| text.contains("No voice is left")), "{told}");
        assert_eq!(told["code"], kind);
    }
}

#[test]
fn each_response_counts_against_the_limits_of_its_key() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let limits = json!({"maxConcurrency": 1, "budgets": [{"period": "total", "maxRequests": 2}]});
    let client = with_key(&gateway, &limits);
    let mut socket = opened(&client);
    // Its first response is the one of the opening, and takes the only place while it is under way.
    socket.send(&json!({"type": "ramble"}));
    assert_eq!(socket.event()["type"], "response.created");
    assert_eq!(socket.event()["type"], "response.output_audio.delta");
    let Err(answer) = client.try_socket(ask()) else { panic!("a second one was opened") };
    assert_eq!(answer.expect(429)["error"]["code"], "key_over_concurrency");
    socket.send(&json!({"type": "go on"}));
    assert_eq!(socket.event()["type"], "response.done");
    talk(&mut socket, "response.create");
    socket.send(&json!({"type": "response.create"}));
    let refused = socket.event();
    assert_eq!((&refused["type"], &refused["error"]["code"]), (&json!("error"), &json!("key_over_budget")));
    assert_eq!(refused["error"]["type"], "rate_limit_error", "{refused}");
    assert_eq!(voice.heard().len(), 3, "it was not passed on");
    // The socket stays open until the upstream responds to a speaker.
    socket.send(&json!({"type": "x"}));
    assert_eq!(socket.event()["type"], "echo");
    socket.send(&json!({"type": "somebody.speaks"}));
    assert_eq!(socket.event()["type"], "response.created");
    assert_eq!(socket.event()["error"]["code"], "key_over_budget");
    assert_eq!(socket.closed_with(), 1008);
    eventually("both are counted", || {
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        (keys["items"][0]["budgets"][0]["used"]["requests"] == 2).then_some(())
    });
}

#[test]
fn an_open_conversation_without_a_response_takes_no_place_of_its_key() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let client = with_key(&gateway, &json!({"maxConcurrency": 1}));
    let mut first = opened(&client);
    let mut second = opened(&client);
    second.send(&json!({"type": "ramble"}));
    assert_eq!(second.event()["type"], "response.created");
    first.send(&json!({"type": "response.create"}));
    assert_eq!(first.event()["error"]["code"], "key_over_concurrency");
    second.send(&json!({"type": "go on"}));
    while second.event()["type"] != "response.done" {}
    talk(&mut first, "response.create");
}

#[test]
fn a_transcript_is_charged_and_a_response_that_nobody_began_is_not() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let budgets = json!({"budgets": [{"period": "week", "maxTokens": 1000, "maxRequests": 9}]});
    let mut socket = opened(&with_key(&gateway, &budgets));
    for (kind, told) in [
        ("done unasked", "response.done"),
        ("transcribe", "conversation.item.input_audio_transcription.completed"),
    ] {
        socket.send(&json!({"type": kind}));
        assert_eq!(socket.event()["type"], told);
    }
    let rows = gateway.wait_for_logs(1);
    assert_eq!((rows.len(), &rows[0]["totalTokens"]), (1, &json!(30)), "{rows:?}");
    let keys = gateway.admin().get("/api/downstream-keys").expect(200);
    let used = &keys["items"][0]["budgets"][0]["used"];
    assert_eq!(
        (&used["tokens"], &used["requests"]),
        (&json!(30), &json!(1)),
        "the opening alone is a request"
    );
    gateway.admin().put("/api/downstream-keys/1", &json!({"enabled": false})).expect(200);
    socket.send(&json!({"type": "transcribe"}));
    assert_eq!(socket.event()["type"], "conversation.item.input_audio_transcription.completed");
    assert_eq!(socket.event()["error"]["code"], "key_disabled");
    assert_eq!(socket.closed_with(), 1008);
}

#[test]
fn responses_are_counted_like_frames_of_any_socket() {
    let voice = Voice::start();
    let gateway = gateway(&[("AUTHENTICATED_RATE_LIMIT_MAX", "60")], &[("site", &voice)]);
    let mut socket = opened(&with_key(&gateway, &json!({})));
    // The first one belongs to the opening.
    for _ in 0..61 {
        talk(&mut socket, "response.create");
    }
    socket.send(&json!({"type": "response.create"}));
    assert_eq!(socket.event()["error"]["code"], "rate_limit_exceeded");
}

#[test]
fn who_leaves_before_a_response_is_done_pays_for_what_was_heard() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let client = with_key(&gateway, &json!({"budgets": [{"period": "week", "maxTokens": 15}]}));
    let mut socket = opened(&client);
    socket.send(&json!({"type": "ramble"}));
    for expected in ["response.created", "response.output_audio.delta"] {
        assert_eq!(socket.event()["type"], expected);
    }
    drop(socket);
    eventually("a second of speech is about 20 tokens", || {
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        (keys["items"][0]["budgets"][0]["used"]["tokens"] == 21).then_some(())
    });
    let Err(answer) = client.try_socket(ask()) else { panic!("another one was opened") };
    assert_eq!(answer.expect(429)["error"]["code"], "key_over_budget");
}

#[test]
fn a_key_that_is_revoked_has_no_further_response() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&with_key(&gateway, &json!({})));
    talk(&mut socket, "response.create");
    gateway.admin().put("/api/downstream-keys/1", &json!({"enabled": false})).expect(200);
    socket.send(&json!({"type": "response.create"}));
    let error = &socket.event()["error"];
    assert_eq!((&error["code"], &error["type"]), (&json!("key_disabled"), &json!("permission_error")));
}

/// However its type is spelled, and although the upstream begins by itself.
#[test]
fn a_key_that_is_revoked_has_no_response_in_other_words() {
    let escaped = r#"{"type":"response\u002ecreate"}"#.to_owned();
    let twice = r#"{"type":"echo","type":"response.create"}"#.to_owned();
    let long = json!({"type": "response.create", "pad": "x".repeat(1_100_000)}).to_string();
    for text in [escaped, twice, long] {
        let voice = Voice::start();
        let gateway = gateway(&[], &[("site", &voice)]);
        let mut socket = opened(&with_key(&gateway, &json!({})));
        gateway.admin().put("/api/downstream-keys/1", &json!({"enabled": false})).expect(200);
        socket.send_text(&text);
        assert_eq!(socket.event()["error"]["code"], "key_disabled");
        assert!(voice.heard().is_empty());
        socket.send(&json!({"type": "somebody.speaks"}));
        assert_eq!(socket.event()["type"], "response.created");
        assert_eq!(socket.event()["error"]["code"], "key_disabled");
        assert_eq!(socket.closed_with(), 1008);
    }
}

#[test]
fn an_upstream_is_asked_for_one_model_alone() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    for more in ["&%6dodel=other", "&Model=other", "&model+=other", "&model%20=other"] {
        let ask = Caller::socket_ask(&format!("{PATH}{more}&a=1"));
        let mut socket = gateway.client().try_socket(ask).unwrap();
        assert_eq!(socket.event()["type"], "session.created");
        let asked = voice.asked().pop().expect("asked");
        assert!(asked.starts_with(&format!("GET {PATH}&a=1 ")), "{asked}");
    }
}

#[test]
fn an_upstreams_error_tells_no_key() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "complain"}));
    let error = socket.event();
    assert_eq!(error["error"]["message"], "Incorrect API key provided: [redacted]", "{error}");
}

#[test]
fn an_event_tells_no_key_unless_somebody_said_it() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    for (kind, is_hidden) in [
        ("conversation.item.input_audio_transcription.failed", true),
        ("response.mcp_call.failed", true),
        ("rate_limits.updated", true),
        ("session.updated", true),
        ("response.output_text.done", false),
        ("response.output_text.delta", false),
        ("conversation.item.done", false),
    ] {
        socket.send(&json!({"type": "repeat the key", "as": kind}));
        let event = socket.event();
        let shown = if is_hidden { "[redacted]" } else { "sk-upstream-key" };
        let expected = json!({"type": kind, "error": {"message": format!("no {shown}")}, "item": shown});
        assert_eq!(event, expected);
    }
}

#[test]
fn sockets_keep_no_memory_for_messages_that_have_passed() {
    const SOCKETS: u64 = 8;
    const LENGTH: u64 = 6 << 20;
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let client = with_key(&gateway, &json!({}));
    let before = gateway.resident_kib();
    let said = json!({"type": "anything", "text": "x".repeat(LENGTH as usize)});
    let _sockets: Vec<Socket> = (0..SOCKETS)
        .map(|_| {
            let mut socket = opened(&client);
            socket.send(&said);
            assert_eq!(socket.event()["of"], said);
            socket
        })
        .collect();
    let grown = gateway.resident_kib().saturating_sub(before);
    // Two sockets with two buffers each could keep four times the message.
    assert!(grown < SOCKETS * LENGTH / 1024, "{grown} KiB for {SOCKETS} idle sockets");
}

#[track_caller]
fn has_failed(gateway: &Gateway, cause: &str) {
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!(row["status"], "failed");
    assert!(row["errorMessage"].as_str().is_some_and(|message| message.ends_with(cause)), "{row}");
}

#[test]
fn an_error_in_a_binary_frame_tells_no_key() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "complain in bytes"}));
    let Incoming::Binary(bytes) = socket.next() else { panic!("no bytes") };
    assert!(String::from_utf8(bytes).unwrap().contains("Bad key: [redacted]"));
}

/// Whether the close is in order or not; its reason goes into the log without the key.
#[test]
fn an_upstream_that_leaves_in_a_response_has_failed() {
    for (kind, cause) in [
        ("break off", "the upstream closed its WebSocket"),
        ("confess", "the upstream closed its WebSocket (1011 no [redacted])"),
    ] {
        let voice = Voice::start();
        let gateway = gateway(&[], &[("site", &voice)]);
        let mut socket = opened(&gateway.client());
        socket.send(&json!({"type": kind}));
        assert_eq!(socket.event()["type"], "response.created");
        assert_eq!(socket.event()["error"]["code"], "upstream_closed");
        assert_eq!(socket.closed_with(), 1011);
        has_failed(&gateway, cause);
    }
}

#[test]
fn an_upstream_that_falls_silent_in_a_response_has_failed() {
    let voice = Voice::start();
    let gateway = gateway(&[("PROXY_STREAM_IDLE_TIMEOUT_SEC", "1")], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "ramble"}));
    for expected in ["response.created", "response.output_audio.delta"] {
        assert_eq!(socket.event()["type"], expected);
    }
    assert_eq!(socket.event()["error"]["code"], "upstream_timeout");
    assert_eq!(socket.closed_with(), 1011);
    has_failed(&gateway, "the upstream has fallen silent");
}

#[test]
fn an_upstream_that_says_nothing_but_an_error_has_failed() {
    let voice = Voice::with(Some(REFUSES_IN_THE_SOCKET));
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = gateway.client().try_socket(ask()).unwrap();
    assert_eq!(socket.event()["error"]["code"], "invalid_api_key");
    assert_eq!(socket.event()["error"]["code"], "upstream_closed");
    assert_eq!(socket.closed_with(), 1011);
    assert_eq!(gateway.wait_for_logs(1)[0]["status"], "failed");
    assert!(gateway.channels(MODEL)[0]["cooldownUntil"].is_string());
}

#[test]
fn both_sockets_end_together() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "goodbye"}));
    assert_eq!(socket.closed_with(), 1000);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "trip"}));
    assert_eq!(socket.event()["type"], "response.created");
    let error = socket.event();
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("server_error")));
    assert_eq!(socket.closed_with(), 1011);
    let rows = gateway.wait_for_logs(2);
    let count = |status: &str| rows.iter().filter(|row| row["status"] == status).count();
    assert_eq!((count("success"), count("failed")), (1, 1), "{rows:?}");
}

#[test]
fn a_service_that_stops_says_so() {
    let voice = Voice::start();
    let mut gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    gateway.signal("TERM");
    let end = loop {
        match socket.next() {
            Incoming::Ping => {}
            end => break end,
        }
    };
    assert_eq!(end, Incoming::Close(1001));
    gateway.wait_for_exit();
}

#[test]
fn a_response_that_the_upstream_refuses_is_not_waited_for() {
    let voice = Voice::start();
    let mut gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "response.create", "response": {"voice": "nobody's"}}));
    assert_eq!(socket.event()["error"]["code"], "invalid_value");
    gateway.signal("TERM");
    assert_eq!(socket.closed_with(), 1001);
    gateway.wait_for_exit();
}

#[test]
fn a_response_under_way_is_still_sent_when_the_service_stops() {
    let voice = Voice::start();
    let mut gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "ramble"}));
    for expected in ["response.created", "response.output_audio.delta"] {
        assert_eq!(socket.event()["type"], expected);
    }
    gateway.signal("TERM");
    eventually("no new connection is taken", || TcpStream::connect(gateway.address()).is_err().then_some(()));
    socket.send(&json!({"type": "go on"}));
    assert_eq!(socket.event()["type"], "response.done");
    assert_eq!(socket.closed_with(), 1001);
    gateway.wait_for_exit();
}

#[test]
fn a_response_that_a_stop_cuts_off_ends_with_an_error_event() {
    let voice = Voice::start();
    let mut gateway = gateway(&[("SHUTDOWN_GRACE_SEC", "1")], &[("site", &voice)]);
    let mut socket = opened(&gateway.client());
    socket.send(&json!({"type": "ramble"}));
    for expected in ["response.created", "response.output_audio.delta"] {
        assert_eq!(socket.event()["type"], expected);
    }
    gateway.signal("TERM");
    let told = socket.event();
    assert_eq!((&told["type"], &told["error"]["code"]), (&json!("error"), &json!("service_stopped")));
    assert_eq!(socket.closed_with(), 1001);
    assert!(gateway.wait_for_exit().success());
    let row = &gateway.restart().wait_for_logs(1)[0];
    assert!(row["errorMessage"].as_str().is_some_and(|text| text.contains("service_stopped")), "{row}");
}
