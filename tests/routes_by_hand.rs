//! Routes that an operator creates: patterns, aliases, mappings, groups, and what they serve.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Gateway, Upstream};

#[track_caller]
fn create(gateway: &Gateway, route: &Value) -> Value {
    gateway.admin().post("/api/routes", route).expect(200)
}

fn path_of(route: &Value) -> String {
    format!("/api/routes/{}", route["id"])
}

/// Returns the source models of a route's channels, sorted.
#[track_caller]
fn sources(route: &Value) -> Vec<String> {
    let channels = route["channels"].as_array().expect("channels").iter();
    let mut models: Vec<String> =
        channels.map(|channel| channel["sourceModel"].as_str().unwrap_or_default().to_owned()).collect();
    models.sort();
    models
}

#[track_caller]
fn rebuild(gateway: &Gateway) -> Value {
    gateway.admin().post("/api/routes/rebuild", &json!({"wait": true})).expect(200)["rebuild"].clone()
}

/// Returns the model that the upstream is asked for when a client asks for this one.
#[track_caller]
fn sent_for(gateway: &Gateway, upstream: &Upstream, model: &str) -> Value {
    gateway.client().chat(model).expect(200);
    upstream.last(CHAT).json()["model"].clone()
}

#[test]
fn glob_and_regex_routes_fill_themselves_and_serve() {
    let (gateway, upstream) = Gateway::serving(&["gpt-a", "gpt-b", "other"]);
    let regex = json!({"modelPattern": " re:^gpt-[ab]$ ", "displayName": "smart", "displayIcon": "owl"});
    let regex = create(&gateway, &regex);
    assert_eq!((&regex["modelPattern"], &regex["displayIcon"]), (&json!("re:^gpt-[ab]$"), &json!("owl")));
    assert_eq!(sources(&regex), ["gpt-a", "gpt-b"]);
    assert_eq!(regex["channels"][0]["manualOverride"], false);
    let sent = sent_for(&gateway, &upstream, "smart");
    assert!(sent == "gpt-a" || sent == "gpt-b", "{sent}");
    assert!(gateway.models().contains(&"smart".to_owned()));

    let glob = json!({"modelPattern": "gpt-*", "modelMapping": "{\"gpt-*\":\"gpt-b\"}"});
    assert_eq!(sources(&create(&gateway, &glob)), ["gpt-a", "gpt-b"]);
    assert_eq!(sent_for(&gateway, &upstream, "gpt-unheard-of"), "gpt-b");
}

#[test]
fn a_mapping_sends_the_mapped_model_upstream() {
    let (gateway, upstream) = Gateway::serving(&["model-m"]);
    let route = gateway.route("model-m");
    let mapping = json!({"modelMapping": "{\"model-*\":\"by-glob\",\"model-m\":\"by-name\"}"});
    let changed = gateway.admin().put(&path_of(&route), &mapping).expect(200);
    assert_eq!(changed["modelMapping"], mapping["modelMapping"]);
    assert_eq!(sent_for(&gateway, &upstream, "model-m"), "by-name");
    gateway.admin().put(&path_of(&route), &json!({"modelMapping": null})).expect(200);
    assert_eq!(sent_for(&gateway, &upstream, "model-m"), "model-m");
}

#[test]
fn a_group_serves_by_its_name_with_the_channels_of_its_enabled_sources() {
    let (gateway, upstream) = Gateway::serving(&["one", "two"]);
    let (one, two) = (gateway.route("one"), gateway.route("two"));
    let group = json!({"routeMode": "explicit_group", "displayName": "team",
        "sourceRouteIds": [one["id"], two["id"]]});
    let group = create(&gateway, &group);
    assert_eq!((&group["modelPattern"], &group["routeMode"]), (&json!("team"), &json!("explicit_group")));
    assert_eq!(sources(&group), ["one", "two"]);
    gateway.client().chat("team").expect(200);
    assert_eq!(gateway.models(), ["team"], "its sources are behind it");

    let disable = json!({"ids": [one["id"]], "action": "disable"});
    gateway.admin().post("/api/routes/batch", &disable).expect(200);
    assert_eq!(sent_for(&gateway, &upstream, "team"), "two");
    let listed = gateway.admin().get(&format!("{}/channels", path_of(&group))).expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));

    let renamed = gateway.admin().put(&path_of(&group), &json!({"displayName": "crew"})).expect(200);
    assert_eq!((&renamed["modelPattern"], &renamed["displayName"]), (&json!("crew"), &json!("crew")));
    assert_eq!(sent_for(&gateway, &upstream, "crew"), "two");
    gateway.client().chat("team").expect(503);
}

