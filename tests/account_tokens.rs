//! Account tokens: the keys of session accounts, added by hand and synchronised with their sites.

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Program, Relay, Reply, Site, StubKey, eventually};

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
fn a_sync_brings_what_the_site_lists_and_keeps_what_it_does_not() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, site_id, account) = with_account(&site);
    let path = format!("/api/account-tokens/sync/{account}");
    let again = gateway.admin().post(&path, &json!({})).expect(200);
    for (field, value) in [
        ("success", json!(true)),
        ("status", json!("synced")),
        ("synced", json!(true)),
        ("created", json!(0)),
        ("updated", json!(1)),
        ("total", json!(1)),
        ("accountId", account.clone()),
        ("accountName", json!("ada")),
        ("siteName", json!("Relay")),
        ("siteStatus", json!("active")),
    ] {
        assert_eq!(again[field], value, "{field}: {again}");
    }
    assert_eq!(again["defaultTokenId"], tokens(&gateway)[0]["id"]);
    assert_eq!(again["coverageRefresh"]["refresh"][0]["modelCount"], 1);
    site.ada().keys.clear();
    let none = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!((&none["synced"], &none["reason"]), (&json!(false), &json!("no_upstream_tokens")), "{none}");
    assert_eq!(tokens(&gateway).len(), 1, "rows missing at the site stay");
    site.answer("/api/token/", Reply::json(500, &json!({"message": "boom"})));
    let failed = gateway.admin().post(&path, &json!({})).expect(502);
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("failed"), &json!("sync_error")), "{failed}");
    gateway.admin().put(&format!("/api/sites/{site_id}"), &json!({"status": "disabled"})).expect(200);
    let skipped = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(skipped["reason"], "site_disabled", "{skipped}");
    gateway.admin().post("/api/account-tokens/sync/999", &json!({})).expect(404);
}

#[test]
fn keys_that_are_known_are_not_revealed_again() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    // An older server reveals one key at a time, and only twenty in a while.
    site.answer("/api/token/batch/keys", Reply::json(404, &json!({"error": {"message": "Invalid URL"}})));
    let first = site.ada().keys[0].clone();
    for id in 8..=10 {
        let key = format!("key{id}{}", &first.key[5..]);
        site.ada().keys.push(StubKey { id, key, name: format!("key {id}"), ..first.clone() });
    }
    let revealed = |id: i64| site.asked_for(&format!("/api/token/{id}/key")).len();
    let (gateway, _, account) = with_account(&site);
    assert_eq!(tokens(&gateway).len(), 4);
    // The account's default is needed to prove the session; all are read once more when it has been added.
    assert_eq!([7, 8, 9, 10].map(revealed), [2, 1, 1, 1]);
    let synced = gateway.admin().post(&format!("/api/account-tokens/sync/{account}"), &json!({})).expect(200);
    assert_eq!((&synced["total"], &synced["created"]), (&json!(4), &json!(0)), "{synced}");
    assert!(synced.get("maskedPending").is_none(), "{synced}");
    assert_eq!([7, 8, 9, 10].map(revealed), [2, 1, 1, 1]);
}

#[test]
fn masks_that_the_site_does_not_lift_are_placeholders() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let gateway = Gateway::start();
    let body = json!({"name": "Relay", "url": site.url(), "platform": "new-api"});
    let site_id = gateway.create_site(&body)["id"].clone();
    site.answer("/api/token/7/key", Reply::json(404, &json!({"error": {"message": "Invalid URL"}})));
    site.answer("/api/token/batch/keys", Reply::json(404, &json!({"error": {"message": "Invalid URL"}})));
    let body = json!({"siteId": site_id, "accessToken": site.token(), "platformUserId": 7659});
    let made = gateway.admin().post("/api/accounts", &body).expect(200);
    gateway.wait_for_task(&made);
    let path = format!("/api/account-tokens/sync/{}", made["id"]);
    let synced = gateway.admin().post(&path, &json!({})).expect(200);
    let token = tokens(&gateway)[0].clone();
    assert_eq!(
        (&synced["reason"], &synced["maskedPending"]),
        (&json!("upstream_masked_tokens"), &json!(1)),
        "{synced}"
    );
    assert_eq!(synced["pendingTokenIds"], json!([token["id"]]));
    assert_eq!((&token["valueStatus"], &token["enabled"]), (&json!("masked_pending"), &json!(false)));
    assert!(gateway.channels(MODEL).is_empty(), "a mask is never used");
    assert!(!gateway.output().contains("stay masked"), "an older server reveals no key");
    site.answer("/api/token/7/key", Reply::error(500, "boom"));
    gateway.admin().post(&path, &json!({})).expect(200);
    gateway.wait_for_output("1 key(s) stay masked, because one was not revealed: HTTP 500: boom");
    site.answer_faithfully();
    let synced = gateway.admin().post(&path, &json!({})).expect(200);
    assert!(synced.get("maskedPending").is_none(), "{synced}");
    let filled = tokens(&gateway);
    assert_eq!((filled.len(), &filled[0]["valueStatus"]), (1, &json!("ready")), "{filled:?}");
    gateway.wait_for_channels(MODEL, 1);
}

