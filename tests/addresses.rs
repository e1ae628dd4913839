//! Sites with a pool of addresses: which address is asked first, and when the next one is.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Caller, Gateway, Reply, Upstream, eventually, seconds_ahead, wire};

/// These tests are about trying one address after the other, not one dialect after the other.
const ONE_DIALECT: (&str, &str) = ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true");

/// Starts a gateway with one site, whose model `m` is served at both addresses.
fn pool(variables: &[(&str, &str)]) -> (Gateway, Upstream, Upstream) {
    pool_of("openai", variables)
}

fn pool_of(platform: &str, variables: &[(&str, &str)]) -> (Gateway, Upstream, Upstream) {
    let (one, two) = (Upstream::start(&["m"]), Upstream::start(&["m"]));
    let gateway = Gateway::with(variables);
    let site = gateway.create_site(&json!({"name": "pool", "url": "http://127.0.0.1:1",
        "platform": platform, "apiEndpoints": [{"url": one.url()}, {"url": two.url()}]}));
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_task(&account);
    (gateway, one, two)
}

/// Waits until the first address rests, and returns it.
fn resting(gateway: &Gateway) -> Value {
    eventually("the pool shows it", || {
        let sites = gateway.admin().get("/api/sites").expect(200);
        let endpoint = sites[0]["apiEndpoints"][0].clone();
        endpoint["cooldownUntil"].is_string().then_some(endpoint)
    })
}

#[test]
fn a_bad_address_of_a_pool_is_left_for_the_next_one() {
    for trouble in [Reply::error(503, "boom"), Reply::error(429, "slow down")] {
        let (gateway, one, two) = pool(&[ONE_DIALECT]);
        one.answer(CHAT, trouble);
        gateway.client().chat("m").expect(200);
        gateway.client().chat("m").expect(200);
        assert_eq!(one.asked_for(CHAT).len(), 1, "it rests");
        assert_eq!(two.asked_for(CHAT).len(), 2);
        let endpoint = resting(&gateway);
        let ahead = seconds_ahead(&endpoint["cooldownUntil"]);
        assert!((280..=300).contains(&ahead), "five minutes: {ahead}");
        assert!(endpoint["lastFailedAt"].is_string() && endpoint["lastFailureReason"].is_string());
        assert_eq!(gateway.channels("m")[0]["cooldownUntil"], json!(null), "the channel is fine");
    }
}

#[test]
fn an_address_that_fails_at_a_batch_rests_and_its_channel_does_not() {
    const BATCHES: &str = "/v1/messages/batches";
    let (gateway, one, two) = pool_of("claude", &[]);
    for upstream in [&one, &two] {
        upstream.answer(BATCHES, Reply::silence());
    }
    let params = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]});
    let requests = json!({"requests": [{"custom_id": "r1", "params": params}]});
    // The batch may have been created all the same, so no other address is asked.
    gateway.client().post(BATCHES, &requests).expect(502);
    assert_eq!(one.asked_for(BATCHES).len() + two.asked_for(BATCHES).len(), 1);
    let rests = eventually("the pool shows it", || {
        let sites = gateway.admin().get("/api/sites").expect(200);
        let endpoints = sites[0]["apiEndpoints"].as_array().expect("addresses").clone();
        endpoints.into_iter().find(|endpoint| endpoint["cooldownUntil"].is_string())
    });
    let ahead = seconds_ahead(&rests["cooldownUntil"]);
    assert!((280..=300).contains(&ahead), "five minutes: {ahead}");
    assert_eq!(gateway.channels("m")[0]["cooldownUntil"], json!(null), "the channel has another address");
}

#[test]
fn an_address_does_not_pay_for_the_clients_mistake() {
    let (gateway, one, two) = pool(&[]);
    for upstream in [&one, &two] {
        upstream.answer(CHAT, Reply::error(400, "Unknown parameter: x"));
    }
    gateway.client().chat("m").expect(400);
    assert_eq!(one.asked_for(CHAT).len() + two.asked_for(CHAT).len(), 1);
}

#[test]
fn a_disabled_address_is_not_used() {
    let (one, two) = (Upstream::start(&["m"]), Upstream::start(&["m"]));
    let gateway = Gateway::start();
    let pool = json!([{"url": one.url(), "enabled": false}, {"url": two.url()}]);
    let site = gateway.create_site(
        &json!({"name": "pool", "url": "http://127.0.0.1:1", "platform": "openai", "apiEndpoints": pool}),
    );
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_task(&account);
    gateway.client().chat("m").expect(200);
    assert!(one.asked().is_empty());

    let pool = json!([{"url": one.url(), "enabled": false}, {"url": two.url(), "enabled": false}]);
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &json!({"apiEndpoints": pool})).expect(200);
    gateway.client().chat("m").expect(502);
    let row = eventually("the log says why", || {
        let logs = gateway.admin().get("/api/stats/proxy-logs").expect(200);
        logs["items"][0]["errorMessage"].as_str().map(str::to_owned)
    });
    assert!(row.contains("no API endpoint available"), "{row}");
    assert_eq!(two.asked_for(CHAT).len(), 1, "neither is asked, nor the site's own address");
}

