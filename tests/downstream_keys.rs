//! Managed downstream keys: which are let in, what and how much they may use, and how they share.

use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Gateway, PROXY_TOKEN, Pair, Reply, Request, Upstream, path_of_key, wire};

const MODEL: &str = "model-keys";
const KEY: &str = "sk-team-a-0123456789";

struct World {
    gateway: Gateway,
    upstream: Upstream,
    site: Value,
    account: Value,
}

/// Starts a gateway with one upstream that serves [`MODEL`] and `other-model`.
fn world() -> World {
    let upstream = Upstream::start(&[MODEL, "other-model"]);
    let gateway = Gateway::start();
    let (site, account) = gateway.add("site", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    gateway.wait_for_channels("other-model", 1);
    World { gateway, upstream, site, account }
}

/// Creates the key [`KEY`] with these further fields; returns its item.
#[track_caller]
fn create(gateway: &Gateway, fields: &Value) -> Value {
    let mut named = json!({"name": "team-a"});
    named.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    gateway.create_key(KEY, &named)
}

/// Returns the item as the list shows it.
#[track_caller]
fn listed(gateway: &Gateway, item: &Value) -> Value {
    let list = gateway.admin().get("/api/downstream-keys").expect(200);
    let found = list["items"].as_array().expect("items").iter().find(|key| key["id"] == item["id"]);
    found.unwrap_or_else(|| panic!("{item} is not listed")).clone()
}

fn model_ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().expect("a list").iter().filter_map(|model| model["id"].as_str()).collect()
}

#[test]
fn a_key_opens_the_door_until_something_bars_it() {
    let World { gateway, upstream, .. } = world();
    let client = gateway.with_token(KEY);
    assert_eq!(client.chat(MODEL).expect(403)["error"]["code"], "invalid_api_key");
    let item = create(&gateway, &json!({}));
    client.chat(MODEL).expect(200);
    let open = json!({"enabled": true, "expiresAt": null, "maxCost": null, "maxRequests": null});
    for (fields, code) in [
        (json!({"enabled": false}), "key_disabled"),
        (json!({"expiresAt": "2020-01-01T00:00:00Z"}), "key_expired"),
        (json!({"maxCost": 0}), "key_over_cost"),
        (json!({"maxRequests": 0}), "key_over_requests"),
        (json!({"maxRequests": 1}), "key_over_requests"),
        (json!({"enabled": false, "expiresAt": "2020-01-01", "maxCost": 0}), "key_disabled"),
    ] {
        gateway.change_key(&item, &fields);
        let asked = upstream.asked_for("/v1/chat/completions").len();
        let error = client.chat(MODEL).expect(403);
        assert_eq!(error["error"]["code"], code, "{fields}: {error}");
        assert_eq!(client.get("/v1/models").expect(403)["error"]["code"], code);
        assert_eq!(upstream.asked_for("/v1/chat/completions").len(), asked, "{fields}: no upstream is asked");
        gateway.change_key(&item, &open);
        client.get("/v1/models").expect(200);
    }
    gateway.admin().delete(&path_of_key(&item, "")).expect(200);
    assert_eq!(client.chat(MODEL).expect(403)["error"]["code"], "invalid_api_key");
    gateway.client().chat(MODEL).expect(200);
}

#[test]
fn a_key_without_lists_may_use_every_model_and_one_with_empty_lists_none() {
    let World { gateway, upstream: _upstream, .. } = world();
    let client = gateway.with_token(KEY);
    let item = create(&gateway, &json!({}));
    assert_eq!(item["supportedModels"], json!(["*"]));
    client.chat(MODEL).expect(200);
    gateway.change_key(&item, &json!({"supportedModels": []}));
    let error = client.chat(MODEL).expect(403);
    assert_eq!(error["error"]["type"], "permission_error");
    assert_eq!(error["error"]["message"], format!("Model {MODEL} is not allowed for this key"));
    assert_eq!(client.get("/v1/models").expect(200)["data"], json!([]));
}

