//! Usage that an answer lacks is read from the site's own log, after the client has its answer.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::support::{self, Gate, Gateway, Reply, Upstream, eventually};

const MODEL: &str = "gpt-x";
const LOG: &str = "/api/log/self";
const KEY: &str = "sk-managed-key-of-the-tests";

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs()
}

/// Builds a chat answer with this usage.
fn chat(usage: Value) -> Reply {
    Reply::json(
        200,
        &json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": MODEL,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "That way."},
                "finish_reason": "stop"}], "usage": usage}),
    )
}

/// Builds the log of new-api with one entry: 12000 prompt tokens, 8000 of which were read from the cache.
fn log() -> Value {
    let other = json!({"model_ratio": 1.25, "completion_ratio": 4, "cache_ratio": 0.25, "group_ratio": 1.5,
        "cache_creation_ratio": 1.25, "cache_tokens": 8000, "cache_creation_tokens": 1000});
    json!({"success": true, "message": "", "data": {"page": 1, "page_size": 20, "total": 1, "items": [
        {"id": 5, "user_id": 3, "created_at": now(), "type": 2, "content": "", "username": "ada",
         "token_name": "cli", "model_name": MODEL, "quota": 20000, "prompt_tokens": 12000,
         "completion_tokens": 800, "use_time": 0, "is_stream": false, "other": other.to_string()}]}})
}

/// Starts a gateway in front of a site of this platform with this answer; returns a client with a managed key, too.
fn world(platform: &str, answer: Reply) -> (Gateway, Upstream, support::Caller) {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&[MODEL]);
    upstream.answer("/v1/chat/completions", answer);
    gateway.add_as(&json!({"name": platform, "platform": platform}), &upstream);
    let client = gateway.add_key(&json!({"name": "k", "key": KEY}));
    (gateway, upstream, client)
}

#[track_caller]
fn wait_for_source(gateway: &Gateway, source: &str) -> Value {
    let found = |row: &Value| row["usageSource"] == source;
    eventually(&format!("the row says {source}"), || gateway.logs().into_iter().find(found))
}

#[track_caller]
fn wait_for_spending(gateway: &Gateway, usd: f64) {
    eventually(&format!("key and channel have spent {usd}"), || {
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        let key = keys["items"].as_array()?.first()?["usedCost"].as_f64()?;
        let channel = gateway.channels(MODEL).pop()?["totalCost"].as_f64()?;
        (key == usd && channel == usd).then_some(())
    });
}

