//! Account tokens: the keys of session accounts, added by hand and synchronised with their sites.

mod syncs;

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Reply, Site};

const MODEL: &str = "model-token";

/// Starts a gateway with an account of the stub's user, everything of which has been read; returns the site's id and the
/// account, too.
fn with_account(site: &Site) -> (Gateway, Value, Value) {
    let gateway = Gateway::start();
    let body = json!({"name": "Relay", "url": site.url(), "platform": site.program.platform()});
    let site_id = gateway.create_site(&body)["id"].clone();
    let body = json!({"siteId": site_id, "accessToken": site.token(), "platformUserId": 7659});
    let made = gateway.admin().post("/api/accounts", &body).expect(200);
    gateway.wait_for_task(&made);
    (gateway, site_id, made["id"].clone())
}

fn tokens(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/api/account-tokens").expect(200);
    list.as_array().expect("a bare array").clone()
}

fn token_path(token: &Value, rest: &str) -> String {
    format!("/api/account-tokens/{}{rest}", token["id"])
}

#[test]
fn the_keys_of_a_site_are_listed_with_their_account_and_masked() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, site_id, account) = with_account(&site);
    let listed = tokens(&gateway);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let token = &listed[0];
    for (field, value) in [
        ("accountId", account.clone()),
        ("name", json!("cli")),
        ("tokenGroup", json!("default")),
        ("valueStatus", json!("ready")),
        ("source", json!("sync")),
        ("enabled", json!(true)),
        ("isDefault", json!(true)),
        ("tokenMasked", json!("sk-abc***wxyz")),
    ] {
        assert_eq!(token[field], value, "{field}: {token}");
    }
    assert!(token.get("token").is_none(), "{token}");
    assert_eq!(token["account"], json!({"id": account, "username": "ada", "status": "active"}));
    assert_eq!(token["site"]["id"], site_id);
    assert_eq!(token["site"]["platform"], "new-api");
    let key = format!("sk-{}", site.ada().keys[0].key);
    let value = gateway.admin().get(&token_path(token, "/value")).expect(200);
    assert_eq!((&value["token"], &value["tokenMasked"]), (&json!(key), &json!("sk-abc***wxyz")), "{value}");
    let of_account = gateway.admin().get(&format!("/api/account-tokens?accountId={account}")).expect(200);
    assert_eq!(of_account.as_array().map(Vec::len), Some(1));
    gateway.admin().get("/api/account-tokens?accountId=x").expect(400);
    let default = gateway.admin().get(&format!("/api/account-tokens/account/{account}/default")).expect(200);
    assert_eq!(default["token"]["id"], token["id"]);
    assert!(default["token"].get("token").is_none());
}

#[test]
fn a_key_typed_by_hand_makes_channels_of_its_own() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, _, account) = with_account(&site);
    let second = "hand0123456789012345678901234567890123456789tail".to_owned();
    let mut key = site.ada().keys[0].clone();
    key.id = 8;
    key.key = second.clone();
    site.ada().keys.push(key);
    let body = json!({"accountId": account, "token": second, "group": "vip"});
    let made = gateway.admin().post("/api/account-tokens", &body).expect(200);
    assert_eq!(made["success"], true);
    for (field, value) in [
        ("name", json!("token-2")),
        ("source", json!("manual")),
        ("tokenGroup", json!("vip")),
        ("isDefault", json!(false)),
        ("enabled", json!(true)),
    ] {
        assert_eq!(made["token"][field], value, "{field}: {made}");
    }
    assert!(!made.to_string().contains(&second), "{made}");
    assert_eq!(made["coverageRefresh"]["refresh"][0]["status"], "success", "{made}");
    assert_eq!(made["coverageRefresh"]["refresh"][0]["tokenScanned"], 2);
    assert_eq!(made["coverageRefresh"]["rebuild"]["success"], true);
    assert_eq!(gateway.wait_for_channels(MODEL, 2).len(), 2);
    gateway.admin().post("/api/account-tokens", &body).expect(409);
    gateway.admin().post("/api/account-tokens", &json!({"accountId": 999, "token": "x"})).expect(404);
    gateway.admin().post("/api/account-tokens", &json!({"accountId": "1", "token": "x"})).expect(400);
}

