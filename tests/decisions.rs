//! Explanations of where a request would go, requested before it is sent.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Gateway, Pair, Reply, Upstream, eventually};

#[track_caller]
fn decision(gateway: &Gateway, model: &str) -> Value {
    let answer = gateway.admin().get(&format!("/api/routes/decision?model={model}")).expect(200);
    assert_eq!(answer["success"], true);
    answer["decision"].clone()
}

/// Returns the candidate at the site with this name.
#[track_caller]
fn at<'a>(decision: &'a Value, site: &str) -> &'a Value {
    let mut candidates = decision["candidates"].as_array().expect("candidates").iter();
    let found = candidates.find(|candidate| candidate["siteName"] == site);
    found.unwrap_or_else(|| panic!("no {site} in {decision}"))
}

#[track_caller]
fn post(gateway: &Gateway, path: &str, body: &Value) -> Value {
    gateway.admin().post(&format!("/api/routes/{path}"), body).expect(200)
}

/// Returns the decision stored with a route; both listings must show it.
#[track_caller]
fn kept(gateway: &Gateway, pattern: &str) -> Value {
    let route = gateway.route(pattern);
    let summary = gateway.admin().get("/api/routes/summary").expect(200);
    let line = summary.as_array().expect("routes").iter().find(|line| line["id"] == route["id"]);
    let line = line.expect("the same route");
    for field in ["decisionSnapshot", "decisionRefreshedAt"] {
        assert_eq!(line[field], route[field], "{field}");
    }
    assert_eq!(route["decisionSnapshot"].is_null(), route["decisionRefreshedAt"].is_null());
    route["decisionSnapshot"].clone()
}

/// Starts two sites with the same models; the first weighs ten thousand times as much as the second.
fn sites(models: &[&str]) -> (Gateway, Upstream, Upstream) {
    let gateway = Gateway::start();
    let (first, second) = (Upstream::start(models), Upstream::start(models));
    for (name, weight, upstream) in [("first", 100.0, &first), ("second", 0.01, &second)] {
        gateway.add_as(&json!({"name": name, "platform": "openai", "globalWeight": weight}), upstream);
    }
    (gateway, first, second)
}

#[test]
fn a_decision_says_who_would_be_picked_and_sends_nothing() {
    let pair = Pair::of_sites("openai", &[]);
    let decision = decision(&pair.gateway, Pair::MODEL);
    let first = pair.channel("first");
    for (field, value) in [
        ("requestedModel", json!(Pair::MODEL)),
        ("actualModel", json!(Pair::MODEL)),
        ("matched", json!(true)),
        ("routeId", first["routeId"].clone()),
        ("modelPattern", json!(Pair::MODEL)),
        ("selectedChannelId", first["id"].clone()),
        ("selectedAccountId", first["accountId"].clone()),
    ] {
        assert_eq!(decision[field], value, "{field}: {decision}");
    }
    let label = format!("account-{} @ first / default", first["accountId"]);
    assert_eq!(decision["selectedLabel"], json!(label));
    assert_eq!(
        decision["summary"],
        json!([
            "Matched route: model-pair",
            "Strategy: weighted",
            "Priority P0: 2 available",
            format!("Selected: {label} (P0)")
        ])
    );
    let candidate = at(&decision, "first");
    for (field, value) in [
        ("channelId", first["id"].clone()),
        ("username", json!(format!("account-{}", first["accountId"]))),
        ("tokenName", json!("default")),
        ("priority", json!(0)),
        ("weight", json!(10)),
        ("eligible", json!(true)),
        ("recentlyFailed", json!(false)),
        ("avoidedByRecentFailure", json!(false)),
        ("avoidedByBreaker", json!(false)),
        ("probability", json!(99.99)),
        ("reasonCode", json!("candidate")),
        (
            "reason",
            json!(
                "weighted (W=10, cost=fallback:1.000000, site weight=100.00, health=1.00 (site 1.00, model \
                 1.00), load=1.00, history=1.00, channels of the site=1, p=100.0%)"
            ),
        ),
    ] {
        assert_eq!(candidate[field], value, "{field}: {candidate}");
    }
    assert_eq!(at(&decision, "second")["probability"], 0.01);
    assert!(pair.first.asked_for(CHAT).is_empty() && pair.second.asked_for(CHAT).is_empty());
    assert_eq!(pair.channel("first")["lastSelectedAt"], json!(null), "a look is no selection");
}

