//! Daily check-ins: the answers of sites, how they are interpreted, and what the operator sees.

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Relay, Reply, Upstream, eventually};

#[track_caller]
fn check_in(gateway: &Gateway, account: &Value) -> Value {
    gateway.admin().post(&format!("/api/checkin/trigger/{}", account["id"]), &json!({})).expect(200)
}

#[track_caller]
fn logs(gateway: &Gateway) -> Vec<Value> {
    gateway.admin().get("/api/checkin/logs").expect(200).as_array().expect("rows").clone()
}

#[test]
fn a_check_in_is_rewarded_logged_and_shown() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    relay.has(1_512_500, 250_000);
    // The answer of new-api and its family to a successful check-in.
    let ended = json!({"success": true, "status": "success", "message": "签到成功", "reward": "0.025"});
    assert_eq!(check_in(&gateway, &account), ended);
    let shown = gateway.account(&account["id"]);
    assert!(shown["lastCheckinAt"].is_string(), "{shown}");
    assert_eq!((&shown["balance"], &shown["todayReward"]), (&json!(3.025), &json!(0.025)));
    assert_eq!(shown["runtimeHealth"]["state"], "healthy");
    let rows = logs(&gateway);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["checkin_logs"]["accountId"], account["id"]);
    assert_eq!(rows[0]["checkin_logs"]["reward"], "0.025");
    assert_eq!(
        rows[0]["accounts"],
        json!({"id": account["id"], "username": "ada", "status": "active", "siteId": site["id"]})
    );
    assert_eq!(
        (&rows[0]["sites"]["name"], &rows[0]["sites"]["platform"]),
        (&json!("Relay A"), &json!("new-api"))
    );
    assert_eq!(rows[0]["failureReason"]["code"], "unknown_error");
    assert_eq!(rows[0]["failureReason"]["title"], "Checked in");
    let events = gateway.events("checkin");
    assert_eq!(
        (events.len(), &events[0]["level"], &events[0]["relatedId"]),
        (1, &json!("info"), &account["id"])
    );
    assert_eq!(events[0]["relatedType"], "account");
    // The user id is sent along, as the site requires.
    assert_eq!(relay.upstream.last("/api/user/checkin").header("new-api-user"), Some("11"));
    let of_today = gateway.admin().get("/api/stats/dashboard?view=summary&refresh=1").expect(200);
    assert_eq!((&of_today["todayReward"], &of_today["todayCheckin"]["success"]), (&json!(0.025), &json!(1)));
}

#[test]
fn an_answer_means_what_its_words_say() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let refusal = |message: &str| Reply::json(200, &json!({"success": false, "message": message}));
    for (reply, status, message, code, health) in [
        (refusal("今日已签到"), "success", "今日已签到", "already_checked_in", "healthy"),
        (refusal("签到功能未启用"), "skipped", "签到功能未启用", "checkin_not_supported", "degraded"),
        (
            refusal("Turnstile token 为空"),
            "skipped",
            "manual check-in needed",
            "manual_turnstile_required",
            "degraded",
        ),
        (
            refusal("请输入图形验证码"),
            "skipped",
            "manual check-in needed",
            "manual_turnstile_required",
            "degraded",
        ),
        (refusal("签到失败，请稍后重试"), "failed", "签到失败，请稍后重试", "unknown_error", "unhealthy"),
        (
            Reply::html(502, "<html><head><title>Bad gateway</title></head></html>"),
            "failed",
            "HTTP 502: Bad gateway",
            "upstream_error",
            "unhealthy",
        ),
    ] {
        for path in ["/api/user/checkin", "/api/user/sign_in"] {
            relay.upstream.answer(path, reply.clone());
        }
        let ended = check_in(&gateway, &account);
        assert_eq!((&ended["status"], &ended["message"]), (&json!(status), &json!(message)));
        assert_eq!(ended["success"], status != "failed", "{message}");
        assert_eq!(ended.get("skipped"), (status == "skipped").then_some(&json!(true)));
        let row = &logs(&gateway)[0];
        assert_eq!(row["checkin_logs"]["status"], status);
        assert_eq!(row["failureReason"]["code"], code);
        assert_eq!(gateway.account(&account["id"])["runtimeHealth"]["state"], health, "{message}");
    }
    // Reading the balance, or the models, keeps what is known about a missing check-in.
    relay.upstream.answer("/api/user/checkin", refusal("签到功能未启用"));
    check_in(&gateway, &account);
    for path in
        [format!("/api/accounts/{}/balance", account["id"]), format!("/api/models/check/{}", account["id"])]
    {
        gateway.admin().post(&path, &json!({})).expect(200);
        assert_eq!(gateway.account(&account["id"])["runtimeHealth"]["source"], "checkin", "{path}");
    }
}