#[test]
fn a_token_that_is_enabled_for_the_first_time_makes_channels_of_its_own() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, _, account) = with_account(&site);
    for number in 1..=2 {
        let value = format!("disabled{number}1234567890123456789012345678901234tail");
        let mut key = site.ada().keys[0].clone();
        (key.id, key.key) = (7 + number, value.clone());
        site.ada().keys.push(key);
        let body = json!({"accountId": account, "token": value, "enabled": false});
        let token = gateway.admin().post("/api/account-tokens", &body).expect(200)["token"].clone();
        assert_eq!(token["enabled"], false, "{token}");
        let set = |enabled: bool| {
            if number == 1 {
                gateway.admin().put(&token_path(&token, ""), &json!({"enabled": enabled})).expect(200);
            } else {
                let action = if enabled { "enable" } else { "disable" };
                let batch = json!({"ids": [token["id"]], "action": action});
                gateway.admin().post("/api/account-tokens/batch", &batch).expect(200);
            }
            let channels = gateway.channels(MODEL);
            channels.iter().any(|channel| channel["tokenId"] == token["id"])
        };
        assert!(set(true), "a channel at once");
        let asked = site.asked_for("/v1/models").len();
        assert!(!set(false));
        assert!(set(true));
        assert_eq!(site.asked_for("/v1/models").len(), asked, "its models are known");
    }
}

#[test]
fn a_masked_value_waits_disabled_for_the_whole_one() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, _, account) = with_account(&site);
    let body = json!({"accountId": account, "name": "later", "token": "abcd****wxyz", "isDefault": true});
    let made = gateway.admin().post("/api/account-tokens", &body).expect(200)["token"].clone();
    for (field, value) in
        [("valueStatus", json!("masked_pending")), ("enabled", json!(false)), ("isDefault", json!(false))]
    {
        assert_eq!(made[field], value, "{field}: {made}");
    }
    gateway.admin().get(&token_path(&made, "/value")).expect(409);
    gateway.admin().post(&token_path(&made, "/default"), &json!({})).expect(400);
    gateway.admin().put(&token_path(&made, ""), &json!({"enabled": true})).expect(400);
    let batch = json!({"ids": [made["id"]], "action": "enable"});
    let refused = gateway.admin().post("/api/account-tokens/batch", &batch).expect(200);
    assert_eq!(refused["successIds"], json!([]), "{refused}");
    assert_eq!(refused["failedItems"][0]["id"], made["id"]);
    let saved = gateway.admin().put(&token_path(&made, ""), &json!({"token": "sk-whole-value"})).expect(200);
    assert_eq!(
        (&saved["token"]["valueStatus"], &saved["token"]["enabled"]),
        (&json!("ready"), &json!(true)),
        "{saved}"
    );
}

#[test]
fn a_change_of_a_token_is_checked_and_answered_without_its_value() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, ..) = with_account(&site);
    let token = tokens(&gateway)[0].clone();
    let path = token_path(&token, "");
    for (field, value) in [
        ("name", json!("")),
        ("name", json!(7)),
        ("token", json!("  ")),
        ("token", json!(7)),
        ("group", json!(7)),
        ("enabled", json!("yes")),
        ("isDefault", json!(1)),
        ("source", json!("magic")),
    ] {
        let error = gateway.admin().put(&path, &json!({ field: value })).expect(400);
        assert!(error["message"].as_str().is_some_and(|text| text.contains(field)), "{field}: {error}");
    }
    gateway.admin().put("/api/account-tokens/999", &json!({"name": "x"})).expect(404);
    gateway.admin().put("/api/account-tokens/7abc", &json!({"name": "x"})).expect(400);
    let body = json!({"name": "renamed", "group": null, "token": token["tokenMasked"], "source": "manual"});
    let changed = gateway.admin().put(&path, &body).expect(200);
    assert_eq!(changed["token"]["name"], "renamed");
    assert_eq!(changed["token"]["tokenGroup"], Value::Null);
    let key = format!("sk-{}", site.ada().keys[0].key);
    assert_eq!(
        gateway.admin().get(&token_path(&token, "/value")).expect(200)["token"],
        json!(key),
        "the mask changes nothing"
    );
}