#[test]
fn a_sync_stores_the_keys_that_were_revealed_in_time_and_the_next_one_goes_on() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, _, account) = with_account(&site);
    for id in 8..=12 {
        let key = format!("abc{id:02}0123456789012345678901234567890123456789wx{id:02}");
        let name = format!("key {id}");
        let more = StubKey { id, key, name, ..site.ada().keys[0].clone() };
        site.ada().keys.push(more);
    }
    site.answer("/api/token/batch/keys", Reply::json(404, &json!({"error": {"message": "Invalid URL"}})));
    for id in [9, 11, 12] {
        site.answer(&format!("/api/token/{id}/key"), Reply::stall());
    }
    let path = format!("/api/account-tokens/sync/{account}");
    let synced = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!((&synced["status"], &synced["maskedPending"]), (&json!("synced"), &json!(3)), "{synced}");
    let status = |name: &str| {
        let token = tokens(&gateway).into_iter().find(|token| token["name"] == name);
        token.expect("a row")["valueStatus"].clone()
    };
    for (name, value_status) in [("key 8", "ready"), ("key 9", "masked_pending"), ("key 10", "ready")] {
        assert_eq!(status(name), value_status, "{name}");
    }
    site.answer_faithfully();
    site.answer("/api/token/batch/keys", Reply::json(404, &json!({"error": {"message": "Invalid URL"}})));
    let synced = gateway.admin().post(&path, &json!({})).expect(200);
    assert!(synced.get("maskedPending").is_none(), "{synced}");
    assert_eq!(status("key 12"), "ready");
    assert_eq!(site.asked_for("/api/token/8/key").len(), 1, "a known key is not asked for again");
}

#[test]
fn all_accounts_are_synced_at_once_or_behind() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, site_id, _) = with_account(&site);
    let key = format!("sk-{}", site.ada().keys[0].key);
    let keyed = json!({"siteId": site_id, "accessToken": key, "credentialMode": "apikey"});
    let keyed = gateway.admin().post("/api/accounts", &keyed).expect(200);
    let waited = gateway.admin().post("/api/account-tokens/sync-all", &json!({"wait": true})).expect(200);
    let told = gateway.admin().get("/api/events?type=token").expect(200);
    let told = told.as_array().expect("events");
    let synced = told.iter().filter(|event| event["title"] == "Account tokens synced").count();
    assert_eq!(synced, told.len(), "an account that is a key itself is no news: {told:?}");
    assert_eq!((&told[0]["level"], &told[0]["relatedType"]), (&json!("info"), &json!("account")));
    let summary = &waited["summary"];
    assert_eq!(
        (&summary["total"], &summary["synced"], &summary["skipped"]),
        (&json!(2), &json!(1), &json!(1)),
        "{waited}"
    );
    let results = waited["results"].as_array().expect("results");
    assert!(results.iter().any(|result| result["reason"] == "apikey_connection"), "{waited}");
    let queued = gateway.admin().post("/api/account-tokens/sync-all", &json!({})).expect(202);
    let task = gateway.wait_for_task(&queued);
    assert_eq!(
        (&task["status"], &task["dedupeKey"]),
        (&json!("succeeded"), &json!("sync-all-account-tokens"))
    );
    gateway.admin().post("/api/account-tokens/sync-all", &json!({"wait": 1})).expect(400);
    let path = format!("/api/account-tokens/sync/{}", keyed["id"]);
    gateway.admin().post(&path, &json!({})).expect(400);
}

#[test]
fn an_account_that_is_deleted_during_a_sync_of_all_keeps_nobody_else_from_it() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let (ada, bob) = (relay.account(&gateway, &site, "ada"), relay.account(&gateway, &site, "bob"));
    let gate = Gate::default();
    let keys = json!({"success": true, "message": "", "data": {"page": 1, "page_size": 100, "total": 1,
        "items": [{"id": 7, "key": "abcd0123456789wxyz", "name": "cli", "status": 1, "group": "default"}]}});
    let before = relay.upstream.asked_for("/api/token/").len();
    relay.upstream.answer("/api/token/", Reply::json(200, &keys).head_waits_for(&gate));
    let all = json!({"wait": true});
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| gateway.admin().post("/api/account-tokens/sync-all", &all).expect(200));
        eventually("both are asked about", || {
            (relay.upstream.asked_for("/api/token/").len() >= before + 2).then_some(())
        });
        gateway.admin().delete(&format!("/api/accounts/{}", ada["id"])).expect(200);
        gate.open();
        let synced = syncing.join().expect("an answer");
        assert_eq!(synced["summary"]["synced"], 1, "{synced}");
        assert_eq!(synced["results"][0]["accountId"], bob["id"]);
        assert_eq!(synced["results"].as_array().map(Vec::len), Some(1));
    });
    gateway.admin().post(&format!("/api/account-tokens/sync/{}", ada["id"]), &json!({})).expect(404);
}

