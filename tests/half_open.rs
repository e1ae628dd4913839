//! A channel whose provider asked for more than the cooldown is half-open after it, and the channel that has cooled the
//! longest is the last resort: no channel is out of use for long without a test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{self, Gate, Gateway, Pair, Reply, Upstream, eventually, seconds_ahead};

/// These tests are about trying one channel after the other, not one dialect after the other.
const ONE_DIALECT: (&str, &str) = ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true");
const SHORT: (&str, &str) = ("CHANNEL_FAILURE_COOLDOWN_SEC", "1");

fn used_up() -> Reply {
    let error = json!({"type": "usage_limit_reached", "message": "The usage limit has been reached",
        "resets_in_seconds": 3600});
    Reply::json(429, &json!({ "error": error }))
}

fn alone(variables: &[(&str, &str)], models: &[&str]) -> (Gateway, Upstream, Value) {
    let upstream = Upstream::start(models);
    let gateway = Gateway::with(&[variables, &[ONE_DIALECT]].concat());
    let (_, account) = gateway.add("alone", &upstream);
    (gateway, upstream, account)
}

/// Returns what the explanation says about each channel of a model.
fn candidates(gateway: &Gateway, model: &str) -> Vec<Value> {
    let answer = gateway.admin().get(&format!("/api/routes/decision?model={model}")).expect(200);
    answer["decision"]["candidates"].as_array().expect("candidates").clone()
}

fn reason_of(gateway: &Gateway, site: &str) -> String {
    let all = candidates(gateway, Pair::MODEL);
    let one = all.iter().find(|one| one["siteName"] == site).unwrap_or_else(|| panic!("no {site}"));
    one["reasonCode"].as_str().expect("a code").to_owned()
}

#[track_caller]
fn is_limited_for_an_hour(channel: &Value) {
    let ahead = seconds_ahead(&channel["limitedUntil"]);
    assert!((3_580..=3_600).contains(&ahead), "{ahead} s: {channel}");
}

#[test]
fn a_limited_channel_is_tried_behind_its_cooldown_and_a_success_ends_the_limit() {
    let pair = Pair::with(&[SHORT]);
    pair.first.answer_once(CHAT, used_up());
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    is_limited_for_an_hour(&pair.channel("first"));
    eventually("the cooldown is over", || (reason_of(&pair.gateway, "first") == "half_open").then_some(()));
    let all = candidates(&pair.gateway, Pair::MODEL);
    let first = all.iter().find(|one| one["siteName"] == "first").expect("a candidate");
    is_limited_for_an_hour(first);
    // A trial is due, and the next request is that.
    assert!(seconds_ahead(&first["cooldownUntil"]) <= 0 && first["eligible"] == true, "{first}");
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(pair.first.asked_for(CHAT).len(), 2, "a trial");
    eventually("the limit is over", || pair.channel("first")["limitedUntil"].is_null().then_some(()));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(pair.first.asked_for(CHAT).len(), 3, "it is asked as before");
    let reasons: Vec<_> =
        pair.gateway.wait_for_logs(4).iter().map(|row| row["decisionReason"].to_string()).collect();
    assert!(reasons[2].contains("trial"), "{reasons:?}");
}

#[test]
fn a_full_window_limits_a_refused_channel_where_nothing_else_says_until_when() {
    let pair = Pair::start();
    let refusal = |kind: &str| Reply::json(429, &json!({"error": {"type": kind, "message": "slow down"}}));
    let told = refusal("rate_limit_error")
        .header("x-codex-primary-used-percent", "100")
        .header("x-codex-primary-window-minutes", "300")
        .header("x-codex-primary-reset-after-seconds", "3600")
        .header("x-codex-secondary-used-percent", "99")
        .header("x-codex-secondary-window-minutes", "10080")
        .header("x-codex-secondary-reset-after-seconds", "86400");
    pair.first.answer_once(CHAT, told);
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    is_limited_for_an_hour(&pair.channel("first"));
    // A window known to be full counts, too; the provider's explicit refusal takes precedence.
    let full = Reply::json(200, &support::wire::chat(Pair::MODEL))
        .header("x-ratelimit-limit-requests", "10")
        .header("x-ratelimit-remaining-requests", "0")
        .header("x-ratelimit-reset-requests", "2h");
    pair.second.answer_once(CHAT, full);
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    pair.second.answer_once(CHAT, refusal("rate_limit_error").header("retry-after", "3600"));
    pair.gateway.client().chat(Pair::MODEL).expect(429);
    is_limited_for_an_hour(&pair.channel("second"));
}

