//! The limits of keys in open conversations, and what conversations do to the rest of their channel.

use serde_json::{Value, json};

use super::voice::Voice;
use super::{gateway, opened, talk, with_key};
use crate::support::{Gateway, Socket, eventually};

fn key(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone()
}

#[track_caller]
fn wait_for_use(gateway: &Gateway, requests: i64, tokens: i64) {
    eventually(&format!("{requests} requests and {tokens} tokens are counted"), || {
        let used = &key(gateway)["budgets"][0]["used"];
        (used["requests"] == requests && used["tokens"] == tokens).then_some(())
    });
}

/// Requests a response outside of the conversation, which runs beside others.
fn ask_aside(socket: &mut Socket) -> Value {
    socket.send(&json!({"type": "response.create", "response": {"conversation": "none"}}));
    socket.event()
}

#[track_caller]
fn finish(socket: &mut Socket, count: usize) {
    socket.send(&json!({"type": "finish"}));
    for _ in 0..count {
        assert_eq!(socket.event()["type"], "response.done");
    }
}

#[test]
fn responses_at_the_same_time_are_requests_of_their_own() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let limits = json!({"requestsPerMinute": 3, "budgets": [{"period": "total", "maxTokens": 1_000_000}]});
    let mut socket = opened(&with_key(&gateway, &limits));
    for _ in 0..3 {
        assert_eq!(ask_aside(&mut socket)["type"], "response.created");
    }
    assert_eq!(ask_aside(&mut socket)["error"]["code"], "key_over_requests_per_minute");
    finish(&mut socket, 3);
    assert_eq!(gateway.wait_for_logs(3).len(), 3);
    wait_for_use(&gateway, 3, 90);
    let cost = key(&gateway)["budgets"][0]["used"]["cost"].as_f64().expect("a cost");
    let total = key(&gateway)["usedCost"].as_f64().expect("a cost");
    assert!(total > 0.0 && (cost - total).abs() < 1e-9, "{cost} of {total}");
}

#[test]
fn responses_at_the_same_time_take_a_place_of_their_key_each() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&with_key(&gateway, &json!({"maxConcurrency": 2})));
    for _ in 0..2 {
        assert_eq!(ask_aside(&mut socket)["type"], "response.created");
    }
    assert_eq!(ask_aside(&mut socket)["error"]["code"], "key_over_concurrency");
    finish(&mut socket, 2);
    talk(&mut socket, "response.create");
}
