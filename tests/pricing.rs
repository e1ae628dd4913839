//! Prices: sites publish them, requests are billed by them, and a failing site does not lose them.

use serde_json::{Value, json};

use crate::support::{self, Gate, Gateway, Program, Reply, Site, Upstream, eventually};

const MODEL: &str = "gpt-x";

/// Builds a price list as new-api publishes it, with a ratio that differs from 1 in every factor of a bill.
fn ratios() -> Value {
    json!({"success": true, "data": [
        {"model_name": MODEL, "quota_type": 0, "model_ratio": 1.25, "model_price": 0, "completion_ratio": 4,
         "cache_ratio": 0.25, "create_cache_ratio": 1.25, "enable_groups": ["vip"],
         "supported_endpoint_types": ["openai"], "owner_by": "acme", "tags": "chat,fast",
         "model_description": "A model."},
        {"model_name": "draw", "quota_type": 1, "model_price": 0.3, "enable_groups": ["vip"]}],
        "group_ratio": {"default": 1, "vip": 1.5}, "usable_group": {"vip": "VIP"}})
}

/// Builds what the hubs publish instead: the same prices by model and by group.
fn hub_lists() -> [(&'static str, Value); 2] {
    let models = json!({"success": true, "message": "", "data": {MODEL: {"groups": ["vip"], "owned_by": "acme",
        "price": {"model": MODEL, "type": "tokens", "channel_type": 1, "input": 1.25, "output": 5,
            "input_cache_read": 0.3125, "input_cache_write": 1.5625}}}});
    let groups =
        json!({"success": true, "data": {"vip": {"id": 2, "symbol": "vip", "name": "VIP", "ratio": 1.5}}});
    [("/api/available_model", models), ("/api/user_group_map", groups)]
}

/// Builds a chat answer with the usage of the example.
fn chat() -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "That way."},
            "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12000, "completion_tokens": 800, "total_tokens": 12800,
            "prompt_tokens_details": {"cached_tokens": 8000, "cache_creation_tokens": 1000}}})
}

/// Adds a site of this platform that offers `models` and publishes these prices.
fn priced(gateway: &Gateway, platform: &str, models: &[&str], prices: &[(&str, Value)]) -> (Upstream, Value) {
    let upstream = Upstream::start(models);
    for (path, answer) in prices {
        upstream.answer(path, Reply::json(200, answer));
    }
    upstream.answer_model("/v1/chat/completions", MODEL, Reply::json(200, &chat()));
    let (_, account) = gateway.add_as(&json!({"name": platform, "platform": platform}), &upstream);
    (upstream, account)
}

#[track_caller]
fn detail(gateway: &Gateway, row: &Value) -> Value {
    gateway.admin().get(&format!("/api/stats/proxy-logs/{}", row["id"])).expect(200)
}

#[test]
fn a_request_costs_what_the_sites_price_list_says() {
    let gateway = Gateway::start();
    let (upstream, _) =
        priced(&gateway, "new-api", &[MODEL, "draw", "secret"], &[("/api/pricing", ratios())]);
    gateway.wait_for_output("prices of 2 models");
    assert_eq!(upstream.last("/api/pricing").header("authorization"), Some("Bearer sk-upstream-key"));
    for model in [MODEL, "draw", "secret"] {
        gateway.client().chat(model).expect(200);
    }
    let rows = gateway.wait_for_logs(3);
    let costs: Vec<_> = rows.iter().map(|row| row["estimatedCost"].as_f64()).collect();
    let flat = rows[2]["totalTokens"].as_f64().map(|tokens| tokens / 500_000.0);
    assert_eq!(costs, [Some(0.035438), Some(0.45), flat], "by tokens, by call, unknown to the list");
    let details = &detail(&gateway, &rows[0])["billingDetails"];
    assert_eq!(
        *details,
        json!({
            "quotaType": 0,
            "usage": {"promptTokens": 12000, "completionTokens": 800, "totalTokens": 12800,
                "cacheReadTokens": 8000, "cacheCreationTokens": 1000, "billablePromptTokens": 3000,
                "promptTokensIncludeCache": true},
            "pricing": {"modelRatio": 1.25, "completionRatio": 4.0, "cacheRatio": 0.25,
                "cacheCreationRatio": 1.25, "groupRatio": 1.5},
            "breakdown": {"inputPerMillion": 3.75, "outputPerMillion": 15, "cacheReadPerMillion": 0.9375,
                "cacheCreationPerMillion": 4.6875, "inputCost": 0.01125, "outputCost": 0.012,
                "cacheReadCost": 0.0075, "cacheCreationCost": 0.004688, "totalCost": 0.035438}
        })
    );
    for row in &rows[1..] {
        assert_eq!(detail(&gateway, row)["billingDetails"], Value::Null, "calls and guesses have no parts");
    }
    let channel = eventually("the channel has its cost", || {
        gateway.channels(MODEL).pop().filter(|channel| channel["totalCost"] != 0)
    });
    assert_eq!(channel["totalCost"], 0.035438);
}