#[test]
fn who_has_no_check_in_is_told_so() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    let unknown = gateway.admin().post("/api/checkin/trigger/999", &json!({})).expect(200);
    assert_eq!(unknown, json!({"success": false, "message": "account not found"}));
    let (_, key) = gateway.add("Keys", &Upstream::start(&["m-a"]));
    assert_eq!(check_in(&gateway, &key)["success"], false);
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &json!({"status": "disabled"})).expect(200);
    let ended = check_in(&gateway, &account);
    assert_eq!((&ended["status"], &ended["skipped"]), (&json!("skipped"), &json!(true)));
    assert_eq!(ended["reason"], "site_disabled");
    assert_eq!(relay.check_ins(), 0);
    assert_eq!(logs(&gateway)[0]["failureReason"]["code"], "site_disabled");
    gateway.admin().post("/api/checkin/trigger/1e2", &json!({})).expect(400);
}

#[test]
fn a_reward_that_nobody_tells_is_what_the_balance_rose_by() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    gateway.admin().post(&format!("/api/accounts/{}/balance", account["id"]), &json!({})).expect(200);
    relay.checks_in(&json!({"success": true, "message": "连续签到 5 天"}));
    relay.has(1_600_000, 250_000);
    assert_eq!(check_in(&gateway, &account)["reward"], "0.2");
    relay.checks_in(&json!({"success": true, "message": "连续签到 6 天，获得 0.4 额度"}));
    assert_eq!(check_in(&gateway, &account)["reward"], "0.4");
    relay.checks_in(&json!({"success": true, "message": ""}));
    let ended = check_in(&gateway, &account);
    assert_eq!((ended.get("reward"), &ended["status"]), (None, &json!("success")));
}

#[test]
fn an_expired_session_is_reported_once_and_revived_by_a_success() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let expired = json!({"success": false, "message": "无权进行此操作，access token 无效"});
    relay.upstream.answer("/api/user/checkin", Reply::json(401, &expired));
    assert_eq!(check_in(&gateway, &account)["status"], "failed");
    let shown = gateway.account(&account["id"]);
    assert_eq!((&shown["status"], &shown["runtimeHealth"]["source"]), (&json!("expired"), &json!("auth")));
    assert_eq!(gateway.events("token").iter().filter(|event| event["level"] == "error").count(), 1);
    assert_eq!(logs(&gateway)[0]["failureReason"]["code"], "token_expired");
    relay.checks_in(&json!({"success": true, "message": "签到成功", "data": {"quota_awarded": 500}}));
    assert_eq!(check_in(&gateway, &account)["reward"], "0.001");
    assert_eq!(gateway.account(&account["id"])["status"], "active");
}

#[test]
fn a_site_that_redirects_to_its_login_page_does_not_lack_the_check_in() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let page = "<!doctype html><html><head><title>Login</title></head><body></body></html>";
    let redirect = Reply::bytes(302, "text/plain", "").header("location", "/login");
    for login in [
        Reply::json(405, &json!({"detail": "Method Not Allowed"})),
        Reply::html(404, page),
        Reply::html(200, page),
    ] {
        relay.upstream.answer("/login", login);
        for path in ["/api/user/checkin", "/api/user/sign_in", "/api/user/self"] {
            relay.upstream.answer(path, redirect.clone());
        }
        let ended = check_in(&gateway, &account);
        assert_eq!(ended["status"], "failed", "{ended}");
        assert!(ended["message"].as_str().is_some_and(|text| text.contains("login page")), "{ended}");
        assert_eq!(logs(&gateway)[0]["failureReason"]["code"], "token_expired");
        assert_eq!(gateway.account(&account["id"])["status"], "expired");
        relay.has(1_500_000, 250_000);
        relay.checks_in(&json!({"success": true, "message": "签到成功"}));
        check_in(&gateway, &account);
        assert_eq!(gateway.account(&account["id"])["status"], "active");
    }
}