#[test]
fn a_trial_that_fails_is_not_seen_by_the_client_and_not_repeated_soon() {
    let pair = Pair::with(&[SHORT]);
    pair.first.answer(CHAT, used_up());
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    for _ in 0..2 {
        eventually("the cooldown is over", || {
            (reason_of(&pair.gateway, "first") == "half_open").then_some(())
        });
        for _ in 0..3 {
            pair.gateway.client().chat(Pair::MODEL).expect(200);
        }
        assert_eq!(pair.first.asked_for(CHAT).len(), 2, "one trial in a quarter of an hour");
    }
    is_limited_for_an_hour(&pair.channel("first"));
}

/// Sends two hundred requests at once, of which one may reach the upstream.
#[track_caller]
fn one_of_many_is_tried(gateway: &Gateway, upstream: &Upstream) {
    const CROWD: usize = 200;
    let gate = Gate::new();
    let before = upstream.asked_for(CHAT).len();
    upstream.answer_once(CHAT, Reply::json(200, &support::wire::chat(Pair::MODEL)).head_waits_for(&gate));
    let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| {
                let answer = gateway.client().chat(Pair::MODEL);
                let count = if answer.status == 200 { &served } else { &refused };
                assert!(answer.status == 200 || answer.header("retry-after").is_some(), "{}", answer.text());
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
        eventually("all but one are refused", || (refused.load(Ordering::SeqCst) == CROWD - 1).then_some(()));
        assert_eq!(upstream.asked_for(CHAT).len(), before + 1);
        gate.open();
    });
    assert_eq!((served.into_inner(), refused.into_inner()), (1, CROWD - 1));
    eventually("everybody is served", || (gateway.client().chat(Pair::MODEL).status == 200).then_some(()));
}

#[test]
fn of_many_requests_for_a_half_open_channel_one_is_tried() {
    let (gateway, upstream, _) = alone(&[SHORT], &[Pair::MODEL]);
    upstream.answer_once(CHAT, used_up());
    gateway.client().chat(Pair::MODEL).expect(429);
    eventually("the cooldown is over", || (reason_of(&gateway, "alone") == "half_open").then_some(()));
    one_of_many_is_tried(&gateway, &upstream);
}

#[test]
fn when_every_channel_cools_one_request_is_tried_as_a_last_resort() {
    let (gateway, upstream, _) = alone(&[("COOLDOWN_LAST_RESORT_SEC", "1")], &[Pair::MODEL]);
    upstream.answer_once(CHAT, Reply::error(500, "boom"));
    gateway.client().chat(Pair::MODEL).expect(500);
    let decision = eventually("the channel may be tried", || {
        let answer = gateway.admin().get(&format!("/api/routes/decision?model={}", Pair::MODEL)).expect(200);
        answer["decision"]["selectedChannelId"].is_number().then_some(answer["decision"].clone())
    });
    let candidate = &decision["candidates"][0];
    assert_eq!(
        (&candidate["eligible"], &candidate["probability"]),
        (&json!(true), &json!(100.0)),
        "{decision}"
    );
    assert_eq!(candidate["reasonCode"], "last_resort");
    let steps = decision["summary"].as_array().expect("steps").iter().filter_map(|step| step.as_str());
    assert_eq!(steps.filter(|step| step.contains("last_resort: all cool")).count(), 1, "{decision}");
    one_of_many_is_tried(&gateway, &upstream);
    assert_eq!(gateway.channels(Pair::MODEL)[0]["cooldownUntil"], json!(null));
}

#[test]
fn no_last_resort_is_taken_before_its_time_or_where_there_is_none() {
    for pause in ["30", "0"] {
        let (gateway, upstream, _) = alone(&[("COOLDOWN_LAST_RESORT_SEC", pause)], &[Pair::MODEL]);
        upstream.answer_once(CHAT, Reply::error(500, "boom"));
        gateway.client().chat(Pair::MODEL).expect(500);
        gateway.client().chat(Pair::MODEL).expect(503);
        assert_eq!(upstream.asked_for(CHAT).len(), 1);
    }
}

