//! Which channel a request goes to, and how the reason can be seen afterwards.

use serde_json::json;

use crate::support::paths::CHAT;
use crate::support::{Gateway, Pair, Reply};

/// Returns the logged reason of each attempt, oldest first.
fn reasons(gateway: &Gateway, rows: usize) -> Vec<String> {
    let rows = gateway.wait_for_logs(rows);
    rows.iter().map(|row| row["decisionReason"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_log_says_why_a_request_went_where_it_went() {
    let pair = Pair::start();
    pair.first.answer(CHAT, Reply::error(500, "boom"));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let reasons = reasons(&pair.gateway, 2);
    // Weights of 100 and 0.01 on the same base.
    assert_eq!(
        reasons,
        ["weighted: P0, 2 available, p=100.0%", "weighted: P0, 1 available, p=100.0%"],
        "first the draw, then whoever was left"
    );
    let row = &pair.gateway.logs()[0];
    let one = pair.gateway.admin().get(&format!("/api/stats/proxy-logs/{}", row["id"])).expect(200);
    assert_eq!(one["decisionReason"], row["decisionReason"]);
}

#[test]
fn turns_go_round_whatever_weights_say() {
    let pair = Pair::start();
    let routes = pair.gateway.routes();
    let route = &routes[0];
    let body = json!({"routingStrategy": "round_robin"});
    pair.gateway.admin().put(&format!("/api/routes/{}", route["id"]), &body).expect(200);
    for _ in 0..6 {
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    assert_eq!((pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len()), (3, 3));
    assert_eq!(reasons(&pair.gateway, 6), vec!["round_robin: 2 available"; 6]);
}

#[test]
fn the_stable_first_strategy_looks_at_the_others_once_in_24_requests() {
    let pair = Pair::start();
    // While the first cools, the second becomes known; then the operator ends the cooldown.
    pair.first.answer_once(CHAT, Reply::error(500, "boom"));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let route = pair.gateway.routes()[0]["id"].clone();
    for _ in 0..8 {
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    pair.gateway.admin().post(&format!("/api/routes/{route}/cooldown/clear"), &json!({})).expect(200);
    let body = json!({"routingStrategy": "stable_first"});
    pair.gateway.admin().put(&format!("/api/routes/{route}"), &body).expect(200);
    let before = (pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len());
    for _ in 0..24 {
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    let after = (pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len());
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 23), "the trusted site has all but one");
    let reasons = reasons(&pair.gateway, 34);
    assert_eq!(reasons[33], "stable_first: observation pool, 2 available, 1 in turn");
    assert_eq!(reasons[32], "stable_first: primary pool, 2 available, 1 in turn");
}