/// Does something else while the site is being asked; returns the result of the check-in.
#[track_caller]
fn meanwhile(gateway: &Gateway, relay: &Relay, account: &Value, act: impl FnOnce(&str)) -> Value {
    let expired = json!({"success": false, "message": "无权进行此操作，access token 无效"});
    let gate = Gate::default();
    relay.upstream.answer("/api/user/checkin", Reply::json(401, &expired).head_waits_for(&gate));
    let before = relay.check_ins();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| check_in(gateway, account));
        eventually("the site is asked", || (relay.check_ins() > before).then_some(()));
        act(&format!("/api/accounts/{}", account["id"]));
        gate.open();
        asking.join().expect("an answer")
    })
}

#[test]
fn what_an_operator_does_while_a_site_is_asked_is_not_undone_by_its_answer() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    for (name, change, status) in [
        ("ada", json!({"status": "disabled"}), "disabled"),
        ("bob", json!({"accessToken": "a-new-session"}), "active"),
    ] {
        let account = relay.account(&gateway, &site, name);
        let act = |path: &str| drop(gateway.admin().put(path, &change).expect(200));
        assert_eq!(meanwhile(&gateway, &relay, &account, act)["status"], "failed");
        assert_eq!(gateway.account(&account["id"])["status"], status, "{name}");
    }
    assert!(gateway.events("token").iter().all(|event| event["title"] != "Session expired"));
    let account = relay.account(&gateway, &site, "cy");
    let gone = meanwhile(&gateway, &relay, &account, |path| drop(gateway.admin().delete(path).expect(200)));
    assert_eq!(gone["success"], false);
}

#[test]
fn an_expired_account_that_is_disabled_while_its_balance_is_read_stays_disabled() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    meanwhile(&gateway, &relay, &account, |_| ());
    assert_eq!(gateway.account(&account["id"])["status"], "expired");
    let gate = Gate::default();
    let user = json!({"success": true, "message": "", "data": {"id": 11, "username": "ada", "quota": 1, "used_quota": 0}});
    relay.upstream.answer("/api/user/self", Reply::json(200, &user).head_waits_for(&gate));
    let before = relay.upstream.asked_for("/api/user/self").len();
    let path = format!("/api/accounts/{}", account["id"]);
    std::thread::scope(|scope| {
        let reading =
            scope.spawn(|| gateway.admin().post(&format!("{path}/balance"), &json!({})).expect(200));
        eventually("the site is asked", || {
            (relay.upstream.asked_for("/api/user/self").len() > before).then_some(())
        });
        gateway.admin().put(&path, &json!({"status": "disabled"})).expect(200);
        gate.open();
        reading.join().expect("an answer");
    });
    assert_eq!(gateway.account(&account["id"])["status"], "disabled");
}

#[test]
fn all_accounts_check_in_as_one_task_and_those_of_a_site_in_turn() {
    let gateway = Gateway::start();
    let (slow, quick) = (Relay::start(&["m-a"]), Relay::start(&["m-a"]));
    let (at_slow, at_quick) = (slow.site(&gateway, "Slow"), quick.site(&gateway, "Quick"));
    for name in ["ada", "bob", "cy"] {
        slow.account(&gateway, &at_slow, name);
    }
    let gone = quick.account(&gateway, &at_quick, "dan");
    quick.account(&gateway, &at_quick, "eve");
    gateway
        .admin()
        .put(&format!("/api/accounts/{}", gone["id"]), &json!({"checkinEnabled": false}))
        .expect(200);
    let gate = Gate::default();
    let done = json!({"success": true, "message": "签到成功", "data": {"quota_awarded": 12_500}});
    slow.upstream.answer("/api/user/checkin", Reply::json(200, &done).head_waits_for(&gate));
    let queued = gateway.admin().post("/api/checkin/trigger", &json!({})).expect(202);
    let again = gateway.admin().post("/api/checkin/trigger", &json!({})).expect(202);
    assert_eq!((&again["reused"], &again["jobId"]), (&json!(true), &queued["jobId"]));
    eventually("the quick site is done while the slow one waits", || (quick.check_ins() == 1).then_some(()));
    eventually("the slow site is asked", || (slow.check_ins() > 0).then_some(()));
    eventually("the quick account is logged", || (logs(&gateway).len() == 1).then_some(()));
    assert_eq!(slow.check_ins(), 1, "the accounts of a site take turns");
    gate.open();
    let result = gateway.result_of_task(&queued);
    assert_eq!(result["summary"], json!({"total": 4, "success": 4, "skipped": 0, "failed": 0}));
    assert_eq!(result["total"], 4);
    let first = &result["results"][0];
    assert_eq!((&first["username"], &first["site"]), (&json!("ada"), &json!("Slow")));
    assert_eq!(
        first["result"],
        json!({"success": true, "status": "success", "message": "签到成功", "reward": "0.025"})
    );
    // A run over all accounts does not store an event for each.
    assert!(gateway.events("checkin").is_empty());
    let of_one = gateway.admin().get(&format!("/api/checkin/logs?limit=1&accountId={}", first["accountId"]));
    assert_eq!(of_one.expect(200).as_array().expect("rows").len(), 1);
    let of_nobody = gateway.admin().get("/api/checkin/logs?accountId=ada").expect(400);
    assert_eq!(of_nobody["message"], "Invalid accountId. Expected positive integer.");
}

