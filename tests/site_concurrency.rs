//! A site with `maxConcurrency` never has more requests than that; the rest go elsewhere, wait, or are told to try again.
//! Every slot is returned, however its request ended.

use std::thread::{Scope, ScopedJoinHandle, scope};

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    Answer, Caller, Gate, Gateway, Pair, Reply, Request, Stream, Upstream, eventually, wire,
};

const MODEL: &str = "model-slot";

/// Requests without a slot are refused at once.
const NO_QUEUE: &[(&str, &str)] = &[("PROXY_SITE_CONCURRENCY_QUEUE_LIMIT", "0")];
/// Requests without a slot wait longer than any test takes.
const LONG_QUEUE: &[(&str, &str)] = &[("PROXY_SITE_CONCURRENCY_QUEUE_WAIT_MS", "600000")];

/// A gateway with one site that has a limit.
struct Limited {
    gateway: Gateway,
    upstream: Upstream,
    site: Value,
}

impl Limited {
    fn to(limit: u32, variables: &[(&str, &str)]) -> Self {
        let gateway = Gateway::with(variables);
        let upstream = Upstream::start(&[MODEL]);
        let site = json!({"name": "limited", "platform": "openai", "maxConcurrency": limit});
        let (site, _) = gateway.add_as(&site, &upstream);
        gateway.wait_for_channels(MODEL, 1);
        Self { gateway, upstream, site }
    }

    fn set_limit(&self, limit: u32) {
        let path = format!("/api/sites/{}", self.site["id"]);
        self.gateway.admin().put(&path, &json!({"maxConcurrency": limit})).expect(200);
    }

    /// Makes answers wait for the gate from now on.
    fn hold(&self) -> Gate {
        let gate = Gate::new();
        self.upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)).head_waits_for(&gate));
        gate
    }

    /// Opens a stream whose beginning the client has read and whose end the upstream holds back.
    fn open_stream(&self) -> Stream {
        let events = wire::chat_events(MODEL);
        self.upstream.answer_once(CHAT, Reply::events(&events).stalls_after(events.len() - 2));
        let mut stream = self.gateway.client().stream(Caller::chat_ask(MODEL, true));
        assert_eq!(stream.status, 200);
        assert!(stream.next_event().expect("a stream").is_some());
        stream
    }

    /// Sends a request in the background.
    fn chat<'s>(&'s self, scope: &'s Scope<'s, '_>) -> ScopedJoinHandle<'s, Answer> {
        scope.spawn(|| self.gateway.client().chat(MODEL))
    }

    #[track_caller]
    fn wait_for_running(&self, count: usize) {
        eventually(&format!("{count} requests are at the upstream"), || {
            (self.upstream.asked_for(CHAT).len() == count).then_some(())
        });
    }
}

#[test]
fn a_request_beyond_the_limit_is_told_when_to_come_again() {
    let limited = Limited::to(1, NO_QUEUE);
    let gate = limited.hold();
    scope(|scope| {
        let running = limited.chat(scope);
        limited.wait_for_running(1);
        let refused = limited.gateway.client().chat(MODEL);
        let error = &refused.expect(503)["error"];
        assert_eq!(error["type"], "site_concurrency_limit");
        assert_eq!(error["message"], "Site concurrency limit reached");
        assert_eq!(refused.header("retry-after"), Some("2"));

        let ask = Request::post("/v1/messages").json(
            &json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}]}),
        );
        let refused = limited.gateway.client().send(ask);
        let body = refused.expect(503);
        assert_eq!(body["type"], "error", "the shape of the surface: {body}");
        assert_eq!(body["error"]["message"], "Site concurrency limit reached");
        assert_eq!(refused.header("retry-after"), Some("2"));

        gate.open();
        running.join().expect("no panic").expect(200);
    });
    limited.gateway.client().chat(MODEL).expect(200);
    let channel = &limited.gateway.channels(MODEL)[0];
    assert_eq!((&channel["failCount"], &channel["cooldownUntil"]), (&json!(0), &json!(null)));
    assert_eq!(limited.gateway.wait_for_logs(2).len(), 2, "a refusal is no attempt");
}

