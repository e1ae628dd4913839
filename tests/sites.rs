//! Sites: what is accepted, what is stored, and the effects of a change.

use serde_json::{Value, json};

use crate::support::{Gateway, Request, Upstream, eventually};

const MODEL: &str = "model-site";

fn a_site() -> Value {
    json!({"name": "Blue", "url": "https://blue.example.com", "platform": "openai"})
}

/// Returns every field with values that it refuses.
fn refused() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("name", vec![json!(null), json!(""), json!("  "), json!(7), json!(true), json!([]), json!({})]),
        (
            "url",
            vec![
                json!(null),
                json!(""),
                json!(" "),
                json!(7),
                json!([]),
                json!("ftp://blue.example.com"),
                json!("http://"),
                json!("no host at all"),
            ],
        ),
        ("platform", vec![json!(7), json!([]), json!({}), json!("no-such-platform")]),
        ("status", vec![json!(null), json!("paused"), json!(7), json!(true)]),
        ("useSystemProxy", vec![json!(null), json!("yes"), json!(""), json!([]), json!({})]),
        ("isPinned", vec![json!(null), json!("yes"), json!(""), json!([]), json!({})]),
        ("sortOrder", vec![json!(null), json!(""), json!("first"), json!(true), json!([])]),
        (
            "globalWeight",
            vec![
                json!(null),
                json!(""),
                json!("heavy"),
                json!(0),
                json!(-1),
                json!("0"),
                json!(true),
                json!([]),
            ],
        ),
        (
            "proxyUrl",
            vec![
                json!(7),
                json!(true),
                json!({}),
                json!("ftp://proxy.example"),
                json!("nonsense"),
                json!("http://u:****@proxy.example:1"),
            ],
        ),
        ("externalCheckinUrl", vec![json!(7), json!([]), json!("ftp://x.example"), json!("nonsense")]),
        (
            "customHeaders",
            vec![
                json!(7),
                json!([]),
                json!("not json"),
                json!("[]"),
                json!("7"),
                json!("{\"bad name\":\"x\"}"),
            ],
        ),
        (
            "apiEndpoints",
            vec![
                json!("https://a.example"),
                json!({}),
                json!([7]),
                json!([null]),
                json!([{}]),
                json!([{"url": 7}]),
                json!([{"url": "ftp://a.example"}]),
                json!([{"url": "https://a.example", "enabled": null}]),
                json!([{"url": "https://a.example", "sortOrder": null}]),
                json!([{"url": "https://a.example"}, {"url": "https://a.example/"}]),
            ],
        ),
        ("maxConcurrency", vec![json!(-1), json!(1.5), json!(10001), json!("many"), json!(true), json!([])]),
    ]
}

