//! `/api/oauth/route-units`: several connected accounts that serve as one channel.

use serde_json::{Value, json};

use crate::support::{Gateway, Provider, Reply, Request, eventually, seconds_ahead};

const MODEL: &str = "model-connected";

/// Returns the access token of an account.
fn token_of(number: usize) -> String {
    format!("access-token-of-account-{number}")
}

/// Starts a gateway with this many connected codex accounts on one site.
fn connected(provider: &Provider, count: usize) -> (Gateway, Vec<i64>) {
    connected_to("codex", provider, count)
}

/// Starts a gateway with this many connected accounts on one site of this platform.
fn connected_to(platform: &str, provider: &Provider, count: usize) -> (Gateway, Vec<i64>) {
    let mut gateway = provider.gateway();
    let site = gateway.create_site(&json!({"name": platform, "platform": platform, "url": provider.url()}));
    let mut ids = Vec::new();
    for number in 0..count {
        provider.book().access.push(token_of(number));
        let account = json!({"siteId": site["id"], "accessToken": format!("sk-{number}"),
            "credentialMode": "apikey", "skipModelFetch": true});
        let account = gateway.admin().post("/api/accounts", &account).expect(200);
        let models = format!("/api/accounts/{}/models/manual", account["id"]);
        gateway.admin().post(&models, &json!({"models": [MODEL]})).expect(200);
        ids.push(account["id"].as_i64().expect("an id"));
    }
    gateway.wait_for_channels(MODEL, count);
    gateway.kill();
    let database = gateway.home().database();
    for (number, id) in ids.iter().enumerate() {
        let sql = "UPDATE accounts SET oauth_provider = 'codex', oauth_account_key = ?, api_token = NULL, \
                   credential_mode = 'session', access_token = ? WHERE id = ?";
        let key = format!("account-{number}");
        database.execute(sql, &[&key, &token_of(number), id]);
    }
    (gateway.restart(), ids)
}

fn unit(gateway: &Gateway, ids: &[i64], strategy: &str) -> Value {
    // Some clients write every number with a fraction.
    let ids: Vec<f64> = ids.iter().map(|id| *id as f64).collect();
    let body = json!({"accountIds": ids, "name": "Pool", "strategy": strategy});
    gateway.admin().post("/api/oauth/route-units", &body).expect(200)["routeUnit"].clone()
}

fn ask(gateway: &Gateway) -> u16 {
    ask_for(gateway, MODEL)
}

fn ask_for(gateway: &Gateway, model: &str) -> u16 {
    let body = json!({"model": model, "stream": true, "input": "Which way?"});
    gateway.client().send(Request::post("/v1/responses").json(&body)).status
}

/// Returns the tokens of the requests, in order.
fn asked(provider: &Provider) -> Vec<String> {
    let requests = provider.asked_for("/responses");
    let bearer = |value: &str| value.trim_start_matches("Bearer ").to_owned();
    requests.iter().map(|asked| asked.header("authorization").map(bearer).unwrap_or_default()).collect()
}

fn tokens(numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|number| token_of(*number)).collect()
}

#[test]
fn members_share_one_channel_and_take_turns_and_have_their_own_again_afterwards() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 3);
    let unit = unit(&gateway, &ids, " Round_Robin ");
    for (name, expected) in [
        ("provider", json!("codex")),
        ("name", json!("Pool")),
        ("strategy", json!("round_robin")),
        ("enabled", json!(true)),
        ("memberCount", json!(3)),
    ] {
        assert_eq!(unit[name], expected, "{name} in {unit}");
    }
    gateway.wait_for_channels(MODEL, 1);
    for _ in 0..6 {
        assert_eq!(ask(&gateway), 200);
    }
    assert_eq!(asked(&provider), tokens(&[0, 1, 2, 0, 1, 2]));
    let rows = gateway.wait_for_logs(6);
    let accounts: Vec<i64> = rows.iter().filter_map(|row| row["accountId"].as_i64()).collect();
    assert_eq!(
        accounts,
        [&ids[..], &ids[..]].concat(),
        "each request is told with the account that served it"
    );
    let shown = gateway.admin().get("/api/oauth/connections").expect(200)["items"][0].clone();
    assert_eq!(shown["routeParticipation"]["routeUnitId"], unit["id"]);
    assert_eq!((&shown["routeUnit"]["memberCount"], &shown["routeChannelCount"]), (&json!(3), &json!(1)));
    let listed = gateway.admin().get("/api/routes").expect(200)[0]["channels"][0]["routeUnit"].clone();
    let site = shown["site"]["name"].clone();
    let connections = gateway.admin().get("/api/oauth/connections").expect(200);
    let username = |id: &i64| {
        let found =
            connections["items"].as_array().expect("a list").iter().find(|one| one["accountId"] == *id);
        found.expect("connected")["username"].clone()
    };
    let member = |id| json!({"accountId": id, "username": username(id), "siteName": site});
    assert_eq!(
        listed,
        json!({"id": unit["id"], "name": "Pool", "strategy": "round_robin", "memberCount": 3,
            "members": ids.iter().map(member).collect::<Vec<_>>()})
    );
    let found = gateway.admin().post("/api/search", &json!({"query": MODEL})).expect(200);
    assert_eq!(found["models"][0]["accountCount"], 3, "{found}");
    // The turns and counters survive a restart.
    let gateway = gateway.restart();
    assert_eq!(ask(&gateway), 200);
    assert_eq!(asked(&provider).last(), Some(&token_of(0)));
    let deleted = gateway.admin().delete(&format!("/api/oauth/route-units/{}", unit["id"])).expect(200);
    assert_eq!(deleted, json!({"success": true}));
    gateway.wait_for_channels(MODEL, 3);
    assert_eq!(ask(&gateway), 200);
}