#[test]
fn a_sync_of_an_account_that_is_deleted_meanwhile_leaves_no_event() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let accounts = ["ada", "bob"].map(|name| relay.account(&gateway, &site, name));
    let sync = |account: &Value| format!("/api/account-tokens/sync/{}", account["id"]);
    for account in &accounts {
        gateway.admin().post(&sync(account), &json!({})).expect(200);
    }
    let before = gateway.events("token");
    let none = json!({"success": true, "message": "", "data": {"page": 1, "page_size": 100, "total": 0, "items": []}});
    let replies = [Reply::json(200, &none), Reply::error(500, "broken")];
    for (account, reply) in accounts.iter().zip(replies) {
        let gate = Gate::default();
        let asked = relay.upstream.asked_for("/api/token/").len();
        relay.upstream.answer("/api/token/", reply.head_waits_for(&gate));
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| gateway.admin().post(&sync(account), &json!({})).expect(404));
            eventually("the site is asked", || {
                (relay.upstream.asked_for("/api/token/").len() > asked).then_some(())
            });
            gateway.admin().delete(&format!("/api/accounts/{}", account["id"])).expect(200);
            gate.open();
            syncing.join().expect("an answer");
        });
    }
    assert_eq!(gateway.events("token"), before);
}

#[test]
fn a_token_that_is_deleted_during_the_listing_does_not_come_back_with_it() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    let row = |id: u32, name: &str, key: &str| json!({"id": id, "key": key, "name": name, "status": 1, "group": "default"});
    let list = |rows: &[Value]| {
        Reply::json(
            200,
            &json!({"success": true, "message": "", "data": {"page": 1, "page_size": 100,
            "total": rows.len(), "items": rows}}),
        )
    };
    let rows = [row(7, "cli", "abcd0123456789wxyz"), row(8, "extra", "efgh0123456789stuv")];
    relay.upstream.answer("/api/token/", list(&rows));
    let path = format!("/api/account-tokens/sync/{}", account["id"]);
    gateway.admin().post(&path, &json!({})).expect(200);
    let named = |name: &str| tokens(&gateway).into_iter().find(|token| token["name"] == name);
    let extra = named("extra").expect("the second key");
    relay.upstream.answer("/api/token/8", Reply::json(200, &json!({"success": true, "message": ""})));

    let gate = Gate::default();
    let late = [rows[0].clone(), rows[1].clone(), row(9, "new", "ijkl0123456789opqr")];
    let before = relay.upstream.asked_for("/api/token/").len();
    relay.upstream.answer_once("/api/token/", list(&late).head_waits_for(&gate));
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| gateway.admin().post(&path, &json!({})).expect(200));
        eventually("the site is asked", || {
            (relay.upstream.asked_for("/api/token/").len() > before).then_some(())
        });
        gateway.admin().delete(&token_path(&extra, "")).expect(200);
        gate.open();
        syncing.join().expect("an answer");
    });
    assert!(named("extra").is_none(), "{:?}", tokens(&gateway));
    assert!(named("cli").is_some() && named("new").is_some(), "{:?}", tokens(&gateway));
}

#[test]
fn a_token_that_is_deleted_while_models_are_listed_fails_no_refresh() {
    let gateway = Gateway::start();
    let relay = Relay::start(&[MODEL]);
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    for key in ["sk-the-one-that-stays", "sk-the-one-that-goes"] {
        let body = json!({"accountId": account["id"], "token": key, "name": key});
        gateway.admin().post("/api/account-tokens", &body).expect(200);
    }
    gateway.wait_for_channels(MODEL, 2);
    let gone = tokens(&gateway).into_iter().find(|token| token["name"] == "sk-the-one-that-goes");
    let gone = gone.expect("the second token");

    // New model lists come for both tokens; that of the deleted one cannot be stored.
    let list = |models: &Value| Reply::json(200, &json!({"object": "list", "data": models}));
    let models = json!([{"id": MODEL}, {"id": "model-new"}]);
    let gate = Gate::default();
    relay.upstream.answer("/v1/models", list(&models));
    relay.upstream.answer_once("/v1/models", list(&models).head_waits_for(&gate));
    let before = relay.upstream.asked_for("/v1/models").len();
    let check = format!("/api/models/check/{}", account["id"]);
    std::thread::scope(|scope| {
        let checking = scope.spawn(|| gateway.admin().post(&check, &json!({})).expect(200));
        eventually("the site is asked", || {
            (relay.upstream.asked_for("/v1/models").len() > before).then_some(())
        });
        gateway.admin().delete(&token_path(&gone, "")).expect(200);
        gate.open();
        let checked = checking.join().expect("an answer");
        assert_eq!(checked["refresh"]["status"], "success", "{checked}");
    });
    assert_eq!(gateway.wait_for_channels("model-new", 1).len(), 1);
    assert!(tokens(&gateway).iter().all(|token| token["id"] != gone["id"]), "{:?}", tokens(&gateway));
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
