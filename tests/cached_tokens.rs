//! Tokens from upstreams' prompt caches are reported separately: for a request, a key, a site, a channel, and in total.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES};
use crate::support::{Gateway, Reply, Request, Upstream, wire};

const MODEL: &str = "model-cached";

/// Builds usage of 1,000 input tokens, 750 of which came from the upstream's cache, as each dialect counts them.
fn chat_usage() -> Value {
    json!({"prompt_tokens": 1000, "completion_tokens": 7, "total_tokens": 1007,
        "prompt_tokens_details": {"cached_tokens": 750}})
}

fn message_usage() -> Value {
    json!({"input_tokens": 50, "cache_read_input_tokens": 750, "cache_creation_input_tokens": 200, "output_tokens": 7})
}

fn with_usage(mut answer: Value, usage: Value) -> Value {
    answer["usage"] = usage;
    answer
}

fn site(gateway: &Gateway) -> Upstream {
    let upstream = Upstream::start(&[MODEL]);
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    upstream
}

fn message_ask(streamed: bool) -> Request {
    let turns = json!([{"role": "user", "content": "x"}]);
    Request::post(MESSAGES)
        .json(&json!({"model": MODEL, "max_tokens": 9, "stream": streamed, "messages": turns}))
}

#[test]
fn cached_tokens_are_told_apart_of_each_request() {
    let gateway = Gateway::start();
    let upstream = site(&gateway);
    upstream.answer(CHAT, Reply::json(200, &with_usage(wire::chat(MODEL), chat_usage())));
    gateway.client().chat(MODEL).expect(200);

    upstream.answer(MESSAGES, Reply::json(200, &with_usage(wire::message(MODEL), message_usage())));
    gateway.client().send(message_ask(false)).expect(200);

    let mut events = wire::message_events(MODEL);
    events[0] = events[0].replace(
        &json!({"input_tokens": wire::PROMPT_TOKENS, "output_tokens": 1}).to_string(),
        &message_usage().to_string(),
    );
    assert!(events[0].contains("cache_read"), "{}", events[0]);
    upstream.answer(MESSAGES, Reply::events(&events));
    assert_eq!(gateway.client().stream(message_ask(true)).whole().status, 200);

    // An answer that does not mention a cache.
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)));
    gateway.client().chat(MODEL).expect(200);

    let told: Vec<_> = gateway
        .wait_for_logs(4)
        .iter()
        .map(|row| (row["cacheReadTokens"].clone(), row["cacheCreationTokens"].clone()))
        .collect();
    let (read, created) = (json!(750), json!(200));
    let expected = [
        (read.clone(), Value::Null),
        (read.clone(), created.clone()),
        (read, created),
        (Value::Null, Value::Null),
    ];
    assert_eq!(told, expected);
    let row = gateway.admin().get("/api/stats/proxy-logs/1").expect(200);
    assert_eq!((&row["cacheReadTokens"], &row["cacheCreationTokens"]), (&json!(750), &Value::Null));
    let item = &gateway.admin().get("/api/stats/proxy-logs").expect(200)["items"][0];
    assert!(item.as_object().is_some_and(|item| item.contains_key("cacheReadTokens")), "{item}");
}

#[test]
fn the_share_of_input_that_came_from_caches_is_told_of_all_that_count_it() {
    let gateway = Gateway::start();
    let upstream = site(&gateway);
    let admin = gateway.admin();
    let dashboard = || admin.get("/api/stats/dashboard?view=summary&refresh=1").expect(200);
    let summary = || admin.get("/api/routes/summary").expect(200)[0].clone();
    assert_eq!(dashboard().get("cacheHitRatio"), Some(&Value::Null));
    assert_eq!(summary()["channelCaches"][0].get("cacheHitRatio"), Some(&Value::Null));

    let created = admin.post("/api/downstream-keys", &json!({"name": "k", "key": "sk-of-the-cached-one"}));
    let key = created.expect(200)["item"]["id"].clone();
    let client = gateway.with_token("sk-of-the-cached-one");
    // One upstream counts cached tokens as part of the input, one beside it; one does not report them.
    upstream.answer(CHAT, Reply::json(200, &with_usage(wire::chat(MODEL), chat_usage())));
    upstream.answer(MESSAGES, Reply::json(200, &with_usage(wire::message(MODEL), message_usage())));
    client.chat(MODEL).expect(200);
    client.send(message_ask(false)).expect(200);
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)));
    client.chat(MODEL).expect(200);
    gateway.wait_for_logs(3);

    assert_eq!(dashboard()["cacheHitRatio"], 0.75);
    let route = summary();
    let channel = gateway.channels(MODEL).remove(0);
    assert_eq!(route["channelCaches"], json!([{"id": channel["id"], "cacheHitRatio": 0.75}]));
    assert_eq!(route["cacheHitRatio"], 0.75, "{route}");
    assert_eq!(channel["cacheHitRatio"], 0.75, "{channel}");

    let (read, created) = (json!(1500), json!(200));
    let of = |told: &Value| {
        (told["cacheReadTokens"].clone(), told["cacheCreationTokens"].clone(), told["cacheHitRatio"].clone())
    };
    let expected = (read, created, json!(0.75));
    let site = &admin.get("/api/stats/site-distribution?refresh=1").expect(200)["distribution"][0];
    assert_eq!(of(site), expected, "{site}");
    let trend = &admin.get("/api/stats/site-trend?refresh=1").expect(200)["trend"][0];
    assert_eq!(of(&trend["sites"]["site"]), expected, "{trend}");
    let models = admin.get("/api/stats/model-by-site").expect(200);
    assert_eq!(of(&models["models"][0]), expected, "{models}");
    let overview = admin.get(&format!("/api/downstream-keys/{key}/overview")).expect(200);
    assert_eq!(of(&overview["usage"]["last24h"]), expected, "{overview}");
    let trend = admin.get(&format!("/api/downstream-keys/{key}/trend")).expect(200);
    assert_eq!(of(&trend["buckets"][0]), expected, "{trend}");

    // The counts survive a restart.
    let gateway = gateway.restart();
    assert_eq!(gateway.channels(MODEL)[0]["cacheHitRatio"], 0.75);
}