#[test]
fn whoever_cannot_be_picked_says_why() {
    let pair = Pair::start();
    pair.first.answer(CHAT, Reply::error(500, "boom"));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let cooling = decision(&pair.gateway, Pair::MODEL);
    let first = at(&cooling, "first");
    assert_eq!((&first["eligible"], &first["probability"]), (&json!(false), &json!(0.0)));
    assert_eq!(first["reasonCode"], "cooling");
    let until = pair.channel("first")["cooldownUntil"].clone();
    assert_eq!(first["reason"], json!(format!("cooling until {}", until.as_str().expect("a time"))));
    assert_eq!(first["recentlyFailed"], true, "{first}");
    assert_eq!(at(&cooling, "second")["probability"], 100.0);

    let second = pair.channel("second");
    let off = json!({"enabled": false});
    pair.gateway.admin().put(&format!("/api/channels/{}", second["id"]), &off).expect(200);
    let nobody = decision(&pair.gateway, Pair::MODEL);
    assert_eq!(at(&nobody, "second")["reasonCode"], "channel_disabled");
    assert_eq!(nobody["matched"], true);
    assert!(nobody.get("selectedChannelId").is_none() && nobody.get("selectedLabel").is_none());
    assert_eq!(nobody["summary"][2], "None of 2 channel(s) can be selected");
}

/// Returns a model's channels with the fields that must not be lost, whatever is disabled meanwhile.
fn kept_channels(gateway: &Gateway, model: &str) -> Vec<Value> {
    let fields = ["id", "priority", "weight", "manualOverride"];
    let channels = gateway.channels(model).into_iter();
    channels.map(|channel| fields.iter().map(|field| channel[*field].clone()).collect()).collect()
}

#[test]
fn what_is_switched_off_keeps_its_channels_and_is_explained() {
    let pair = Pair::start();
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let id = pair.channel("first")["id"].clone();
    eventually("the success is counted", || (pair.channel("first")["successCount"] == 1).then_some(()));
    let admin = pair.gateway.admin();
    let before = kept_channels(&pair.gateway, Pair::MODEL);
    assert_eq!(before.len(), 2);
    let find = |path: &str, list: &str, at: &dyn Fn(&Value) -> bool| {
        let all = admin.get(path).expect(200);
        let all = if list.is_empty() { all } else { all[list].clone() };
        all.as_array().expect("a list").iter().find(|one| at(one)).expect("one")["id"].clone()
    };
    let site = find("/api/sites", "", &|site| site["name"] == "first");
    let account = find("/api/accounts", "accounts", &|account| account["siteId"] == site);
    for (what, path, code) in [
        ("the site", format!("/api/sites/{site}"), "site_disabled"),
        ("the account", format!("/api/accounts/{account}"), "account_unusable"),
    ] {
        admin.put(&path, &json!({"status": "disabled"})).expect(200);
        post(&pair.gateway, "rebuild", &json!({"wait": true}));
        assert_eq!(kept_channels(&pair.gateway, Pair::MODEL), before, "{what} is off");
        assert_eq!(pair.channel("first")["successCount"], 1, "{what} is off");
        let explained = decision(&pair.gateway, Pair::MODEL);
        let candidate = at(&explained, "first");
        assert_eq!((&candidate["eligible"], &candidate["channelId"]), (&json!(false), &id), "{what}");
        assert_eq!(candidate["reasonCode"], code, "{candidate}");
        let asked = pair.first.asked_for(CHAT).len();
        for _ in 0..5 {
            pair.gateway.client().chat(Pair::MODEL).expect(200);
        }
        assert_eq!(pair.first.asked_for(CHAT).len(), asked, "{what} is off and serves nobody");
        admin.put(&path, &json!({"status": "active"})).expect(200);
        post(&pair.gateway, "rebuild", &json!({"wait": true}));
        assert_eq!(
            at(&decision(&pair.gateway, Pair::MODEL), "first")["eligible"],
            true,
            "{what} is on again"
        );
    }
    admin.delete(&format!("/api/accounts/{account}")).expect(200);
    post(&pair.gateway, "rebuild", &json!({"wait": true}));
    assert_eq!(kept_channels(&pair.gateway, Pair::MODEL).len(), 1, "what is deleted goes");
}

#[test]
fn an_unknown_model_is_not_matched_and_a_blank_one_is_refused() {
    let gateway = Gateway::start();
    let unknown = decision(&gateway, "nobody-serves-this");
    assert_eq!((&unknown["matched"], &unknown["candidates"]), (&json!(false), &json!([])));
    assert_eq!(unknown["actualModel"], "nobody-serves-this");
    assert!(unknown.get("routeId").is_none() && unknown.get("modelPattern").is_none());
    for query in ["", "?model=", "?model=%20"] {
        gateway.admin().get(&format!("/api/routes/decision{query}")).expect(400);
    }
    gateway.anyone().get("/api/routes/decision?model=x").expect(401);
}

