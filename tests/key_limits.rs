//! Limits of downstream keys at any moment: concurrent calls, calls and tokens per minute, addresses.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Answer, Caller, Gate, Gateway, Reply, Setup, Upstream, eventually, wire};

const MODEL: &str = "model-limits";
const KEY: &str = "sk-team-limits-0123456789";

fn world_with(setup: Setup) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = setup.start().in_front_of("openai", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

fn world() -> (Gateway, Upstream) {
    world_with(Setup::default())
}

/// Creates the key with these limits; returns its item.
#[track_caller]
fn create(gateway: &Gateway, limits: Value) -> Value {
    gateway.create_key(KEY, &limits)
}

/// Returns the whole seconds after which a refused client may try again.
#[track_caller]
fn retry_after(answer: &Answer) -> u64 {
    answer.header("retry-after").expect("Retry-After").parse().expect("whole seconds")
}

#[track_caller]
fn over(answer: &Answer, code: &str, words: &[&str]) {
    let error = &answer.expect(429)["error"];
    assert_eq!((&error["code"], &error["type"]), (&json!(code), &json!("rate_limit_error")), "{error}");
    let message = error["message"].as_str().expect("a message");
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn limits_are_shown_as_they_were_set_and_cleared_by_null() {
    let gateway = Gateway::start();
    let plain = create(&gateway, json!({}));
    for member in ["maxConcurrency", "requestsPerMinute", "tokensPerMinute", "allowedIps", "budgets"] {
        assert_eq!(plain[member], json!(null), "{member}");
        assert!(plain.as_object().expect("an object").contains_key(member), "{member}");
    }
    let limits = json!({"maxConcurrency": 2, "requestsPerMinute": "60", "tokensPerMinute": 1000,
        "allowedIps": ["127.0.0.1", "10.0.0.0/8"]});
    let item = gateway.change_key(&plain, &limits);
    let shown = json!({"maxConcurrency": 2, "requestsPerMinute": 60, "tokensPerMinute": 1000,
        "allowedIps": ["127.0.0.1", "10.0.0.0/8"]});
    for (member, value) in shown.as_object().expect("an object") {
        assert_eq!(&item[member], value, "{member}");
    }
    let gateway = gateway.restart();
    let listed = gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone();
    for (member, value) in shown.as_object().expect("an object") {
        assert_eq!(&listed[member], value, "{member}");
        assert_eq!(gateway.change_key(&item, &json!({ member: null }))[member], json!(null), "{member}");
    }
    for (limits, word) in [
        (json!({"maxConcurrency": -1}), "maxConcurrency"),
        (json!({"requestsPerMinute": "many"}), "requestsPerMinute"),
        (json!({"tokensPerMinute": 1.5}), "tokensPerMinute"),
        (json!({"allowedIps": ["10.0.0.300"]}), "10.0.0.300"),
    ] {
        let path = format!("/api/downstream-keys/{}", item["id"]);
        let error = gateway.admin().put(&path, &limits).expect(400);
        assert!(error["message"].as_str().is_some_and(|text| text.contains(word)), "{error}");
    }
}

#[test]
fn so_many_calls_of_a_key_are_at_work_at_once_and_the_next_is_refused() {
    let (gateway, upstream) = world();
    create(&gateway, json!({"maxConcurrency": 2}));
    let gate = Gate::new();
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)).head_waits_for(&gate));
    std::thread::scope(|scope| {
        let held: Vec<_> =
            (0..2).map(|_| scope.spawn(|| gateway.with_token(KEY).chat(MODEL).status)).collect();
        eventually("both are at work", || (upstream.asked_for(CHAT).len() == 2).then_some(()));
        let refused = gateway.with_token(KEY).chat(MODEL);
        over(&refused, "key_over_concurrency", &["maxConcurrency", "2"]);
        assert_eq!(retry_after(&refused), 1);
        assert_eq!(upstream.asked_for(CHAT).len(), 2, "no upstream is asked");
        gate.open();
        for call in held {
            assert_eq!(call.join().expect("a status"), 200);
        }
    });
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)));
    for _ in 0..5 {
        gateway.with_token(KEY).chat(MODEL).expect(200);
    }
}