/// Returns accepted values, and how they are returned.
fn accepted() -> Vec<(&'static str, Value, Value)> {
    vec![
        ("name", json!("  Green "), json!("Green")),
        ("url", json!(" Api.Example.com/v1/ "), json!("https://api.example.com")),
        ("url", json!("https://p.example.com/api/v1/models"), json!("https://p.example.com/api/v1/models")),
        ("url", json!("http://h.example:80/x/?q=1#f"), json!("http://h.example/x")),
        ("url", json!("https://h.example:443/v1/chat/completions"), json!("https://h.example")),
        ("url", json!("https://h2.example/V1"), json!("https://h2.example/V1")),
        ("platform", json!(" NEW-API "), json!("new-api")),
        ("platform", json!("newapi"), json!("new-api")),
        ("platform", json!("Anthropic"), json!("claude")),
        ("status", json!("DISABLED"), json!("disabled")),
        ("status", json!("Active"), json!("active")),
        ("useSystemProxy", json!(true), json!(true)),
        ("useSystemProxy", json!("1"), json!(true)),
        ("useSystemProxy", json!(0), json!(false)),
        ("isPinned", json!("true"), json!(true)),
        ("isPinned", json!(2), json!(true)),
        ("isPinned", json!("0"), json!(false)),
        ("sortOrder", json!(5), json!(5)),
        ("sortOrder", json!("7"), json!(7)),
        ("sortOrder", json!(-3), json!(0)),
        ("globalWeight", json!(0.12345), json!(0.123)),
        ("globalWeight", json!("1.5"), json!(1.5)),
        ("globalWeight", json!(1000), json!(100)),
        ("globalWeight", json!(0.001), json!(0.01)),
        ("proxyUrl", json!("socks5://proxy.example:1080/"), json!("socks5://proxy.example:1080")),
        ("proxyUrl", json!("  "), json!(null)),
        ("proxyUrl", json!(null), json!(null)),
        ("externalCheckinUrl", json!("https://c.example/in/"), json!("https://c.example/in")),
        ("externalCheckinUrl", json!(""), json!(null)),
        ("customHeaders", json!("{\"X-B\":\"2\",\"x-a\":\"1\"}"), json!("{\"x-a\":\"1\",\"x-b\":\"2\"}")),
        ("customHeaders", json!({"X-Plain": "object"}), json!("{\"x-plain\":\"object\"}")),
        ("customHeaders", json!("{}"), json!(null)),
        ("customHeaders", json!(" "), json!(null)),
        ("customHeaders", json!(null), json!(null)),
        ("maxConcurrency", json!(5), json!(5)),
        ("maxConcurrency", json!(10000), json!(10000)),
        ("maxConcurrency", json!(0), json!(null)),
        ("maxConcurrency", json!(null), json!(null)),
        ("maxConcurrency", json!(""), json!(null)),
        ("apiEndpoints", json!(null), json!([])),
    ]
}

#[test]
fn a_fresh_instance_has_no_sites() {
    assert_eq!(Gateway::start().admin().get("/api/sites").expect(200), json!([]));
}

#[test]
fn a_new_site_has_every_field_with_its_default() {
    let gateway = Gateway::start();
    let site = gateway.create_site(&a_site());
    for (field, value) in [
        ("name", json!("Blue")),
        ("url", json!("https://blue.example.com")),
        ("platform", json!("openai")),
        ("status", json!("active")),
        ("proxyUrl", json!(null)),
        ("useSystemProxy", json!(false)),
        ("customHeaders", json!(null)),
        ("externalCheckinUrl", json!(null)),
        ("isPinned", json!(false)),
        ("sortOrder", json!(0)),
        ("globalWeight", json!(1)),
        ("maxConcurrency", json!(null)),
        ("apiEndpoints", json!([])),
    ] {
        let given = &site[field];
        let same = given == &value || given.as_f64().is_some() && given.as_f64() == value.as_f64();
        assert!(same && site.get(field).is_some(), "{field}: {site}");
    }
    assert!(site["id"].as_i64().is_some_and(|id| id > 0));
    for field in ["createdAt", "updatedAt"] {
        assert_is_a_time(&site[field]);
    }
    assert!(site.get("apiKey").is_none());

    let second = gateway.create_site(&json!({"name": "n", "url": "https://n.example", "platform": "openai"}));
    assert_eq!(second["sortOrder"], 1, "one more than the largest");
    let list = gateway.admin().get("/api/sites").expect(200);
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert_eq!(list[0]["id"], site["id"]);
    assert_eq!(list[0]["totalBalance"].as_f64(), Some(0.0));
    assert_eq!(list[0]["subscriptionSummary"], json!(null));
}

#[test]
fn a_site_after_the_last_position_has_a_position_that_can_be_sent_back() {
    let gateway = Gateway::start();
    let last = 9_007_199_254_740_991_i64;
    let site =
        |name: &str| json!({"name": name, "url": format!("https://{name}.example"), "platform": "openai"});
    let mut first = site("first");
    first["sortOrder"] = last.into();
    gateway.create_site(&first);
    for name in ["second", "third"] {
        let created = gateway.create_site(&site(name));
        assert_eq!(created["sortOrder"], last);
        let path = format!("/api/sites/{}", created["id"]);
        gateway.admin().put(&path, &json!({"sortOrder": created["sortOrder"]})).expect(200);
    }
}

