//! Streams: each piece is passed on as it comes, never faster than the client reads, and they end with the client.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    self, Caller, Gate, Gateway, Reply, Request, Upstream, eventually, eventually_within, wire,
};

const MODEL: &str = "model-stream";

fn streaming() -> (Gateway, Upstream) {
    streaming_with(&[])
}

fn streaming_with(variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(variables).in_front_of("new-api", &upstream);
    (gateway, upstream)
}

#[test]
fn an_event_reaches_the_client_before_the_next_one_is_sent() {
    let (gateway, upstream) = streaming();
    let messages = json!([{"role": "user", "content": "x"}]);
    // The events up to the first content may be held back: it decides whether the attempt succeeds.
    for (path, body, events, first_content) in [
        (CHAT, json!({"messages": messages}), wire::chat_events(MODEL), 1),
        ("/v1/responses", json!({"input": "x"}), wire::response_events(MODEL), 4),
        ("/v1/messages", json!({"max_tokens": 9, "messages": messages}), wire::message_events(MODEL), 3),
        ("/v1/completions", json!({"prompt": "x"}), wire::completion_events(MODEL), 0),
    ] {
        let (reply, gates) = Reply::gated(&events, first_content + 1);
        upstream.answer(path, reply);
        let mut body = body;
        (body["model"], body["stream"]) = (json!(MODEL), json!(true));
        let mut stream = gateway.client().stream(Request::post(path).json(&body));
        for (gate, event) in gates.iter().zip(&events) {
            gate.open();
            let got = stream.next_event().expect("no break").expect("not the end");
            assert_eq!(&got, event, "{path}");
        }
        assert!(stream.next_event().expect("no break").is_none(), "{path}");
    }
}

#[test]
fn a_long_preamble_is_not_held_back_for_ever_where_nothing_else_tells_of_it() {
    let (gateway, upstream) = streaming_with(&[("STREAM_FIRST_HEARTBEAT_SEC", "0")]);
    let (events, seen) = (wire::chat_events(MODEL), Gate::new());
    upstream.answer(CHAT, Reply::events(&events).waits_for(1, &seen));
    let mut stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
    assert_eq!(stream.next_event().expect("no break").as_ref(), Some(&events[0]));
    seen.open();
    assert_eq!(String::from_utf8_lossy(&stream.rest().0), events[1..].concat());
}

