//! Session accounts: verified at their site, stored with their keys, balance and models, and renewed when the session has
//! expired. Tested against the stub sites, which answer as the real programs do.

use serde_json::{Value, json};

use crate::support::{Answer, Gateway, Program, Reply, Site, Upstream};

const MODEL: &str = "model-session";

/// Starts a gateway with the stub as a site; returns the site's id, too.
fn with_site(site: &Site) -> (Gateway, Value) {
    let gateway = Gateway::start();
    let id = site_of(&gateway, site);
    (gateway, id)
}

fn site_of(gateway: &Gateway, site: &Site) -> Value {
    let site = json!({"name": "Relay", "url": site.url(), "platform": site.program.platform()});
    gateway.create_site(&site)["id"].clone()
}

fn verify(gateway: &Gateway, body: &Value) -> Value {
    gateway.admin().post("/api/accounts/verify-token", body).expect(200)
}

fn create(gateway: &Gateway, body: &Value) -> Answer {
    gateway.admin().post("/api/accounts", body)
}

/// Creates an account for the stub's user and waits for the work that follows.
fn account_of_ada(gateway: &Gateway, site_id: &Value, site: &Site) -> Value {
    let body = json!({"siteId": site_id, "accessToken": site.token(), "platformUserId": 7659,
        "credentialMode": "session"});
    let made = create(gateway, &body).expect(200);
    gateway.wait_for_task(&made);
    made
}

fn listed(gateway: &Gateway, id: &Value) -> Value {
    let snapshot = gateway.admin().get("/api/accounts?refresh=1").expect(200);
    let accounts = snapshot["accounts"].as_array().expect("accounts");
    accounts.iter().find(|account| account["id"] == *id).expect("the account").clone()
}

#[test]
fn a_session_is_verified_with_its_user_and_balance() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    for mode in ["auto", "session"] {
        let verified = verify(
            &gateway,
            &json!({"siteId": id, "accessToken": site.token(),
            "platformUserId": 7659, "credentialMode": mode}),
        );
        assert_eq!(verified["success"], true, "{verified}");
        assert_eq!(verified["tokenType"], "session");
        assert_eq!(verified["userInfo"]["username"], "ada");
        assert_eq!(verified["userInfo"]["displayName"], "Ada");
        assert_eq!(verified["balance"], 3);
        assert_eq!(verified["balanceInfo"], json!({"balance": 3, "used": 0.5, "quota": 3.5}));
        let key = verified["apiToken"].as_str().expect("a key was found");
        assert!(key.contains('*'), "a key is shown masked: {key}");
    }
    assert!(listed_ids(&gateway).is_empty(), "nothing is stored");
}

fn listed_ids(gateway: &Gateway) -> Vec<i64> {
    let snapshot = gateway.admin().get("/api/accounts?refresh=1").expect(200);
    let accounts = snapshot["accounts"].as_array().expect("accounts").clone();
    accounts.iter().filter_map(|account| account["id"].as_i64()).collect()
}

#[test]
fn a_key_is_verified_as_a_key_and_no_session() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let key = format!("sk-{}", site.ada().keys[0].key);
    for mode in ["auto", "apikey"] {
        let verified = verify(&gateway, &json!({"siteId": id, "accessToken": key, "credentialMode": mode}));
        assert_eq!(verified["tokenType"], "apikey", "{verified}");
        assert_eq!((&verified["modelCount"], &verified["models"]), (&json!(1), &json!([MODEL])));
    }
    let refused = verify(&gateway, &json!({"siteId": id, "accessToken": key, "credentialMode": "session"}));
    assert_eq!(refused["success"], false);
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("API key")), "{refused}");
}

