//! Turns that fail, break off, are cancelled or abandoned.

use super::*;

#[test]
fn a_failure_before_any_output_is_tried_elsewhere_and_one_stream_is_told() {
    let pair = Pair::start();
    for failure in [
        Reply::error(500, "down"),
        Reply::silence(),
        Reply::events(wire::response_events(Pair::MODEL)).cut_after(2),
    ] {
        pair.first.answer_once(RESPONSES, failure);
        let mut socket = pair.gateway.client().socket();
        socket.create(&json!({"model": Pair::MODEL, "input": "x"}));
        let events = socket.turn();
        assert_eq!(text_of(&events), wire::TEXT);
        assert_eq!(events.iter().filter(|event| event["type"] == "response.created").count(), 1);
        recover(&pair.gateway, Pair::MODEL);
    }
    assert_eq!((pair.first.asked_for(RESPONSES).len(), pair.second.asked_for(RESPONSES).len()), (3, 3));
}

#[test]
fn the_last_failure_is_told_as_an_error_frame() {
    let (gateway, upstream) = narrow(RESPONSES);
    let error = json!({"error": {"message": "too long", "type": "invalid_request_error",
        "code": "context_length_exceeded", "param": "input"}});
    upstream.answer_once(RESPONSES, Reply::json(400, &error));
    let mut socket = gateway.client().socket();
    socket.create(&first());
    let refusal = refused(&mut socket);
    assert_eq!((&refusal["status"], &refusal["error"]), (&json!(400), &error["error"]));

    upstream.answer_once(RESPONSES, Reply::error(429, "slow down").header("retry-after", "7"));
    socket.create(&first());
    let refusal = refused(&mut socket);
    assert_eq!((&refusal["status"], &refusal["headers"]["retry-after"]), (&json!(429), &json!("7")));
}

#[test]
fn a_stream_that_ends_too_soon_is_told_and_can_be_gone_on_with() {
    for offered in [CHAT, RESPONSES] {
        let (gateway, upstream) = narrow(offered);
        let events = if offered == CHAT { wire::chat_events(MODEL) } else { wire::response_events(MODEL) };
        upstream.answer_once(offered, Reply::events(&events[..events.len() - 3]).cut_after(9));
        let mut socket = gateway.client().socket();
        socket.create(&first());
        let mut told = socket.turn();
        let wanted = json!({"type": "error", "status": 408, "headers": {}, "error":
            {"type": "invalid_request_error", "message": "stream closed before response.completed"}});
        assert_eq!(told.pop(), Some(wanted), "{offered}");
        assert!(!text_of(&told).is_empty(), "{offered}");
        let id = told[0]["response"]["id"].clone();
        recover(&gateway, MODEL);
        socket.create(&json!({"previous_response_id": id, "input": [user("go on")]}));
        assert_eq!(text_of(&socket.turn()), wire::TEXT, "{offered}");
        let row = &gateway.wait_for_logs_of(offered, 2)[0];
        assert_eq!(row["status"], "failed", "{row}");
    }
}

/// Starts a socket whose turn has sent something and is now silent.
fn stalled(offered: &str, variables: &[(&str, &str)]) -> (Gateway, Upstream, Socket) {
    let setup = variables.iter().fold(Setup::default(), |setup, (name, value)| setup.with(name, value));
    let (gateway, upstream) = narrow_with(offered, setup);
    let events = if offered == CHAT { wire::chat_events(MODEL) } else { wire::response_events(MODEL) };
    let begun = if offered == CHAT { 2 } else { 5 };
    upstream.answer_once(offered, Reply::events(&events).stalls_after(begun));
    let mut socket = gateway.client().socket();
    socket.create(&first());
    while socket.event()["type"] != "response.output_text.delta" {}
    (gateway, upstream, socket)
}

#[test]
fn a_turn_can_be_cancelled_and_the_next_goes_on() {
    for offered in [CHAT, RESPONSES] {
        let (gateway, upstream, mut socket) = stalled(offered, &[]);
        socket.send(&json!({"type": "response.cancel"}));
        let end = socket.event();
        assert_eq!(end["type"], "response.incomplete", "{end}");
        assert_eq!(end["response"]["incomplete_details"], json!({"reason": "cancelled"}));
        let asked = upstream.last(offered);
        eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
        let row = &gateway.wait_for_logs_of(offered, 1)[0];
        assert!(row["errorMessage"].as_str().is_some_and(|text| text.contains("client_closed")), "{row}");
        let id = end["response"]["id"].clone();
        socket.create(&json!({"previous_response_id": id, "input": [user("go on")]}));
        assert_eq!(text_of(&socket.turn()), wire::TEXT);
    }
}