#[test]
fn a_model_list_permits_what_its_patterns_match() {
    let World { gateway, upstream, .. } = world();
    let client = gateway.with_token(KEY);
    let item = create(&gateway, &json!({}));
    for (patterns, allowed) in [
        (json!([MODEL]), true),
        (json!(["model-*"]), true),
        (json!(["re:^model-k"]), true),
        (json!(["MODEL-KEYS"]), false),
        (json!(["re:^odel"]), false),
        (json!("a, other-*"), false),
    ] {
        gateway.change_key(&item, &json!({"supportedModels": patterns}));
        let asked = upstream.asked_for("/v1/chat/completions").len();
        let answer = client.chat(MODEL);
        assert_eq!(answer.status, if allowed { 200 } else { 403 }, "{patterns}: {}", answer.text());
        assert_eq!(upstream.asked_for("/v1/chat/completions").len() > asked, allowed, "{patterns}");
        let list = client.get("/v1/models").expect(200);
        assert_eq!(model_ids(&list).contains(&MODEL), allowed, "{patterns}: {list}");
    }
}

/// A `*` also stands for a `/`, and what is before the last one is the client's choice.
#[test]
fn no_other_model_comes_in_behind_the_name_of_one_that_is_allowed() {
    let World { gateway, upstream, .. } = world();
    gateway.admin().post("/api/routes", &json!({"modelPattern": "*"})).expect(200);
    create(&gateway, &json!({"supportedModels": ["cheap*"]}));
    let behind = format!("cheap/{MODEL}");
    gateway.with_token(KEY).chat(&behind).expect(503);
    assert!(upstream.asked_for("/v1/chat/completions").is_empty());
    gateway.client().chat(&behind).expect(200);
}