#[test]
fn a_finished_answer_does_not_wait_for_ever_for_its_usage() {
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    let gateway = Gateway::with(&[]).in_front_of("new-api", &upstream);
    // Two words, the finish, and heartbeats instead of `[DONE]`.
    let events = wire::chat_events(MODEL).into_iter().filter(|event| !event.contains("[DONE]"));
    let heartbeats = std::iter::repeat_n(": still here\n\n".to_owned(), 60);
    let upstream_says = Reply::events(events.chain(heartbeats)).paced(Duration::from_millis(250));
    upstream.answer(CHAT, upstream_says);
    let body = json!({"model": MODEL, "stream": true, "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}]});
    let began = Instant::now();
    let (told, _) = gateway.client().stream(Request::post("/v1/messages").json(&body)).rest();
    let told = String::from_utf8_lossy(&told);
    assert!(told.trim_end().ends_with(r#"{"type":"message_stop"}"#), "{told}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_client_that_hangs_up_frees_the_upstream() {
    let (gateway, upstream) = streaming();
    upstream.answer(CHAT, Reply::events(wire::chat_events(MODEL)).stalls_after(3));
    let mut stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
    stream.next_event().expect("no break").expect("an event");
    let asked = upstream.last(CHAT);
    assert!(!asked.hung_up());
    hangs_up_within_a_moment(&asked, || drop(stream));
    let row = &gateway.wait_for_logs(1)[0];
    assert!(row["errorMessage"].as_str().is_some_and(|text| text.contains("client_closed")), "{row}");
    the_channel_is_not_punished(&gateway);
}

#[test]
fn what_a_stream_had_told_when_its_client_hung_up_is_in_the_log() {
    let (gateway, upstream) = streaming();
    upstream.answer("/v1/messages", Reply::events(wire::message_events(MODEL)).stalls_after(4));
    let body = json!({"model": MODEL, "stream": true, "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}]});
    let mut stream = gateway.client().stream(Request::post("/v1/messages").json(&body));
    stream.next_event().expect("an event");
    drop(stream);
    let row = gateway.wait_for_logs(1).remove(0);
    assert_eq!(
        (&row["status"], &row["promptTokens"]),
        (&json!("failed"), &json!(wire::PROMPT_TOKENS)),
        "{row}"
    );
    assert_eq!(row["usageSource"], "upstream", "{row}");
}

#[test]
fn a_client_that_hangs_up_before_the_answer_frees_the_upstream() {
    for streamed in [false, true] {
        let (gateway, upstream) = streaming();
        upstream.answer(CHAT, Reply::stall());
        let client = gateway.client();
        let mut connection = client.connect();
        connection.write(&client.bytes(Caller::chat_ask(MODEL, streamed))).expect("sent");
        let asked = upstream.last(CHAT);
        hangs_up_within_a_moment(&asked, || drop(connection));
        the_channel_is_not_punished(&gateway);
    }
}

/// Asserts that the gateway hangs up soon: one second is promised, the rest is a margin for a busy machine.
#[track_caller]
fn hangs_up_within_a_moment(asked: &support::ReceivedRequest, leave: impl FnOnce()) {
    leave();
    let limit = Duration::from_secs(4);
    eventually_within(limit, "the upstream connection is closed", || asked.hung_up().then_some(()));
}

fn the_channel_is_not_punished(gateway: &Gateway) {
    let channel = gateway.channels(MODEL).remove(0);
    assert_eq!(channel["cooldownUntil"], json!(null), "{channel}");
    assert_eq!(channel["failCount"], 0, "{channel}");
}

/// Builds about `mebibytes` of chat chunks, 16 KiB each, with a proper beginning and end.
fn long_stream(mebibytes: usize) -> (Reply, u64) {
    let events = wire::chat_events(MODEL);
    let filler = wire::chat_content(MODEL, &"x".repeat(16 << 10));
    let count = (mebibytes << 20) / filler.len();
    let middle = std::iter::repeat_n(&filler, count);
    let all = std::iter::once(&events[0]).chain(middle).chain(&events[4..]);
    let length = all.clone().map(|event| event.len() as u64).sum();
    (Reply::events(all), length)
}

#[test]
fn a_long_stream_passes_without_being_kept() {
    let (gateway, upstream) = streaming();
    gateway.client().chat_streamed(MODEL);
    let (reply, length) = long_stream(200);
    upstream.answer(CHAT, reply);
    let before = gateway.resident_kib();
    let mut stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
    let (mut received, mut largest) = (0u64, before);
    while let Some(piece) = stream.next_piece().expect("no break") {
        let step = 8 << 20;
        if received / step != (received + piece.len() as u64) / step {
            largest = largest.max(gateway.resident_kib());
        }
        received += piece.len() as u64;
    }
    assert_eq!(received, length);
    let grown = largest.max(gateway.resident_kib()).saturating_sub(before);
    assert!(grown < 16 << 10, "memory grew by {grown} KiB");
    let log = gateway.wait_for_logs(2);
    assert_eq!(log[1]["completionTokens"], wire::COMPLETION_TOKENS, "usage is read at its end");
}

#[test]
fn a_slow_reader_slows_the_upstream_down_instead_of_filling_memory() {
    const READERS: usize = 8;
    let (gateway, upstream) = streaming();
    gateway.client().chat_streamed(MODEL);
    let (reply, length) = long_stream(64);
    upstream.answer(CHAT, reply);
    let before = gateway.resident_kib();
    let streams: Vec<_> =
        (0..READERS).map(|_| gateway.client().stream(Caller::chat_ask(MODEL, true))).collect();
    let sent = upstream.wait_until_stalled(CHAT, READERS);
    assert!(sent.iter().all(|&sent| sent < length), "{sent:?} of {length}");
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < (READERS as u64) << 10, "{grown} KiB for {READERS} readers: more than 1 MiB each");

    // Other clients are served meanwhile, and a reader that resumes gets everything.
    gateway.client().get("/v1/models").expect(200);
    for stream in streams.into_iter().take(1) {
        assert_eq!(stream.whole().body.len() as u64, length);
    }
}

#[test]
fn a_client_that_stops_reading_for_good_is_let_go() {
    let (gateway, upstream) = streaming_with(&[("CLIENT_IDLE_TIMEOUT_SEC", "1")]);
    let (reply, _) = long_stream(64);
    upstream.answer(CHAT, reply);
    let stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
    let asked = upstream.last(CHAT);
    eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
    drop(stream);
    the_channel_is_not_punished(&gateway);
}

#[test]
fn many_streams_at_once_stay_apart() {
    let (gateway, upstream) = streaming();
    let models: Vec<String> = (0..24).map(|number| format!("{MODEL}-{number}")).collect();
    let names: Vec<&str> = models.iter().map(String::as_str).collect();
    let other = Upstream::start(&names);
    gateway.add("other", &other);
    for model in &models {
        let reply = Reply::events(wire::chat_events(model)).paced(Duration::from_millis(2));
        other.answer_model(CHAT, model, reply);
    }
    std::thread::scope(|scope| {
        for model in &models {
            let gateway = &gateway;
            scope.spawn(move || {
                for _ in 0..3 {
                    let answer = gateway.client().chat_streamed(model);
                    assert_eq!(answer.text(), wire::chat_events(model).concat());
                }
            });
        }
    });
    assert!(upstream.asked_for(CHAT).is_empty());
    let page = gateway.wait_for_logs(72);
    assert!(page.iter().all(|row| row["status"] == "success"));
}

#[test]
fn one_huge_event_passes() {
    let (gateway, upstream) = streaming();
    let mut events = wire::chat_events(MODEL);
    events[2] = wire::chat_content(MODEL, &"é".repeat(2 << 20));
    upstream.answer(CHAT, Reply::events(&events));
    let answer = gateway.client().chat_streamed(MODEL);
    assert!(answer.text() == events.concat(), "{} bytes came", answer.body.len());
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!(row["status"], Value::from("success"));
    assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS);
}

#[test]
fn a_whole_answer_in_one_huge_event_has_an_end() {
    let said = "é".repeat(1 << 20);
    let upstream = Upstream::of_google(&["gemini-2"]);
    let answer = wire::data(&json!({"candidates": [{"content": {"role": "model", "parts": [{"text": said}]},
        "finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}}));
    upstream.answer("/v1beta/models/gemini-2:streamGenerateContent", Reply::events([&answer]));
    let gateway = Gateway::start();
    gateway.add_as(&json!({"name": "gemini", "platform": "gemini"}), &upstream);
    let native = Request::post("/v1beta/models/gemini-2:streamGenerateContent?alt=sse")
        .json(&json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}));
    assert!(gateway.client().send(native).text() == answer, "it came as it was");
    let chunks = wire::data_of(&gateway.client().chat_streamed("gemini-2").text());
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert!(text == said, "{} bytes came", text.len());
    assert_eq!(chunks.last().map(|chunk| &chunk["choices"][0]["finish_reason"]), Some(&json!("stop")));
    let row = &gateway.wait_for_logs_of("/v1beta/models", 2)[1];
    assert_eq!((&row["status"], &row["promptTokens"]), (&json!("success"), &json!(3)), "{row}");
}

#[test]
fn text_behind_a_finish_reason_of_gemini_reaches_clients_of_other_dialects() {
    let upstream = Upstream::of_google(&["gemini-2"]);
    // Some upstreams say in every chunk that it is the last one.
    let chunk = |text: &str| {
        let content = json!({"role": "model", "parts": [{"text": text}]});
        wire::data(&json!({"candidates": [{"content": content, "finishReason": "STOP"}]}))
    };
    let reply = Reply::events([chunk("a"), chunk("b")]).pauses_at(1, Duration::from_millis(5500));
    upstream.answer("/v1beta/models/gemini-2:streamGenerateContent", reply);
    let gateway = Gateway::start();
    gateway.add_as(&json!({"name": "gemini", "platform": "gemini"}), &upstream);
    let chunks = wire::data_of(&gateway.client().chat_streamed("gemini-2").text());
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "ab");
}

#[test]
fn a_stream_ends_when_its_upstream_says_done() {
    let (gateway, upstream) = streaming();
    let events = wire::chat_events(MODEL);
    upstream.answer(CHAT, Reply::events(&events).stalls_after(events.len()));
    let started = Instant::now();
    let answer = gateway.client().chat_streamed(MODEL);
    assert_eq!(answer.text(), events.concat());
    assert!(started.elapsed() < Duration::from_secs(10), "it did not wait for the connection's end");
    let asked = upstream.last(CHAT);
    eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
    assert_eq!(gateway.wait_for_logs(1)[0]["status"], "success");
}

#[test]
fn a_stream_to_a_client_that_closes_does_not_say_that_it_keeps_the_connection() {
    let (gateway, upstream) = streaming();
    upstream.answer(CHAT, Reply::events(wire::chat_events(MODEL)));
    for (asked, told) in [("close", Some("close")), ("keep-alive", Some("keep-alive"))] {
        let ask = Caller::chat_ask(MODEL, true).header("connection", asked);
        assert_eq!(gateway.client().send(ask).header("connection"), told, "{asked}");
    }
    // HTTP/1.0 ends a body of unknown length with the connection.
    let body =
        json!({"model": MODEL, "stream": true, "messages": [{"role": "user", "content": "x"}]}).to_string();
    let head =
        format!("authorization: Bearer {}\r\ncontent-length: {}\r\n", support::PROXY_TOKEN, body.len());
    let request = format!("POST {CHAT} HTTP/1.0\r\n{head}\r\n{body}");
    let answer = gateway.anyone().connect().exchange(request.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_ne!(answer.header("connection"), Some("keep-alive"));
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
}