#[test]
fn a_batch_answers_each_model_once() {
    let (gateway, _first, _second) = sites(&["one", "two"]);
    let answer = post(&gateway, "decision/batch", &json!({"models": ["one", " two ", "one", "", 7, "x"]}));
    let decisions = answer["decisions"].as_object().expect("an object");
    assert_eq!(decisions.keys().collect::<Vec<_>>(), ["one", "two", "x"]);
    assert_eq!(decisions["two"]["matched"], true);
    assert_eq!(decisions["x"]["matched"], false);
    assert_eq!(kept(&gateway, "one"), json!(null), "nothing is kept unless asked");

    let many: Vec<_> = (0..600).map(|number| format!("m{number}")).collect();
    let answer = post(&gateway, "decision/batch", &json!({"models": many}));
    assert_eq!(answer["decisions"].as_object().map(serde_json::Map::len), Some(500));
    for (path, bodies) in [
        (
            "decision/batch",
            vec![json!({}), json!({"models": []}), json!({"models": "one"}), json!({"models": [1]})],
        ),
        (
            "decision/by-route/batch",
            vec![json!({}), json!({"items": []}), json!({"items": [{"routeId": "1", "model": "one"}, 4]})],
        ),
        (
            "decision/route-wide/batch",
            vec![json!({}), json!({"routeIds": []}), json!({"routeIds": [0, -1, 1.5, "1"]})],
        ),
    ] {
        for body in bodies {
            gateway.admin().post(&format!("/api/routes/{path}"), &body).expect(400);
        }
    }
}

#[test]
fn a_decision_by_route_uses_only_that_routes_channels() {
    let (gateway, _first, _second) = sites(&["gpt-a", "gpt-b"]);
    let wild = json!({"modelPattern": "gpt-*"});
    let wild = gateway.admin().post("/api/routes", &wild).expect(200);
    let exact = gateway.route("gpt-a");
    let items = json!({"items": [
        {"routeId": wild["id"], "model": "gpt-a"}, {"routeId": exact["id"], "model": "gpt-a"},
        {"routeId": exact["id"], "model": "claude"}, {"routeId": 999, "model": "gpt-a"}]});
    let decisions = post(&gateway, "decision/by-route/batch", &items)["decisions"].clone();
    for (route, candidates) in [(&wild, 4), (&exact, 2)] {
        let decision = &decisions[route["id"].to_string()]["gpt-a"];
        assert_eq!(decision["routeId"], route["id"]);
        assert_eq!(decision["candidates"].as_array().map(Vec::len), Some(candidates), "{decision}");
    }
    let other: Vec<_> = decisions[wild["id"].to_string()]["gpt-a"]["candidates"]
        .as_array()
        .expect("candidates")
        .iter()
        .filter(|candidate| candidate["reasonCode"] == "other_model")
        .collect();
    assert_eq!(other.len(), 2, "the channels of gpt-b");
    assert_eq!(decisions[exact["id"].to_string()]["claude"]["matched"], false);
    assert_eq!(decisions["999"]["gpt-a"]["matched"], false);

    let wide = post(&gateway, "decision/route-wide/batch", &json!({"routeIds": [wild["id"], wild["id"]]}));
    let wide = &wide["decisions"][wild["id"].to_string()];
    let candidates = wide["candidates"].as_array().expect("candidates");
    let sum: f64 = candidates.iter().filter_map(|candidate| candidate["probability"].as_f64()).sum();
    assert!((sum - 100.0).abs() < 0.05, "{wide}");
    assert!(candidates.iter().all(|candidate| candidate["eligible"] == true), "{wide}");
    assert_eq!(wide["requestedModel"], "gpt-*");
}