#[test]
fn a_member_that_fails_rests_alone_and_the_request_goes_on_to_the_next() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 3);
    unit(&gateway, &ids, "stick_until_unavailable");
    gateway.wait_for_channels(MODEL, 1);
    assert_eq!((ask(&gateway), ask(&gateway)), (200, 200));
    assert_eq!(asked(&provider), tokens(&[0, 0]), "the first serves as long as it can");
    provider.answer_once("/responses", Reply::json(500, &json!({"error": {"message": "broken"}})));
    assert_eq!(ask(&gateway), 200);
    assert_eq!(asked(&provider)[2..], tokens(&[0, 1])[..]);
    assert_eq!(ask(&gateway), 200);
    assert_eq!(asked(&provider)[4..], tokens(&[1])[..], "the one that failed rests");
    // A disabled account serves no requests.
    let path = format!("/api/accounts/{}", ids[1]);
    gateway.admin().put(&path, &json!({"status": "disabled"})).expect(200);
    assert_eq!(ask(&gateway), 200);
    assert_eq!(asked(&provider).last(), Some(&token_of(2)));
    gateway.admin().delete(&format!("/api/accounts/{}", ids[0])).expect(200);
    eventually("the unit serves without its first member", || (ask(&gateway) == 200).then_some(()));
    assert_eq!(asked(&provider).last(), Some(&token_of(2)));
}

#[test]
fn a_usage_limit_of_a_member_is_kept_and_shared_with_other_channels_of_its_account() {
    const BY_HAND: &str = "model-by-hand";
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 2);
    unit(&gateway, &ids, "stick_until_unavailable");
    gateway.wait_for_channels(MODEL, 1);
    let admin = gateway.admin();
    let route = admin.post("/api/routes", &json!({"modelPattern": BY_HAND})).expect(200);
    let channel = json!({"accountId": ids[1], "sourceModel": MODEL});
    admin.post(&format!("/api/routes/{}/channels", route["id"]), &channel).expect(200);
    let error = json!({"type": "usage_limit_reached", "message": "The usage limit has been reached",
        "resets_in_seconds": 3600});
    provider.answer("/responses", Reply::json(429, &json!({ "error": error })));
    assert_eq!(ask_for(&gateway, BY_HAND), 429);
    assert_eq!(ask(&gateway), 429);
    assert_eq!(asked(&provider), tokens(&[1, 0]), "the other member has no quota");
    let decision = admin.get(&format!("/api/routes/decision?model={MODEL}")).expect(200)["decision"].clone();
    let (by_hand, of_unit) = (gateway.channels(BY_HAND).remove(0), gateway.channels(MODEL).remove(0));
    for limited in [&decision["candidates"][0], &by_hand, &of_unit] {
        let ahead = seconds_ahead(&limited["limitedUntil"]);
        assert!((3_580..=3_600).contains(&ahead), "{ahead} s: {limited}");
    }
}