#[test]
fn a_success_on_one_channel_ends_the_limit_of_its_credential() {
    // Long enough for the requests that are to fall into it.
    let cooldown = ("CHANNEL_FAILURE_COOLDOWN_SEC", "3");
    let (gateway, upstream, _) = alone(&[cooldown], &["model-a", "model-b"]);
    upstream.answer_once(CHAT, used_up());
    gateway.client().chat("model-a").expect(429);
    for model in ["model-a", "model-b"] {
        is_limited_for_an_hour(&gateway.channels(model)[0]);
    }
    gateway.client().chat("model-b").expect(503);
    eventually("the other channel is tried", || {
        (gateway.client().chat("model-b").status == 200).then_some(())
    });
    for model in ["model-a", "model-b"] {
        eventually("the limit is over", || {
            gateway.channels(model)[0]["limitedUntil"].is_null().then_some(())
        });
    }
    gateway.client().chat("model-a").expect(200);
}

#[test]
fn a_limit_outlasts_a_restart() {
    let (mut gateway, upstream, _) = alone(&[], &[Pair::MODEL]);
    upstream.answer_once(CHAT, used_up());
    gateway.client().chat(Pair::MODEL).expect(429);
    let before = gateway.channels(Pair::MODEL).remove(0);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    let after = gateway.channels(Pair::MODEL).remove(0);
    for field in ["cooldownUntil", "limitedUntil"] {
        assert!(before[field].is_string() && before[field] == after[field], "{field}: {before} {after}");
    }
    gateway.client().chat(Pair::MODEL).expect(503);
}

#[test]
fn an_operator_ends_the_rest_of_all_channels_of_an_account() {
    let (gateway, upstream, account) = alone(&[], &["model-a", "model-b"]);
    upstream.answer_once(CHAT, used_up());
    gateway.client().chat("model-a").expect(429);
    gateway.client().chat("model-b").expect(503);
    let cooling = || gateway.admin().get("/api/accounts/cooling").expect(200);
    let found = cooling();
    assert_eq!((&found[0]["accountId"], &found[1]), (&account["id"], &json!(null)));
    assert_eq!((&found[0]["modelCount"], &found[0]["models"]), (&json!(2), &json!(["model-a", "model-b"])));
    assert_eq!(found[0]["until"], gateway.channels("model-a")[0]["limitedUntil"]);
    let path = format!("/api/accounts/{}/clear-cooldown", account["id"]);
    let cleared = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(cleared, json!({"success": true, "clearedChannels": 2}));
    assert_eq!(cooling(), json!([]));
    for model in ["model-a", "model-b"] {
        let channel = gateway.channels(model).remove(0);
        assert_eq!((&channel["cooldownUntil"], &channel["limitedUntil"]), (&json!(null), &json!(null)));
        gateway.client().chat(model).expect(200);
    }
    gateway.admin().post("/api/accounts/999/clear-cooldown", &json!({})).expect(404);
}

#[test]
fn a_new_key_does_not_wait_for_the_rest_of_the_old_one() {
    let (gateway, upstream, account) = alone(&[], &["model-a", "model-b"]);
    upstream.answer_once(CHAT, Reply::error(401, "Incorrect API key provided"));
    gateway.client().chat("model-a").expect(502);
    gateway.client().chat("model-a").expect(503);
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"apiToken": "sk-the-next-one"})).expect(200);
    gateway.client().chat("model-a").expect(200);
    assert_eq!(upstream.last(CHAT).header("authorization"), Some("Bearer sk-the-next-one"));
    assert_eq!(gateway.channels("model-a").remove(0)["cooldownUntil"], json!(null));
}

#[test]
fn a_long_answer_ends_no_rest_that_began_after_its_request() {
    let pair = Pair::start();
    let gate = Gate::new();
    let reply = Reply::json(200, &support::wire::chat(Pair::MODEL)).head_waits_for(&gate);
    pair.first.answer_once(CHAT, reply);
    thread::scope(|scope| {
        let long = scope.spawn(|| pair.gateway.client().chat(Pair::MODEL).status);
        pair.first.last(CHAT);
        pair.first.answer_once(CHAT, used_up());
        pair.gateway.client().chat(Pair::MODEL).expect(200);
        is_limited_for_an_hour(&pair.channel("first"));
        gate.open();
        assert_eq!(long.join().expect("an answer"), 200);
    });
    pair.gateway.wait_for_logs(3);
    is_limited_for_an_hour(&pair.channel("first"));
    assert_eq!(reason_of(&pair.gateway, "first"), "cooling");
}