#[test]
fn groups_are_looked_up_before_names_and_names_before_aliases_and_aliases_before_patterns() {
    let (gateway, upstream) = Gateway::serving(&["m-one", "m-two"]);
    let (one, two) = (gateway.route("m-one"), gateway.route("m-two"));
    create(&gateway, &json!({"modelPattern": "m-*", "modelMapping": "{\"m-three\":\"m-two\"}"}));
    assert_eq!(sent_for(&gateway, &upstream, "m-three"), "m-two", "only the pattern fits");
    create(&gateway, &json!({"modelPattern": "re:m-one", "displayName": "m-three"}));
    assert_eq!(sent_for(&gateway, &upstream, "m-three"), "m-one", "the alias before the pattern");
    create(&gateway, &json!({"modelPattern": "re:^m-one$", "displayName": "m-two"}));
    assert_eq!(sent_for(&gateway, &upstream, "m-two"), "m-two", "the name before the alias");
    create(
        &gateway,
        &json!({"routeMode": "explicit_group", "displayName": "m-one", "sourceRouteIds": [two["id"]]}),
    );
    assert_eq!(sent_for(&gateway, &upstream, "m-one"), "m-two", "the group before the name");
    assert_eq!(one["enabled"], true);
}

#[test]
fn a_disabled_route_serves_nothing_and_stays_disabled() {
    let (gateway, _upstream) = Gateway::serving(&["model-off", "model-on"]);
    let (off, on) = (gateway.route("model-off"), gateway.route("model-on"));
    let batch = |ids: &[&Value], action: &str| {
        let body = json!({"ids": ids, "action": action});
        gateway.admin().post("/api/routes/batch", &body).expect(200)["updatedCount"].clone()
    };
    assert_eq!(batch(&[&off["id"]], "disable"), 1);
    assert_eq!(batch(&[&off["id"], &json!(9999)], "disable"), 0, "it was so before");
    let refused = gateway.client().chat("model-off").expect(503);
    assert_eq!(refused["error"]["message"], "No available channels for this model");
    rebuild(&gateway);
    assert_eq!(gateway.routes().len(), 2);
    assert_eq!(gateway.route("model-off")["enabled"], false);
    assert_eq!(batch(&[&off["id"], &on["id"]], "enable"), 1);
    gateway.client().chat("model-off").expect(200);
    assert_eq!(batch(&[&off["id"], &on["id"]], "delete"), 2);
    assert_eq!(gateway.routes(), Vec::<Value>::new());
}

#[test]
fn a_changed_pattern_fills_the_route_anew_and_keeps_what_was_added_by_hand() {
    let (gateway, _upstream, account) = Gateway::with_account(&["red-1", "blue-1"]);
    let route = create(&gateway, &json!({"modelPattern": "red-*"}));
    assert_eq!(sources(&route), ["red-1"]);
    let by_hand = json!({"accountId": account["id"], "sourceModel": "red-9"});
    gateway.admin().post(&format!("{}/channels", path_of(&route)), &by_hand).expect(200);
    let same = gateway.admin().put(&path_of(&route), &json!({"modelPattern": " red-* "})).expect(200);
    assert_eq!(sources(&same), ["red-1", "red-9"]);
    assert_eq!(same["channels"][0]["id"], route["channels"][0]["id"], "nothing changed");
    let blue = gateway.admin().put(&path_of(&route), &json!({"modelPattern": "blue-*"})).expect(200);
    assert_eq!(sources(&blue), ["blue-1", "red-9"]);
}

#[test]
fn a_new_pattern_route_copies_what_an_operator_made_of_exact_routes() {
    let (one, two) = (Upstream::start(&["shared"]), Upstream::start(&["else"]));
    let gateway = Gateway::start();
    let (_, account) = gateway.add("one", &one);
    let (_, other) = gateway.add("two", &two);
    let exact = gateway.route("shared");
    let by_hand = json!({"accountId": other["id"], "priority": 3, "weight": 5});
    gateway.admin().post(&format!("{}/channels", path_of(&exact)), &by_hand).expect(200);
    let glob = create(&gateway, &json!({"modelPattern": "share?"}));
    let fields = |channel: &Value| {
        ["accountId", "sourceModel", "priority", "weight", "manualOverride"]
            .map(|field| channel[field].clone())
    };
    let copied: Vec<_> = glob["channels"].as_array().expect("channels").iter().map(fields).collect();
    let automatic = [account["id"].clone(), json!("shared"), json!(0), json!(10), json!(false)];
    let manual = [other["id"].clone(), json!("shared"), json!(3), json!(5), json!(true)];
    assert_eq!(copied, [automatic, manual]);
}