/// Asserts that a value is ISO 8601 in UTC with milliseconds.
fn assert_is_a_time(value: &Value) {
    let text = value.as_str().unwrap_or_default();
    assert!(text.len() == 24 && text.ends_with('Z') && &text[10..11] == "T", "{value}");
}

#[test]
fn a_bad_value_of_any_field_is_a_bad_request_that_names_it() {
    let gateway = Gateway::start();
    for (field, values) in refused() {
        for value in values {
            let mut site = a_site();
            site[field] = value.clone();
            let error = gateway.admin().post("/api/sites", &site).expect(400);
            let message = error["error"].as_str().unwrap_or_default();
            assert!(message.contains(field), "{field} = {value}: {message:?}");
        }
    }
    for field in ["name", "url"] {
        let mut site = a_site();
        site.as_object_mut().expect("an object").remove(field);
        let error = gateway.admin().post("/api/sites", &site).expect(400);
        assert!(error["error"].as_str().is_some_and(|text| text.contains(field)), "{error}");
    }
    assert_eq!(gateway.admin().get("/api/sites").expect(200), json!([]));
}

#[test]
fn a_bad_value_in_an_update_changes_nothing() {
    let gateway = Gateway::start();
    let site = gateway.create_site(&a_site());
    let path = format!("/api/sites/{}", site["id"]);
    let blank = [("platform", vec![json!("")])];
    for (field, values) in refused().into_iter().chain(blank) {
        for value in values {
            let body = json!({"externalCheckinUrl": "https://other.example", field: value});
            let error = gateway.admin().put(&path, &body);
            let message = error.expect(400)["error"].to_string();
            assert!(message.contains(field), "{field} = {value}: {message}");
        }
    }
    let list = gateway.admin().get("/api/sites").expect(200);
    assert_eq!(list[0]["externalCheckinUrl"], json!(null));
    assert_eq!(list[0]["updatedAt"], site["updatedAt"]);
}

#[test]
fn accepted_values_come_back_in_their_stored_form() {
    let gateway = Gateway::start();
    for (field, given, stored) in accepted() {
        let mut site = a_site();
        site[field] = given.clone();
        let created = gateway.create_site(&site);
        assert!(same(&created[field], &stored), "create {field} = {given}: {}", created[field]);
        gateway.admin().delete(&format!("/api/sites/{}", created["id"])).expect(200);

        let plain = gateway.create_site(&a_site());
        let path = format!("/api/sites/{}", plain["id"]);
        let updated = gateway.admin().put(&path, &json!({field: given})).expect(200);
        assert!(same(&updated[field], &stored), "update {field} = {given}: {}", updated[field]);
        gateway.admin().delete(&path).expect(200);
    }
}

/// Compares values, with 1 and 1.0 as equal numbers.
fn same(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b)
}

#[test]
fn the_error_about_a_header_names_the_header() {
    let gateway = Gateway::start();
    for (headers, name) in [
        ("{\"x-number\":1}", "x-number"),
        ("{\"x-break\":\"a\\r\\nb\"}", "x-break"),
        ("{\"Content-Length\":\"5\"}", "content-length"),
        ("{\"host\":\"other.example\"}", "host"),
        ("{\"authorization\":\"****\"}", "authorization"),
    ] {
        let mut site = a_site();
        site["customHeaders"] = json!(headers);
        let error = gateway.admin().post("/api/sites", &site).expect(400);
        let message = error["error"].as_str().unwrap_or_default().to_lowercase();
        assert!(message.contains(name), "{headers}: {message:?}");
    }
}

