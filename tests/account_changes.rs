//! Accounts that get another session or become one: what they keep, and which of them a login is for.

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Program, Reply, Site, eventually};

const MODEL: &str = "model-changed";

/// Starts a gateway with a stub of new-api as a site; returns the site's id, too.
fn with_site() -> (Gateway, Site, Value) {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let gateway = Gateway::start();
    let made = gateway.create_site(&json!({"name": "Relay", "url": site.url(), "platform": "new-api"}));
    (gateway, site, made["id"].clone())
}

/// Creates an account and waits for the work that follows; returns its path.
fn create(gateway: &Gateway, body: &Value) -> String {
    let made = gateway.admin().post("/api/accounts", body).expect(200);
    gateway.wait_for_task(&made);
    format!("/api/accounts/{}", made["id"])
}

/// Creates an account for a key of the site.
fn of_key(gateway: &Gateway, site_id: &Value, site: &Site) -> String {
    let key = format!("sk-{}", site.ada().keys[0].key);
    let account =
        json!({"siteId": site_id, "accessToken": key, "credentialMode": "apikey", "username": "ada"});
    create(gateway, &account)
}

/// Creates an account for a session of the site's user.
fn of_session(gateway: &Gateway, site_id: &Value, site: &Site, username: &str) -> String {
    let account = json!({"siteId": site_id, "accessToken": site.token(), "platformUserId": 7659,
        "credentialMode": "session", "username": username});
    create(gateway, &account)
}

fn account(gateway: &Gateway, path: &str) -> Value {
    let id: i64 = path.rsplit('/').next().and_then(|id| id.parse().ok()).expect("an id");
    gateway.account(&json!(id))
}

/// Returns the sources of the tokens, and whether each is the default one.
fn tokens(gateway: &Gateway) -> Vec<(Value, Value)> {
    let tokens = gateway.admin().get("/api/account-tokens").expect(200);
    let tokens = tokens.as_array().expect("tokens");
    tokens.iter().map(|token| (token["source"].clone(), token["isDefault"].clone())).collect()
}

#[test]
fn a_new_session_keeps_the_key_that_the_account_was() {
    let (gateway, site, id) = with_site();
    let path = of_key(&gateway, &id, &site);
    site.ada().keys[0].key = "another-key-of-the-same-user-0123456789abcdef".to_owned();
    let session = json!({"accessToken": site.token(), "platformUserId": 7659});
    gateway.admin().post(&format!("{path}/rebind-session"), &session).expect(200);
    assert_eq!(tokens(&gateway), [(json!("legacy"), json!(false)), (json!("sync"), json!(true))]);
}

#[test]
fn a_key_account_with_a_new_session_serves_although_its_site_lists_no_keys() {
    for change in ["put", "rebind", "login"] {
        let (gateway, site, id) = with_site();
        let path = of_key(&gateway, &id, &site);
        site.answer("/api/token/", Reply::error(500, "the database is down"));
        let mut session = json!({"accessToken": site.token(), "platformUserId": 7659});
        match change {
            "put" => {
                session["extraConfig"] = json!({"credentialMode": "session", "platformUserId": 7659});
                gateway.admin().put(&path, &session)
            }
            "rebind" => gateway.admin().post(&format!("{path}/rebind-session"), &session),
            _ => {
                let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
                gateway.admin().post("/api/accounts/login", &login)
            }
        }
        .expect(200);
        assert_eq!(account(&gateway, &path)["credentialMode"], "session", "{change}");
        assert_eq!(tokens(&gateway), [(json!("legacy"), json!(true))], "{change}");
        gateway.client().chat(MODEL).expect(200);
    }
}

#[test]
fn a_session_account_that_becomes_a_key_shows_no_session_and_no_tokens() {
    let (gateway, site, id) = with_site();
    let path = of_session(&gateway, &id, &site, "ada");
    let become_a = |mode: &str| {
        gateway.admin().put(&path, &json!({"extraConfig": {"credentialMode": mode}})).expect(200);
        let found = gateway.admin().post("/api/search", &json!({"query": "ada"})).expect(200);
        let tokens = found["accountTokens"].as_array().map(Vec::len);
        (account(&gateway, &path)["accessToken"].as_str().map(str::len), tokens)
    };
    assert_eq!(become_a("apikey"), (Some(0), Some(0)));
    let (shown, tokens) = become_a("session");
    assert!(shown > Some(0), "the session is still there");
    assert_eq!(tokens, Some(1));
}

#[test]
fn a_login_is_for_the_account_of_its_name() {
    let (gateway, site, id) = with_site();
    // Both are of the same user.
    let (other, own) =
        (of_session(&gateway, &id, &site, "old-name"), of_session(&gateway, &id, &site, "ada"));
    gateway.admin().put(&own, &json!({"status": "expired"})).expect(200);
    let before = account(&gateway, &other);
    let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
    let done = gateway.admin().post("/api/accounts/login", &login).expect(200);
    assert_eq!((&done["reusedAccount"], &done["account"]["username"]), (&json!(true), &json!("ada")));
    assert_eq!(account(&gateway, &own)["status"], "active");
    for member in ["username", "extraConfig"] {
        assert_eq!(account(&gateway, &other)[member], before[member], "{member}");
    }
}

