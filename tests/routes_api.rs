//! Routes and background tasks, as the operator sees them.

use serde_json::json;

use crate::support::{self, Gateway, Upstream};

#[test]
fn a_discovered_route_is_listed_with_its_channels() {
    let upstream = Upstream::start(&["model-routes"]);
    let gateway = Gateway::start();
    let (site, account) = gateway.add("Blue", &upstream);
    let routes = gateway.routes();
    assert_eq!(routes.len(), 1);
    let route = &routes[0];
    for (field, value) in [
        ("modelPattern", json!("model-routes")),
        ("displayName", json!(null)),
        ("displayIcon", json!(null)),
        ("routeMode", json!("pattern")),
        ("sourceRouteIds", json!([])),
        ("modelMapping", json!(null)),
        ("routingStrategy", json!("weighted")),
        ("enabled", json!(true)),
        ("decisionSnapshot", json!(null)),
        ("decisionRefreshedAt", json!(null)),
    ] {
        assert_eq!(route.get(field), Some(&value), "{field}: {route}");
    }
    let channel = &route["channels"][0];
    for (field, value) in [
        ("routeId", route["id"].clone()),
        ("accountId", account["id"].clone()),
        ("tokenId", json!(null)),
        ("oauthRouteUnitId", json!(null)),
        ("priority", json!(0)),
        ("weight", json!(10)),
        ("enabled", json!(true)),
        ("manualOverride", json!(false)),
        ("successCount", json!(0)),
        ("failCount", json!(0)),
        ("totalLatencyMs", json!(0)),
        ("lastUsedAt", json!(null)),
        ("lastSelectedAt", json!(null)),
        ("lastFailAt", json!(null)),
        ("consecutiveFailCount", json!(0)),
        ("cooldownLevel", json!(0)),
        ("cooldownUntil", json!(null)),
        ("limitedUntil", json!(null)),
    ] {
        assert_eq!(channel.get(field), Some(&value), "{field}: {channel}");
    }
    assert_eq!(channel["site"]["id"], site["id"]);
    assert_eq!(channel["site"]["name"], "Blue");
    assert_eq!(channel["account"]["id"], account["id"]);
}

#[test]
fn the_summary_counts_channels_instead_of_listing_them() {
    let (one, two) = (Upstream::start(&["both", "one"]), Upstream::start(&["both"]));
    let gateway = Gateway::start();
    gateway.add("one", &one);
    gateway.add("two", &two);
    gateway.wait_for_channels("both", 2);
    let summary = gateway.admin().get("/api/routes/summary").expect(200);
    let both = summary.as_array().expect("an array").iter().find(|route| route["modelPattern"] == "both");
    let both = both.expect("the route of both");
    assert_eq!(both["channelCount"], 2);
    assert_eq!(both["enabledChannelCount"], 2);
    let mut names: Vec<_> = both["siteNames"].as_array().expect("names").iter().collect();
    names.sort_by_key(|name| name.to_string());
    assert_eq!(names, ["one", "two"]);
    assert!(both.get("channels").is_none());
}

#[test]
fn what_a_channel_did_is_counted() {
    let (gateway, _upstream) = Gateway::serving(&["model-count"]);
    for _ in 0..3 {
        gateway.client().chat("model-count").expect(200);
    }
    let channel = support::eventually("three successes", || {
        let channel = gateway.channels("model-count").pop()?;
        (channel["successCount"] == 3).then_some(channel)
    });
    assert_eq!(channel["failCount"], 0);
    for field in ["lastUsedAt", "lastSelectedAt"] {
        assert!(channel[field].as_str().is_some_and(|time| time.ends_with('Z')), "{field}: {channel}");
    }
}

