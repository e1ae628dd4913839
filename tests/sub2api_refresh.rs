//! Sessions of sub2api: the refresh token works once, so it is used once and never lost.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Program, Reply, Request, Site, eventually};

const MODEL: &str = "model-sub2api";

/// Starts a gateway with an account whose session ends at this time.
fn with_account(site: &Site, expires_at: &str) -> (Gateway, Value) {
    let gateway = Gateway::with(&[("SHUTDOWN_GRACE_SEC", "1")]);
    let body = json!({"name": "Relay", "url": site.url(), "platform": "sub2api"});
    let site_id = gateway.create_site(&body)["id"].clone();
    let body = json!({"siteId": site_id, "accessToken": site.token(), "refreshToken": "rt_first",
        "tokenExpiresAt": expires_at, "credentialMode": "session"});
    let made = gateway.admin().post("/api/accounts", &body).expect(200);
    gateway.wait_for_task(&made);
    (gateway, made["id"].clone())
}

fn account(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/accounts?refresh=1").expect(200)["accounts"][0].clone()
}

const FAR: &str = "2099-01-01T00:00:00Z";

#[test]
fn ten_requests_at_once_refresh_an_expired_session_once() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, FAR);
    // The site has ended the session early.
    site.ada().token = "eyJhbGciOiJIUzI1NiJ9.b3RoZXI.c2ln".to_owned();
    let path = format!("/api/accounts/{id}/balance");
    thread::scope(|scope| {
        let asks: Vec<_> =
            (0..10).map(|_| scope.spawn(|| gateway.admin().post(&path, &json!({})).expect(200))).collect();
        for ask in asks {
            assert_eq!(ask.join().expect("no panic")["balance"], 3);
        }
    });
    assert_eq!(site.ada().refreshes, 1);
    assert_eq!(account(&gateway)["status"], "active");
}

#[test]
fn a_session_that_ends_soon_is_refreshed_before_it_is_used() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, "2020-01-01T00:00:00Z");
    eventually("the due session is refreshed", || (site.ada().refreshes == 1).then_some(()));
    gateway.admin().post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(200);
    assert_eq!(site.ada().refreshes, 1, "the new session is not due");
}

#[test]
fn a_kill_between_the_refresh_and_the_first_use_loses_no_token() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, FAR);
    let token = site.token();
    site.ada().token = "eyJhbGciOiJIUzI1NiJ9.b3RoZXI.c2ln".to_owned();
    // The refresh is answered at once; the call that would use the new session never is.
    let gate = Gate::new();
    let stale = Reply::json(401, &json!({"code": "TOKEN_EXPIRED", "message": "Token has expired"}));
    site.answer("/api/v1/auth/me", Reply::json(200, &json!({})).head_waits_for(&gate));
    site.answer_once("/api/v1/auth/me", stale);
    let path = format!("/api/accounts/{id}/balance");
    let (admin, ask) = (gateway.admin(), Request::post(&path).json(&json!({})));
    let asking = thread::spawn(move || admin.try_send(ask).is_ok());
    eventually("the new session is about to be used", || {
        let asked = site.asked_for("/api/v1/auth/me");
        let bearer = asked.last()?.header("authorization")?.to_owned();
        (site.ada().refreshes == 1 && !bearer.ends_with(&token)).then_some(())
    });
    let gateway = gateway.restart();
    assert!(!asking.join().expect("no panic"), "killed before it could answer");
    gate.open();
    site.answer_faithfully();
    let read = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(read["balance"], 3);
    assert_eq!(site.ada().refreshes, 1, "the session of before the kill is still known");
    // The refresh token that came with it is known, too.
    site.ada().token = "eyJhbGciOiJIUzI1NiJ9.YW5vdGhlcg.c2ln".to_owned();
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(site.ada().refreshes, 2);
}

#[test]
fn the_stop_waits_for_a_refresh_under_way() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (mut gateway, id) = with_account(&site, FAR);
    let gate = Gate::new();
    let pair = json!({"code": 0, "message": "success",
        "data": {"access_token": "eyJhbGciOiJIUzI1NiJ9.bmV3.c2ln", "refresh_token": "rt_new", "expires_in": 3600}});
    site.answer_once("/api/v1/auth/refresh", Reply::json(200, &pair).head_waits_for(&gate));
    {
        let mut ada = site.ada();
        ada.token = "eyJhbGciOiJIUzI1NiJ9.bmV3.c2ln".to_owned();
        ada.refresh_token = "rt_new".to_owned();
    }
    let path = format!("/api/accounts/{id}/balance");
    let (admin, ask) = (gateway.admin(), Request::post(&path).json(&json!({})));
    let asking = thread::spawn(move || admin.try_send(ask).ok().map(|answer| answer.status));
    eventually("the refresh is under way", || {
        (!site.asked_for("/api/v1/auth/refresh").is_empty()).then_some(())
    });
    gateway.signal("TERM");
    gateway.wait_for_output("were cut off at the end of the grace period");
    assert_eq!(asking.join().expect("no panic"), Some(503), "its caller is answered");
    assert!(gateway.is_running(), "the token that comes is not lost");
    gate.open();
    assert!(gateway.wait_for_exit().success());
    let gateway = gateway.restart();
    let read = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(read["balance"], 3);
    assert_eq!(site.asked_for("/api/v1/auth/refresh").len(), 1, "the new pair was stored");
}