#[test]
fn a_request_that_ends_before_the_prices_are_read_is_booked_by_them_all_the_same() {
    for (platform, lists) in [("new-api", &[("/api/pricing", ratios())][..]), ("one-hub", &hub_lists())] {
        let gateway = Gateway::start();
        let (upstream, gate) = (Upstream::start(&[MODEL]), Gate::default());
        for (path, list) in lists {
            upstream.answer(path, Reply::json(200, list).head_waits_for(&gate));
        }
        upstream.answer_model("/v1/chat/completions", MODEL, Reply::json(200, &chat()));
        gateway.add_as(&json!({"name": "slow to tell", "platform": platform}), &upstream);
        let client = gateway.add_key(&json!({"name": "k", "key": "sk-of-the-tests", "maxCost": 1}));
        client.chat(MODEL).expect(200);
        assert_eq!(
            gateway.wait_for_logs(1)[0]["estimatedCost"],
            0.0256,
            "{platform}: 12,800 of 500,000 tokens to the dollar"
        );
        gate.open();
        let row = eventually("the row follows", || {
            gateway.wait_for_logs(1).into_iter().find(|row| row["estimatedCost"] == 0.035438)
        });
        assert_eq!(detail(&gateway, &row)["billingDetails"]["breakdown"]["totalCost"], 0.035438);
        eventually("the channel follows", || {
            (gateway.channels(MODEL)[0]["totalCost"] == 0.035438).then_some(())
        });
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        assert_eq!(keys["items"][0]["usedCost"], 0.035438, "{platform}: {keys}");
    }
}

#[test]
fn an_account_put_to_use_by_hand_has_its_prices_at_once() {
    for by_channel in [false, true] {
        let gateway = Gateway::start();
        let upstream = Upstream::start(&[MODEL]);
        upstream.answer("/api/pricing", Reply::json(200, &ratios()));
        upstream.answer("/v1/chat/completions", Reply::json(200, &chat()));
        let admin = gateway.admin();
        let site = json!({"name": "site", "url": upstream.url(), "platform": "new-api"});
        let site = admin.post("/api/sites", &site).expect(200);
        let account = json!({"siteId": site["id"], "accessToken": "sk-by-hand", "credentialMode": "apikey",
                             "skipModelFetch": true});
        let account = admin.post("/api/accounts", &account).expect(200);
        if by_channel {
            let route = admin.post("/api/routes", &json!({"modelPattern": MODEL})).expect(200);
            let path = format!("/api/routes/{}/channels", route["id"]);
            admin.post(&path, &json!({"accountId": account["id"]})).expect(200);
        } else {
            let path = format!("/api/accounts/{}/models/manual", account["id"]);
            admin.post(&path, &json!({"models": [MODEL]})).expect(200);
        }
        gateway.wait_for_output("prices of 2 models");
        gateway.client().chat(MODEL).expect(200);
        assert_eq!(gateway.wait_for_logs(1)[0]["estimatedCost"], 0.035438, "by channel: {by_channel}");
    }
}

#[test]
fn the_keys_of_an_expired_session_are_priced_after_a_restart_too() {
    let (gateway, site) = (Gateway::start(), Site::start(Program::NewApi, &[MODEL]));
    site.answer("/api/pricing", Reply::json(200, &ratios()));
    site.answer_model("/v1/chat/completions", MODEL, Reply::json(200, &chat()));
    let made = gateway.create_site(&json!({"name": "Relay", "url": site.url(), "platform": "new-api"}));
    let session = json!({"siteId": made["id"], "accessToken": site.token(), "platformUserId": 7659});
    let account = gateway.admin().post("/api/accounts", &session).expect(200);
    gateway.wait_for_task(&account);
    gateway.wait_for_channels(MODEL, 1);
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"status": "expired"})).expect(200);
    let gateway = gateway.restart();
    gateway.client().chat(MODEL).expect(200);
    eventually("it costs what the list says", || {
        gateway.logs().iter().any(|row| row["estimatedCost"] == 0.035438).then_some(())
    });
}

#[test]
fn the_hubs_are_asked_for_models_and_groups() {
    let gateway = Gateway::start();
    let (upstream, _) = priced(&gateway, "one-hub", &[MODEL], &hub_lists());
    gateway.wait_for_output("prices of 1 models");
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(gateway.wait_for_logs(1)[0]["estimatedCost"], 0.035438);
    assert!(upstream.asked_for("/api/pricing").is_empty());
}