#[test]
fn a_turn_can_be_cancelled_before_its_upstream_has_answered() {
    let (gateway, upstream) = narrow(CHAT);
    upstream.answer_once(CHAT, Reply::stall());
    let mut socket = gateway.client().socket();
    socket.create(&first());
    let asked = upstream.last(CHAT);
    socket.send(&json!({"type": "response.cancel"}));
    assert_eq!(socket.event()["type"], "response.incomplete");
    eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
    still_serves(&mut socket);
}

#[test]
fn a_cancel_right_behind_its_turn_cancels_that_turn() {
    let (gateway, _upstream) = narrow(CHAT);
    let mut socket = gateway.client().socket();
    for _ in 0..5 {
        let mut turn = first();
        turn["type"] = json!("response.create");
        socket.send_at_once(&[turn, json!({"type": "response.cancel"})]);
        let end = socket.turn().pop().expect("an event");
        assert_eq!(end["response"]["incomplete_details"], json!({"reason": "cancelled"}), "{end}");
        still_serves(&mut socket);
    }
}

#[test]
fn a_client_that_leaves_frees_the_upstream_and_the_sites_slot() {
    for leave in [Socket::hang_up as fn(Socket), |mut socket: Socket| socket.close(1000)] {
        let upstream = Upstream::start(&[MODEL]);
        let gateway = Gateway::with(&[("PROXY_SITE_CONCURRENCY_QUEUE_LIMIT", "0")]);
        gateway.add_as(&json!({"name": "site", "platform": "openai", "maxConcurrency": 1}), &upstream);
        gateway.wait_for_channels(MODEL, 1);
        let events = wire::response_events(MODEL);
        upstream.answer_once(RESPONSES, Reply::events(&events).stalls_after(5));
        let mut socket = gateway.client().socket();
        socket.create(&first());
        assert_eq!(socket.event()["type"], "response.created");
        let mut other = gateway.client().socket();
        other.create(&first());
        let refusal = refused(&mut other);
        assert_eq!(refusal["status"], 503);
        assert_eq!(refusal["error"]["message"], "Site concurrency limit reached");
        assert_eq!(refusal["headers"]["retry-after"], "2");

        let asked = upstream.last(RESPONSES);
        leave(socket);
        eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
        eventually("the slot is free", || {
            other.create(&first());
            (other.turn().last()?["type"] == "response.completed").then_some(())
        });
    }
}

#[test]
fn a_turn_under_way_is_told_to_its_end_before_a_terminated_process_exits() {
    let (mut gateway, upstream) = narrow(CHAT);
    let (events, gate) = (wire::chat_events(MODEL), Gate::new());
    upstream.answer(CHAT, Reply::events(&events).waits_for(2, &gate));
    let (mut busy, mut idle) = (gateway.client().socket(), gateway.client().socket());
    busy.create(&first());
    assert_eq!(busy.event()["type"], "response.created");
    busy.create(&first());
    gateway.signal("TERM");
    assert_eq!(idle.closed_with(), 1001);
    assert!(gateway.is_running());
    gate.open();
    assert_eq!(text_of(&busy.turn()), wire::TEXT);
    // The turn that waited behind it is not begun.
    assert_eq!(busy.closed_with(), 1001);
    assert!(gateway.wait_for_exit().success());
}

#[test]
fn a_turn_that_a_stop_cuts_off_ends_with_an_error_frame() {
    let (mut gateway, _upstream, mut begun) = stalled(CHAT, &[("SHUTDOWN_GRACE_SEC", "1")]);
    gateway.signal("TERM");
    let told = refused(&mut begun);
    assert_eq!(told["error"]["message"], "stream closed before response.completed");
    assert_eq!(begun.closed_with(), 1001);
    assert!(gateway.wait_for_exit().success());
    let row = &gateway.restart().wait_for_logs_of(CHAT, 1)[0];
    assert!(row["errorMessage"].as_str().is_some_and(|text| text.contains("service_stopped")), "{row}");
}
