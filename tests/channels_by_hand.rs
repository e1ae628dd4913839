//! Channels that an operator adds and changes: priorities, weights, duplicates, and what rebuilds leave unchanged.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Gateway, Pair, Reply, Upstream};

fn route_id(gateway: &Gateway, pattern: &str) -> Value {
    let routes = gateway.routes();
    let found = routes.iter().find(|route| route["modelPattern"] == pattern);
    found.unwrap_or_else(|| panic!("no route {pattern}"))["id"].clone()
}

#[track_caller]
fn rebuild(gateway: &Gateway) {
    gateway.admin().post("/api/routes/rebuild", &json!({"wait": true})).expect(200);
}

#[test]
fn a_channel_added_by_hand_serves_and_survives_rebuilds() {
    let (offers, silent) = (Upstream::start(&["model-h"]), Upstream::start(&["unrelated"]));
    let gateway = Gateway::start();
    gateway.add("offers", &offers);
    let (_, account) = gateway.add("silent", &silent);
    let path = format!("/api/routes/{}/channels", route_id(&gateway, "model-h"));
    let body = json!({"accountId": account["id"], "priority": -1, "weight": 2.9});
    let added = gateway.admin().post(&path, &body).expect(200);
    for (field, value) in [
        ("accountId", account["id"].clone()),
        ("tokenId", json!(null)),
        ("sourceModel", json!("model-h")),
        ("priority", json!(0)),
        ("weight", json!(2)),
        ("enabled", json!(true)),
        ("manualOverride", json!(true)),
        ("successCount", json!(0)),
    ] {
        assert_eq!(added.get(field), Some(&value), "{field}: {added}");
    }
    rebuild(&gateway);
    let channels = gateway.admin().get(&path).expect(200);
    assert_eq!(channels.as_array().map(Vec::len), Some(2));
    let automatic = format!("/api/channels/{}", channels[0]["id"]);
    gateway.admin().put(&automatic, &json!({"enabled": false})).expect(200);
    gateway.client().chat("model-h").expect(200);
    assert_eq!(silent.last(CHAT).json()["model"], "model-h");
}

#[test]
fn an_icon_set_by_hand_keeps_its_route_while_nobody_offers_its_model() {
    let (gateway, upstream) = Gateway::serving(&["model-i", "model-j"]);
    let find = || gateway.routes().into_iter().find(|route| route["modelPattern"] == "model-i");
    let before = find().expect("the route");
    let path = format!("/api/routes/{}", before["id"]);
    gateway.admin().put(&path, &json!({"displayIcon": "star"})).expect(200);
    upstream.offer(&["model-j"]);
    rebuild(&gateway);
    upstream.offer(&["model-i", "model-j"]);
    rebuild(&gateway);
    let after = find().expect("the route");
    assert_eq!((&after["id"], &after["displayIcon"]), (&before["id"], &json!("star")));
}

#[test]
fn an_edited_channel_outlives_the_offer_it_came_from() {
    let (gateway, upstream) = Gateway::serving(&["model-e", "model-f"]);
    let channel = gateway.channels("model-e").remove(0);
    let path = format!("/api/channels/{}", channel["id"]);
    let body = json!({"weight": 0, "priority": 2, "sourceModel": "model-e-upstream"});
    let edited = gateway.admin().put(&path, &body).expect(200);
    for (field, value) in [
        ("id", channel["id"].clone()),
        ("weight", json!(0)),
        ("priority", json!(2)),
        ("sourceModel", json!("model-e-upstream")),
        ("manualOverride", json!(true)),
    ] {
        assert_eq!(edited.get(field), Some(&value), "{field}: {edited}");
    }
    let cleared = gateway.admin().put(&path, &json!({"sourceModel": " "})).expect(200);
    assert_eq!(cleared["sourceModel"], Value::Null);
    assert_eq!(
        gateway.channels("model-e")[0]["sourceModel"],
        "model-e",
        "a list has that of its exact route"
    );
    upstream.offer(&["model-f"]);
    rebuild(&gateway);
    assert_eq!(gateway.channels("model-e")[0]["id"], channel["id"]);
    gateway.client().chat("model-e").expect(200);
    let off = gateway.admin().put(&path, &json!({"enabled": false})).expect(200);
    assert_eq!(off["enabled"], false);
    gateway.client().chat("model-e").expect(503);
}