#[test]
fn the_counters_of_a_channel_survive_a_restart() {
    let (mut gateway, _upstream) = Gateway::serving(&["model-count"]);
    gateway.client().chat("model-count").expect(200);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    assert_eq!(gateway.channels("model-count")[0]["successCount"], 1);
    gateway.client().chat("model-count").expect(200);
    support::eventually("both are counted", || {
        (gateway.channels("model-count")[0]["successCount"] == 2).then_some(())
    });
}

#[test]
fn a_background_task_can_be_read_until_it_is_done() {
    let (gateway, _upstream, account) = Gateway::with_account(&["model-task"]);
    let task = gateway.wait_for_task(&account);
    assert_eq!(task["id"], account["jobId"]);
    assert_eq!(task["type"], "account-init");
    assert_eq!(task["status"], "succeeded");
    assert_eq!(task["error"], json!(null));
    for field in ["title", "message"] {
        assert!(task[field].is_string(), "{field}: {task}");
    }
    for field in ["createdAt", "updatedAt", "startedAt", "finishedAt"] {
        assert!(task[field].as_str().is_some_and(|time| time.ends_with('Z')), "{field}: {task}");
    }
    assert!(task["logs"].is_array());
    let list = gateway.admin().get("/api/tasks").expect(200);
    assert_eq!(list["tasks"][0]["id"], account["jobId"]);
}

#[test]
fn an_unknown_task_is_not_found() {
    let gateway = Gateway::start();
    for id in ["00000000-0000-4000-8000-000000000000", "nonsense"] {
        let error = gateway.admin().get(&format!("/api/tasks/{id}")).expect(404);
        assert_eq!(error["success"], false);
        assert!(error["message"].is_string());
    }
}

#[test]
fn routes_and_accounts_are_given_whole_or_in_pages() {
    let upstream = Upstream::start(&["one", "two", "three", "four"]);
    let gateway = Gateway::start();
    let (site, first) = gateway.add("Blue", &upstream);
    let (_, second) = gateway.add("Green", &Upstream::start(&["five"]));
    for path in ["/api/routes", "/api/routes/summary"] {
        let all = gateway.admin().get(path).json();
        let patterns = |list: &serde_json::Value| -> Vec<String> {
            let list = list.as_array().unwrap().iter();
            list.map(|route| route["modelPattern"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(patterns(&all).len(), 5);
        for (query, part) in
            [("?limit=2", 0..2), ("?limit=2&offset=2", 2..4), ("?offset=4", 4..5), ("?offset=9", 5..5)]
        {
            let page = gateway.admin().get(&format!("{path}{query}"));
            assert_eq!(patterns(&page.json()), patterns(&all)[part], "{path}{query}");
            assert_eq!(page.header("x-total-count"), Some("5"), "{path}{query}");
        }
    }
    let page = gateway.admin().get("/api/accounts?limit=1");
    assert_eq!(page.header("x-total-count"), Some("2"));
    let page = page.json();
    assert_eq!((&page["accounts"][0]["id"], &page["accounts"][1]), (&first["id"], &json!(null)));
    assert_eq!((&page["sites"][0]["id"], &page["sites"][1]), (&site["id"], &json!(null)));
    let rest = gateway.admin().get("/api/accounts?offset=1&limit=5").json();
    assert_eq!(rest["accounts"][0]["id"], second["id"]);
}

#[test]
fn a_list_of_many_routes_comes_whole() {
    let names: Vec<String> = (0..230).map(|number| format!("model-{number:03}")).collect();
    let upstream = Upstream::start(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let gateway = Gateway::start();
    gateway.add("Blue", &upstream);
    for path in ["/api/routes", "/api/routes/summary"] {
        let listed = gateway.admin().get(path);
        assert_eq!(listed.header("x-total-count"), Some("230"));
        let listed = listed.json();
        let mut patterns: Vec<_> =
            listed.as_array().unwrap().iter().map(|route| route["modelPattern"].as_str().unwrap()).collect();
        patterns.sort_unstable();
        assert_eq!(patterns, names, "{path}");
    }
}