#[test]
fn every_rebuild_refreshes_the_channels_of_pattern_routes() {
    let (upstream, leaving) = (Upstream::start(&["gpt-a", "gpt-b"]), Upstream::start(&["gpt-b"]));
    let gateway = Gateway::start();
    gateway.add("stays", &upstream);
    let (_, leaver) = gateway.add("leaves", &leaving);
    let glob = create(&gateway, &json!({"modelPattern": "gpt-*"}));
    assert_eq!(sources(&glob), ["gpt-a", "gpt-b", "gpt-b"]);
    let id_of = |route: &Value, model: &str| {
        let channels = route["channels"].as_array().expect("channels");
        channels.iter().find(|channel| channel["sourceModel"] == model).map(|channel| channel["id"].clone())
    };
    upstream.offer(&["gpt-b", "gpt-c"]);
    rebuild(&gateway);
    let refreshed = gateway.route("gpt-*");
    assert_eq!(sources(&refreshed), ["gpt-b", "gpt-b", "gpt-c"]);
    assert_eq!(id_of(&refreshed, "gpt-b"), id_of(&glob, "gpt-b"), "what stays keeps its counters");
    assert_eq!(rebuild(&gateway)["createdChannels"], 0);

    gateway.admin().delete(&format!("/api/accounts/{}", leaver["id"])).expect(200);
    assert_eq!(sources(&gateway.route("gpt-*")), ["gpt-b", "gpt-c"]);
    gateway.client().chat("gpt-b").expect(200);
}

#[test]
fn a_group_hands_its_strategy_to_sources_that_have_none_of_their_own() {
    let (gateway, _upstream) = Gateway::serving(&["s-one", "s-two", "s-own", "s-shared", "s-many"]);
    let id = |model: &str| gateway.route(model)["id"].clone();
    let strategy = |model: &str| gateway.route(model)["routingStrategy"].clone();
    gateway
        .admin()
        .put(&format!("/api/routes/{}", id("s-own")), &json!({"routingStrategy": "round_robin"}))
        .expect(200);
    create(
        &gateway,
        &json!({"routeMode": "explicit_group", "displayName": "other", "sourceRouteIds": [id("s-shared")]}),
    );
    let group = json!({"routeMode": "explicit_group", "displayName": "group", "routingStrategy": "stable_first",
        "sourceRouteIds": [id("s-one"), id("s-two"), id("s-own"), id("s-shared"), id("s-many")]});
    let group = create(&gateway, &group);
    gateway
        .admin()
        .put(
            &format!("/api/routes/{}", id("s-many")),
            &json!({"modelPattern": "s-many*", "routingStrategy": "weighted"}),
        )
        .expect(200);
    for (model, expected) in [
        ("s-one", "stable_first"),
        ("s-two", "stable_first"),
        ("s-own", "round_robin"),
        ("s-shared", "weighted"),
    ] {
        assert_eq!(strategy(model), expected, "{model}");
    }
    gateway.admin().put(&path_of(&group), &json!({"displayIcon": "x"})).expect(200);
    assert_eq!(strategy("s-one"), "stable_first");
    gateway.admin().put(&path_of(&group), &json!({"routingStrategy": "round_robin"})).expect(200);
    // A source that matches more than one model now is no source any more.
    for (model, expected) in [
        ("s-one", "round_robin"),
        ("s-two", "round_robin"),
        ("s-shared", "weighted"),
        ("s-many*", "weighted"),
    ] {
        assert_eq!(strategy(model), expected, "{model}");
    }
}