#[test]
fn what_an_answer_does_not_tell_is_read_from_the_sites_log() {
    let (gateway, upstream, client) = world("new-api", chat(json!(null)));
    upstream.answer(LOG, Reply::json(200, &log()));
    client.chat(MODEL).expect(200);
    let row = wait_for_source(&gateway, "self-log");
    assert_eq!([&row["promptTokens"], &row["completionTokens"], &row["totalTokens"]], [12000, 800, 12800]);
    assert_eq!(row["estimatedCost"], 0.04, "what the site charged");
    let detail = gateway.admin().get(&format!("/api/stats/proxy-logs/{}", row["id"])).expect(200);
    let details = &detail["billingDetails"];
    assert_eq!(details["breakdown"]["totalCost"], 0.035438, "what its ratios come to");
    assert_eq!(details["pricing"]["groupRatio"], 1.5);
    wait_for_spending(&gateway, 0.04);
    let page = gateway.admin().get("/metrics").text();
    let counted = |name: &str, label: &str| {
        let line = page.lines().find(|line| line.starts_with(name) && line.contains(label));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    for (name, label, expected) in [
        ("switchyard_channel_cost_usd_total{", "", "0.04"),
        ("switchyard_channel_tokens_total{", "kind=\"input\"", "12000"),
        ("switchyard_channel_tokens_total{", "kind=\"output\"", "800"),
        ("switchyard_channel_tokens_total{", "kind=\"cache_read\"", "8000"),
    ] {
        assert_eq!(counted(name, label).as_deref(), Some(expected), "{name} {label}");
    }
    let asked = upstream.last(LOG);
    assert_eq!(asked.target, "/api/log/self?p=0&page=1&size=20&order=-created_at");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
    assert_eq!(upstream.asked_for(LOG).len(), 1);
}

#[test]
fn a_line_that_comes_late_is_waited_for() {
    let (gateway, upstream, client) = world("new-api", chat(json!(null)));
    upstream.answer(LOG, Reply::json(200, &log()));
    upstream.answer_once(LOG, Reply::json(200, &json!({"success": true, "data": {"items": []}})));
    client.chat(MODEL).expect(200);
    wait_for_source(&gateway, "self-log");
    assert_eq!(upstream.asked_for(LOG).len(), 2);
}

#[test]
fn a_price_list_that_cannot_be_read_does_not_hold_up_the_look_at_the_log() {
    let prices = Gate::new();
    let usage = json!({"prompt_tokens": 12000, "completion_tokens": 800, "total_tokens": 12800});
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    upstream.answer("/v1/chat/completions", chat(usage));
    upstream.answer("/api/available_model", Reply::error(500, "no prices today").head_waits_for(&prices));
    upstream.answer(LOG, Reply::json(200, &log()));
    gateway.add_as(&json!({"name": "hub", "platform": "done-hub"}), &upstream);
    gateway.client().chat(MODEL).expect(200);
    gateway.wait_for_logs(1);
    prices.open();
    assert_eq!(wait_for_source(&gateway, "self-log")["estimatedCost"], 0.04);
}

#[test]
fn a_line_without_tokens_tells_the_charge_alone() {
    let (gateway, upstream, client) = world("new-api", chat(json!(null)));
    let line = json!({"created_at": now(), "model_name": MODEL, "quota": 25000, "token_name": "cli"});
    upstream.answer(LOG, Reply::json(200, &json!({"success": true, "data": {"items": [line]}})));
    client.chat(MODEL).expect(200);
    wait_for_spending(&gateway, 0.05);
    let row = gateway.logs().remove(0);
    assert_eq!((&row["usageSource"], &row["estimatedCost"]), (&json!("unknown"), &json!(0.05)));
    assert!(row["promptTokens"].is_null() && row["totalTokens"].is_null(), "{row}");
}

#[test]
fn a_hubs_charge_goes_before_our_estimate() {
    let usage = json!({"prompt_tokens": 100_000, "completion_tokens": 0, "total_tokens": 100_000});
    let (gateway, upstream, client) = world("done-hub", chat(usage));
    let line = json!({"created_at": now(), "model_name": MODEL, "quota": 25000, "prompt_tokens": 100_000,
        "completion_tokens": 0, "request_time": 5, "token_name": "cli"});
    upstream.answer(LOG, Reply::json(200, &json!({"success": true, "data": {"data": [line], "page": 1}})));
    client.chat(MODEL).expect(200);
    let row = wait_for_source(&gateway, "self-log");
    assert_eq!(row["estimatedCost"], 0.05, "instead of the 0.2 that were booked at first");
    wait_for_spending(&gateway, 0.05);
}

#[test]
fn each_platform_is_asked_in_its_own_way() {
    for (platform, path, target) in [
        ("anyrouter", LOG, "/api/log/self?p=0&page=1&page_size=20&order=-created_at"),
        ("sub2api", "/api/v1/usage", "/api/v1/usage?page=1&page_size=20&model=gpt%2Dx"),
    ] {
        let (gateway, upstream, client) = world(platform, chat(json!({"prompt_tokens": 1})));
        let line = json!({"created_at": now(), "model": MODEL, "input_tokens": 7, "output_tokens": 3,
            "actual_cost": 0.02, "duration_ms": 5});
        upstream.answer(path, Reply::json(200, &json!({"success": true, "data": {"items": [line]}})));
        client.chat(MODEL).expect(200);
        let row = wait_for_source(&gateway, "self-log");
        assert_eq!((&row["totalTokens"], &row["estimatedCost"]), (&json!(10), &json!(0.02)), "{platform}");
        assert_eq!(upstream.last(path).target, target);
    }
}

#[test]
fn a_log_that_never_answers_delays_nobody() {
    let (gateway, upstream, client) = world("new-api", chat(json!(null)));
    upstream.answer(LOG, Reply::stall());
    for count in 1..=3 {
        client.chat(MODEL).expect(200);
        gateway.wait_for_logs(count);
    }
    let row = wait_for_source(&gateway, "unknown");
    assert_eq!((&row["totalTokens"], &row["estimatedCost"]), (&Value::Null, &json!(0)));
}

#[test]
fn a_log_that_hangs_keeps_no_other_log_from_being_read() {
    let (gateway, upstream, client) = world("one-hub", chat(json!(null)));
    upstream.answer(LOG, Reply::stall());
    let other = Upstream::start(&["gpt-y"]);
    other.answer("/v1/chat/completions", chat(json!(null)));
    gateway.add_as(&json!({"name": "other", "platform": "one-hub"}), &other);
    for _ in 0..20 {
        client.chat(MODEL).expect(200);
    }
    upstream.last(LOG);
    client.chat("gpt-y").expect(200);
    other.last(LOG);
    assert!(upstream.asked_for(LOG).len() < 20, "the hanging log is left alone for a while");
}

#[test]
fn sites_that_told_the_usage_or_keep_no_log_are_not_asked() {
    let told = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    for (platform, usage) in [("new-api", told), ("openai", json!(null)), ("veloera", json!(null))] {
        let (gateway, upstream, client) = world(platform, chat(usage));
        client.chat(MODEL).expect(200);
        gateway.wait_for_logs(1);
        // A look-up would be under way by now; the next request's answer comes after it.
        client.chat(MODEL).expect(200);
        gateway.wait_for_logs(2);
        assert!(upstream.asked_for(LOG).is_empty(), "{platform}");
    }
}

#[test]
fn each_of_several_requests_at_once_gets_its_own_line() {
    let (gateway, upstream, client) = world("one-hub", chat(json!(null)));
    let entry = |prompt: u64| {
        json!({"id": prompt, "created_at": now(), "type": 2, "token_name": "cli", "model_name": MODEL,
            "quota": prompt * 500, "prompt_tokens": prompt, "completion_tokens": 1, "use_time": 0})
    };
    let prompts = [100, 200, 300, 400];
    let items: Vec<Value> = prompts.iter().map(|prompt| entry(*prompt)).collect();
    upstream.answer(LOG, Reply::json(200, &json!({"success": true, "data": {"items": items}})));
    for prompt in prompts {
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1});
        upstream.answer_once("/v1/chat/completions", chat(usage));
    }
    std::thread::scope(|scope| {
        for _ in prompts {
            scope.spawn(|| client.chat(MODEL).expect(200));
        }
    });
    wait_for_spending(&gateway, 1.0);
    let mut booked: Vec<(i64, f64)> = gateway
        .logs()
        .iter()
        .map(|row| {
            (row["promptTokens"].as_i64().expect("tokens"), row["estimatedCost"].as_f64().expect("a cost"))
        })
        .collect();
    booked.sort_by_key(|(prompt, _)| *prompt);
    assert_eq!(booked, [(100, 0.1), (200, 0.2), (300, 0.3), (400, 0.4)]);
}