/// The management API is at the site's own address; models are at the addresses of its pool.
#[test]
fn a_key_is_verified_at_the_addresses_that_requests_go_to() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    site.answer("/v1/models", Reply::error(404, "nothing here"));
    let (down, up) = (Upstream::start(&[]), Upstream::start(&[MODEL]));
    down.answer("/v1/models", Reply::error(503, "down"));
    let gateway = Gateway::start();
    let made = gateway.create_site(&json!({"name": "Relay", "url": site.url(), "platform": "new-api",
        "apiEndpoints": [{"url": down.url()}, {"url": up.url()}]}));
    let mut body = json!({"siteId": made["id"], "accessToken": "sk-of-the-pool-0123456789"});
    for mode in ["apikey", "auto"] {
        body["credentialMode"] = mode.into();
        let verified = verify(&gateway, &body);
        assert_eq!(
            (&verified["tokenType"], &verified["modelCount"]),
            (&json!("apikey"), &json!(1)),
            "{verified}"
        );
    }
    let made = create(&gateway, &body).expect(200);
    assert_eq!(made["credentialMode"], "apikey", "{made}");
}

#[test]
fn trouble_at_the_site_is_no_word_about_the_session() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    // The token is not a key of the site either, and the site says so.
    site.answer("/api/user/self", Reply::error(500, "the database is down"));
    let body = json!({"siteId": id, "accessToken": site.token(), "platformUserId": 7659,
        "credentialMode": "session"});
    for path in ["/api/accounts/verify-token", "/api/accounts"] {
        let answer = gateway.admin().post(path, &body).json();
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains("HTTP 500: the database is down"), "{path}: {answer}");
        assert_ne!(answer["requiresVerification"], true, "{path}: {answer}");
    }
}

#[test]
fn each_refusal_of_a_session_says_what_to_do() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let token = site.token();
    let needs = verify(&gateway, &json!({"siteId": id, "accessToken": token}));
    assert_eq!((&needs["success"], &needs["needsUserId"]), (&json!(false), &json!(true)), "{needs}");
    assert!(site.asked_for("/v1/models").is_empty(), "nothing else is asked then");
    let wrong = verify(&gateway, &json!({"siteId": id, "accessToken": token, "platformUserId": 1}));
    assert_eq!((&wrong["success"], &wrong["invalidUserId"]), (&json!(false), &json!(true)), "{wrong}");
    let bad =
        verify(&gateway, &json!({"siteId": id, "accessToken": "no-such-token", "platformUserId": 7659}));
    assert_eq!(bad["success"], false);
    assert!(bad.get("needsUserId").is_none() && bad.get("invalidUserId").is_none(), "{bad}");
    let page = "<html><head><title>x</title></head><body><script>var arg1='B8B7';</script></body></html>";
    for path in ["/api/user/self", "/v1/models"] {
        site.answer(path, Reply::html(200, page));
    }
    let shield = verify(&gateway, &json!({"siteId": id, "accessToken": token, "platformUserId": 7659}));
    assert_eq!((&shield["success"], &shield["shieldBlocked"]), (&json!(false), &json!(true)), "{shield}");
    for refusal in [&needs, &wrong, &bad, &shield] {
        assert!(refusal["message"].as_str().is_some_and(|text| !text.is_empty()), "{refusal}");
        assert!(!refusal.to_string().contains(&token), "{refusal}");
    }
    let often =
        || gateway.admin().post("/api/accounts/verify-token", &json!({"siteId": id, "accessToken": token}));
    // The limit is twenty a minute, of which four are used.
    for _ in 4..20 {
        often().expect(200);
    }
    let refused = often().expect(429);
    assert_eq!(refused["success"], false);
}