#[test]
fn credentials_in_an_address_are_refused_with_the_place_where_they_belong() {
    let gateway = Gateway::start();
    let with = |field: &str, value: Value| {
        let mut site = a_site();
        site[field] = value;
        site
    };
    let address = "http://user:pw-in-url@h.example/";
    let stored = gateway.create_site(&a_site());
    for (field, value) in [
        ("url", json!(address)),
        ("url", json!("user@h.example")),
        ("externalCheckinUrl", json!(address)),
        ("apiEndpoints", json!([{"url": address}])),
    ] {
        for refused in [
            gateway.admin().post("/api/sites", &with(field, value.clone())),
            gateway.admin().put(&format!("/api/sites/{}", stored["id"]), &json!({ field: value })),
        ] {
            let text = refused.expect(400)["error"].to_string();
            let tells = ["user name", "account", "proxyUrl", field].iter().all(|word| text.contains(word));
            assert!(tells && !text.contains("pw-in-url"), "{text}");
        }
    }
    let refused = gateway.admin().post("/api/sites/detect", &json!({"url": address})).expect(400);
    assert!(refused["error"].as_str().is_some_and(|text| text.contains("user name")), "{refused}");
    gateway.create_site(&json!({"name": "Red", "url": "https://red.example/@me", "platform": "openai",
        "proxyUrl": "http://user:pw@proxy.example:3128"}));
}

#[test]
fn a_deletion_with_a_broken_body_deletes_nothing() {
    let gateway = Gateway::start();
    let path = format!("/api/sites/{}", gateway.create_site(&a_site())["id"]);
    for (body, status) in [("{\"id\":", 400), ("[1]", 400), ("7", 400)] {
        let ask = Request::new("DELETE", &path).header("content-type", "application/json").body(body);
        gateway.admin().send(ask).expect(status);
    }
    let text = Request::new("DELETE", &path).header("content-type", "text/plain").body("all");
    gateway.admin().send(text).expect(415);
    assert_eq!(gateway.admin().get("/api/sites").expect(200).as_array().map(Vec::len), Some(1));
    gateway.admin().send(Request::new("DELETE", &path).json(&json!({"why": "old"}))).expect(200);
    assert_eq!(gateway.admin().get("/api/sites").expect(200), json!([]));
}

#[test]
fn a_second_site_with_the_same_platform_and_address_is_a_conflict() {
    let gateway = Gateway::start();
    gateway.create_site(&a_site());
    for url in
        ["https://blue.example.com", "BLUE.example.com/v1/", "https://blue.example.com:443/v1/models?x=1"]
    {
        let again = json!({"name": "again", "url": url, "platform": "openai"});
        let error = gateway.admin().post("/api/sites", &again).expect(409);
        assert!(error["error"].as_str().is_some_and(|e| e.contains("already exists")), "{error}");
    }
    let other = gateway
        .create_site(&json!({"name": "other", "url": "https://blue.example.com", "platform": "claude"}));
    let path = format!("/api/sites/{}", other["id"]);
    gateway.admin().put(&path, &json!({"platform": "openai"})).expect(409);
    gateway.admin().put(&path, &json!({"name": "renamed", "platform": "claude"})).expect(200);
}

#[test]
fn unknown_and_malformed_ids_are_told_apart() {
    let gateway = Gateway::start();
    gateway.admin().put("/api/sites/999", &json!({"name": "x"})).expect(404);
    assert_eq!(gateway.admin().delete("/api/sites/999").expect(200)["success"], true);
    for id in ["abc", "12abc", "0", "-1", "1.5", "99999999999999999999"] {
        gateway.admin().put(&format!("/api/sites/{id}"), &json!({"name": "x"})).expect(400);
        gateway.admin().delete(&format!("/api/sites/{id}")).expect(400);
    }
}

#[test]
fn endpoints_are_listed_in_order_and_keep_their_row_while_their_address_stays() {
    let gateway = Gateway::start();
    let mut site = a_site();
    site["apiEndpoints"] =
        json!([{"url": "https://a.example.com/"}, {"url": "https://b.example.com/v1", "enabled": false}]);
    let site = gateway.create_site(&site);
    let endpoints = site["apiEndpoints"].as_array().expect("an array");
    assert_eq!(endpoints[0]["url"], "https://a.example.com");
    assert_eq!(endpoints[1]["url"], "https://b.example.com/v1");
    assert_eq!(endpoints[1]["enabled"], false);
    assert_eq!(endpoints[0]["siteId"], site["id"]);
    for field in ["cooldownUntil", "lastSelectedAt", "lastFailedAt", "lastFailureReason"] {
        assert_eq!(endpoints[0].get(field), Some(&json!(null)), "{field}");
    }
    let path = format!("/api/sites/{}", site["id"]);
    let pool = json!({"apiEndpoints": [{"url": "https://c.example.com"}, {"url": "https://a.example.com"}]});
    let updated = gateway.admin().put(&path, &pool).expect(200);
    assert_eq!(updated["apiEndpoints"][0]["url"], "https://c.example.com");
    assert_eq!(updated["apiEndpoints"][1]["id"], endpoints[0]["id"], "a kept address keeps its row");
    let untouched = gateway.admin().put(&path, &json!({"name": "x"})).expect(200);
    assert_eq!(untouched["apiEndpoints"].as_array().map(Vec::len), Some(2), "absent means unchanged");
}