#[test]
fn never_more_than_the_limit_are_at_the_upstream() {
    const AT_ONCE: usize = 200;
    let limited = Limited::to(50, NO_QUEUE);
    let gate = limited.hold();
    scope(|scope| {
        let asking: Vec<_> = (0..AT_ONCE).map(|_| limited.chat(scope)).collect();
        let answered = || asking.iter().filter(|request| request.is_finished()).count();
        eventually("all others are refused", || (answered() == AT_ONCE - 50).then_some(()));
        limited.wait_for_running(50);
        gate.open();
        let answers: Vec<_> = asking.into_iter().map(|request| request.join().expect("no panic")).collect();
        let served = answers.iter().filter(|answer| answer.status == 200).count();
        let refused = answers.iter().filter(|answer| answer.status == 503).count();
        assert_eq!((served, refused), (50, AT_ONCE - 50));
    });
}

#[test]
fn who_waits_too_long_is_refused() {
    let limited = Limited::to(1, &[("PROXY_SITE_CONCURRENCY_QUEUE_WAIT_MS", "50")]);
    let _stream = limited.open_stream();
    let refused = limited.gateway.client().chat(MODEL);
    refused.expect(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[test]
fn a_killed_client_frees_its_slot() {
    let limited = Limited::to(1, LONG_QUEUE);
    let stream = limited.open_stream();
    scope(|scope| {
        let waiting = limited.chat(scope);
        assert_eq!(limited.upstream.asked_for(CHAT).len(), 1);
        drop(stream);
        waiting.join().expect("no panic").expect(200);
    });
    limited.gateway.client().chat(MODEL).expect(200);
}

#[test]
fn a_killed_upstream_frees_its_slot() {
    let limited = Limited::to(1, LONG_QUEUE);
    let mut stream = limited.open_stream();
    scope(|scope| {
        let waiting = limited.chat(scope);
        limited.upstream.hang_up();
        while stream.next_event().expect("the gateway ends the stream properly").is_some() {}
        // It may have looked for a channel before the break, or after it, when the only one was cooling.
        let answer = waiting.join().expect("no panic");
        assert!(answer.status == 200 || answer.text().contains("No available channels"), "{}", answer.text());
    });
}

#[test]
fn a_finished_stream_frees_its_slot() {
    let limited = Limited::to(1, NO_QUEUE);
    for _ in 0..3 {
        limited.gateway.client().chat_streamed(MODEL);
        eventually("the slot is free", || (limited.gateway.client().chat(MODEL).status == 200).then_some(()));
    }
}

#[test]
fn a_raised_limit_admits_those_who_wait() {
    let limited = Limited::to(1, LONG_QUEUE);
    let gate = limited.hold();
    scope(|scope| {
        let asking: Vec<_> = (0..10).map(|_| limited.chat(scope)).collect();
        limited.wait_for_running(1);
        limited.set_limit(10);
        limited.wait_for_running(10);
        gate.open();
        for request in asking {
            request.join().expect("no panic").expect(200);
        }
    });
}

#[test]
fn a_lowered_limit_admits_nobody_until_enough_have_ended() {
    let limited = Limited::to(10, NO_QUEUE);
    let gate = limited.hold();
    scope(|scope| {
        let running: Vec<_> = (0..3).map(|_| limited.chat(scope)).collect();
        limited.wait_for_running(3);
        limited.set_limit(1);
        limited.gateway.client().chat(MODEL).expect(503);
        limited.set_limit(4);
        let fourth = limited.chat(scope);
        limited.wait_for_running(4);
        limited.set_limit(1);
        gate.open();
        for request in running.into_iter().chain([fourth]) {
            request.join().expect("no panic").expect(200);
        }
    });
    limited.gateway.client().chat(MODEL).expect(200);
}

#[test]
fn no_limit_frees_everybody_who_waits() {
    let limited = Limited::to(1, LONG_QUEUE);
    let gate = limited.hold();
    scope(|scope| {
        let asking: Vec<_> = (0..6).map(|_| limited.chat(scope)).collect();
        limited.wait_for_running(1);
        limited.set_limit(0);
        limited.wait_for_running(6);
        gate.open();
        for request in asking {
            request.join().expect("no panic").expect(200);
        }
    });
}

#[test]
fn a_site_with_a_free_slot_comes_before_a_queue() {
    let pair = Pair::with(LONG_QUEUE);
    let first = pair.channel("first")["site"]["id"].clone();
    let path = format!("/api/sites/{first}");
    pair.gateway.admin().put(&path, &json!({"maxConcurrency": 1})).expect(200);
    let gate = Gate::new();
    pair.first.answer(CHAT, Reply::json(200, &wire::chat(Pair::MODEL)).head_waits_for(&gate));
    scope(|scope| {
        let running = scope.spawn(|| pair.gateway.client().chat(Pair::MODEL));
        eventually("the first is busy", || (pair.first.asked_for(CHAT).len() == 1).then_some(()));
        for _ in 0..5 {
            pair.gateway.client().chat(Pair::MODEL).expect(200);
        }
        assert_eq!(pair.second.asked_for(CHAT).len(), 5);
        gate.open();
        running.join().expect("no panic").expect(200);
    });
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(pair.first.asked_for(CHAT).len(), 2, "and the preferred site is preferred again");
}

#[test]
fn those_who_wait_in_turn_wait_at_different_sites() {
    for strategy in ["round_robin", "stable_first"] {
        let pair = Pair::with(LONG_QUEUE);
        let admin = pair.gateway.admin();
        let route = pair.gateway.routes().remove(0)["id"].clone();
        admin.put(&format!("/api/routes/{route}"), &json!({"routingStrategy": strategy})).expect(200);
        let gate = Gate::new();
        for (name, upstream) in [("first", &pair.first), ("second", &pair.second)] {
            let site = pair.channel(name)["site"]["id"].clone();
            admin.put(&format!("/api/sites/{site}"), &json!({"maxConcurrency": 1})).expect(200);
            upstream.answer(CHAT, Reply::json(200, &wire::chat(Pair::MODEL)).head_waits_for(&gate));
        }
        let key = json!({"name": "waits", "key": "sk-who-waits-in-the-queue"});
        admin.post("/api/downstream-keys", &key).expect(200);
        let waiter =
            || Caller::new(pair.gateway.address()).with("authorization", "Bearer sk-who-waits-in-the-queue");
        let asked = || [&pair.first, &pair.second].map(|upstream| upstream.asked_for(CHAT).len());
        scope(|scope| {
            for count in 1..=2 {
                scope.spawn(|| pair.gateway.client().chat(Pair::MODEL).expect(200));
                eventually("a site is busy", || (asked().iter().sum::<usize>() == count).then_some(()));
            }
            for count in 1..=6 {
                scope.spawn(|| waiter().chat(Pair::MODEL).expect(200));
                eventually("the request looks for a slot", || {
                    let used = admin.get("/api/downstream-keys").json()["items"][0]["usedRequests"].clone();
                    (used == count).then_some(())
                });
            }
            gate.open();
        });
        let [first, second] = asked();
        assert!(first >= 3 && second >= 3, "{strategy}: {first} and {second}");
    }
}

#[test]
fn a_waiter_does_not_follow_a_channel_that_was_taken_away() {
    for is_deleted in [true, false] {
        let limited = Limited::to(1, LONG_QUEUE);
        let gate = limited.hold();
        let path = format!("/api/sites/{}", limited.site["id"]);
        let admin = limited.gateway.admin();
        let key = json!({"name": "waits", "key": "sk-who-waits-in-the-queue"});
        admin.post("/api/downstream-keys", &key).expect(200);
        let waiter =
            Caller::new(limited.gateway.address()).with("authorization", "Bearer sk-who-waits-in-the-queue");
        scope(|scope| {
            let running = limited.chat(scope);
            limited.wait_for_running(1);
            let waiting = scope.spawn(|| waiter.chat(MODEL));
            eventually("the second request looks for a slot", || {
                let used = admin.get("/api/downstream-keys").json()["items"][0]["usedRequests"].clone();
                (used == 1).then_some(())
            });
            let change = if is_deleted {
                admin.delete(&path)
            } else {
                admin.put(&path, &json!({"status": "disabled"}))
            };
            change.expect(200);
            gate.open();
            let refused = waiting.join().expect("no panic").expect(503);
            assert_eq!(refused["error"]["message"], "No available channels for this model");
            running.join().expect("no panic").expect(200);
        });
        assert_eq!(limited.upstream.asked_for(CHAT).len(), 1, "deleted: {is_deleted}");
    }
}
