//! A channel whose credential is one person's login serves two sessions at a time: a further one waits, goes elsewhere, or
//! is told to try again.

use std::thread::scope;

use serde_json::{Value, json};

use crate::support::paths::RESPONSES;
use crate::support::{Answer, Gate, Gateway, Home, Reply, Request, Setup, Upstream, eventually};

const MODEL: &str = "model-session";

fn answer() -> Reply {
    Reply::json(
        200,
        &json!({"id": "r", "object": "response", "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "So."}]}]}),
    )
}

fn says(gateway: &Gateway, session: Option<&str>) -> Answer {
    let ask = Request::post(RESPONSES).json(&json!({"model": MODEL, "input": "And then?"}));
    gateway.client().send(session.into_iter().fold(ask, |ask, name| ask.header("session_id", name)))
}

/// Starts a gateway with one account per upstream; all become OAuth logins unless `api_keys`.
fn started(upstreams: &[&Upstream], variables: &[(&str, &str)], api_keys: bool) -> Gateway {
    let home = Home::new();
    let setup = variables.iter().fold(Setup::default(), |setup, (name, value)| setup.with(name, value));
    let mut gateway = setup.clone().start_in(home.clone());
    for (number, upstream) in upstreams.iter().enumerate() {
        let site = json!({"name": format!("site {number}"), "platform": "openai"});
        gateway.add_as(&site, upstream);
    }
    gateway.wait_for_channels(MODEL, upstreams.len());
    gateway.make_first_choice(MODEL, "site 0");
    if api_keys {
        return gateway;
    }
    gateway.signal("TERM");
    gateway.wait_for_exit();
    home.database().run("UPDATE accounts SET oauth_provider = 'codex', access_token = 'sk-upstream-key'");
    setup.start_in(home)
}

fn count(upstream: &Upstream) -> usize {
    upstream.asked_for(RESPONSES).len()
}

#[test]
fn the_third_session_is_told_to_come_again() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = started(&[&upstream], &[], false);
    let gate = Gate::new();
    upstream.answer(RESPONSES, answer().head_waits_for(&gate));
    scope(|scope| {
        let running = ["a", "b"].map(|name| {
            scope.spawn({
                let gateway = &gateway;
                move || says(gateway, Some(name))
            })
        });
        eventually("two are at work", || (count(&upstream) == 2).then_some(()));
        let refused = says(&gateway, Some("c"));
        let error = refused.expect(503)["error"].clone();
        assert_eq!(error["type"], "server_error");
        assert!(error["message"].as_str().is_some_and(|text| text.starts_with("Channel busy: ")), "{error}");
        assert_eq!(refused.header("retry-after"), Some("2"));
        // A request without a session is not counted.
        let unnamed = scope.spawn(|| says(&gateway, None));
        eventually("it is at work", || (count(&upstream) == 3).then_some(()));
        gate.open();
        for running in running.into_iter().chain([unnamed]) {
            running.join().expect("no panic").expect(200);
        }
    });
    let rows = gateway.wait_for_logs(4);
    let failed: Vec<&Value> = rows.iter().filter(|row| row["status"] == "failed").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["httpStatus"], 503);
    assert!(failed[0]["errorMessage"].as_str().is_some_and(|text| text.contains("Channel busy")), "{rows:?}");
    let channel = gateway.channels(MODEL).remove(0);
    assert_eq!(
        (&channel["cooldownUntil"], &channel["failCount"]),
        (&Value::Null, &json!(0)),
        "no fault of it"
    );
    says(&gateway, Some("c")).expect(200);
}

#[test]
fn a_session_that_waits_gets_the_slot_that_comes_free() {
    let upstream = Upstream::start(&[MODEL]);
    let wait =
        [("PROXY_SESSION_CHANNEL_QUEUE_WAIT_MS", "600000"), ("PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT", "1")];
    let gateway = started(&[&upstream], &wait, false);
    let gate = Gate::new();
    upstream.answer_once(RESPONSES, answer().head_waits_for(&gate));
    scope(|scope| {
        let first = scope.spawn(|| says(&gateway, Some("a")));
        eventually("one is at work", || (count(&upstream) == 1).then_some(()));
        let second = scope.spawn(|| says(&gateway, Some("b")));
        gate.open();
        first.join().expect("no panic").expect(200);
        second.join().expect("no panic").expect(200);
    });
    assert_eq!(count(&upstream), 2);
}

#[test]
fn sessions_that_wait_are_let_in_when_the_limit_is_taken_away() {
    let upstream = Upstream::start(&[MODEL]);
    let wait =
        [("PROXY_SESSION_CHANNEL_QUEUE_WAIT_MS", "600000"), ("PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT", "1")];
    let gateway = started(&[&upstream], &wait, false);
    let gate = Gate::new();
    upstream.answer(RESPONSES, answer().head_waits_for(&gate));
    scope(|scope| {
        let running = ["a", "b", "c"].map(|name| {
            scope.spawn({
                let gateway = &gateway;
                move || says(gateway, Some(name))
            })
        });
        eventually("one is at work", || (count(&upstream) == 1).then_some(()));
        let settings = json!({"proxySessionChannelConcurrencyLimit": 0});
        gateway.admin().put("/api/settings/runtime", &settings).expect(200);
        eventually("all are at work", || (count(&upstream) == 3).then_some(()));
        gate.open();
        for running in running {
            running.join().expect("no panic").expect(200);
        }
    });
}

#[test]
fn a_session_that_waited_long_enough_goes_to_the_next_channel() {
    let (first, second) = (Upstream::start(&[MODEL]), Upstream::start(&[MODEL]));
    let rules =
        [("PROXY_SESSION_CHANNEL_QUEUE_WAIT_MS", "50"), ("PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT", "1")];
    let gateway = started(&[&first, &second], &rules, false);
    says(&gateway, Some("b")).expect(200);
    assert_eq!(count(&first), 1, "it is bound there");
    let gate = Gate::new();
    first.answer(RESPONSES, answer().head_waits_for(&gate));
    scope(|scope| {
        let running = scope.spawn(|| says(&gateway, Some("a")));
        eventually("the first is at work", || (count(&first) == 2).then_some(()));
        says(&gateway, Some("b")).expect(200);
        assert_eq!((count(&first), count(&second)), (2, 1));
        gate.open();
        running.join().expect("no panic").expect(200);
    });
    says(&gateway, Some("b")).expect(200);
    assert_eq!(count(&second), 2, "the conversation has moved");
    let busy: Vec<Value> =
        gateway.wait_for_logs(5).into_iter().filter(|row| row["httpStatus"] == 503).collect();
    assert_eq!(busy.len(), 1);
    assert_eq!(busy[0]["retryCount"], 0);
}

#[test]
fn api_keys_and_a_limit_of_zero_take_any_number_of_sessions() {
    for (variables, api_keys) in
        [(&[][..], true), (&[("PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT", "0")], false)]
    {
        let upstream = Upstream::start(&[MODEL]);
        let gateway = started(&[&upstream], variables, api_keys);
        let gate = Gate::new();
        upstream.answer(RESPONSES, answer().head_waits_for(&gate));
        scope(|scope| {
            let running = ["a", "b", "c", "d"].map(|name| {
                scope.spawn({
                    let gateway = &gateway;
                    move || says(gateway, Some(name))
                })
            });
            eventually("all are at work", || (count(&upstream) == 4).then_some(()));
            gate.open();
            for running in running {
                running.join().expect("no panic").expect(200);
            }
        });
    }
}