#[test]
fn what_a_batch_of_a_member_costs_is_booked_on_the_member_and_on_the_unit() {
    const BATCHES: &str = "/v1/messages/batches";
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected_to("claude", &provider, 2);
    unit(&gateway, &ids, "stick_until_unavailable");
    gateway.wait_for_channels(MODEL, 1);
    let batch = |status: &str, results: Option<&str>| {
        let batch = json!({"id": "msgbatch_up1", "type": "message_batch", "processing_status": status,
            "results_url": results});
        Reply::json(200, &batch)
    };
    provider.answer(BATCHES, batch("in_progress", None));
    provider.answer_once(BATCHES, Reply::error(429, "Slow down"));
    let params = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]});
    let requests = json!({"requests": [{"custom_id": "r1", "params": params}]});
    let made = gateway.client().post(BATCHES, &requests).expect(200);
    let there = format!("{BATCHES}/msgbatch_up1");
    provider.answer(&there, batch("ended", Some("https://provider.example/results")));
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [],
        "usage": {"input_tokens": 400_000, "output_tokens": 100_000}});
    let line = json!({"custom_id": "r1", "result": {"type": "succeeded", "message": message}});
    provider
        .answer(&format!("{there}/results"), Reply::bytes(200, "application/x-jsonl", format!("{line}\n")));
    gateway.client().get(&format!("{BATCHES}/{}", made["id"].as_str().expect("an id"))).expect(200);
    let cost = || gateway.channels(MODEL)[0]["totalCost"].as_f64().expect("a cost");
    eventually("it is booked on the unit", || (cost() > 0.0).then_some(()));
    let booked = "SELECT account_id FROM oauth_route_unit_members WHERE total_cost > 0";
    eventually("it is booked on the member", || {
        (gateway.home().database().texts(booked) == [ids[1].to_string()]).then_some(())
    });
}

#[test]
fn a_token_that_is_renewed_in_a_unit_serves_on_the_same_member() {
    let provider = Provider::start("codex", &[MODEL]);
    let (mut gateway, ids) = connected(&provider, 2);
    unit(&gateway, &ids, "stick_until_unavailable");
    gateway.wait_for_channels(MODEL, 1);
    gateway.kill();
    provider.book().refresh.push("refresh-token".to_owned());
    let sql = "UPDATE accounts SET refresh_token = 'refresh-token' WHERE id = ?";
    gateway.home().database().execute(sql, &[&ids[0]]);
    let gateway = gateway.restart();
    provider.book().access.retain(|token| *token != token_of(0));
    assert_eq!(ask(&gateway), 200);
    assert_eq!(provider.book().refreshes, 1);
    let asked = asked(&provider);
    assert_eq!(asked[0], token_of(0));
    assert!(asked[1] != token_of(0) && asked[1] != token_of(1), "{asked:?}");
}

#[test]
fn clearing_the_cooldowns_of_an_account_reaches_it_as_a_member() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 3);
    unit(&gateway, &ids, "stick_until_unavailable");
    gateway.wait_for_channels(MODEL, 1);
    let refuse = || {
        provider.answer_once("/responses", Reply::json(500, &json!({"error": {"message": "broken"}})));
        assert_eq!(ask(&gateway), 200);
    };
    refuse();
    refuse();
    assert_eq!(asked(&provider), tokens(&[0, 1, 1, 2]), "two members rest");
    let cooling = || {
        let listed = gateway.admin().get("/api/accounts/cooling").expect(200);
        let ids =
            listed.as_array().expect("a list").iter().map(|one| one["accountId"].as_i64().expect("an id"));
        ids.collect::<Vec<_>>()
    };
    assert_eq!(cooling(), ids[..2], "each is listed by itself");
    let cleared = format!("/api/accounts/{}/clear-cooldown", ids[1]);
    let cleared = gateway.admin().post(&cleared, &json!({})).expect(200);
    assert_eq!(cleared, json!({"success": true, "clearedChannels": 1}));
    assert_eq!(cooling(), ids[..1]);
    // The account that was used last goes on, as long as it can.
    refuse();
    assert_eq!(
        asked(&provider)[4..],
        tokens(&[2, 1]),
        "the one that was cleared serves, the first one still rests"
    );
    // A cleared cooldown stays cleared.
    let mut gateway = gateway;
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    assert_eq!(ask(&gateway), 200);
    assert_eq!(asked(&provider).last(), Some(&token_of(1)));
    let route = gateway.routes().remove(0)["id"].clone();
    gateway.admin().post(&format!("/api/routes/{route}/cooldown/clear"), &json!({})).expect(200);
    provider.answer_once("/responses", Reply::json(500, &json!({"error": {"message": "broken"}})));
    assert_eq!(ask(&gateway), 200);
    assert_ne!(asked(&provider).last(), Some(&token_of(1)), "another member serves again");
}