#[test]
fn an_address_that_breaks_an_answer_rests_and_the_channel_goes_on_with_the_next() {
    let events = wire::chat_events("m");
    let role = events[0].clone();
    let answer = wire::chat("m").to_string();
    let half = &answer[..answer.len() / 2];
    let broken = [
        (true, "cut before anything", Reply::events(&events).cut_after(0)),
        (true, "cut after the role", Reply::events(&events).cut_after(1)),
        (true, "ended after the role", Reply::events([role])),
        (false, "cut after half", Reply::bytes(200, "application/json", half).cut_after(1)),
        (false, "read and not answered", Reply::silence()),
    ];
    for (streamed, what, reply) in broken {
        let (gateway, one, two) = pool(&[]);
        one.answer(CHAT, reply);
        // The site may be working on the request, so it is not sent there again, and there is no other site.
        gateway.client().send(Caller::chat_ask("m", streamed)).expect(502);
        assert_eq!((one.asked_for(CHAT).len(), two.asked_for(CHAT).len()), (1, 0), "{what}");
        let given = gateway.client().stream(Caller::chat_ask("m", streamed)).whole();
        let wanted = if streamed { events.concat() } else { answer.clone() };
        assert_eq!((given.status, given.text()), (200, wanted), "{what}");
        assert_eq!((one.asked_for(CHAT).len(), two.asked_for(CHAT).len()), (1, 1), "{what}");
        let log = gateway.wait_for_logs(2);
        assert_eq!((&log[0]["status"], &log[1]["status"]), (&json!("failed"), &json!("success")), "{what}");
        let ahead = seconds_ahead(&resting(&gateway)["cooldownUntil"]);
        assert!((280..=300).contains(&ahead), "{what}: five minutes: {ahead}");
        assert_eq!(gateway.channels("m")[0]["failCount"], json!(0), "{what}: the channel is fine");
    }
}

#[test]
fn what_an_address_says_in_a_good_answer_is_not_asked_for_again_at_the_next() {
    let (gateway, one, two) = pool(&[]);
    for upstream in [&one, &two] {
        let error = json!({"error": {"message": "boom", "type": "server_error", "code": null}});
        upstream.answer(CHAT, Reply::events([wire::data(&error)]));
    }
    gateway.client().send(Caller::chat_ask("m", true)).expect(502);
    assert_eq!(one.asked_for(CHAT).len() + two.asked_for(CHAT).len(), 1);
}

#[test]
fn a_key_is_verified_at_the_next_address_where_the_first_one_hangs() {
    let (hanging, good) = (Upstream::start(&["m"]), Upstream::start(&["m"]));
    hanging.answer("/v1/models", Reply::stall());
    let gateway = Gateway::start();
    let site = gateway.create_site(&json!({"name": "pool", "url": "http://127.0.0.1:1",
        "platform": "openai", "apiEndpoints": [{"url": hanging.url()}, {"url": good.url()}]}));
    let key = json!({"siteId": site["id"], "accessToken": "sk-upstream-key", "credentialMode": "apikey"});
    let verified = gateway.admin().post("/api/accounts/verify-token", &key).expect(200);
    assert_eq!((&verified["success"], &verified["modelCount"]), (&json!(true), &json!(1)), "{verified}");
    let endpoint = resting(&gateway);
    let reason = endpoint["lastFailureReason"].as_str().unwrap_or_default();
    assert!(reason.ends_with("within 5 s"), "{reason}");
    let ahead = seconds_ahead(&endpoint["cooldownUntil"]);
    assert!((280..=300).contains(&ahead), "five minutes: {ahead}");
    gateway.wait_for_task(&gateway.create_account(&site, "sk-upstream-key"));
    assert_eq!(hanging.asked_for("/v1/models").len(), 1, "it rests");
}

#[test]
fn a_model_is_probed_at_the_next_address_where_the_first_one_hangs() {
    let (gateway, hanging, good) = pool(&[("MODEL_AVAILABILITY_PROBE_TIMEOUT_MS", "3000")]);
    hanging.answer(CHAT, Reply::stall());
    let probed = gateway.admin().post("/api/models/probe", &json!({"wait": true})).expect(200);
    assert_eq!(probed["summary"]["supported"], 1, "{probed}");
    assert_eq!((hanging.asked_for(CHAT).len(), good.asked_for(CHAT).len()), (1, 1));
}