#[test]
fn an_account_that_is_deleted_while_all_check_in_has_failed() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let gate = Gate::default();
    let done = json!({"success": true, "message": "签到成功", "data": {"quota_awarded": 12_500}});
    relay.upstream.answer("/api/user/checkin", Reply::json(200, &done).head_waits_for(&gate));
    let queued = gateway.admin().post("/api/checkin/trigger", &json!({})).expect(202);
    eventually("the site is asked", || (relay.check_ins() > 0).then_some(()));
    gateway.admin().delete(&format!("/api/accounts/{}", account["id"])).expect(200);
    gate.open();
    let result = gateway.result_of_task(&queued);
    assert_eq!(result["summary"], json!({"total": 1, "success": 0, "skipped": 0, "failed": 1}));
}

#[test]
fn check_ins_begin_by_their_schedule() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let put = |cron: &str| gateway.admin().put("/api/checkin/schedule", &json!({"cron": cron})).expect(200);
    put("* * * * * *");
    eventually("a check-in is logged", || logs(&gateway).first().cloned());
    put("0 0 1 1 *");
    assert!(gateway.events("checkin").iter().all(|event| event["relatedType"] == "settings"));
}

#[test]
fn a_failed_check_in_is_told_to_the_operator() {
    let gateway = Gateway::start();
    let hook = gateway.send_notices_to_a_webhook();
    let relay = Relay::start(&["m-a"]);
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    for (message, level, title) in [
        ("系统繁忙", "error", "Check-in failed"),
        ("cf challenge required", "warning", "Cloudflare challenge"),
        ("another cf challenge", "error", "Check-in failed"),
    ] {
        relay.checks_in(&json!({"success": false, "message": message}));
        check_in(&gateway, &account);
        let said = format!("ada @ Relay A: {message}");
        let told = eventually("the operator is told", || {
            let told = hook.asked_for("/hook").into_iter().map(|asked| asked.json());
            { told }.find(|notice| notice["title"] == title && notice["message"] == said)
        });
        assert_eq!(
            (&told["level"], &told["message"]),
            (&json!(level), &json!(format!("ada @ Relay A: {message}")))
        );
    }
}

#[test]
fn the_stop_waits_for_a_check_in_under_way_and_begins_none() {
    let mut gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    for name in ["ada", "bob"] {
        relay.account(&gateway, &site, name);
    }
    let gate = Gate::new();
    let done = json!({"success": true, "message": "签到成功", "data": {"quota_awarded": 12_500}});
    relay.upstream.answer("/api/user/checkin", Reply::json(200, &done).head_waits_for(&gate));
    gateway.admin().post("/api/checkin/trigger", &json!({})).expect(202);
    eventually("a check-in is under way", || {
        (!relay.upstream.asked_for("/api/user/checkin").is_empty()).then_some(())
    });
    gateway.signal("TERM");
    gateway.wait_for_output("all requests ended");
    assert!(gateway.is_running(), "what the site gives is not lost");
    gate.open();
    assert!(gateway.wait_for_exit().success());
    let gateway = gateway.restart();
    let rows = logs(&gateway);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["checkin_logs"]["reward"], "0.025");
    assert_eq!(relay.upstream.asked_for("/api/user/checkin").len(), 1);
}