#[test]
fn a_stream_is_at_work_until_it_ends_and_whoever_read_its_end_may_ask_again() {
    let (gateway, upstream) = world();
    create(&gateway, json!({"maxConcurrency": 1}));
    let gate = Gate::new();
    let events = wire::chat_events(MODEL);
    upstream.answer_once(CHAT, Reply::events(&events).waits_for(events.len() - 1, &gate));
    let mut stream = gateway.with_token(KEY).stream(Caller::chat_ask(MODEL, true));
    stream.next_event().expect("it streams").expect("an event");
    over(&gateway.with_token(KEY).chat(MODEL), "key_over_concurrency", &["maxConcurrency"]);
    gate.open();
    assert!(stream.whole().text().contains("[DONE]"));
    for _ in 0..3 {
        upstream.answer_once(CHAT, Reply::events(wire::chat_events(MODEL)));
        let mut stream = gateway.with_token(KEY).stream(Caller::chat_ask(MODEL, true));
        assert_eq!(stream.status, 200, "the one before has ended");
        while stream.next_event().expect("it streams").is_some_and(|event| !event.contains("[DONE]")) {}
    }
}

#[test]
fn a_client_that_hangs_up_gives_its_slot_back() {
    let (gateway, upstream) = world();
    create(&gateway, json!({"maxConcurrency": 1}));
    upstream.answer_once(CHAT, Reply::events(wire::chat_events(MODEL)).stalls_after(2));
    let mut stream = gateway.with_token(KEY).stream(Caller::chat_ask(MODEL, true));
    stream.next_event().expect("it streams").expect("an event");
    assert_eq!(gateway.with_token(KEY).chat(MODEL).status, 429);
    drop(stream);
    eventually("the slot is free", || (gateway.with_token(KEY).chat(MODEL).status == 200).then_some(()));
}

#[test]
fn so_many_requests_pass_in_a_minute_however_many_come_at_once() {
    let (gateway, upstream) = world();
    let item = create(&gateway, json!({"requestsPerMinute": 20}));
    let refused = |answer: &Answer| {
        over(answer, "key_over_requests_per_minute", &["requestsPerMinute", "20", "resets at"]);
    };
    let passed = gateway.served_of_crowd((KEY, MODEL), (40, 2), refused);
    assert_eq!((passed, upstream.asked_for(CHAT).len()), (20, 20));
    assert!((1..=60).contains(&retry_after(&gateway.with_token(KEY).chat(MODEL))));
    let shown = gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone();
    assert_eq!(shown["usedRequests"], 20, "a refused call counts nowhere");
    gateway.with_token(KEY).get("/v1/models").expect(200);
    gateway.change_key(&item, &json!({"requestsPerMinute": 21}));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    assert_eq!(gateway.with_token(KEY).chat(MODEL).status, 429);
    gateway.client().chat(MODEL).expect(200);
}

#[test]
fn tokens_count_when_they_are_known_so_that_the_next_request_is_refused() {
    for (most, prompt) in [(200, 90), (100_000_000, 60_000_000)] {
        let (gateway, upstream) = world();
        let mut reply = wire::chat(MODEL);
        let total = prompt + 20;
        reply["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": total});
        upstream.answer(CHAT, Reply::json(200, &reply));
        create(&gateway, json!({"tokensPerMinute": most}));
        for _ in 0..2 {
            gateway.with_token(KEY).chat(MODEL).expect(200);
        }
        let refused = gateway.with_token(KEY).chat(MODEL);
        over(&refused, "key_over_tokens_per_minute", &["tokensPerMinute", &most.to_string(), "resets at"]);
        assert!((1..=60).contains(&retry_after(&refused)));
    }
}

#[test]
fn a_refusal_has_the_shape_of_its_surface() {
    let (gateway, _upstream) = world();
    create(&gateway, json!({"requestsPerMinute": 1}));
    let client = gateway.with_token(KEY);
    client.chat(MODEL).expect(200);
    let turn = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let messages = client.post("/v1/messages", &turn).expect(429);
    assert_eq!(
        (&messages["type"], &messages["error"]["type"]),
        (&json!("error"), &json!("rate_limit_error"))
    );
    let contents = json!({"contents": [{"parts": [{"text": "Hi"}]}]});
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let gemini = client.post(&path, &contents).expect(429);
    assert_eq!(
        (&gemini["error"]["code"], &gemini["error"]["status"]),
        (&json!(429), &json!("RESOURCE_EXHAUSTED"))
    );
    let responses = client.post("/v1/responses", &json!({"model": MODEL, "input": "Hi"}));
    over(&responses, "key_over_requests_per_minute", &["requestsPerMinute"]);
}