#[test]
fn a_kept_decision_is_dropped_when_its_route_changes() {
    let (gateway, first, _second) = sites(&["one", "two"]);
    let (one, two) = (gateway.route("one"), gateway.route("two"));
    let team = json!({"routeMode": "explicit_group", "displayName": "team", "sourceRouteIds": [one["id"], two["id"]]});
    let team = gateway.admin().post("/api/routes", &team).expect(200);
    let keep = |gateway: &Gateway| {
        let items = json!({"items": [{"routeId": one["id"], "model": "one"},
            {"routeId": team["id"], "model": "team"}], "persistSnapshots": true});
        post(gateway, "decision/by-route/batch", &items);
        assert_eq!(kept(gateway, "one")["requestedModel"], "one");
        assert_eq!(kept(gateway, "team")["requestedModel"], "team");
    };
    let path = |route: &Value| format!("/api/routes/{}", route["id"]);
    let channel = one["channels"][0]["id"].clone();

    for flag in [json!("true"), json!(1), json!(null)] {
        post(&gateway, "decision/batch", &json!({"models": ["one"], "persistSnapshots": flag}));
        assert_eq!(kept(&gateway, "one"), json!(null), "{flag} is not true");
    }
    post(&gateway, "decision/batch", &json!({"models": ["one", "two"], "persistSnapshots": true}));
    assert_eq!(kept(&gateway, "two")["requestedModel"], "two");
    keep(&gateway);

    gateway.admin().put(&path(&one), &json!({"displayIcon": "owl"})).expect(200);
    assert_eq!(kept(&gateway, "one")["requestedModel"], "one", "how it looks does not matter");
    for (what, route, body) in [
        ("a channel's priority", format!("/api/channels/{channel}"), json!({"priority": 3})),
        ("its strategy", path(&one), json!({"routingStrategy": "round_robin"})),
        ("its mapping", path(&one), json!({"modelMapping": "{\"a\":\"b\"}"})),
        ("that it is enabled", path(&one), json!({"enabled": false})),
        ("and again", path(&one), json!({"enabled": true})),
    ] {
        if what != "and again" {
            keep(&gateway);
        }
        gateway.admin().put(&route, &body).expect(200);
        for pattern in ["one", "team"] {
            assert_eq!(kept(&gateway, pattern), json!(null), "{pattern} notices {what}");
        }
    }
    keep(&gateway);
    post(&gateway, &format!("{}/cooldown/clear", one["id"]), &json!({}));
    assert_eq!((kept(&gateway, "one"), kept(&gateway, "team")), (json!(null), json!(null)));

    keep(&gateway);
    first.offer(&["one", "two", "three"]);
    post(&gateway, "rebuild", &json!({"wait": true}));
    gateway.route("three");
    assert_eq!(kept(&gateway, "one"), json!(null), "a rebuild that changes anything drops all");
}

#[test]
fn a_refresh_keeps_a_decision_of_every_enabled_route() {
    let (gateway, _first, _second) = sites(&["one", "two"]);
    gateway.admin().post("/api/routes", &json!({"modelPattern": "t*"})).expect(200);
    let off = json!({"modelPattern": "z*", "enabled": false});
    gateway.admin().post("/api/routes", &off).expect(200);
    let source = gateway.route("one")["id"].clone();
    let group = json!({"routeMode": "explicit_group", "displayName": "group", "sourceRouteIds": [source]});
    gateway.admin().post("/api/routes", &group).expect(200);
    let queued = gateway.admin().post("/api/routes/decision/refresh", &json!({})).expect(202);
    assert_eq!((&queued["success"], &queued["queued"]), (&json!(true), &json!(true)));
    let task = gateway.wait_for_task(&queued);
    assert_eq!(task["type"], "route-decision.refresh");
    assert_eq!(task["dedupeKey"], "refresh-route-decision-snapshots");
    let counts = json!({"exactModelCount": 2, "groupCount": 1, "wildcardRouteCount": 1});
    assert_eq!(task["result"], counts, "{task}");
    for pattern in ["one", "two", "t*", "group"] {
        assert_eq!(kept(&gateway, pattern)["matched"], true, "{pattern}");
    }
    assert_eq!(kept(&gateway, "z*"), json!(null));
    let of_group = kept(&gateway, "group");
    assert_eq!((&of_group["requestedModel"], &of_group["actualModel"]), (&json!("group"), &json!("one")));
}