#[test]
fn a_trace_names_the_channel_that_a_conversation_was_on_also_where_a_member_served_it() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 2);
    unit(&gateway, &ids, "round_robin");
    gateway.wait_for_channels(MODEL, 1);
    gateway.admin().put("/api/settings/runtime", &json!({"proxyDebugTraceEnabled": true})).expect(200);
    let body = json!({"model": MODEL, "stream": true, "input": "Which way?"});
    for _ in 0..2 {
        let ask = Request::post("/v1/responses").header("originator", "codex_cli_rs");
        let answer = gateway.client().send(ask.header("session_id", "a-conversation").json(&body));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let traces = eventually("both are there", || {
        let shown = gateway.admin().get("/api/stats/proxy-debug/traces").expect(200);
        let traces = shown["items"].as_array().expect("items").clone();
        (traces.len() == 2).then_some(traces)
    });
    let path = format!("/api/stats/proxy-debug/traces/{}", traces[0]["id"]);
    let second = gateway.admin().get(&path).expect(200);
    assert!(traces[1]["selectedChannelId"].as_i64().is_some_and(|id| id > 0), "{traces:?}");
    assert_eq!(second["trace"]["stickyHitChannelId"], traces[1]["selectedChannelId"]);
    assert_eq!(asked(&provider), tokens(&[0, 0]));
}

#[test]
fn a_member_is_not_asked_for_a_model_that_it_does_not_have() {
    const OTHER: &str = "model-of-one-member";
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 3);
    unit(&gateway, &ids, "round_robin");
    gateway.wait_for_channels(MODEL, 1);
    let models = format!("/api/accounts/{}/models/manual", ids[1]);
    gateway.admin().post(&models, &json!({"models": [OTHER]})).expect(200);
    gateway.wait_for_channels(OTHER, 1);
    let ask = |model: &str| {
        let body = json!({"model": model, "stream": true, "input": "Which way?"});
        assert_eq!(gateway.client().send(Request::post("/v1/responses").json(&body)).status, 200);
    };
    for _ in 0..3 {
        ask(OTHER);
    }
    assert_eq!(asked(&provider), tokens(&[1, 1, 1]));
    // A model that another account gets later is served by both.
    let models = format!("/api/accounts/{}/models/manual", ids[2]);
    gateway.admin().post(&models, &json!({"models": [OTHER]})).expect(200);
    eventually("the other one is asked for it", || {
        ask(OTHER);
        (asked(&provider).last() == Some(&token_of(2))).then_some(())
    });
}

#[test]
fn a_unit_is_of_connected_accounts_of_one_site_each_in_one_unit() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 3);
    let other = gateway.create_site(&json!({"name": "other", "platform": "openai", "url": provider.url()}));
    let key = json!({"siteId": other["id"], "accessToken": "sk-1", "credentialMode": "apikey",
        "skipModelFetch": true});
    let key = gateway.admin().post("/api/accounts", &key).expect(200)["id"].clone();
    let create = |body: &Value| gateway.admin().post("/api/oauth/route-units", body);
    for (body, status, message) in [
        (
            json!({"accountIds": [ids[0], ids[0]], "name": "x"}),
            400,
            "oauth route unit requires at least 2 accounts",
        ),
        (json!({"name": "x"}), 400, "oauth route unit requires at least 2 accounts"),
        (
            json!({"accountIds": ["1"], "name": "x"}),
            400,
            "Invalid accountIds. Expected positive number array.",
        ),
        (json!({"accountIds": [ids[0], ids[1]], "name": " "}), 400, "oauth route unit name is required"),
        (
            json!({"accountIds": [ids[0], ids[1]], "name": "a\u{0}b"}),
            400,
            "Invalid name. Expected line of at most 191 characters.",
        ),
        (
            json!({"accountIds": [ids[0], ids[1]], "name": "x", "strategy": "random"}),
            400,
            "invalid oauth route unit strategy",
        ),
        (
            json!({"accountIds": [ids[0], key], "name": "x"}),
            400,
            "oauth route unit only supports oauth accounts",
        ),
        (json!({"accountIds": [ids[0], 777], "name": "x"}), 404, "oauth route unit accounts not found"),
    ] {
        assert_eq!(create(&body).expect(status)["message"], message, "{body}");
    }
    let first = unit(&gateway, &ids[..2], "round_robin");
    let again = create(&json!({"accountIds": [ids[1], ids[2]], "name": "y"})).expect(400);
    assert_eq!(again["message"], "oauth route unit accounts already grouped");
    let path = format!("/api/oauth/route-units/{}", first["id"]);
    let patch = |path: &str, body: &Value| gateway.admin().send(Request::new("PATCH", path).json(body));
    let changed = patch(&path, &json!({"name": " New ", "strategy": "STICK_until_unavailable"})).expect(200);
    assert_eq!(changed["routeUnit"]["name"], "New");
    assert_eq!(changed["routeUnit"]["strategy"], "stick_until_unavailable");
    let refused = patch(&path, &json!({"strategy": 7})).expect(400);
    assert_eq!(refused["message"], "Invalid strategy. Expected round_robin/stick_until_unavailable.");
    for (id, status, message) in
        [("777", 404, "oauth route unit not found"), ("x", 400, "invalid route unit id")]
    {
        let path = format!("/api/oauth/route-units/{id}");
        assert_eq!(patch(&path, &json!({})).expect(status)["message"], message);
        assert_eq!(gateway.admin().delete(&path).expect(status)["message"], message);
    }
}