#[test]
fn a_turn_over_a_websocket_counts_as_a_request_does() {
    let (gateway, _upstream) = world();
    create(&gateway, json!({"requestsPerMinute": 1}));
    let mut socket = gateway.with_token(KEY).socket();
    let turn = json!({"model": MODEL, "store": false, "input": "Hi"});
    socket.create(&turn);
    assert_eq!(socket.turn().last().expect("an event")["type"], "response.completed");
    socket.create(&turn);
    let refused = socket.event();
    assert_eq!((&refused["type"], &refused["status"]), (&json!("error"), &json!(429)), "{refused}");
    assert_eq!(refused["error"]["code"], "key_over_requests_per_minute");
    let wait: u64 =
        refused["headers"]["retry-after"].as_str().expect("Retry-After").parse().expect("seconds");
    assert!((1..=60).contains(&wait));
    assert_eq!(gateway.with_token(KEY).chat(MODEL).status, 429);
}

#[test]
fn a_turn_at_work_over_a_websocket_holds_a_slot() {
    let (gateway, upstream) = world();
    create(&gateway, json!({"maxConcurrency": 1}));
    let gate = Gate::new();
    upstream.answer_once("/v1/responses", Reply::events(wire::response_events(MODEL)).waits_for(0, &gate));
    let mut socket = gateway.with_token(KEY).socket();
    socket.create(&json!({"model": MODEL, "store": false, "input": "Hi"}));
    eventually("the turn is at work", || (upstream.asked_for("/v1/responses").len() == 1).then_some(()));
    over(&gateway.with_token(KEY).chat(MODEL), "key_over_concurrency", &["maxConcurrency"]);
    gate.open();
    assert_eq!(socket.turn().last().expect("an event")["type"], "response.completed");
    // Another connection may come before the end of the turn is settled.
    eventually("the slot is free", || (gateway.with_token(KEY).chat(MODEL).status == 200).then_some(()));
}

#[test]
fn a_key_is_refused_from_addresses_that_it_does_not_allow() {
    let (gateway, upstream) = world();
    let item = create(&gateway, json!({"allowedIps": ["192.0.2.0/24", "2001:db8::7"]}));
    for (forwarded, allowed) in [
        (None, false),
        (Some("192.0.2.9"), true),
        (Some("198.51.100.7, 192.0.2.9"), true),
        (Some("192.0.2.9, 198.51.100.7"), false),
        (Some("2001:db8::7"), true),
        (Some("2001:db8::8"), false),
    ] {
        let client = match forwarded {
            Some(address) => gateway.with_token(KEY).with("x-forwarded-for", address),
            None => gateway.with_token(KEY),
        };
        let (chat, models) = (client.chat(MODEL), client.get("/v1/models"));
        let status = if allowed { 200 } else { 403 };
        assert_eq!((chat.status, models.status), (status, status), "{forwarded:?}");
        if !allowed {
            let error = &chat.json()["error"];
            assert_eq!(error["code"], "key_address_not_allowed", "{error}");
            let address = forwarded.map_or("127.0.0.1", |list| list.rsplit(", ").next().expect("one"));
            assert!(error["message"].as_str().is_some_and(|text| text.contains(address)), "{error}");
            assert_eq!(
                client.try_socket(Caller::socket_ask("/v1/responses")).err().map(|a| a.status),
                Some(403)
            );
        }
    }
    assert_eq!(upstream.asked_for(CHAT).len(), 3);
    gateway.change_key(&item, &json!({"allowedIps": "127.0.0.1"}));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    gateway.change_key(&item, &json!({"allowedIps": ["::1"]}));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    gateway.change_key(&item, &json!({"allowedIps": []}));
    gateway.with_token(KEY).with("x-forwarded-for", "203.0.113.1").chat(MODEL).expect(200);
}