#[test]
fn a_login_at_a_site_that_is_deleted_meanwhile_is_refused() {
    let (gateway, site, id) = with_site();
    let gate = Gate::new();
    site.answer("/api/token/", Reply::error(500, "the database is down").head_waits_for(&gate));
    let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| gateway.admin().post("/api/accounts/login", &login).expect(200));
        eventually("the account is set up", || (!site.asked_for("/api/token/").is_empty()).then_some(()));
        gateway.admin().delete(&format!("/api/sites/{id}")).expect(200);
        gate.open();
        let refused = answer.join().expect("an answer");
        assert_eq!(refused["success"], false, "{refused}");
        assert!(refused["message"].as_str().is_some_and(|why| why.contains("deleted")), "{refused}");
    });
}

#[test]
fn an_expired_session_is_expired_again_when_it_is_enabled_without_a_new_one() {
    let (gateway, site, id) = with_site();
    let path = of_session(&gateway, &id, &site, "ada");
    let put = |body: Value| gateway.admin().put(&path, &body).expect(200)["status"].clone();
    for (sent, status) in [
        ("expired", "expired"),
        ("active", "expired"),
        ("disabled", "disabled"),
        ("disabled", "disabled"),
        ("active", "expired"),
    ] {
        assert_eq!(put(json!({"status": sent})), status, "{sent}");
    }
    put(json!({"status": "disabled"}));
    let session = json!({"status": "active", "accessToken": "another-session"});
    assert_eq!(put(session), "active", "it is another one");
}

#[test]
fn trouble_with_a_session_is_told_and_not_the_refusal_of_a_guess() {
    let (gateway, site, id) = with_site();
    let missing = json!({"error": {"message": "Invalid URL (GET /api/user/self)"}});
    for (reply, modes, told) in [
        (
            Reply::json(302, &json!({})).header("location", "http://127.0.0.2:1/x"),
            &["session", "auto"][..],
            "redirect",
        ),
        (
            Reply::bytes(200, "application/json", vec![b'x'; 2 << 20]),
            &["session", "auto"],
            "larger than 1048576 bytes",
        ),
        (Reply::bytes(200, "text/plain", "hello"), &["session", "auto"], "the answer is not"),
        (Reply::json(200, &json!({"success": true, "message": ""})), &["session", "auto"], "the answer"),
        (Reply::json(404, &missing), &["session"], "Invalid URL"),
        // Where there are no sessions, the text may be a key.
        (Reply::json(404, &missing), &["auto"], "无效的令牌"),
    ] {
        site.answer("/api/user/self", reply);
        for mode in modes {
            let body = json!({"siteId": id, "accessToken": site.token(), "platformUserId": 7659,
                "credentialMode": mode});
            let refused = gateway.admin().post("/api/accounts/verify-token", &body).expect(200);
            let message = refused["message"].as_str().unwrap_or_default();
            assert!(message.contains(told), "{mode}: {refused} instead of {told}");
        }
    }
}

#[test]
fn an_account_whose_models_were_never_read_is_asked_for_them_once_it_is_enabled() {
    let (gateway, site, id) = with_site();
    let key = format!("sk-{}", site.ada().keys[0].key);
    let body = json!({"siteId": id, "accessToken": key, "credentialMode": "apikey", "skipModelFetch": true});
    for (count, how) in [(1, "form"), (2, "batch")] {
        let made = gateway.admin().post("/api/accounts", &body).expect(200);
        let path = format!("/api/accounts/{}", made["id"]);
        gateway.admin().put(&path, &json!({"status": "disabled"})).expect(200);
        if how == "form" {
            gateway.admin().put(&path, &json!({"status": "active"})).expect(200);
        } else {
            let batch = json!({"ids": [made["id"]], "action": "enable"});
            gateway.admin().post("/api/accounts/batch", &batch).expect(200);
        }
        gateway.wait_for_channels(MODEL, count);
    }
}

#[test]
fn an_expired_account_shows_what_its_site_said_of_the_session_last() {
    let (gateway, site, id) = with_site();
    let path = of_session(&gateway, &id, &site, "ada");
    site.ada().token = "another".to_owned();
    for time in ["the first time", "the second time"] {
        let refused = gateway.admin().post(&format!("{path}/balance"), &json!({})).expect(400);
        let shown = account(&gateway, &path);
        assert_eq!(shown["status"], "expired", "{time}");
        assert_eq!(shown["runtimeHealth"]["source"], "auth", "{time}");
        assert_eq!(shown["runtimeHealth"]["reason"], refused["message"], "{time}");
    }
}
