//! Requests that have no answer yet at the end of the grace period of a stop.

use serde_json::json;

use super::MODEL;
use crate::support::paths::{CHAT, MESSAGES, RESPONSES, VIDEOS};
use crate::support::{Gateway, Reply, Request, Upstream, eventually, wire};

#[test]
fn a_request_that_a_stop_cuts_off_is_answered_in_its_dialect() {
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway = Gateway::with(&[("SHUTDOWN_GRACE_SEC", "1")]).in_front_of("new-api", &upstream);
    let (said, gemini) =
        (json!([{"role": "user", "content": "x"}]), format!("/v1beta/models/{MODEL}:generateContent"));
    let asked = [
        (CHAT, json!({"model": MODEL, "messages": said})),
        (RESPONSES, json!({"model": MODEL, "input": "x"})),
        (MESSAGES, json!({"model": MODEL, "messages": said, "max_tokens": 9})),
        (gemini.as_str(), json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]})),
    ];
    for path in [CHAT, RESPONSES, MESSAGES] {
        upstream.answer(path, Reply::stall());
    }
    let waiting = asked.map(|(path, body)| {
        let (client, request) = (gateway.client(), Request::post(path).json(&body));
        (path, std::thread::spawn(move || client.try_send(request)))
    });
    eventually("all are at work", || {
        let counts = [CHAT, RESPONSES, MESSAGES].map(|path| upstream.asked_for(path).len());
        (counts == [2, 1, 1]).then_some(())
    });
    gateway.signal("TERM");
    for (path, waiting) in waiting {
        let answer = waiting.join().expect("no panic").unwrap_or_else(|error| panic!("{path}: {error}"));
        let told = answer.expect(503);
        assert!(
            told["error"]["message"].as_str().is_some_and(|why| why.contains("service stopped")),
            "{path}: {told}"
        );
        assert_eq!(told["type"] == "error", path == MESSAGES, "{path}: {told}");
        assert_eq!(told["error"]["status"] == "UNAVAILABLE", path == gemini, "{path}: {told}");
        assert_eq!(answer.header("connection"), Some("close"), "{path}");
        assert!(answer.header("retry-after").is_some(), "{path}");
    }
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn what_a_stop_cuts_off_while_it_may_be_made_is_not_to_be_sent_again() {
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway = Gateway::with(&[("SHUTDOWN_GRACE_SEC", "1")]).in_front_of("openai", &upstream);
    let batch = json!([{"custom_id": "1", "params": {"model": MODEL, "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}]}}]);
    let asked = [
        (VIDEOS, json!({"model": MODEL, "prompt": "a train"})),
        ("/v1/images/generations", json!({"model": MODEL, "prompt": "a train"})),
        (RESPONSES, json!({"model": MODEL, "input": "x", "background": true})),
        ("/v1/messages/batches", json!({"requests": batch})),
    ];
    for (path, _) in &asked {
        upstream.answer(path, Reply::stall());
    }
    let waiting = asked.map(|(path, body)| {
        let (client, request) = (gateway.client(), Request::post(path).json(&body));
        (path, std::thread::spawn(move || client.try_send(request)))
    });
    eventually("all are at work", || {
        waiting.iter().all(|(path, _)| upstream.asked_for(path).len() == 1).then_some(())
    });
    gateway.signal("TERM");
    for (path, waiting) in waiting {
        let answer = waiting.join().expect("no panic").unwrap_or_else(|error| panic!("{path}: {error}"));
        answer.expect(503);
        assert_eq!(answer.header("x-should-retry"), Some("false"), "{path}: {}", answer.text());
    }
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn a_stream_that_was_taken_up_ends_with_an_error_event_where_a_stop_or_its_upstream_cuts_it_off() {
    const ONE: &str = "/v1/responses/resp_stub";
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway = Gateway::with(&[("SHUTDOWN_GRACE_SEC", "1")]).in_front_of("openai", &upstream);
    let client = gateway.client();
    client.post(RESPONSES, &json!({"model": MODEL, "input": "x"})).expect(200);
    let events: Vec<String> = wire::response_events(MODEL).into_iter().take(5).collect();
    let ends_in_an_error = |text: &str| {
        let error = text.strip_prefix(&events.concat()).unwrap_or_else(|| panic!("{text}"));
        let told = wire::data_of(error);
        assert_eq!(told.len(), 1, "{text}");
        assert_eq!(
            (&told[0]["type"], &told[0]["response"]["id"]),
            (&json!("response.failed"), &json!("resp_stub"))
        );
        let why = told[0]["response"]["error"]["message"].as_str().unwrap_or_default();
        assert!(why.starts_with("stream closed before response.completed"), "{text}");
    };
    for broken in [Reply::events(&events), Reply::events(&events).cut_after(events.len())] {
        upstream.answer_once(ONE, broken);
        ends_in_an_error(&client.get(&format!("{ONE}?stream=true")).text());
    }
    upstream.answer_once(ONE, Reply::events(Vec::<String>::new()));
    assert_eq!(client.get(&format!("{ONE}?stream=true&starting_after=9")).text(), "", "its end is known");
    upstream.answer(ONE, Reply::events(&events).stalls_after(events.len()));
    let mut stream = client.stream(Request::new("GET", &format!("{ONE}?stream=true")));
    let begun: Vec<_> =
        events.iter().map(|_| stream.next_event().expect("no break").expect("an event")).collect();
    gateway.signal("TERM");
    let (rest, ended) = stream.rest();
    ended.expect("it ends in order");
    ends_in_an_error(&(begun.concat() + &String::from_utf8_lossy(&rest)));
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}