#[test]
fn what_cannot_be_verified_is_told_with_status_200() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let plain = Upstream::start(&[MODEL]);
    let openai = gateway.create_site(&json!({"name": "plain", "url": plain.url(), "platform": "openai"}));
    for body in [
        json!({"siteId": 999, "accessToken": "t"}),
        json!({"siteId": id, "accessToken": "  "}),
        json!({"siteId": openai["id"], "accessToken": "sk-x", "credentialMode": "session"}),
    ] {
        let answer = verify(&gateway, &body);
        assert_eq!(answer["success"], false, "{body}");
        assert!(answer["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
    gateway.admin().post("/api/accounts/verify-token", &json!({"siteId": "1"})).expect(400);
}

#[test]
fn a_session_becomes_an_account_with_keys_balance_models_and_routes() {
    for program in Program::ALL {
        let site = Site::start(program, &[MODEL]);
        let (gateway, id) = with_site(&site);
        let body = json!({"siteId": id, "accessToken": format!("Bearer {}", site.token()),
            "platformUserId": 7659});
        let made = create(&gateway, &body).expect(200);
        for (field, value) in [
            ("tokenType", json!("session")),
            ("credentialMode", json!("session")),
            ("status", json!("active")),
            ("username", json!("ada")),
            ("usernameDetected", json!(true)),
            ("checkinEnabled", json!(true)),
            ("modelCount", json!(0)),
            ("apiTokenFound", json!(true)),
            ("queued", json!(true)),
        ] {
            assert_eq!(made[field], value, "{program:?} {field}: {made}");
        }
        assert_eq!(made["capabilities"]["proxyOnly"], false, "{made}");
        assert!(!made.to_string().contains(&site.token()), "{made}");
        let task = gateway.wait_for_task(&made);
        assert_eq!(task["type"], "account-init");
        assert_eq!(task["status"], "succeeded", "{program:?}: {task}");
        let channels = gateway.wait_for_channels(MODEL, 1);
        assert!(channels[0]["tokenId"].as_i64().is_some_and(|id| id > 0), "{program:?}: {}", channels[0]);
        gateway.client().chat(MODEL).expect(200);
        let asked = site.last("/v1/chat/completions");
        let key = format!("Bearer sk-{}", site.ada().keys[0].key);
        assert_eq!(asked.header("authorization"), Some(key.as_str()), "{program:?}");
        let account = listed(&gateway, &made["id"]);
        assert_eq!(account["balance"], 3, "{program:?}: {account}");
        let config: Value =
            serde_json::from_str(account["extraConfig"].as_str().expect("JSON text")).expect("JSON");
        assert_eq!(config["credentialMode"], "session");
        assert_eq!(config["platformUserId"], 7659, "{program:?}: {config}");
    }
}

#[test]
fn a_session_that_its_site_refuses_makes_no_account() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let key = format!("sk-{}", site.ada().keys[0].key);
    for (body, verification) in [
        (json!({"siteId": id, "accessToken": "nobody", "platformUserId": 7659}), true),
        (json!({"siteId": id, "accessToken": site.token()}), true),
        (json!({"siteId": id, "accessToken": key, "credentialMode": "session"}), false),
    ] {
        let error = create(&gateway, &body).expect(400);
        assert_eq!(error["requiresVerification"], verification, "{error}");
        assert_eq!(error["success"], false);
    }
    site.answer("/api/user/self", Reply::json(502, &json!({"error": "Bad gateway"})));
    site.answer("/v1/models", Reply::json(502, &json!({"error": "Bad gateway"})));
    let body = json!({"siteId": id, "accessToken": site.token(), "platformUserId": 7659});
    let error = create(&gateway, &body).expect(400);
    assert_eq!(error["requiresVerification"], false, "{error}");
    assert!(listed_ids(&gateway).is_empty());
}

#[test]
fn a_key_in_auto_mode_becomes_a_key_account() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let key = format!("sk-{}", site.ada().keys[0].key);
    let made = create(&gateway, &json!({"siteId": id, "accessToken": key})).expect(200);
    assert_eq!((&made["tokenType"], &made["modelCount"]), (&json!("apikey"), &json!(1)), "{made}");
    gateway.wait_for_task(&made);
    assert!(gateway.channels(MODEL)[0]["tokenId"].is_null());
}

