//! Requests that end before the price list of their site is read are booked anew by it: each alone, and only where it still
//! counts.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Caller, Gate, Gateway, Reply, Upstream, eventually};

const MODEL: &str = "gpt-x";

/// A gateway in front of a site whose price list waits for a gate: a call costs 0.05 USD, and 0.2 until that is known.
struct World {
    gateway: Gateway,
    upstream: Upstream,
    client: Caller,
    prices: Gate,
}

impl World {
    fn new(limits: &Value) -> Self {
        let (gateway, upstream, prices) = (Gateway::start(), Upstream::start(&[MODEL]), Gate::new());
        let list = json!({"success": true, "group_ratio": {"vip": 1}, "usable_group": {"vip": "VIP"}, "data": [
            {"model_name": MODEL, "quota_type": 1, "model_price": 0.05, "enable_groups": ["vip"]}]});
        upstream.answer("/api/pricing", Reply::json(200, &list).head_waits_for(&prices));
        let usage = json!({"prompt_tokens": 100_000, "completion_tokens": 0, "total_tokens": 100_000});
        let choice = json!({"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "That way."}});
        let answer = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000,
            "model": MODEL, "choices": [choice], "usage": usage});
        upstream.answer(CHAT, Reply::json(200, &answer));
        gateway.add_as(&json!({"name": "slow to tell", "platform": "new-api"}), &upstream);
        let mut key = json!({"name": "k", "key": "sk-managed-key-of-the-tests"});
        for (name, value) in limits.as_object().expect("an object") {
            key[name] = value.clone();
        }
        let client = gateway.add_key(&key);
        Self { gateway, upstream, client, prices }
    }

    fn key(&self) -> Value {
        self.gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone()
    }

    /// Waits until all `count` rows have their real cost.
    fn wait_for_costs(&self, count: usize) {
        eventually("all rows have their real cost", || {
            let rows = self.gateway.logs();
            (rows.len() == count && rows.iter().all(|row| row["estimatedCost"] == 0.05)).then_some(())
        });
    }
}

#[test]
fn a_row_of_a_refused_dialect_stays_as_it_is() {
    let world = World::new(&json!({}));
    world.upstream.answer(CHAT, Reply::error(404, "Invalid URL (POST /v1/chat/completions)"));
    world.client.chat(MODEL).expect(200);
    world.gateway.wait_for_logs(2);
    world.prices.open();
    let of_status = |status: &str| {
        let rows = world.gateway.wait_for_logs(2);
        rows.into_iter().find(|row| row["status"] == status).expect("a row")
    };
    eventually("the row follows", || (of_status("success")["estimatedCost"] == 0.05).then_some(()));
    let refused = of_status("failed");
    assert_eq!((&refused["estimatedCost"], &refused["totalTokens"]), (&json!(0), &Value::Null), "{refused}");
}

#[test]
fn a_request_from_before_a_reset_of_its_key_counts_there_no_more() {
    let world = World::new(&json!({"maxCost": 1, "budgets": [{"period": "total", "maxCost": 1}]}));
    let used = || {
        let key = world.key();
        [&key["usedCost"], &key["budgets"][0]["used"]["cost"]].map(|cost| cost.as_f64())
    };
    world.client.chat(MODEL).expect(200);
    eventually("it is booked by the estimate", || (used() == [Some(0.2); 2]).then_some(()));
    world.gateway.admin().post("/api/downstream-keys/1/reset-usage", &json!({})).expect(200);
    world.client.chat(MODEL).expect(200);
    world.prices.open();
    world.wait_for_costs(2);
    eventually("the second request counts", || (used() == [Some(0.05); 2]).then_some(()));
    assert_eq!(world.client.get("/v1/usage").expect(200)["totals"]["cost"], 0.05);
}

#[test]
fn a_request_from_before_all_usage_was_cleared_counts_for_its_key_alone() {
    let World { mut gateway, upstream: _upstream, client, prices } = World::new(&json!({}));
    let channel_cost = |gateway: &Gateway| gateway.channels(MODEL)[0]["totalCost"].as_f64();
    let key_cost = |gateway: &Gateway| {
        gateway.admin().get("/api/downstream-keys").expect(200)["items"][0]["usedCost"].as_f64()
    };
    client.chat(MODEL).expect(200);
    gateway.wait_for_logs(1);
    gateway.admin().post("/api/settings/maintenance/clear-usage", &json!({})).expect(200);
    prices.open();
    eventually("the key follows", || (key_cost(&gateway) == Some(0.05)).then_some(()));
    client.chat(MODEL).expect(200);
    eventually("the channel counts the second", || (channel_cost(&gateway) == Some(0.05)).then_some(()));
    assert_eq!(client.get("/v1/usage").expect(200)["totals"]["cost"], 0.1);
    let dashboard = gateway.admin().get("/api/stats/dashboard").expect(200);
    assert_eq!(dashboard["modelAnalysis"]["callRanking"][0]["spend"], 0.05, "{dashboard}");
    gateway = gateway.restart();
    assert_eq!(channel_cost(&gateway), Some(0.05));
}