#[test]
fn a_channel_by_hand_serves_the_route_of_another_name_with_the_model_it_was_given() {
    let (first, second) = (Upstream::start(&["model-r"]), Upstream::start(&["vendor-r-2025", "model-other"]));
    let gateway = Gateway::start();
    gateway.add("first", &first);
    let (_, account) = gateway.add("second", &second);
    let path = format!("/api/routes/{}/channels", route_id(&gateway, "model-r"));
    let body = json!({"accountId": account["id"], "sourceModel": "vendor-r-2025"});
    let added = gateway.admin().post(&path, &body).expect(200);
    rebuild(&gateway);
    let decision = gateway.admin().get("/api/routes/decision?model=model-r").expect(200)["decision"].clone();
    let candidates = decision["candidates"].as_array().expect("candidates");
    let candidate = candidates.iter().find(|one| one["channelId"] == added["id"]).expect("the channel");
    assert_eq!(candidate["eligible"], true, "{candidate}");
    let automatic = gateway.channels("model-r").into_iter().find(|channel| channel["id"] != added["id"]);
    let automatic = format!("/api/channels/{}", automatic.expect("the other")["id"]);
    gateway.admin().put(&automatic, &json!({"enabled": false})).expect(200);
    gateway.client().chat("model-r").expect(200);
    assert_eq!(second.last(CHAT).json()["model"], "vendor-r-2025");
    assert_eq!(gateway.models(), ["model-other", "model-r", "vendor-r-2025"]);

    // The route's mapping applies to channels without a model of their own.
    let route = format!("/api/routes/{}", route_id(&gateway, "model-r"));
    let mapping = json!({"modelMapping": r#"{"model-r": "model-r-large"}"#});
    gateway.admin().put(&route, &mapping).expect(200);
    gateway.client().chat("model-r").expect(200);
    assert_eq!(second.last(CHAT).json()["model"], "vendor-r-2025");
    gateway.admin().put(&automatic, &json!({"enabled": true, "priority": 0})).expect(200);
    gateway.admin().delete(&format!("/api/channels/{}", added["id"])).expect(200);
    gateway.client().chat("model-r").expect(200);
    assert_eq!(first.last(CHAT).json()["model"], "model-r-large");
}

#[test]
fn the_lower_priority_number_is_served_first() {
    let pair = Pair::start();
    let (first, second) = (pair.channel("first")["id"].clone(), pair.channel("second")["id"].clone());
    let updates = json!({"updates": [{"id": first, "priority": 3.8}, {"id": second, "priority": -7.2}]});
    let answer = pair.gateway.admin().put("/api/channels/batch", &updates).expect(200);
    assert_eq!(answer["success"], true);
    let shown = |index: usize| {
        ["id", "priority", "manualOverride"].map(|name| answer["channels"][index][name].clone())
    };
    assert_eq!(shown(0), [first, json!(3), json!(true)]);
    assert_eq!(shown(1), [second, json!(0), json!(true)]);
    for _ in 0..5 {
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    assert_eq!((pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len()), (0, 5));
}

#[test]
fn priorities_change_together_or_not_at_all() {
    let pair = Pair::of_sites("openai", &[]);
    let admin = pair.gateway.admin();
    let id = pair.channel("first")["id"].clone();
    let missing = json!({"updates": [{"id": id, "priority": 4}, {"id": 777, "priority": 1}, {"id": 778, "priority": 1}]});
    let error = admin.put("/api/channels/batch", &missing).expect(404);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("777")), "{error}");
    for body in [
        json!({}),
        json!({"updates": []}),
        json!({"updates": [{"id": id, "priority": "1"}]}),
        json!({"updates": [{"id": id, "priority": null}]}),
        json!({"updates": [{"id": 0, "priority": 1}]}),
    ] {
        let refused = admin.put("/api/channels/batch", &body).expect(400);
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Invalid updates"), "{body}: {message}");
    }
    let channel = pair.channel("first");
    assert_eq!((&channel["priority"], &channel["manualOverride"]), (&json!(0), &json!(false)));
}

#[test]
fn the_same_channel_is_not_added_twice() {
    let (one, two) = (Upstream::start(&["model-x"]), Upstream::start(&["model-y"]));
    let gateway = Gateway::start();
    let (_, account) = gateway.add("one", &one);
    let (_, other) = gateway.add("two", &two);
    let path = format!("/api/routes/{}/channels", route_id(&gateway, "model-x"));
    gateway.admin().post(&path, &json!({"accountId": account["id"]})).expect(400);
    gateway.admin().post(&path, &json!({"accountId": account["id"], "sourceModel": "MODEL-X"})).expect(400);
    let batch = json!({"channels": [
        {"accountId": account["id"], "sourceModel": "Model-X"},
        {"accountId": other["id"]},
        {"accountId": other["id"], "sourceModel": "model-x"},
        {"accountId": 9999},
        {"accountId": other["id"], "tokenId": 9999},
    ]});
    let answer = gateway.admin().post(&format!("{path}/batch"), &batch).expect(200);
    assert_eq!(
        (&answer["success"], &answer["created"], &answer["skipped"]),
        (&json!(true), &json!(1), &json!(2))
    );
    let errors: Vec<&str> =
        answer["errors"].as_array().expect("errors").iter().filter_map(Value::as_str).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].starts_with("channels[3]: Invalid accountId"), "{errors:?}");
    assert!(errors[1].starts_with("channels[4]: Invalid tokenId"), "{errors:?}");
    let added = gateway.channels("model-x").pop().expect("the new one");
    assert_eq!((&added["accountId"], &added["manualOverride"]), (&other["id"], &json!(true)));
    // Nor can an edit turn one into a duplicate of another.
    let edit = json!({"sourceModel": "model-z"});
    gateway.admin().put(&format!("/api/channels/{}", added["id"]), &edit).expect(200);
    gateway.admin().post(&path, &json!({"accountId": other["id"]})).expect(200);
    let back = json!({"sourceModel": null});
    gateway.admin().put(&format!("/api/channels/{}", added["id"]), &back).expect(400);
    gateway.admin().put(&format!("/api/channels/{}", added["id"]), &json!({"weight": 1})).expect(200);
}