#[test]
fn a_login_makes_an_account_and_the_next_one_finds_it() {
    for program in [Program::NewApi, Program::OneApi, Program::Veloera] {
        let site = Site::start(program, &[MODEL]);
        let (gateway, id) = with_site(&site);
        let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
        let first = gateway.admin().post("/api/accounts/login", &login).expect(200);
        assert_eq!(first["success"], true, "{program:?}: {first}");
        assert_eq!((&first["reusedAccount"], &first["tokenCount"]), (&json!(false), &json!(1)), "{first}");
        assert_eq!(first["apiTokenFound"], true);
        assert_eq!(first["account"]["username"], "ada");
        assert_eq!(first["account"]["checkinEnabled"], true);
        let second = gateway.admin().post("/api/accounts/login", &login).expect(200);
        assert_eq!(second["reusedAccount"], true, "{second}");
        assert_eq!(second["account"]["id"], first["account"]["id"]);
        for answer in [&first, &second] {
            let text = answer.to_string();
            assert!(!text.contains("correct horse") && !text.contains(&site.ada().cookie), "{text}");
        }
        gateway.wait_for_channels(MODEL, 1);
        // The password of a former user would bring that user back.
        let can_log_in = |answer: &Value| answer["account"].to_string().contains("autoRelogin");
        assert!(can_log_in(&second), "{second}");
        (site.ada().id, site.ada().token) = (8, "pat-of-another-user".to_owned());
        let path = format!("/api/accounts/{}/rebind-session", first["account"]["id"]);
        let body = json!({"accessToken": "pat-of-another-user", "platformUserId": 8});
        let bound = gateway.admin().post(&path, &body).expect(200);
        assert!(!can_log_in(&bound), "{bound}");
    }
}

#[test]
fn logins_by_one_name_at_the_same_time_share_one_account() {
    let site = Site::start(Program::NewApi, &["model-login"]);
    let gateway = Gateway::start();
    let login = json!({"siteId": site_of(&gateway, &site), "username": "ada", "password": "correct horse"});
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let made = gateway.admin().post("/api/accounts/login", &login).expect(200);
                assert_eq!(made["success"], true, "{made}");
            });
        }
    });
    assert_eq!(listed_ids(&gateway).len(), 1);
}

#[test]
fn a_refused_login_says_why() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let login = |body: &Value| gateway.admin().post("/api/accounts/login", body);
    login(&json!({"siteId": id, "username": "ada"})).expect(400);
    let wrong = json!({"siteId": id, "username": "ada", "password": "wrong"});
    let refused = login(&wrong).expect(200);
    assert_eq!(refused["success"], false);
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("用户名或密码错误")), "{refused}");
    site.answer("/api/user/login", Reply::html(200, "<html><script>var arg1='00'</script></html>"));
    let shield = login(&wrong).expect(200);
    assert_eq!((&shield["success"], &shield["shieldBlocked"]), (&json!(false), &json!(true)), "{shield}");
    site.answer("/api/user/login", Reply::bytes(200, "application/json", "{\"success\":tru"));
    let cut = login(&wrong).expect(200);
    assert_eq!((&cut["success"], &cut["shieldBlocked"]), (&json!(false), &Value::Null), "{cut}");
    assert!(cut["message"].as_str().is_some_and(|text| text.contains("not valid JSON")), "{cut}");
    let nowhere = login(&json!({"siteId": 99, "username": "ada", "password": "x"})).expect(200);
    assert_eq!(nowhere["success"], false);
    login(&wrong).expect(429);
}

#[test]
fn a_new_session_replaces_the_old_one_only_when_it_works() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    let path = format!("/api/accounts/{}/rebind-session", account["id"]);
    for body in [json!({}), json!({"accessToken": " "}), json!({"accessToken": "nobody"})] {
        gateway.admin().post(&path, &body).expect(400);
    }
    gateway.admin().post("/api/accounts/999/rebind-session", &json!({"accessToken": "x"})).expect(404);
    let key = format!("sk-{}", site.ada().keys[0].key);
    gateway.admin().post(&path, &json!({"accessToken": key})).expect(400);
    gateway.client().chat(MODEL).expect(200);
    site.ada().token = "pat-of-ada-the-second".to_owned();
    let bound = gateway.admin().post(&path, &json!({"accessToken": "pat-of-ada-the-second"})).expect(200);
    for (field, value) in [
        ("success", json!(true)),
        ("tokenType", json!("session")),
        ("credentialMode", json!("session")),
        ("apiTokenFound", json!(true)),
    ] {
        assert_eq!(bound[field], value, "{field}: {bound}");
    }
    assert_eq!(bound["account"]["status"], "active");
    let again = gateway.admin().post(&path, &json!({"accessToken": "pat-of-ada-the-second"})).expect(200);
    assert_eq!(again["account"]["id"], bound["account"]["id"]);
    gateway.client().chat(MODEL).expect(200);
}

