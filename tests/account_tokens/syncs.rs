//! Tokens are synchronised with what their site lists.

use serde_json::{Value, json};

use super::{MODEL, token_path, tokens, with_account};
use crate::support::{Gate, Gateway, Program, Relay, Reply, Site, StubKey, eventually};

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