#[test]
fn what_cannot_be_a_route_is_refused_and_changes_nothing() {
    let (gateway, _upstream) = Gateway::serving(&["model-r"]);
    let admin = gateway.admin();
    let exact = gateway.route("model-r")["id"].clone();
    let glob = create(&gateway, &json!({"modelPattern": "x*"}))["id"].clone();
    let group = json!({"routeMode": "explicit_group", "displayName": "g", "sourceRouteIds": [exact]});
    let group = create(&gateway, &group)["id"].clone();
    let before = gateway.routes();
    let sourced =
        |id: &Value| json!({"routeMode": "explicit_group", "displayName": "h", "sourceRouteIds": [id]});
    for body in [
        json!({}),
        json!({"modelPattern": "re:("}),
        json!({"modelPattern": "m", "modelMapping": "no JSON"}),
        json!({"routeMode": "explicit_group", "sourceRouteIds": [exact]}),
        json!({"routeMode": "explicit_group", "displayName": "h"}),
        sourced(&json!("1")),
        sourced(&json!(9999)),
        sourced(&glob),
        sourced(&group),
    ] {
        let error = admin.post("/api/routes", &body).expect(400);
        assert!(
            error["message"].as_str().is_some_and(|text| text.starts_with("Invalid ")),
            "{body}: {error}"
        );
    }
    let reason = admin.post("/api/routes", &json!({"modelPattern": "re:(a"})).expect(400);
    assert!(reason["message"].as_str().is_some_and(|text| text.contains("regular expression")), "{reason}");
    for blank in [json!({"modelPattern": " "}), json!({})] {
        let error = admin.post("/api/routes", &blank).expect(400);
        assert_eq!(error["message"], "Invalid modelPattern. Expected model pattern that is not blank.");
    }
    for (id, body) in [
        (&exact, json!({"modelPattern": " "})),
        (&exact, json!({"modelPattern": "re:[z-a]"})),
        (&exact, json!({"routeMode": "explicit_group"})),
        (&group, json!({"routeMode": "pattern"})),
        (&group, json!({"displayName": null})),
        (&group, json!({"sourceRouteIds": []})),
        (&group, json!({"sourceRouteIds": [group]})),
    ] {
        admin.put(&format!("/api/routes/{id}"), &body).expect(400);
    }
    for body in [
        json!({"ids": [exact], "action": "explode"}),
        json!({"ids": [exact]}),
        json!({"ids": [], "action": "enable"}),
        json!({"ids": ["1"], "action": "enable"}),
    ] {
        admin.post("/api/routes/batch", &body).expect(400);
    }
    admin.put("/api/routes/9999", &json!({"enabled": false})).expect(404);
    admin.get("/api/routes/9999/channels").expect(404);
    admin.put("/api/routes/1x", &json!({})).expect(400);
    assert_eq!(admin.delete("/api/routes/9999").expect(200), json!({"success": true}));
    assert_eq!(gateway.routes(), before);
}

#[test]
fn a_deleted_route_is_gone_for_clients_and_groups() {
    let (gateway, _upstream) = Gateway::serving(&["model-d"]);
    let glob = create(&gateway, &json!({"modelPattern": "re:model-d", "displayName": "alias"}));
    gateway.client().chat("alias").expect(200);
    assert_eq!(gateway.admin().delete(&path_of(&glob)).expect(200), json!({"success": true}));
    gateway.client().chat("alias").expect(503);
    let exact = gateway.route("model-d");
    let group = json!({"routeMode": "explicit_group", "displayName": "g", "sourceRouteIds": [exact["id"]]});
    let group = create(&gateway, &group);
    gateway.admin().delete(&path_of(&exact)).expect(200);
    let group = gateway.routes().into_iter().find(|route| route["id"] == group["id"]).expect("the group");
    assert_eq!((&group["sourceRouteIds"], &group["channels"]), (&json!([]), &json!([])));
    gateway.client().chat("g").expect(503);
    // The rest of the group can still be changed; but a list of routes that is sent must not be empty.
    for (change, status) in [
        (json!({"enabled": false}), 200),
        (json!({"displayName": "h"}), 200),
        (json!({"sourceRouteIds": []}), 400),
    ] {
        gateway.admin().put(&path_of(&group), &change).expect(status);
    }
    let group = gateway.routes().into_iter().find(|route| route["id"] == group["id"]).expect("the group");
    assert_eq!((&group["enabled"], &group["modelPattern"]), (&json!(false), &json!("h")));
}

#[test]
fn a_route_made_by_hand_stays_without_channels_and_a_group_keeps_its_order() {
    let (gateway, _upstream) = Gateway::serving(&["o-one", "o-two", "o-three"]);
    let made = create(&gateway, &json!({"modelPattern": "nobody-has-this"}));
    rebuild(&gateway);
    let ids = |routes: Vec<Value>| routes.iter().map(|route| route["id"].clone()).collect::<Vec<_>>();
    assert!(ids(gateway.routes()).contains(&made["id"]), "it was taken away");

    let id = |model: &str| {
        let routes = gateway.routes();
        routes.iter().find(|route| route["modelPattern"] == model).expect("a route")["id"].clone()
    };
    let sources = json!([id("o-two"), id("o-three"), id("o-one")]);
    let group = json!({"routeMode": "explicit_group", "displayName": "ordered", "sourceRouteIds": sources});
    let group = create(&gateway, &group);
    assert_eq!(group["sourceRouteIds"], sources);
    let turned = json!([id("o-one"), id("o-three")]);
    gateway.admin().put(&path_of(&group), &json!({"sourceRouteIds": turned})).expect(200);
    let routes = gateway.routes();
    let stored = routes.iter().find(|route| route["id"] == group["id"]).expect("the group");
    assert_eq!(stored["sourceRouteIds"], turned);
    let shown = stored["channels"].as_array().expect("channels").iter();
    let models: Vec<_> = shown.map(|channel| channel["sourceModel"].clone()).collect();
    assert_eq!(models, ["o-one", "o-three"], "{stored}");
}