#[test]
fn a_balance_is_read_and_a_key_account_has_none() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    let path = format!("/api/accounts/{}/balance", account["id"]);
    site.ada().quota = 5_000_000;
    let read = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(
        (&read["balance"], &read["used"], &read["quota"]),
        (&json!(10), &json!(0.5), &json!(10.5)),
        "{read}"
    );
    assert_eq!(listed(&gateway, &account["id"])["runtimeHealth"]["state"], "healthy");
    gateway.admin().post("/api/accounts/999/balance", &json!({})).expect(404);

    let key = format!("sk-{}", site.ada().keys[0].key);
    let made =
        create(&gateway, &json!({"siteId": id, "accessToken": key, "credentialMode": "apikey"})).expect(200);
    let path = format!("/api/accounts/{}/balance", made["id"]);
    let skipped = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!((&skipped["skipped"], &skipped["reason"]), (&json!(true), &json!("proxy_only")), "{skipped}");
    gateway.admin().put(&format!("/api/sites/{id}"), &json!({"status": "disabled"})).expect(200);
    let path = format!("/api/accounts/{}/balance", account["id"]);
    let skipped = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(skipped["reason"], "site_disabled", "{skipped}");
    assert_eq!(skipped["balance"], 10);
}

#[test]
fn a_session_that_is_over_makes_the_account_expired_until_it_is_let_in_again() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    let path = format!("/api/accounts/{}/balance", account["id"]);
    let token = site.token();
    site.ada().token = "another".to_owned();
    let refused = gateway.admin().post(&path, &json!({})).expect(400);
    assert!(!refused["message"].as_str().unwrap_or_default().is_empty());
    let shown = listed(&gateway, &account["id"]);
    assert_eq!(shown["status"], "expired", "{shown}");
    assert_eq!(shown["runtimeHealth"]["state"], "unhealthy");
    assert_eq!(shown["runtimeHealth"]["source"], "auth");
    assert_eq!(shown["balance"], 3, "what was known stays");
    let events = gateway.admin().get("/api/events?type=token").expect(200);
    assert!(events.to_string().contains("Session expired"), "{events}");
    gateway.client().chat(MODEL).expect(200);
    site.ada().token = token;
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(listed(&gateway, &account["id"])["status"], "active");
}

#[test]
fn a_new_session_of_an_expired_account_is_put_to_the_proof() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    site.ada().token = "another".to_owned();
    gateway.admin().post(&format!("/api/accounts/{}/balance", account["id"]), &json!({})).expect(400);
    let update = |token: &str| {
        let path = format!("/api/accounts/{}", account["id"]);
        gateway.admin().put(&path, &json!({"accessToken": token})).expect(200)["status"].clone()
    };
    assert_eq!(update("wrong"), "expired");
    assert_eq!(update("another"), "active");
    assert_eq!(listed(&gateway, &account["id"])["runtimeHealth"]["state"], "healthy");
}

#[test]
fn a_model_that_is_typed_for_a_session_account_is_served_by_its_default_key() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    let path = format!("/api/accounts/{}/models", account["id"]);
    gateway.admin().post(&format!("{path}/manual"), &json!({"models": ["by-hand"]})).expect(200);
    let channels = gateway.channels("by-hand");
    assert_eq!(channels.len(), 1, "{channels:?}");
    assert!(channels[0]["tokenId"].is_number(), "{channels:?}");
    gateway.client().chat("by-hand").expect(200);
    gateway.admin().post("/api/routes/rebuild", &json!({"refreshModels": false})).expect(200);
    assert_eq!(gateway.channels("by-hand").len(), 1, "it stays");
}