#[test]
fn a_disabled_site_is_not_routed_until_it_is_active_again() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let (site, _) = gateway.add("site", &upstream);
    let path = format!("/api/sites/{}", site["id"]);
    gateway.client().chat(MODEL).expect(200);
    gateway.admin().put(&path, &json!({"status": "disabled"})).expect(200);
    gateway.client().chat(MODEL).expect(503);
    let accounts = gateway.admin().get("/api/accounts").expect(200);
    assert_eq!(accounts["accounts"][0]["status"], "disabled", "the status cascades");
    gateway.admin().put(&path, &json!({"status": "active"})).expect(200);
    eventually("the model is served again", || (gateway.client().chat(MODEL).status == 200).then_some(()));
    let accounts = gateway.admin().get("/api/accounts").expect(200);
    assert_eq!(accounts["accounts"][0]["status"], "active");
}

#[test]
fn enabling_a_site_revives_only_the_accounts_it_disabled() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let (site, account) = gateway.add("site", &upstream);
    gateway
        .admin()
        .put(&format!("/api/accounts/{}", account["id"]), &json!({"status": "disabled"}))
        .expect(200);
    let path = format!("/api/sites/{}", site["id"]);
    for status in ["disabled", "active"] {
        gateway.admin().put(&path, &json!({"status": status})).expect(200);
    }
    let accounts = gateway.admin().get("/api/accounts").expect(200);
    assert_eq!(accounts["accounts"][0]["status"], "disabled", "the operator disabled it by hand");
}

#[test]
fn a_deleted_site_takes_everything_of_it_along() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let (site, _) = gateway.add("site", &upstream);
    assert_eq!(gateway.models(), [MODEL]);
    gateway.admin().delete(&format!("/api/sites/{}", site["id"])).expect(200);
    assert_eq!(gateway.admin().get("/api/sites").expect(200), json!([]));
    let accounts = gateway.admin().get("/api/accounts").expect(200);
    assert_eq!(accounts["accounts"], json!([]));
    gateway.client().chat(MODEL).expect(503);
    eventually("no channel is left", || gateway.channels(MODEL).is_empty().then_some(()));
}

#[test]
fn a_batch_reports_each_site_by_itself() {
    let gateway = Gateway::start();
    let ids: Vec<Value> = (0..3)
        .map(|n| {
            gateway.create_site(
                &json!({"name": "n", "url": format!("https://s{n}.example"), "platform": "openai"}),
            )["id"]
                .clone()
        })
        .collect();
    let batch = |action: &str, ids: &[Value]| {
        gateway.admin().post("/api/sites/batch", &json!({"action": action, "ids": ids}))
    };
    let done = batch("disable", &[ids[0].clone(), json!(999), ids[1].clone(), ids[0].clone()]).expect(200);
    assert_eq!(done["success"], true);
    assert_eq!(done["successIds"], json!([ids[0], ids[1]]), "a repeated id counts once");
    assert_eq!(done["failedItems"][0]["id"], 999);
    assert!(done["failedItems"][0]["message"].is_string());
    let sites = gateway.admin().get("/api/sites").expect(200);
    let statuses: Vec<_> = sites.as_array().expect("sites").iter().map(|site| &site["status"]).collect();
    assert_eq!(statuses, ["disabled", "disabled", "active"]);

    batch("enableSystemProxy", &ids).expect(200);
    let sites = gateway.admin().get("/api/sites").expect(200);
    assert_eq!(sites[2]["useSystemProxy"], true);
    batch("disableSystemProxy", &ids).expect(200);
    batch("enable", &ids).expect(200);
    batch("delete", &ids).expect(200);
    assert_eq!(gateway.admin().get("/api/sites").expect(200), json!([]));
}