#[test]
fn what_was_set_of_a_units_channel_outlives_the_account_that_it_is_stored_with() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 3);
    unit(&gateway, &ids, "round_robin");
    gateway.wait_for_channels(MODEL, 1);
    let channel = || gateway.channels(MODEL)[0].clone();
    let before = channel();
    let path = format!("/api/channels/{}", before["id"]);
    let set = json!({"priority": 3, "weight": 50, "enabled": false});
    gateway.admin().put(&path, &set).expect(200);
    gateway.admin().delete(&format!("/api/accounts/{}", ids[0])).expect(200);
    let after = eventually("the next member stands for it", || {
        let channel = channel();
        (channel["accountId"] == ids[1]).then_some(channel)
    });
    for field in ["id", "oauthRouteUnitId"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    for (field, value) in set.as_object().expect("fields") {
        assert_eq!(after[field], *value, "{field}");
    }
    assert!(ask(&gateway) >= 400, "it is switched off");
    gateway.admin().put(&path, &json!({"enabled": true})).expect(200);
    assert_eq!(ask(&gateway), 200);
}

#[test]
fn a_unit_goes_with_its_last_member() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, ids) = connected(&provider, 2);
    let unit = unit(&gateway, &ids, "round_robin");
    let path = format!("/api/oauth/route-units/{}", unit["id"]);
    for (id, status) in ids.iter().zip([200, 404]) {
        gateway.admin().delete(&format!("/api/accounts/{id}")).expect(200);
        assert_eq!(gateway.admin().send(Request::new("PATCH", &path).json(&json!({}))).status, status);
    }
}

#[test]
fn a_decision_names_the_member_that_serves_and_a_unit_that_rests_says_so() {
    let provider = Provider::start("codex", &[]);
    let (gateway, ids) = connected(&provider, 2);
    unit(&gateway, &ids, "stick_until_unavailable");
    let decided = || {
        let path = format!("/api/routes/decision?model={MODEL}");
        gateway.admin().get(&path).expect(200)["decision"].clone()
    };
    let shown = || gateway.admin().get("/api/routes").expect(200)[0]["channels"][0].clone();
    let cooling = || {
        let text = gateway.admin().get("/metrics").text();
        text.lines().any(|line| line == "switchyard_channels_cooling 1")
    };
    assert_eq!(decided()["selectedAccountId"], ids[0]);
    provider.answer_once("/responses", Reply::error(500, "boom"));
    assert_eq!(ask(&gateway), 200, "the other member serves");
    assert_eq!(asked(&provider), tokens(&[0, 1]));
    assert_eq!(decided()["selectedAccountId"], ids[1], "the first one rests");
    assert!(shown()["cooldownUntil"].is_null() && !cooling(), "one serves");
    provider.answer_once("/responses", Reply::error(500, "boom"));
    assert!(ask(&gateway) >= 500);
    let decision = decided();
    assert_eq!(decision["candidates"][0]["reasonCode"], "cooling", "{decision}");
    assert!(decision["candidates"][0]["cooldownUntil"].is_string(), "{decision}");
    assert!(shown()["cooldownUntil"].is_string() && cooling(), "{}", shown());
}
