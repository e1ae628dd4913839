//! Balances: read from sites, and stored whole or not at all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Relay, Reply, Site, Upstream, eventually};

#[track_caller]
fn refresh(gateway: &Gateway, account: &Value, status: u16) -> Value {
    gateway.admin().post(&format!("/api/accounts/{}/balance", account["id"]), &json!({})).expect(status)
}

#[test]
fn a_balance_is_read_in_dollars_and_kept() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    relay.has(1_500_000, 250_000);
    // Two entries of income: a gift of 0.1 USD, and one whose amount is only in its text.
    relay.says(
        "/api/log/self",
        &json!({"items": [{"type": 4, "quota": 50_000, "content": "签到获得"}, {"type": 4, "quota": 0,
            "content": "赠送 0.05"}], "total": 2}),
    );
    let read = refresh(&gateway, &account, 200);
    assert_eq!((&read["balance"], &read["used"], &read["quota"]), (&json!(3), &json!(0.5), &json!(3.5)));
    // The log is asked for top-ups and for system entries; the stub gives the same answer to both.
    assert_eq!(read["todayIncome"], 0.3);
    let shown = gateway.account(&account["id"]);
    for (field, value) in [("balance", 3.0), ("balanceUsed", 0.5), ("quota", 3.5)] {
        assert_eq!(shown[field].as_f64(), Some(value), "{field}");
    }
    assert!(shown["lastBalanceRefresh"].is_string());
    assert_eq!(shown["runtimeHealth"]["state"], "healthy");
    assert_eq!(shown["runtimeHealth"]["source"], "balance");
    let extra: Value = serde_json::from_str(shown["extraConfig"].as_str().expect("a text")).expect("JSON");
    assert_eq!(extra["todayIncomeSnapshot"]["latest"], 0.3);
    assert_eq!(extra["platformUserId"], 11);
}

#[test]
fn a_balance_does_not_wait_long_for_the_income_in_the_log_of_its_site() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    relay.has(2_500_000, 250_000);
    relay.upstream.answer("/api/log/self", Reply::stall());
    let body = json!({"accountId": account["id"], "wait": true});
    let checked = gateway.admin().post("/api/accounts/health/refresh", &body).expect(200);
    assert_eq!(checked["summary"]["healthy"], 1, "{checked}");
    let shown = gateway.account(&account["id"]);
    assert_eq!((&shown["balance"], &shown["runtimeHealth"]["state"]), (&json!(5), &json!("healthy")));
}

#[test]
fn the_list_of_sites_sums_up_balances_and_subscriptions() {
    let site = Site::start(Program::Sub2Api, &["m-a"]);
    let gateway = Gateway::start();
    let made = gateway.create_site(&json!({"name": "Sub", "url": site.url(), "platform": "sub2api"}));
    let listed = || gateway.admin().get("/api/sites").expect(200)[0].clone();
    assert_eq!((&listed()["totalBalance"], &listed()["subscriptionSummary"]), (&json!(0), &Value::Null));
    let session = json!({"siteId": made["id"], "accessToken": site.token()});
    let account = gateway.admin().post("/api/accounts", &session).expect(200);
    gateway.wait_for_task(&account);
    let shown = listed();
    assert_eq!(shown["totalBalance"], 3);
    let mut summary = shown["subscriptionSummary"].clone();
    assert!(summary["updatedAt"].take().is_i64(), "{summary}");
    let wanted = json!({"activeCount": 1, "totalUsedUsd": 1.5, "totalMonthlyLimitUsd": 20,
        "totalRemainingUsd": 18.5, "nextExpiresAt": "2027-04-01T00:00:00.000Z", "planNames": ["pro"],
        "updatedAt": null});
    assert_eq!(summary, wanted);
}

#[test]
fn who_cannot_be_asked_is_answered_from_the_store() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    refresh(&gateway, &account, 200);
    let (_, key) = gateway.add("Keys", &Upstream::start(&["m-a"]));
    let known = refresh(&gateway, &key, 200);
    assert_eq!(known, json!({"balance": 0, "used": 0, "quota": 0, "skipped": true, "reason": "proxy_only"}));
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &json!({"status": "disabled"})).expect(200);
    let known = refresh(&gateway, &account, 200);
    assert_eq!(
        known,
        json!({"balance": 3, "used": 0.5, "quota": 3.5, "skipped": true, "reason": "site_disabled"})
    );
    gateway.admin().post("/api/accounts/999/balance", &json!({})).expect(404);
    gateway.admin().post("/api/accounts/x/balance", &json!({})).expect(400);
}

#[test]
fn a_site_that_fails_takes_nothing_away() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    refresh(&gateway, &account, 200);
    gateway.wait_for_channels("m-a", 0);
    let before = gateway.account(&account["id"]);
    let path = "/api/user/self";
    let garbage = vec![b'x'; 10 << 20];
    for (what, reply) in [
        ("502", Reply::html(502, "<html><title>Bad gateway</title></html>")),
        ("html", Reply::html(200, "<html><title>Sign in</title></html>")),
        ("cut", Reply::bytes(200, "application/json", "{\"success\":true,\"data\":{\"id\":11,\"quo")),
        ("10 MB", Reply::bytes(200, "application/json", garbage)),
        ("silence", Reply::silence()),
        ("no number", Reply::json(200, &json!({"success": true, "data": {"id": 11, "quota": null}}))),
        ("hang", Reply::stall()),
    ] {
        relay.upstream.answer(path, reply);
        let began = Instant::now();
        refresh(&gateway, &account, 400);
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        let after = gateway.account(&account["id"]);
        for field in ["balance", "balanceUsed", "quota", "lastBalanceRefresh", "status"] {
            assert_eq!(after[field], before[field], "{what}: {field}");
        }
        assert_eq!(after["runtimeHealth"]["state"], "unhealthy", "{what}");
        assert_eq!(after["runtimeHealth"]["source"], "balance", "{what}");
    }
    relay.has(1_500_000, 250_000);
    refresh(&gateway, &account, 200);
    assert_eq!(gateway.account(&account["id"])["runtimeHealth"]["state"], "healthy");
}