#[test]
fn a_failing_site_takes_nothing_away() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    let tokens = gateway.admin().get("/api/account-tokens").expect(200);
    let garbage = vec![b'x'; 2 * 1024 * 1024];
    for reply in [
        Reply::json(502, &json!({"error": "Bad gateway"})),
        Reply::html(200, "<html><title>Sorry</title></html>"),
        Reply::bytes(200, "application/json", "{\"success\":true,\"data\":["),
        Reply::bytes(200, "application/json", garbage),
        Reply::silence(),
    ] {
        for path in ["/api/user/self", "/api/token/", "/v1/models", "/api/user/models"] {
            site.answer(path, reply.clone());
        }
        gateway.admin().post(&format!("/api/accounts/{}/balance", account["id"]), &json!({})).expect(400);
        let sync = format!("/api/account-tokens/sync/{}", account["id"]);
        gateway.admin().post(&sync, &json!({})).expect(502);
        let shown = listed(&gateway, &account["id"]);
        assert_eq!((&shown["balance"], &shown["status"]), (&json!(3), &json!("active")), "{shown}");
        assert_eq!(shown["runtimeHealth"]["state"], "unhealthy", "{shown}");
    }
    site.answer_faithfully();
    let after = gateway.admin().get("/api/account-tokens").expect(200);
    let names = |list: &Value| list[0]["tokenMasked"].clone();
    assert_eq!(names(&after), names(&tokens));
    gateway.client().chat(MODEL).expect(200);
}

#[test]
fn an_expired_session_is_logged_in_again_once_with_the_stored_password() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
    let made = gateway.admin().post("/api/accounts/login", &login).expect(200);
    site.ada().cookie = "MTc2NzIyNTYwMXxiZz09fHNpZw".to_owned();
    let before = site.asked_for("/api/user/login").len();
    let path = format!("/api/accounts/{}/balance", made["account"]["id"]);
    let read = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(read["balance"], 3);
    assert_eq!(site.asked_for("/api/user/login").len(), before + 1);
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(site.asked_for("/api/user/login").len(), before + 1, "the new session is kept");
}

#[test]
fn the_users_number_is_kept_wherever_the_site_tells_it() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
    let made = gateway.admin().post("/api/accounts/login", &login).expect(200)["account"]["id"].clone();
    let forget = |change: Value| {
        gateway.admin().put(&format!("/api/accounts/{made}"), &change).expect(200);
        assert!(number(&gateway, &made).is_null());
    };
    let read = || {
        gateway.admin().post(&format!("/api/accounts/{made}/balance"), &json!({})).expect(200);
        number(&gateway, &made)
    };
    // Logging in again reveals the user id.
    forget(json!({"extraConfig": {"platformUserId": null}}));
    site.ada().cookie = "MTc2NzIyNTYwMXxiZz09fHNpZw".to_owned();
    assert_eq!(read(), 7659);
    // So does a user name that ends in it, once the site has confirmed it.
    forget(json!({"username": "linuxdo_7659", "extraConfig": {"platformUserId": null}}));
    let logins = site.asked_for("/api/user/login").len();
    assert_eq!(read(), 7659);
    assert_eq!(site.asked_for("/api/user/login").len(), logins);
    // And so does a site that does not ask for it, with the balance.
    let site = Site::start(Program::OneApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let made = account_of_ada(&gateway, &id, &site)["id"].clone();
    let path = format!("/api/accounts/{made}");
    gateway.admin().put(&path, &json!({"extraConfig": {"platformUserId": null}})).expect(200);
    assert!(number(&gateway, &made).is_null());
    gateway.admin().post(&format!("{path}/balance"), &json!({})).expect(200);
    assert_eq!(number(&gateway, &made), 7659);
}

/// Returns the user id at the site, as in the account's `extraConfig`.
fn number(gateway: &Gateway, id: &Value) -> Value {
    let extra = listed(gateway, id)["extraConfig"].as_str().map(serde_json::from_str::<Value>);
    extra.map_or(Value::Null, |extra| extra.expect("JSON")["platformUserId"].clone())
}

