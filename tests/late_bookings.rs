//! Requests that end before the price list of their site is read are booked anew by it: each alone, and only where it still
//! counts.

use serde_json::{Value, json};

use crate::support::{Caller, Gate, Gateway, Reply, Upstream, eventually};

const MODEL: &str = "gpt-x";
const CHAT: &str = "/v1/chat/completions";

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