#[test]
fn no_other_model_comes_in_beside_the_one_that_is_allowed() {
    let World { gateway, upstream, .. } = world();
    create(&gateway, &json!({"supportedModels": [MODEL]}));
    let client = gateway.with_token(KEY);
    let said = json!([{"role": "user", "content": "hi"}]);
    for (member, status) in [
        (r#""Model":"dear""#, 400),
        (r#""model":"dear""#, 400),
        (r#""models":["dear"]"#, 403),
        (r#""fallbacks":[{"model":"dear"}]"#, 403),
        (r#""fallbacks":{"model":"dear"}"#, 403),
        (r#""Models":["dear"]"#, 403),
        (r#""models":"dear""#, 403),
        (r#""context_window_fallbacks":[{"dear":["dear"]}]"#, 403),
        (r#""models":["\ud800","dear"]"#, 403),
        (r#""models":[{"id":"dear"}]"#, 403),
        (r#""tools":[{"type":"image_generation","model":"dear"}]"#, 403),
        (r#""tools":[{"type":"function","function":{"name":"f"}},{"Model":"dear"}]"#, 403),
        (r#""plugins":[{"id":"auto-router","allowed_models":["dear"]}]"#, 403),
        (r#""plugins":[{"id":"fusion","model":"dear"}]"#, 403),
        (r#""models":null"#, 200),
        (&format!(r#""tools":[{{"type":"advisor_20260301","name":"advisor","model":"{MODEL}"}}]"#), 200),
        (r#""tools":[{"type":"function","function":{"name":"f","parameters":{"model":"dear"}}}]"#, 200),
        (&format!(r#""models":["{MODEL}"]"#), 200),
    ] {
        let body = format!(r#"{{"model":"{MODEL}","messages":{said},{member}}}"#);
        let answer = client.send(Request::post("/v1/chat/completions").json_text(body.as_str()));
        assert_eq!(answer.status, status, "{member}: {}", answer.text());
    }
    assert_eq!(upstream.asked_for("/v1/chat/completions").len(), 4);
    let advised = json!({"model": MODEL, "messages": said, "tools": [{"model": "dear"}]});
    gateway.client().post("/v1/chat/completions", &advised).expect(200);
    let body = json!({"model": MODEL, "messages": said, "fallbacks": vec![MODEL; 33]});
    let refused = client.send(Request::post("/v1/chat/completions").json(&body)).expect(400);
    assert_eq!(refused["error"]["param"], "fallbacks", "{refused}");
    // Nor in the query.
    let body = json!({"model": MODEL, "messages": said});
    client.send(Request::post("/v1/chat/completions?model=dear&a=1").json(&body)).expect(200);
    assert_eq!(upstream.last("/v1/chat/completions").target, "/v1/chat/completions?a=1");
}

#[test]
fn an_allowed_route_permits_its_public_name() {
    let World { gateway, upstream: _upstream, .. } = world();
    let routes = gateway.routes();
    let route = routes.iter().find(|route| route["modelPattern"] == MODEL).expect("the route").clone();
    create(&gateway, &json!({"allowedRouteIds": [route["id"]]}));
    let client = gateway.with_token(KEY);
    client.chat(MODEL).expect(200);
    client.chat("other-model").expect(403);
    assert_eq!(model_ids(&client.get("/v1/models").expect(200)), [MODEL]);
    // With an alias, the same route permits the alias, not the model behind it.
    let alias = json!({"displayName": "alias-of-keys"});
    gateway.admin().put(&format!("/api/routes/{}", route["id"]), &alias).expect(200);
    client.chat("alias-of-keys").expect(200);
    client.chat(MODEL).expect(403);
    assert_eq!(model_ids(&client.get("/v1/models").expect(200)), ["alias-of-keys"]);
}

#[test]
fn excluded_sites_and_credentials_are_passed_over() {
    let pair = Pair::start();
    let channel = pair.channel("first");
    let item = create(&pair.gateway, &json!({}));
    let client = pair.gateway.with_token(KEY);
    let site = channel["site"]["id"].clone();
    let credential =
        json!([{"kind": "default_api_key", "siteId": site, "accountId": channel["account"]["id"]}]);
    for fields in [
        json!({"excludedSiteIds": [site], "excludedCredentialRefs": []}),
        json!({"excludedSiteIds": [], "excludedCredentialRefs": credential}),
    ] {
        pair.gateway.change_key(&item, &fields);
        let before = pair.second.asked_for("/v1/chat/completions").len();
        for _ in 0..5 {
            client.chat(Pair::MODEL).expect(200);
        }
        assert_eq!(pair.second.asked_for("/v1/chat/completions").len(), before + 5, "{fields}");
    }
    assert!(pair.first.asked_for("/v1/chat/completions").is_empty());
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(pair.first.asked_for("/v1/chat/completions").len(), 1, "others still use it");
}

#[test]
fn a_multiplier_moves_the_calls_of_this_key_alone() {
    let pair = Pair::start();
    let second = pair.channel("second")["site"]["id"].to_string();
    create(&pair.gateway, &json!({"siteWeightMultipliers": {second: 1e30}}));
    let client = pair.gateway.with_token(KEY);
    for _ in 0..10 {
        client.chat(Pair::MODEL).expect(200);
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    assert_eq!(pair.second.asked_for("/v1/chat/completions").len(), 10);
    assert_eq!(pair.first.asked_for("/v1/chat/completions").len(), 10);
}

#[test]
fn of_a_thousand_parallel_requests_exactly_the_limit_passes() {
    let World { gateway, upstream, .. } = world();
    let item = create(&gateway, &json!({"maxRequests": 500}));
    let passed = gateway.served_of_crowd((KEY, MODEL), (200, 5), |refused| {
        assert_eq!(refused.expect(403)["error"]["code"], "key_over_requests");
    });
    assert_eq!(passed, 500);
    assert_eq!(upstream.asked_for("/v1/chat/completions").len(), 500);
    assert_eq!(listed(&gateway, &item)["usedRequests"], 500);
    let reset = gateway.admin().post(&path_of_key(&item, "/reset-usage"), &json!({})).expect(200);
    assert_eq!((&reset["item"]["usedRequests"], &reset["item"]["usedCost"]), (&json!(0), &json!(0)));
    gateway.with_token(KEY).chat(MODEL).expect(200);
}

#[test]
fn a_kill_never_lets_more_than_the_limit_pass() {
    let World { gateway, upstream: _upstream, .. } = world();
    let most = 400;
    create(&gateway, &json!({"maxRequests": most}));
    gateway.lets_pass_despite_kills(most, 3, (KEY, MODEL));
}

#[test]
fn what_a_key_used_survives_a_stop_to_the_request() {
    let World { mut gateway, upstream: _upstream, .. } = world();
    let item = create(&gateway, &json!({"maxRequests": 1000}));
    for _ in 0..3 {
        gateway.with_token(KEY).chat(MODEL).expect(200);
    }
    let before = listed(&gateway, &item);
    assert_eq!(before["usedRequests"], 3);
    assert!(before["lastUsedAt"].is_string());
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    let after = listed(&gateway, &item);
    for field in ["usedRequests", "usedCost", "lastUsedAt"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    // A smaller limit counts the requests used, not those reserved.
    gateway.with_token(KEY).chat(MODEL).expect(200);
    gateway.change_key(&item, &json!({"maxRequests": 5}));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    assert_eq!(gateway.with_token(KEY).chat(MODEL).expect(403)["error"]["code"], "key_over_requests");
}

#[test]
fn the_usage_of_a_key_that_does_not_open_any_more_is_reset_like_any_other() {
    let World { mut gateway, upstream: _upstream, .. } = world();
    let item = create(&gateway, &json!({}));
    gateway.kill();
    let damage =
        "UPDATE downstream_api_keys SET key_enc = 'enc:2:1:AAAA', used_requests = 7, used_cost = 0.5";
    gateway.home().database().execute(damage, &[]);
    let gateway = gateway.restart();
    let admin = gateway.admin();
    assert_eq!(listed(&gateway, &item)["usedRequests"], 7);
    let reset = admin.post(&path_of_key(&item, "/reset-usage"), &json!({})).expect(200)["item"].clone();
    assert_eq!((&reset["usedRequests"], &reset["usedCost"]), (&json!(0), &json!(0)));
    let batch = json!({"ids": [item["id"], 999], "action": "resetUsage"});
    let answer = admin.post("/api/downstream-keys/batch", &batch).expect(200);
    assert_eq!(answer["successIds"], json!([item["id"]]));
    assert_eq!(answer["failedItems"][0]["id"], 999);
    admin.post("/api/downstream-keys/999/reset-usage", &json!({})).expect(404);
}

#[test]
fn only_calls_that_reach_routing_count() {
    let World { gateway, upstream: _upstream, .. } = world();
    let item = create(&gateway, &json!({"supportedModels": [MODEL], "maxRequests": 2}));
    let client = gateway.with_token(KEY);
    client.get("/v1/models").expect(200);
    client.chat("other-model").expect(403);
    client.post("/v1/chat/completions", &json!({"messages": []})).expect(400);
    assert_eq!(listed(&gateway, &item)["usedRequests"], 0);
    client.chat(MODEL).expect(200);
    assert_eq!(listed(&gateway, &item)["usedRequests"], 1);
}

#[test]
fn a_success_is_charged_until_the_cost_limit() {
    let World { gateway, upstream, .. } = world();
    let mut reply = wire::chat(MODEL);
    reply["usage"] = json!({"prompt_tokens": 250_000, "completion_tokens": 250_000, "total_tokens": 500_000});
    upstream.answer("/v1/chat/completions", Reply::json(200, &reply));
    let item = create(&gateway, &json!({"maxCost": 0.5}));
    let client = gateway.with_token(KEY);
    client.chat(MODEL).expect(200);
    let cost = gateway.wait_for_logs(1)[0]["estimatedCost"].clone();
    assert!(cost.as_f64().is_some_and(|usd| usd >= 0.5), "{cost}");
    assert_eq!(listed(&gateway, &item)["usedCost"], cost);
    assert_eq!(client.chat(MODEL).expect(403)["error"]["code"], "key_over_cost");
}

#[test]
fn a_limit_may_be_as_large_as_a_json_number() {
    let World { gateway, upstream: _upstream, .. } = world();
    let largest = 9_007_199_254_740_991_i64;
    let item = create(&gateway, &json!({"maxRequests": largest, "maxCost": 1e10}));
    assert_eq!((&item["maxRequests"], item["maxCost"].as_f64()), (&json!(largest), Some(1e10)));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    assert_eq!(listed(&gateway, &item)["usedRequests"], 1);
}

#[test]
fn a_key_is_whole_in_its_creation_and_its_reveal_and_masked_elsewhere() {
    let gateway = Gateway::start();
    let admin = gateway.admin();
    let item = create(&gateway, &json!({"tags": "prod, eu", "maxCost": "12.5", "description": " "}));
    for (field, value) in [
        ("key", json!(KEY)),
        ("keyMasked", json!("sk-t****6789")),
        ("description", json!(null)),
        ("tags", json!(["prod", "eu"])),
        ("enabled", json!(true)),
        ("maxCost", json!(12.5)),
        ("usedCost", json!(0)),
        ("maxRequests", json!(null)),
        ("siteWeightMultipliers", json!({})),
        ("excludedCredentialRefs", json!([])),
        ("lastUsedAt", json!(null)),
    ] {
        assert_eq!(item[field], value, "{field}");
    }
    assert_eq!(admin.get(&path_of_key(&item, "/value")).expect(200)["key"], KEY);
    let echoed = gateway.change_key(&item, &json!({"key": "sk-t****6789", "name": "renamed"}));
    assert_eq!((&echoed["name"], &echoed["key"]), (&json!("renamed"), &json!("sk-t****6789")));
    for answer in [
        admin.get("/api/downstream-keys"),
        admin.get("/api/downstream-keys/summary"),
        admin.get(&path_of_key(&item, "/overview")),
        admin.get(&path_of_key(&item, "/trend")),
        admin.post(&path_of_key(&item, "/reset-usage"), &json!({})),
    ] {
        answer.expect(200);
        assert!(!answer.text().contains(KEY), "{}", answer.text());
    }
    assert_eq!(admin.get(&path_of_key(&item, "/value")).expect(200)["key"], KEY);
}

#[test]
fn a_key_is_readable_in_no_file_and_no_log_line() {
    let World { mut gateway, upstream: _upstream, .. } = world();
    create(&gateway, &json!({"maxRequests": 1}));
    let client = gateway.with_token(KEY);
    client.chat(MODEL).expect(200);
    client.chat(MODEL).expect(403);
    gateway.anyone().get(&format!("/v1/models?key={KEY}")).expect(403);
    gateway.wait_for_logs(1);
    let readable = |gateway: &Gateway| {
        let files = gateway.home().files();
        assert!(!files.is_empty());
        files.into_iter().find(|(_, bytes)| bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes()))
    };
    assert!(readable(&gateway).is_none());
    gateway.signal("TERM");
    gateway.wait_for_exit();
    assert!(readable(&gateway).is_none());
    assert!(!gateway.output().contains(KEY));
}

#[test]
fn a_refused_change_names_the_field_and_changes_nothing() {
    let World { gateway, upstream: _upstream, site, account } = world();
    let admin = gateway.admin();
    let item = create(&gateway, &json!({}));
    for (fields, field) in [
        (json!({"key": "pk-no-prefix"}), "key"),
        (json!({"name": ""}), "name"),
        (json!({"enabled": "yes"}), "enabled"),
        (json!({"maxRequests": -1}), "maxRequests"),
        (json!({"expiresAt": "soon"}), "expiresAt"),
        (json!({"supportedModels": ["re:["]}), "supportedModels"),
        (json!({"allowedRouteIds": [4711]}), "4711"),
        (json!({"excludedSiteIds": [4712]}), "4712"),
        (json!({"siteWeightMultipliers": {"4713": 2}}), "4713"),
        (
            json!({"excludedCredentialRefs": [{"kind": "account_token", "siteId": site["id"],
            "accountId": account["id"], "tokenId": 4714}]}),
            "4714",
        ),
    ] {
        let error = admin.put(&path_of_key(&item, ""), &fields).expect(400);
        assert!(error["message"].as_str().is_some_and(|text| text.contains(field)), "{fields}: {error}");
    }
    let shown = listed(&gateway, &item);
    assert_eq!(shown["updatedAt"], item["updatedAt"]);
    let body = json!({"name": "again", "key": format!(" {KEY} ")});
    assert_eq!(admin.post("/api/downstream-keys", &body).expect(409)["success"], false);
    admin.put("/api/downstream-keys/99999", &json!({"name": "x"})).expect(404);
    admin.delete("/api/downstream-keys/99999").expect(404);
    admin.get("/api/downstream-keys/99999/value").expect(404);
    admin.put("/api/downstream-keys/7x", &json!({})).expect(400);
}

#[test]
fn a_new_value_replaces_the_old_one_at_once_and_wins_over_the_global_token() {
    let World { gateway, upstream: _upstream, .. } = world();
    let item = create(&gateway, &json!({}));
    gateway.change_key(&item, &json!({"key": "sk-another-value"}));
    gateway.with_token(KEY).chat(MODEL).expect(403);
    gateway.with_token("sk-another-value").chat(MODEL).expect(200);
    let same = json!({"name": "global", "key": PROXY_TOKEN, "enabled": false});
    gateway.admin().post("/api/downstream-keys", &same).expect(200);
    assert_eq!(gateway.client().chat(MODEL).expect(403)["error"]["code"], "key_disabled");
    assert_eq!(gateway.anyone().with("authorization", ADMIN_TOKEN).chat(MODEL).status, 403);
}

#[test]
fn a_batch_says_for_each_key_how_it_ended() {
    let gateway = Gateway::start();
    let admin = gateway.admin();
    let one = create(&gateway, &json!({"tags": ["Old"], "groupName": "g"}));
    let batch = |fields: Value| {
        let mut body = json!({"ids": [one["id"], 4711]});
        for (name, value) in fields.as_object().expect("fields") {
            body[name] = value.clone();
        }
        admin.post("/api/downstream-keys/batch", &body)
    };
    let result = batch(json!({"action": "disable"})).expect(200);
    assert_eq!(result["successIds"], json!([one["id"]]));
    assert_eq!(result["failedItems"][0]["id"], 4711);
    assert_eq!(listed(&gateway, &one)["enabled"], false);
    batch(json!({"action": "enable"})).expect(200);
    batch(json!({"action": "resetUsage"})).expect(200);
    let metadata = json!({"action": "updateMetadata", "groupOperation": "set", "groupName": "h",
        "tagOperation": "append", "tags": "old, new"});
    batch(metadata).expect(200);
    let shown = listed(&gateway, &one);
    assert_eq!((&shown["groupName"], &shown["tags"]), (&json!("h"), &json!(["old", "new"])));
    for refused in [
        json!({"action": "other"}),
        json!({"action": "updateMetadata", "groupOperation": "set"}),
        json!({"action": "updateMetadata", "tagOperation": "append"}),
        json!({"action": "enable", "ids": []}),
        json!({"action": "enable", "ids": ["1"]}),
    ] {
        batch(refused).expect(400);
    }
    batch(json!({"action": "delete"})).expect(200);
    assert_eq!(admin.get("/api/downstream-keys").expect(200)["items"], json!([]));
}

#[test]
fn summary_overview_and_trend_show_what_a_key_did() {
    let World { gateway, upstream, .. } = world();
    let admin = gateway.admin();
    let item = create(&gateway, &json!({"tags": ["prod"], "groupName": "a", "description": "Payroll"}));
    let idle = json!({"name": "idle", "key": "sk-idle-key"});
    admin.post("/api/downstream-keys", &idle).expect(200);
    let client = gateway.with_token(KEY);
    client.chat(MODEL).expect(200);
    upstream.answer("/v1/chat/completions", Reply::error(400, "no"));
    assert_eq!(client.chat(MODEL).status, 400);
    let rows = gateway.wait_for_logs(2);
    assert!(rows.iter().all(|row| row["status"] == "success" || row["status"] == "failed"), "{rows:?}");
    let overview = admin.get(&path_of_key(&item, "/overview")).expect(200);
    for range in ["last24h", "last7d", "all"] {
        let usage = &overview["usage"][range];
        for (field, value) in [
            ("totalRequests", json!(2)),
            ("successRequests", json!(1)),
            ("failedRequests", json!(1)),
            ("successRate", json!(50)),
        ] {
            assert_eq!(usage[field], value, "{range} {field}");
        }
        assert!(usage["totalTokens"].as_i64().is_some_and(|tokens| tokens > 0));
    }
    let trend = admin.get(&path_of_key(&item, "/trend?range=all&timeZone=Asia/Shanghai")).expect(200);
    assert_eq!((&trend["bucketSeconds"], &trend["timeZone"]), (&json!(86_400), &json!("Asia/Shanghai")));
    let start = trend["buckets"][0]["startUtc"].as_str().expect("a start");
    assert!(start.ends_with("T16:00:00.000Z"), "{start}");
    assert_eq!(admin.get(&path_of_key(&item, "/trend")).expect(200)["bucketSeconds"], 3600);
    for (query, names) in [
        ("", vec!["idle", "team-a"]),
        ("?search=payROLL", vec!["team-a"]),
        ("?search=sk-i", vec!["idle"]),
        ("?group=a", vec!["team-a"]),
        ("?group=__ungrouped__", vec!["idle"]),
        ("?tags=PROD,x", vec!["team-a"]),
        ("?tags=PROD,x&tagMatch=all", vec![]),
        ("?status=disabled", vec![]),
    ] {
        let summary = admin.get(&format!("/api/downstream-keys/summary{query}")).expect(200);
        let items = summary["items"].as_array().expect("items");
        let found: Vec<_> = items.iter().map(|item| item["name"].as_str().expect("a name")).collect();
        assert_eq!(found, names, "{query}");
    }
    let summary = admin.get("/api/downstream-keys/summary?group=a").expect(200);
    assert_eq!(summary["items"][0]["rangeUsage"]["totalRequests"], 2);
}