#[test]
fn a_refusal_of_a_former_credential_rests_no_channel() {
    let (gateway, upstream, account) = alone(&[], &["m"]);
    let gate = Gate::new();
    upstream.answer_once(CHAT, Reply::error(401, "Invalid API key").head_waits_for(&gate));
    thread::scope(|scope| {
        let refused = scope.spawn(|| gateway.client().chat("m").status);
        upstream.last(CHAT);
        let path = format!("/api/accounts/{}", account["id"]);
        gateway.admin().put(&path, &json!({"apiToken": "sk-another-upstream-key"})).expect(200);
        gate.open();
        assert_eq!(refused.join().expect("an answer"), 502);
    });
    gateway.wait_for_logs(1);
    assert_eq!(gateway.channels("m")[0]["cooldownUntil"], Value::Null);
    gateway.client().chat("m").expect(200);
    assert_eq!(upstream.last(CHAT).header("authorization"), Some("Bearer sk-another-upstream-key"));
}

#[test]
fn a_refused_credential_is_tried_once_by_a_request() {
    let (one, other) = (Upstream::start(&["a", "b", "c"]), Upstream::start(&["d"]));
    let gateway = Gateway::with(&[ONE_DIALECT]);
    let (_, account) = gateway.add("one", &one);
    gateway.add("other", &other);
    let route = |model: &str| {
        let routes = gateway.routes();
        routes.iter().find(|route| route["modelPattern"] == model).expect("a route")["id"].clone()
    };
    let sources = ["a", "b", "c", "d"].map(route);
    let channel = gateway.channels("d")[0]["id"].clone();
    gateway.admin().put(&format!("/api/channels/{channel}"), &json!({"priority": 1})).expect(200);
    let group = json!({"routeMode": "explicit_group", "displayName": "team", "sourceRouteIds": sources});
    gateway.admin().post("/api/routes", &group).expect(200);
    for (status, message) in
        [(401, "Invalid API key"), (402, "Insufficient Balance"), (403, "quota is used up")]
    {
        let asked = one.asked_for(CHAT).len();
        one.answer(CHAT, Reply::error(status, message));
        gateway.client().chat("team").expect(200);
        assert_eq!(one.asked_for(CHAT).len(), asked + 1, "{status}");
        let clear = format!("/api/accounts/{}/clear-cooldown", account["id"]);
        gateway.admin().post(&clear, &json!({})).expect(200);
    }
}

#[test]
fn a_trial_that_streams_is_won_with_its_first_output() {
    let (gateway, upstream, _) = alone(&[SHORT], &["m"]);
    upstream.answer_once(CHAT, used_up());
    assert_eq!(gateway.client().chat("m").status, 429);
    let reason = || candidates(&gateway, "m")[0]["reasonCode"].clone();
    eventually("the cooldown is over", || (reason() == "half_open").then_some(()));
    let gate = Gate::new();
    upstream.answer_once(CHAT, Reply::events(support::wire::chat_events("m")).waits_for(3, &gate));
    let client = gateway.client();
    let mut long = client.stream(support::Caller::chat_ask("m", true));
    let has_begun = |event: &str| event.contains("Signals");
    while !has_begun(&long.next_event().expect("a stream").expect("an event")) {}
    client.chat("m").expect(200);
    gate.open();
    assert!(long.whole().text().contains("[DONE]"));
}

#[test]
fn a_token_count_says_nothing_about_its_channel() {
    const COUNT: &str = "/v1/messages/count_tokens";
    let upstream = Upstream::start(&[Pair::MODEL]);
    let gateway = Gateway::with(&[SHORT, ONE_DIALECT]);
    gateway.add_as(&json!({"name": "alone", "platform": "claude"}), &upstream);
    let channel = || gateway.channels(Pair::MODEL).remove(0);
    let ask = |path: &str| {
        let messages = json!([{"role": "user", "content": "Which way?"}]);
        gateway.client().post(path, &json!({"model": Pair::MODEL, "max_tokens": 5, "messages": messages}))
    };
    assert_eq!(ask(COUNT).expect(200)["input_tokens"], 42);
    gateway.wait_for_logs(1);
    upstream.answer_once("/v1/messages", used_up());
    ask("/v1/messages").expect(429);
    eventually("the failure is counted", || (channel()["failCount"] == 1).then_some(()));
    assert_eq!(channel()["successCount"], 0, "a count is none");
    eventually("the cooldown is over", || (reason_of(&gateway, "alone") == "half_open").then_some(()));
    let counted = ask(COUNT);
    assert_eq!(counted.status, 200);
    assert_eq!(counted.header("x-switchyard-estimated"), Some("1"), "it is no trial");
    is_limited_for_an_hour(&channel());
    ask("/v1/messages").expect(200);
    eventually("the limit is over", || channel()["limitedUntil"].is_null().then_some(()));
    assert_eq!(channel()["successCount"], 1);
}