#[test]
fn a_malformed_batch_is_refused_as_a_whole() {
    let gateway = Gateway::start();
    let id = gateway.create_site(&a_site())["id"].clone();
    for (body, field) in [
        (json!({"action": "delete"}), "ids"),
        (json!({"action": "delete", "ids": []}), "ids"),
        (json!({"action": "delete", "ids": [id, "2"]}), "ids"),
        (json!({"action": "delete", "ids": id}), "ids"),
        (json!({"action": "explode", "ids": [id]}), "action"),
        (json!({"ids": [id]}), "action"),
    ] {
        let error = gateway.admin().post("/api/sites/batch", &body).expect(400);
        assert!(error["message"].as_str().is_some_and(|m| m.contains(field)), "{body}: {error}");
    }
    assert_eq!(gateway.admin().get("/api/sites").expect(200).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_preset_is_shown_and_must_fit_its_platform() {
    let gateway = Gateway::start();
    let preset = json!({"name": "DeepSeek", "url": "https://api.deepseek.com/v1", "initializationPresetId": "deepseek-openai"});
    let site = gateway.create_site(&preset);
    assert_eq!(site["initializationPresetId"], "deepseek-openai");
    assert_eq!(site["platform"], "openai");
    let listed = &gateway.admin().get("/api/sites").expect(200)[0];
    assert_eq!(listed["initializationPresetId"], "deepseek-openai");
    let renamed = json!({"name": "DeepSeek 2"});
    let changed = gateway.admin().put(&format!("/api/sites/{}", site["id"]), &renamed).expect(200);
    assert_eq!(changed["initializationPresetId"], "deepseek-openai");
    for (field, value) in [("initializationPresetId", json!("no-such-preset")), ("platform", json!("claude"))]
    {
        let mut wrong = preset.clone();
        wrong["url"] = json!("https://elsewhere.example");
        wrong[field] = value;
        gateway.admin().post("/api/sites", &wrong).expect(400);
    }
}

#[test]
fn sites_changed_at_once_by_many_hands_stay_whole() {
    let gateway = Gateway::start();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let hands: Vec<_> =
            (0..8).map(|_| scope.spawn(|| gateway.admin().post("/api/sites", &a_site()).status)).collect();
        hands.into_iter().map(|hand| hand.join().expect("no panic")).collect()
    });
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|&&status| status == 409).count(), 7, "{statuses:?}");
}

#[test]
fn accounts_that_were_added_while_their_site_was_off_are_asked_once_it_is_on() {
    let gateway = Gateway::start();
    let add = |model: &str| {
        let upstream = Upstream::start(&[model]);
        let body = json!({"name": model, "url": upstream.url(), "platform": "openai", "status": "disabled"});
        let site = gateway.create_site(&body);
        gateway.wait_for_task(&gateway.create_account(&site, "sk-before"));
        // The key was verified.
        assert_eq!(upstream.asked_for("/v1/models").len(), 1, "{model}");
        (upstream, site["id"].clone())
    };
    let set = |site: &Value, status: &str| {
        gateway.admin().put(&format!("/api/sites/{site}"), &json!({"status": status})).expect(200);
    };
    let (first, site) = add("model-first");
    set(&site, "active");
    gateway.wait_for_channels("model-first", 1);
    set(&site, "disabled");
    let (second, other) = add("model-second");
    let batch = json!({"ids": [site, other], "action": "enable"});
    gateway.admin().post("/api/sites/batch", &batch).expect(200);
    gateway.wait_for_channels("model-second", 1);
    assert_eq!((first.asked_for("/v1/models").len(), second.asked_for("/v1/models").len()), (2, 2));
}