#[test]
fn of_equal_channels_added_at_once_one_is_taken() {
    let (one, two) = (Upstream::start(&["model-t"]), Upstream::start(&["model-u"]));
    let gateway = Gateway::start();
    gateway.add("one", &one);
    let (_, other) = gateway.add("two", &two);
    let path = format!("/api/routes/{}/channels", route_id(&gateway, "model-t"));
    let body = json!({"accountId": other["id"]});
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let add = || gateway.admin().post(&path, &body).status;
        let adding: Vec<_> = (0..8).map(|_| scope.spawn(add)).collect();
        adding.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400, 400, 400, 400, 400, 400, 400]);
    assert_eq!(gateway.channels("model-t").len(), 2);
}

#[test]
fn what_cannot_be_a_channel_is_refused() {
    let (gateway, _upstream, account) = Gateway::with_account(&["model-c"]);
    let admin = gateway.admin();
    let id = route_id(&gateway, "model-c");
    let path = format!("/api/routes/{id}/channels");
    let group = json!({"routeMode": "explicit_group", "displayName": "g", "sourceRouteIds": [id]});
    let group = admin.post("/api/routes", &group).expect(200)["id"].clone();
    let before = gateway.channels("model-c");
    let good = json!({"accountId": account["id"], "sourceModel": "another"});
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body
    };
    for body in [
        json!({}),
        with("accountId", json!("1")),
        with("accountId", json!(9999)),
        with("tokenId", json!(9999)),
        with("tokenId", json!("1")),
        with("sourceModel", json!(1)),
        with("sourceModel", json!("re:(")),
        with("priority", json!("1")),
        with("weight", json!(null)),
    ] {
        admin.post(&path, &body).expect(400);
    }
    for body in [json!({}), json!({"channels": []}), json!({"channels": [1]}), json!({"channels": [{}]})] {
        let refused = admin.post(&format!("{path}/batch"), &body).expect(400);
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Invalid channels"), "{body}: {message}");
    }
    admin.post(&format!("/api/routes/{group}/channels"), &good).expect(400);
    admin.post(&format!("/api/routes/{group}/channels/batch"), &json!({"channels": [good]})).expect(400);
    admin.post("/api/routes/9999/channels", &good).expect(404);
    admin.post("/api/routes/9999/channels/batch", &json!({"channels": [good]})).expect(404);
    admin.put("/api/channels/9999", &json!({"weight": 1})).expect(404);
    let channel = format!("/api/channels/{}", before[0]["id"]);
    for body in [json!({"tokenId": 9999}), json!({"enabled": "yes"}), json!({"priority": "1"})] {
        admin.put(&channel, &body).expect(400);
    }
    assert_eq!(admin.delete("/api/channels/9999").expect(200), json!({"success": true}));
    assert_eq!(gateway.channels("model-c"), before);
}