#[test]
fn the_default_is_usable_and_mirrored_and_moves_when_it_goes() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, _, account) = with_account(&site);
    let body = json!({"accountId": account, "token": "sk-second-by-hand-0123456789"});
    let second = gateway.admin().post("/api/account-tokens", &body).expect(200)["token"].clone();
    gateway.admin().post(&token_path(&second, "/default"), &json!({})).expect(200);
    let default = |gateway: &Gateway| {
        let path = format!("/api/account-tokens/account/{account}/default");
        gateway.admin().get(&path).expect(200)["token"]["id"].clone()
    };
    assert_eq!(default(&gateway), second["id"]);
    let accounts = gateway.admin().get("/api/accounts?refresh=1").expect(200);
    assert_eq!(accounts["accounts"][0]["apiToken"], "sk-s****6789", "{accounts}");
    gateway.admin().put(&token_path(&second, ""), &json!({"enabled": false})).expect(200);
    assert_ne!(default(&gateway), second["id"], "a disabled token is no default");
    gateway.admin().post(&token_path(&second, "/default"), &json!({})).expect(400);
    gateway.admin().post("/api/account-tokens/999/default", &json!({})).expect(404);
    assert!(gateway.channels(MODEL).iter().all(|channel| channel["tokenId"] != second["id"]));
}

#[test]
fn a_token_is_deleted_at_its_site_first() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, ..) = with_account(&site);
    let token = tokens(&gateway)[0].clone();
    site.answer("/api/token/", Reply::json(502, &json!({"success": false, "message": "busy"})));
    gateway.admin().delete(&token_path(&token, "")).expect(502);
    assert_eq!(tokens(&gateway).len(), 1, "the row stays");
    site.answer_faithfully();
    gateway.admin().delete(&token_path(&token, "")).expect(200);
    assert!(tokens(&gateway).is_empty());
    assert!(site.ada().keys.is_empty());
    gateway.admin().delete(&token_path(&token, "")).expect(404);
    assert!(gateway.channels(MODEL).is_empty());
    let accounts = gateway.admin().get("/api/accounts?refresh=1").expect(200);
    assert_eq!(accounts["accounts"][0]["apiToken"], Value::Null);
}

#[test]
fn a_site_makes_a_key_that_is_then_known_here() {
    for program in [Program::NewApi, Program::OneHub, Program::Veloera] {
        let site = Site::start(program, &[MODEL]);
        let (gateway, site_id, account) = with_account(&site);
        let body = json!({"accountId": account, "name": "made", "group": "vip"});
        let made = gateway.admin().post("/api/account-tokens", &body).expect(200);
        assert_eq!(made["createdViaUpstream"], true, "{program:?}: {made}");
        assert_eq!(
            (&made["synced"], &made["created"], &made["total"]),
            (&json!(true), &json!(1), &json!(2)),
            "{made}"
        );
        assert_eq!(made["token"]["isDefault"], true);
        assert_eq!(site.ada().keys.len(), 2);
        let listed = tokens(&gateway);
        let new = listed.iter().find(|token| token["name"] == "made").expect("the new key");
        assert_eq!((&new["tokenGroup"], &new["source"]), (&json!("vip"), &json!("sync")));
        for (field, value) in
            [("remainQuota", json!(0)), ("unlimitedQuota", json!(false)), ("expiredTime", json!("x"))]
        {
            let mut bad = body.clone();
            bad[field] = value;
            gateway.admin().post("/api/account-tokens", &bad).expect(400);
        }
        site.answer("/api/token/", Reply::json(200, &json!({"success": false, "message": "no more keys"})));
        let refused = gateway.admin().post("/api/account-tokens", &body).expect(502);
        assert!(refused["message"].as_str().is_some_and(|text| text.contains("no more keys")), "{refused}");
        gateway.admin().put(&format!("/api/sites/{site_id}"), &json!({"status": "disabled"})).expect(200);
        gateway.admin().post("/api/account-tokens", &body).expect(400);
    }
}