#[test]
fn a_refused_refresh_token_makes_the_account_expired_and_is_told() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, FAR);
    {
        let mut ada = site.ada();
        ada.token = "eyJhbGciOiJIUzI1NiJ9.b3RoZXI.c2ln".to_owned();
        ada.refresh_token = "rt_of_somebody_else".to_owned();
    }
    let refused = gateway.admin().post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(400);
    let told = "sub2api token refresh failed: HTTP 401: invalid refresh token (REFRESH_TOKEN_INVALID)";
    assert!(refused["message"].as_str().is_some_and(|message| message.contains(told)), "{refused}");
    assert_eq!(account(&gateway)["status"], "expired");
    // A refused token is left alone for a while.
    let refused = gateway.admin().post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(400);
    let told = "the refresh token was refused; it is tried again in 5 min";
    assert!(refused["message"].as_str().is_some_and(|message| message.contains(told)), "{refused}");
    assert_eq!(site.asked_for("/api/v1/auth/refresh").len(), 1);
    let path = format!("/api/accounts/{id}/rebind-session");
    let (token, refresh) = (site.token(), site.ada().refresh_token.clone());
    let body = |refresh: &str| json!({"accessToken": token, "refreshToken": refresh, "tokenExpiresAt": FAR});
    let refused = gateway.admin().post(&path, &body("rt_9****9999")).expect(400);
    assert!(refused["message"].as_str().is_some_and(|message| message.contains("refreshToken")), "{refused}");
    gateway.admin().post(&path, &body(&refresh)).expect(200);
    let config = account(&gateway)["extraConfig"].clone();
    let config: Value = serde_json::from_str(config.as_str().expect("a text")).expect("JSON");
    let shown = config["sub2apiAuth"]["refreshToken"].as_str().expect("a mask");
    gateway.admin().post(&path, &body(shown)).expect(200);
    let near = json!({"tokenExpiresAt": "2020-01-01T00:00:00Z"});
    gateway.admin().put(&format!("/api/accounts/{id}"), &near).expect(200);
    gateway.admin().post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(200);
    assert_eq!(site.asked_for("/api/v1/auth/refresh").len(), 2, "with the refresh token that was kept");
    assert_eq!(account(&gateway)["status"], "active");
}

/// The site has ended all sessions, for instance because somebody signed out everywhere.
#[test]
fn where_the_refresh_token_is_refused_the_stored_password_brings_a_session() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let gateway = Gateway::start();
    let body = json!({"name": "Relay", "url": site.url(), "platform": "sub2api"});
    let site_id = gateway.create_site(&body)["id"].clone();
    let login = json!({"siteId": site_id, "username": "ada@example.com", "password": "correct horse"});
    let made = gateway.admin().post("/api/accounts/login", &login).expect(200);
    let path = format!("/api/accounts/{}/balance", made["account"]["id"]);
    {
        let mut ada = site.ada();
        ada.token = "eyJhbGciOiJIUzI1NiJ9.b3RoZXI.c2ln".to_owned();
        ada.refresh_token = "rt_of_another_session".to_owned();
    }
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(site.asked_for("/api/v1/auth/refresh").len(), 1);
    assert_eq!(site.asked_for("/api/v1/auth/login").len(), 2);
    assert_eq!(account(&gateway)["status"], "active");
}

/// Every pass skips an expired account, so a brief failure must not expire one.
#[test]
fn a_refresh_that_meets_the_sites_trouble_is_tried_again() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, FAR);
    site.ada().token = "eyJhbGciOiJIUzI1NiJ9.b3RoZXI.c2ln".to_owned();
    let path = format!("/api/accounts/{id}/balance");
    let trouble = |status: u16| Reply::json(status, &json!({"code": status, "message": "later"}));
    let page = Reply::html(200, "<html><title>Under maintenance</title></html>");
    for reply in [trouble(429), trouble(500), trouble(503), page] {
        site.answer_once("/api/v1/auth/refresh", reply);
        gateway.admin().post(&path, &json!({})).expect(400);
        let account = account(&gateway);
        assert_eq!(
            (&account["status"], &account["runtimeHealth"]["state"]),
            (&json!("active"), &json!("unhealthy"))
        );
    }
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(account(&gateway)["runtimeHealth"]["state"], "healthy");
}

/// Older versions of sub2api have no such route: the session is over for good.
#[test]
fn a_site_that_cannot_refresh_makes_the_account_expired() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, FAR);
    let over = json!({"code": "TOKEN_EXPIRED", "message": "Token has expired"});
    site.answer("/api/v1/auth/me", Reply::json(401, &over));
    site.answer("/api/v1/auth/refresh", Reply::bytes(404, "text/plain", "404 page not found"));
    let refused = gateway.admin().post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(400);
    let told = "sub2api token refresh failed: HTTP 404: 404 page not found";
    assert!(refused["message"].as_str().is_some_and(|message| message.contains(told)), "{refused}");
    assert_eq!(account(&gateway)["status"], "expired");
}

#[test]
fn a_blank_refresh_token_keeps_the_old_one_and_none_is_shown() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_account(&site, FAR);
    let path = format!("/api/accounts/{id}/rebind-session");
    gateway.admin().post(&path, &json!({"accessToken": site.token(), "refreshToken": " "})).expect(200);
    let shown = account(&gateway);
    assert!(!shown.to_string().contains("rt_first"), "{shown}");
    site.ada().token = "eyJhbGciOiJIUzI1NiJ9.b3RoZXI.c2ln".to_owned();
    gateway.admin().post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(200);
    assert_eq!(site.ada().refreshes, 1);
    let put = format!("/api/accounts/{id}");
    gateway.admin().put(&put, &json!({"refreshToken": null})).expect(200);
    let config = account(&gateway)["extraConfig"].as_str().unwrap_or_default().to_owned();
    assert!(!config.contains("sub2apiAuth"), "{config}");
}