#[test]
fn a_refused_password_is_left_alone_for_a_while() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let login = json!({"siteId": id, "username": "ada", "password": "correct horse"});
    let made = gateway.admin().post("/api/accounts/login", &login).expect(200);
    {
        let mut ada = site.ada();
        ada.cookie = "MTc2NzIyNTYwMXxiZz09fHNpZw".to_owned();
        ada.password = "changed at the site".to_owned();
    }
    let before = site.asked_for("/api/user/login").len();
    let path = format!("/api/accounts/{}/balance", made["account"]["id"]);
    for _ in 0..3 {
        gateway.admin().post(&path, &json!({})).expect(400);
    }
    assert_eq!(site.asked_for("/api/user/login").len(), before + 1, "one try, then a pause");
}

#[test]
fn credentials_are_sealed_at_rest() {
    let site = Site::start(Program::Sub2Api, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let body = json!({"siteId": id, "accessToken": site.token(), "refreshToken": "rt_first",
        "tokenExpiresAt": "2099-01-01T00:00:00Z"});
    let made = create(&gateway, &body).expect(200);
    gateway.wait_for_task(&made);
    let new_api = Site::start(Program::NewApi, &[MODEL]);
    let login =
        json!({"siteId": site_of(&gateway, &new_api), "username": "ada", "password": "correct horse"});
    gateway.admin().post("/api/accounts/login", &login).expect(200);
    let key = site.ada().keys[0].key.clone();
    let secrets =
        [site.token(), "rt_first".to_owned(), key, "correct horse".to_owned(), new_api.ada().cookie.clone()];
    let mut gateway = gateway;
    gateway.kill();
    for (path, bytes) in gateway.home().files() {
        for secret in &secrets {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} in {}", path.display());
        }
    }
}

#[test]
fn health_is_refreshed_for_one_account_or_for_all() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    let key = format!("sk-{}", site.ada().keys[0].key);
    let keyed =
        create(&gateway, &json!({"siteId": id, "accessToken": key, "credentialMode": "apikey"})).expect(200);
    gateway.wait_for_task(&keyed);
    let path = "/api/accounts/health/refresh";
    let waited = gateway.admin().post(path, &json!({"wait": true})).expect(200);
    assert_eq!(waited["success"], true);
    let summary = &waited["summary"];
    assert_eq!(summary["total"], 2, "{waited}");
    assert_eq!((&summary["success"], &summary["skipped"]), (&json!(1), &json!(1)), "{waited}");
    let results = waited["results"].as_array().expect("results");
    assert_eq!(results[0]["accountId"], account["id"]);
    assert_eq!((&results[0]["status"], &results[0]["state"]), (&json!("success"), &json!("healthy")));
    assert_eq!((&results[1]["status"], &results[1]["state"]), (&json!("skipped"), &json!("unknown")));
    site.answer("/api/user/self", Reply::json(502, &json!({"error": "Bad gateway"})));
    let one = gateway.admin().post(path, &json!({"accountId": account["id"], "wait": true})).expect(200);
    assert_eq!((&one["summary"]["total"], &one["summary"]["failed"]), (&json!(1), &json!(1)), "{one}");
    assert_eq!(one["results"][0]["state"], "unhealthy");
    gateway.admin().post(path, &json!({"accountId": 999, "wait": true})).expect(404);
    gateway.admin().post(path, &json!({"accountId": "1"})).expect(400);
    let queued = gateway.admin().post(path, &json!({})).expect(202);
    assert_eq!((&queued["queued"], &queued["success"]), (&json!(true), &json!(true)), "{queued}");
    assert_eq!(gateway.wait_for_task(&queued)["dedupeKey"], "refresh-all-account-runtime-health");
}

#[test]
fn a_batch_refreshes_balances_and_names_those_without() {
    let site = Site::start(Program::NewApi, &[MODEL]);
    let (gateway, id) = with_site(&site);
    let account = account_of_ada(&gateway, &id, &site);
    site.ada().quota = 500_000;
    let body = json!({"ids": [account["id"], 999], "action": "refreshBalance"});
    let done = gateway.admin().post("/api/accounts/batch", &body).expect(200);
    assert_eq!(done["successIds"], json!([account["id"]]), "{done}");
    assert_eq!(done["failedItems"][0]["id"], 999);
    assert_eq!(listed(&gateway, &account["id"])["balance"], 1);
}