#[test]
fn the_list_shows_at_once_what_a_failed_call_says_of_an_account() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let down = Reply::error(500, "boom");
    let (key, sync) = (json!({"accountId": account["id"], "name": "k"}), "/api/account-tokens/sync");
    for (path, body, source, status) in [
        (format!("/api/accounts/{}/balance", account["id"]), &json!({}), "balance", 400),
        (format!("{sync}/{}", account["id"]), &json!({}), "token-sync", 502),
        ("/api/account-tokens".to_owned(), &key, "token-create", 502),
    ] {
        relay.has(1_500_000, 250_000);
        refresh(&gateway, &account, 200);
        let health =
            || gateway.admin().get("/api/accounts").expect(200)["accounts"][0]["runtimeHealth"].clone();
        assert_eq!(health()["state"], "healthy", "{source}");
        relay.upstream.answer("/api/user/self", down.clone());
        relay.upstream.answer("/api/token/", down.clone());
        gateway.admin().post(&path, body).expect(status);
        let now = health();
        assert_eq!((&now["state"], &now["source"]), (&json!("unhealthy"), &json!(source)), "{now}");
    }
}

#[test]
fn the_scheduled_pass_reads_every_active_session() {
    let gateway = Gateway::start();
    let relays = [Relay::start(&["m-a"]), Relay::start(&["m-a"])];
    let accounts: Vec<Value> = relays
        .iter()
        .enumerate()
        .map(|(number, relay)| {
            relay.account(&gateway, &relay.site(&gateway, &format!("Relay {number}")), "ada")
        })
        .collect();
    for relay in &relays {
        relay.has(5_000_000, 0);
    }
    let cron = json!({"balanceRefreshCron": "* * * * * *"});
    gateway.admin().put("/api/settings/runtime", &cron).expect(200);
    for account in &accounts {
        eventually("the balance is read", || {
            (gateway.account(&account["id"])["balance"] == 10).then_some(())
        });
    }
    // The models are read in the same pass.
    for relay in &relays {
        relay.upstream.last("/v1/models");
    }
    gateway.admin().put("/api/settings/runtime", &json!({"balanceRefreshCron": "0 0 1 1 *"})).expect(200);
}

#[test]
fn a_balance_that_falls_below_the_threshold_is_told_once() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let runtime = "/api/settings/runtime";
    gateway.admin().put(runtime, &json!({"lowBalanceThreshold": -1})).expect(400);
    let saved = gateway.admin().put(runtime, &json!({"lowBalanceThreshold": "2.5"})).expect(200);
    assert_eq!(saved["lowBalanceThreshold"], 2.5);
    // 3, 2, 1, 3 and 2 USD: the balance falls below the threshold twice.
    for quota in [1_500_000, 1_000_000, 500_000, 1_500_000, 1_000_000] {
        relay.has(quota, 0);
        refresh(&gateway, &account, 200);
    }
    let events = gateway.admin().get("/api/events?type=balance").expect(200);
    let told: Vec<&Value> =
        events.as_array().expect("events").iter().filter(|e| e["title"] == "Low balance").collect();
    assert_eq!(told.len(), 2, "{events}");
    for event in told {
        assert_eq!((&event["level"], &event["relatedType"]), (&json!("warning"), &json!("account")));
        assert_eq!(event["relatedId"], account["id"]);
        assert!(event["message"].as_str().is_some_and(|text| text.contains("2.000000 USD")), "{event}");
    }
}

#[test]
fn a_balance_is_read_although_its_alert_cannot_be_stored() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    gateway.admin().put("/api/settings/runtime", &json!({"lowBalanceThreshold": 2.5})).expect(200);
    relay.has(1_500_000, 0);
    refresh(&gateway, &account, 200);
    gateway.home().database().refuse_inserts("events", "NEW.type = 'balance'");
    relay.has(1_000_000, 0);
    assert_eq!(refresh(&gateway, &account, 200)["balance"], 2);
    gateway.wait_for_output("the event of the low balance of account");
}

#[test]
fn a_batch_reads_the_balances_it_can() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let (_, key) = gateway.add("Keys", &Upstream::start(&["m-a"]));
    relay.has(2_000_000, 0);
    let ids = json!({"ids": [account["id"], key["id"]], "action": "refreshBalance"});
    let answer = gateway.admin().post("/api/accounts/batch", &ids).expect(200);
    assert_eq!(
        answer["successIds"],
        json!([account["id"], key["id"]]),
        "a key has nothing to read: {answer}"
    );
    assert_eq!(gateway.account(&account["id"])["balance"], 4);
}