#[test]
fn fresh_prices_change_the_cost_of_a_decision() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["priced"]);
    let prices = |price: f64| {
        let model =
            json!({"model_name": "priced", "quota_type": 1, "model_price": price, "enable_groups": ["vip"]});
        let list = json!({"success": true, "data": [model], "group_ratio": {"vip": 1}, "usable_group": {"vip": "VIP"}});
        upstream.answer("/api/pricing", Reply::json(200, &list));
    };
    prices(0.5);
    gateway.add_as(&json!({"name": "new", "platform": "new-api"}), &upstream);
    gateway.wait_for_output("prices of 1 models");
    let cost = |path: &str, body: &Value, of: &[&str]| {
        let answer = post(&gateway, path, body);
        let decision = of.iter().fold(&answer["decisions"], |value, key| &value[*key]);
        let reason = at(decision, "new")["reason"].as_str().expect("a reason").to_owned();
        let from = reason.find("cost=").expect("a cost") + 5;
        reason[from..].split(',').next().unwrap_or_default().to_owned()
    };
    let id = gateway.route("priced")["id"].clone();
    let key = id.to_string();
    let first = cost("decision/batch", &json!({"models": ["priced"]}), &["priced"]);
    assert!(first.starts_with("catalog:"), "{first}");
    let mut known = first;
    for (number, (path, body, of)) in [
        ("decision/batch", json!({"models": ["priced"]}), vec!["priced"]),
        (
            "decision/by-route/batch",
            json!({"items": [{"routeId": id, "model": "priced"}]}),
            vec![&*key, "priced"],
        ),
        ("decision/route-wide/batch", json!({"routeIds": [id]}), vec![&*key]),
    ]
    .into_iter()
    .enumerate()
    {
        prices(0.7 + number as f64);
        assert_eq!(cost(path, &body, &of), known, "{path}: nobody asked for fresh prices");
        let mut fresh = body;
        fresh["refreshPricingCatalog"] = json!(true);
        let now = cost(path, &fresh, &of);
        assert_ne!(now, known, "{path}");
        known = now;
    }
}

/// Returns the health of the first site and the model on it, as a decision about the model shows it.
#[track_caller]
fn health(gateway: &Gateway, model: &str) -> String {
    let decision = decision(gateway, model);
    let reason = at(&decision, "first")["reason"].as_str().expect("a reason").to_owned();
    let from = reason.find("health=").unwrap_or_else(|| panic!("no health: {reason}"));
    let to = reason.find(", load").expect("a load");
    reason[from..to].to_owned()
}

#[test]
fn a_failure_of_one_model_lowers_the_share_of_its_site_until_an_operator_clears_it() {
    let (mut gateway, first, _second) = sites(&["one", "two"]);
    gateway.make_first_choice("one", "first");
    first.answer_model(CHAT, "one", Reply::error(502, "Bad Gateway"));
    gateway.client().chat("one").expect(200);
    assert_eq!(health(&gateway, "two"), "health=0.29 (site 0.29, model 1.00)");

    // After half a second it survives a crash.
    eventually("the health is saved", || {
        let saved =
            gateway.home().files().into_iter().any(|(_, bytes)| {
                memchr::memmem::find(&bytes, b"token_router_site_runtime_health_v1").is_some()
            });
        saved.then_some(())
    });
    gateway = gateway.restart();
    assert_eq!(health(&gateway, "two"), "health=0.29 (site 0.29, model 1.00)");

    let route = gateway.route("one")["id"].clone();
    post(&gateway, &format!("{route}/cooldown/clear"), &json!({}));
    assert_eq!(health(&gateway, "two"), "health=1.00 (site 1.00, model 1.00)");
    assert_eq!(health(&gateway, "one"), "health=1.00 (site 1.00, model 1.00)");
}

#[test]
fn a_site_that_fails_thrice_in_a_row_stands_back_for_all_its_models() {
    let (gateway, first, _second) = sites(&["one", "two", "three", "four"]);
    // Each failure lowers the site's share; the second site must not be drawn instead.
    for model in ["one", "two", "three"] {
        gateway.make_first_choice(model, "first");
    }
    for model in ["one", "two", "three"] {
        first.answer_model(CHAT, model, Reply::error(502, "Bad Gateway"));
        gateway.client().chat(model).expect(200);
    }
    let decision = decision(&gateway, "four");
    let avoided = at(&decision, "first");
    assert_eq!(
        (&avoided["eligible"], &avoided["avoidedByBreaker"]),
        (&json!(true), &json!(true)),
        "{decision}"
    );
    assert_eq!((&avoided["reasonCode"], &avoided["probability"]), (&json!("breaker_open"), &json!(0.0)));
    assert_eq!(at(&decision, "second")["probability"], 100.0);
    let before = first.asked_for(CHAT).len();
    gateway.client().chat("four").expect(200);
    assert_eq!(first.asked_for(CHAT).len(), before);
    let last = gateway.wait_for_logs(7).pop().expect("a row");
    assert_eq!(last["decisionReason"], "weighted: P0, 1 available, p=100.0%, 1 avoided");
}