#[test]
fn a_deleted_channel_serves_no_more() {
    let pair = Pair::start();
    let id = pair.channel("first")["id"].clone();
    let path = format!("/api/channels/{id}");
    assert_eq!(pair.gateway.admin().delete(&path).expect(200), json!({"success": true}));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!((pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len()), (0, 1));
}

#[test]
fn clearing_the_cooldown_of_a_group_reaches_its_enabled_sources_only() {
    let upstream = Upstream::start(&["c-one", "c-two"]);
    let gateway =
        Gateway::with(&[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]).in_front_of("openai", &upstream);
    let (one, two) = (route_id(&gateway, "c-one"), route_id(&gateway, "c-two"));
    let group = json!({"routeMode": "explicit_group", "displayName": "g", "sourceRouteIds": [one, two]});
    let group = gateway.admin().post("/api/routes", &group).expect(200)["id"].clone();
    upstream.answer(CHAT, Reply::error(500, "out of order"));
    for model in ["c-one", "c-two"] {
        gateway.client().chat(model).expect(500);
        let channel = gateway.channels(model).remove(0);
        assert_eq!(
            (&channel["failCount"], channel["cooldownUntil"].is_string()),
            (&json!(1), true),
            "{model}"
        );
    }
    upstream.answer_faithfully();
    gateway.client().chat("g").expect(503);
    let disable = json!({"ids": [two], "action": "disable"});
    gateway.admin().post("/api/routes/batch", &disable).expect(200);
    let path = format!("/api/routes/{group}/cooldown/clear");
    let answer = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(answer, json!({"success": true, "clearedChannels": 1}));
    let cleared = gateway.channels("c-one").remove(0);
    for field in ["failCount", "consecutiveFailCount", "cooldownLevel"] {
        assert_eq!(cleared[field], 0, "{field}");
    }
    assert_eq!((&cleared["lastFailAt"], &cleared["cooldownUntil"]), (&json!(null), &json!(null)));
    assert!(gateway.channels("c-two")[0]["cooldownUntil"].is_string());
    gateway.client().chat("g").expect(200);
    gateway.admin().post("/api/routes/9999/cooldown/clear", &json!({})).expect(404);
}