#[test]
fn a_site_that_tells_everybody_its_prices_needs_no_credential() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&[MODEL]);
    let refusal = json!({"success": false, "message": "无权进行此操作，access token 无效"});
    // The only credential is refused; then the list is requested without one.
    upstream.answer("/api/pricing", Reply::json(200, &ratios()));
    upstream.answer_once("/api/pricing", Reply::json(200, &refusal));
    gateway.add_as(&json!({"name": "open", "platform": "new-api"}), &upstream);
    gateway.wait_for_output("prices of 2 models");
    let asked = upstream.asked_for("/api/pricing");
    let credentials: Vec<_> = asked.iter().map(|asked| asked.header("authorization")).collect();
    assert_eq!(credentials, [Some("Bearer sk-upstream-key"), None]);
}

#[test]
fn a_site_that_falters_keeps_the_prices_it_had() {
    let gateway = Gateway::start();
    let (upstream, account) = priced(&gateway, "new-api", &[MODEL], &[("/api/pricing", ratios())]);
    gateway.wait_for_output("prices of 2 models");
    let huge = format!("{{\"data\":[\"{}\"]}}", "x".repeat(17 << 20));
    for (number, (what, reply)) in [
        ("an error", Reply::error(500, "boom")),
        ("a refusal", Reply::error(401, "invalid token")),
        ("no such page", Reply::error(404, "Invalid URL (GET /api/pricing)")),
        ("a page", Reply::html(200, "<!doctype html><title>Just a moment</title>")),
        ("garbage", Reply::bytes(200, "application/json", "\u{0}{{{")),
        ("a list of nonsense", Reply::json(200, &json!({"data": [7, null, {"model_name": ""}]}))),
        ("seventeen megabytes", Reply::bytes(200, "application/json", huge)),
        ("a closed connection", Reply::silence()),
    ]
    .into_iter()
    .enumerate()
    {
        upstream.answer("/api/pricing", reply);
        let asked = upstream.asked_for("/api/pricing").len();
        let path = format!("/api/accounts/{}", account["id"]);
        gateway.admin().put(&path, &json!({"apiToken": format!("sk-renewed-{number}")})).expect(200);
        eventually("the site is asked for its prices again", || {
            (upstream.asked_for("/api/pricing").len() > asked).then_some(())
        });
        gateway.client().chat(MODEL).expect(200);
        let rows = gateway.wait_for_logs(number + 1);
        assert_eq!(rows[number]["estimatedCost"], 0.035438, "{what}");
    }
}

#[test]
fn reading_prices_delays_nobody() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&[MODEL]);
    upstream.answer("/api/pricing", Reply::stall());
    gateway.add_as(&json!({"name": "slow", "platform": "new-api"}), &upstream);
    upstream.last("/api/pricing");
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(gateway.wait_for_logs(1)[0]["status"], "success");
}

#[test]
fn prices_come_through_the_proxy_of_the_account_or_not_at_all() {
    let gateway = Gateway::start();
    let (upstream, account) = priced(&gateway, "new-api", &[MODEL], &[("/api/pricing", ratios())]);
    gateway.wait_for_output("prices of 2 models");
    let asked = upstream.asked_for("/api/pricing").len();
    let closed = Upstream::start(&[]);
    let proxy = closed.url();
    closed.refuse();
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"proxyUrl": proxy})).expect(200);
    gateway.admin().post("/api/routes/rebuild", &json!({"wait": true})).expect(200);
    assert_eq!(upstream.asked_for("/api/pricing").len(), asked, "no direct connection was made");
}

#[test]
fn a_stream_that_breaks_costs_its_key_what_had_come() {
    let gateway = Gateway::start();
    let (upstream, _) = priced(&gateway, "new-api", &[MODEL], &[("/api/pricing", ratios())]);
    gateway.wait_for_output("prices of 2 models");
    let key = "sk-managed-key-of-the-tests";
    let made = json!({"name": "k", "key": key});
    let id = gateway.admin().post("/api/downstream-keys", &made).expect(200)["item"]["id"].clone();
    let chunk = |delta: Value, usage: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let broken = Reply::events([
        chunk(json!({"role": "assistant", "content": "That "}), json!(null)),
        chunk(json!({"content": "way"}), chat()["usage"].clone()),
    ])
    .cut_after(2);
    upstream.answer("/v1/chat/completions", broken);
    let client = gateway.with_token(key);
    let (_, end) = client.stream(support::Caller::chat_ask(MODEL, true)).rest();
    end.expect("the answer ends as an answer, with an error inside");
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!((&row["status"], &row["estimatedCost"]), (&json!("failed"), &json!(0)), "{row}");
    assert_eq!(detail(&gateway, row)["billingDetails"]["breakdown"]["totalCost"], 0.035438);
    eventually("the key pays for what came", || {
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        let item = keys["items"].as_array()?.iter().find(|item| item["id"] == id)?.clone();
        (item["usedCost"] == 0.035438).then_some(())
    });
}
