//! What the holder of a key can find out at no cost: its usage, and what is left.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Gateway, Reply, Setup, Upstream, wire};

const MODEL: &str = "model-usage";
const KEY: &str = "sk-team-usage-0123456789";
const SUBSCRIPTION: &str = "/v1/dashboard/billing/subscription";
const USAGE: &str = "/v1/dashboard/billing/usage";

/// Starts a gateway whose upstream answers with 100,000 tokens, which cost 0.2 dollars.
fn world() -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Setup::default().with("TZ", "UTC").start().in_front_of("openai", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    let mut reply = wire::chat(MODEL);
    reply["usage"] = json!({"prompt_tokens": 80_000, "completion_tokens": 20_000, "total_tokens": 100_000,
        "prompt_tokens_details": {"cached_tokens": 64_000}});
    upstream.answer(CHAT, Reply::json(200, &reply));
    (gateway, upstream)
}

#[track_caller]
fn create(gateway: &Gateway, fields: Value) -> Value {
    gateway.create_key(KEY, &fields)
}

#[test]
fn a_key_is_told_its_totals_its_budgets_and_its_last_thirty_days() {
    let (gateway, upstream) = world();
    let limits = json!({"expiresAt": "2099-01-02T03:04:05Z", "budgets": [{"period": "total", "maxCost": 5}]});
    create(&gateway, limits);
    for _ in 0..2 {
        gateway.with_token(KEY).chat(MODEL).expect(200);
    }
    gateway.client().chat(MODEL).expect(200);
    let usage = gateway.with_token(KEY).get("/v1/usage").expect(200);
    assert_eq!(usage["object"], "usage");
    assert_eq!(usage["key"], json!({"name": "team", "expiresAt": "2099-01-02T03:04:05.000Z"}));
    let totals = json!({"requests": 2, "cost": 0.4, "inputTokens": 160_000, "outputTokens": 40_000,
        "cacheReadTokens": 128_000});
    assert_eq!(usage["totals"], totals);
    assert_eq!(usage["budgets"][0]["used"], json!({"cost": 0.4, "requests": 2, "tokens": 200_000}));
    let daily = usage["daily"].as_array().expect("days");
    assert_eq!(daily.len(), 30);
    assert!(daily.is_sorted_by(|day, next| day["date"].as_str() < next["date"].as_str()), "{daily:?}");
    let sum = |field: &str| daily.iter().filter_map(|day| day[field].as_f64()).sum::<f64>();
    assert_eq!((sum("requests"), sum("tokens"), sum("cost")), (2.0, 200_000.0, 0.4));
    let all = gateway.client().get("/v1/usage").expect(200);
    assert_eq!(all["key"], json!({"name": "PROXY_TOKEN", "expiresAt": null}));
    assert_eq!((&all["totals"]["requests"], &all["totals"]["cost"]), (&json!(3), &json!(0.6)));
    assert_eq!((&all["totals"]["inputTokens"], &all["budgets"]), (&json!(240_000), &json!([])));
    assert_eq!(upstream.asked_for(CHAT).len(), 3, "no upstream is asked");
}

#[test]
fn the_billing_forms_of_chat_clients_tell_the_limit_and_what_is_used_of_it() {
    let (gateway, _upstream) = world();
    let item = create(&gateway, json!({"maxCost": 2.5, "expiresAt": "2099-01-01T00:00:00Z"}));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    for version in ["/v1", ""] {
        let of = |path: &str| path.replacen("/v1", version, 1);
        let subscription = gateway.with_token(KEY).get(&of(SUBSCRIPTION)).expect(200);
        assert_eq!(subscription["object"], "billing_subscription");
        for limit in ["soft_limit_usd", "hard_limit_usd", "system_hard_limit_usd"] {
            assert_eq!(subscription[limit], 2.5, "{limit}");
        }
        assert_eq!(subscription["access_until"], 4_070_908_800_i64);
        let dates = "?start_date=2020-01-01&end_date=2020-02-01";
        let usage = gateway.with_token(KEY).get(&format!("{}{dates}", of(USAGE))).expect(200);
        assert_eq!(usage, json!({"object": "list", "total_usage": 20}));
    }
    // A budget may leave less than the key's limit.
    let path = format!("/api/downstream-keys/{}", item["id"]);
    gateway.admin().put(&path, &json!({"budgets": [{"period": "total", "maxCost": 0.5}]})).expect(200);
    assert_eq!(gateway.with_token(KEY).get(SUBSCRIPTION).expect(200)["hard_limit_usd"], 0.7);
    let unlimited = gateway.client().get(SUBSCRIPTION).expect(200);
    assert_eq!((&unlimited["hard_limit_usd"], &unlimited["access_until"]), (&json!(100_000_000), &json!(0)));
    assert_eq!(gateway.client().get(USAGE).expect(200)["total_usage"], 20);
}

#[test]
fn to_ask_what_is_used_counts_in_no_limit_and_is_allowed_when_all_is_used() {
    let (gateway, _upstream) = world();
    let item = create(
        &gateway,
        json!({"maxRequests": 1, "maxCost": 0.1, "requestsPerMinute": 1, "budgets": [{"period": "total", "maxRequests": 1}]}),
    );
    let ask = || {
        for path in ["/v1/usage", SUBSCRIPTION, USAGE] {
            for _ in 0..3 {
                gateway.with_token(KEY).get(path).expect(200);
            }
        }
    };
    ask();
    gateway.with_token(KEY).chat(MODEL).expect(200);
    ask();
    let error = gateway.with_token(KEY).chat(MODEL).expect(403);
    assert_eq!(error["error"]["code"], "key_over_cost");
    let usage = gateway.with_token(KEY).get("/v1/usage").expect(200);
    assert_eq!(usage["totals"]["requests"], 1);
    assert_eq!(usage["budgets"][0]["used"]["requests"], 1);
    let path = format!("/api/downstream-keys/{}", item["id"]);
    gateway.admin().post(&format!("{path}/reset-usage"), &json!({})).expect(200);
    let totals = gateway.with_token(KEY).get("/v1/usage").expect(200)["totals"].clone();
    let nothing =
        json!({"requests": 0, "cost": 0, "inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0});
    assert_eq!(totals, nothing);
    for barred in [json!({"enabled": false}), json!({"enabled": true, "allowedIps": ["192.0.2.1"]})] {
        gateway.admin().put(&path, &barred).expect(200);
        gateway.with_token(KEY).get("/v1/usage").expect(403);
    }
    gateway.anyone().get("/v1/usage").expect(401);
}