#[test]
fn a_group_of_sub2api_is_given_by_number_or_by_name() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, _, account) = with_account(&site);
    let make = |group: &str| {
        let body = json!({"accountId": account, "name": format!("in {group}"), "group": group});
        gateway.admin().post("/api/account-tokens", &body)
    };
    for (group, number) in [("4", "4"), ("pro", "2"), ("default", "")] {
        make(group).expect(200);
        assert_eq!(site.ada().keys.last().expect("the new key").group, number, "{group}");
    }
    let keys = site.ada().keys.len();
    let refused = make("premium").expect(400);
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("premium")), "{refused}");
    assert_eq!(site.ada().keys.len(), keys);
    assert_eq!(gateway.account(&account)["runtimeHealth"]["state"], "healthy");
}

#[test]
fn groups_are_those_of_the_site() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, site_id, account) = with_account(&site);
    let groups = gateway.admin().get(&format!("/api/account-tokens/groups/{account}")).expect(200);
    assert_eq!(groups["success"], true);
    let mut names: Vec<&str> =
        groups["groups"].as_array().expect("groups").iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["default", "vip"]);
    gateway.admin().get("/api/account-tokens/groups/999").expect(404);
    let key = format!("sk-{}", site.ada().keys[0].key);
    let keyed = json!({"siteId": site_id, "accessToken": key, "credentialMode": "apikey"});
    let keyed = gateway.admin().post("/api/accounts", &keyed).expect(200);
    gateway.admin().get(&format!("/api/account-tokens/groups/{}", keyed["id"])).expect(400);
    site.refuse();
    gateway.admin().get(&format!("/api/account-tokens/groups/{account}")).expect(502);
}

#[test]
fn names_that_repeat_the_session_are_kept_without_it() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let session = site.token();
    let group = format!("group of {session}");
    let user = json!({"id": 7659, "username": format!("ada-{session}"), "display_name": session,
        "email": format!("{session}@example.com"), "quota": 1_500_000, "used_quota": 250_000});
    site.answer("/api/user/self", Reply::json(200, &json!({"success": true, "data": user})));
    site.ada().keys[0].name = format!("cli {session}");
    site.ada().keys[0].group.clone_from(&group);
    site.ada().groups.push(group);
    let (gateway, _, account) = with_account(&site);
    let groups = format!("/api/account-tokens/groups/{account}");
    for path in ["/api/accounts", "/api/account-tokens", "/api/events", "/api/tasks", &groups] {
        let shown = gateway.admin().get(path).expect(200).to_string();
        assert!(!shown.contains(&session), "{path}: {shown}");
    }
    assert_eq!(gateway.account(&account)["username"], "ada-[redacted]");
    let token = &tokens(&gateway)[0];
    assert_eq!(
        (&token["name"], &token["tokenGroup"]),
        (&json!("cli [redacted]"), &json!("group of [redacted]"))
    );
}

#[test]
fn a_key_account_has_no_tokens() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, site_id, _) = with_account(&site);
    let key = format!("sk-{}", site.ada().keys[0].key);
    let keyed = json!({"siteId": site_id, "accessToken": key, "credentialMode": "apikey"});
    let keyed = gateway.admin().post("/api/accounts", &keyed).expect(200)["id"].clone();
    gateway.admin().post("/api/account-tokens", &json!({"accountId": keyed, "token": "sk-x"})).expect(400);
    gateway.admin().get(&format!("/api/account-tokens/account/{keyed}/default")).expect(400);
    assert!(tokens(&gateway).iter().all(|token| token["accountId"] != keyed));
}

#[test]
fn a_batch_switches_and_deletes_tokens() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, ..) = with_account(&site);
    let token = tokens(&gateway)[0].clone();
    let batch = |action: &str, ids: Value| {
        gateway.admin().post("/api/account-tokens/batch", &json!({"action": action, "ids": ids}))
    };
    for (action, ids) in [("enable", json!([])), ("magic", json!([1])), ("enable", json!(["1"]))] {
        batch(action, ids).expect(400);
    }
    let done = batch("disable", json!([token["id"], 999])).expect(200);
    assert_eq!(done["successIds"], json!([token["id"]]), "{done}");
    assert_eq!(done["failedItems"][0]["id"], 999);
    assert!(gateway.channels(MODEL).is_empty(), "a disabled token is not routed to");
    batch("enable", json!([token["id"]])).expect(200);
    gateway.wait_for_channels(MODEL, 1);
    batch("delete", json!([token["id"]])).expect(200);
    assert!(tokens(&gateway).is_empty() && site.ada().keys.is_empty());
}
