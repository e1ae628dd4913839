//! Every platform with its stub: what an operator sees of the site's answers, good and bad.

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Reply, Setup, Site, StubKey};

/// Starts a gateway whose limit of verifications is not tested here.
fn gateway() -> Gateway {
    Gateway::start()
}

fn make_site(gateway: &Gateway, site: &Site) -> Value {
    gateway.create_site(&json!({"name": site.program.platform(), "url": site.url(),
        "platform": site.program.platform()}))
}

fn verify(gateway: &Gateway, site: &Value, token: &str, more: Value) -> Value {
    let mut body = json!({"siteId": site["id"], "accessToken": token});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    gateway.admin().post("/api/accounts/verify-token", &body).expect(200)
}

#[test]
fn a_session_proves_itself_on_every_platform() {
    for program in Program::ALL {
        let (gateway, site) = (gateway(), Site::start(program, &["m"]));
        let made = make_site(&gateway, &site);
        let verdict = verify(&gateway, &made, &site.token(), json!({"platformUserId": 7659}));
        assert_eq!(verdict["success"], true, "{program:?}: {verdict}");
        assert_eq!(verdict["tokenType"], "session");
        assert_eq!(verdict["userInfo"]["username"], "ada");
        assert_eq!(verdict["balance"], json!(3), "{program:?}");
        let key = format!("sk-{}", site.ada().keys[0].key);
        let verdict = verify(&gateway, &made, &key, json!({}));
        assert_eq!((verdict["tokenType"].as_str(), &verdict["models"]), (Some("apikey"), &json!(["m"])));
        // One kind of credential is not accepted as the other.
        let verdict = verify(&gateway, &made, &key, json!({"credentialMode": "session"}));
        assert_eq!(verdict["success"], false, "{program:?}: {verdict}");
    }
}

#[test]
fn a_site_that_wants_the_users_number_says_so() {
    for program in [Program::NewApi, Program::AnyRouter, Program::Veloera] {
        let (gateway, site) = (gateway(), Site::start(program, &["m"]));
        let made = make_site(&gateway, &site);
        let verdict = verify(&gateway, &made, &site.token(), json!({}));
        assert_eq!(
            (&verdict["success"], &verdict["needsUserId"]),
            (&json!(false), &json!(true)),
            "{verdict}"
        );
        let verdict = verify(&gateway, &made, &site.token(), json!({"platformUserId": 8}));
        assert_eq!(
            (&verdict["success"], &verdict["invalidUserId"]),
            (&json!(false), &json!(true)),
            "{verdict}"
        );
        // Some forks do not recognise the user id in the usual header.
        for missing in ["missing Veloera-User", "Rix-Api-User required"] {
            let refusal = json!({"success": false, "message": missing});
            site.answer("/api/user/self", Reply::json(401, &refusal));
            let verdict = verify(&gateway, &made, &site.token(), json!({"platformUserId": 7659}));
            assert_eq!(verdict["needsUserId"], true, "{missing}: {verdict}");
            assert!(verdict.get("invalidUserId").is_none(), "{missing}: {verdict}");
        }
    }
}

#[test]
fn a_session_that_looks_like_a_key_is_refused_like_any_other() {
    let (gateway, site) = (gateway(), Site::start(Program::NewApi, &["m"]));
    let made = make_site(&gateway, &site);
    site.ada().token = "sk-session-of-ada".to_owned();
    let refused_as = |mode: &str, more: Value, flag: &str| {
        let mut more = more;
        more["credentialMode"] = mode.into();
        let verdict = verify(&gateway, &made, &site.token(), more);
        assert_eq!((&verdict["success"], &verdict[flag]), (&json!(false), &json!(true)), "{mode}: {verdict}");
    };
    for mode in ["auto", "session"] {
        refused_as(mode, json!({}), "needsUserId");
        refused_as(mode, json!({"platformUserId": 8}), "invalidUserId");
    }
    let page = "<html><script>var arg1='B8B78DDA1D5CD2598AAEE9DD6975913AA490BAE3';</script></html>";
    site.answer("/api/user/self", Reply::html(200, page));
    refused_as("session", json!({"platformUserId": 7659}), "shieldBlocked");
    let asked = site.asked_for("/api/user/self").len();
    let verdict = verify(&gateway, &made, &site.token(), json!({"credentialMode": "apikey"}));
    assert_eq!(verdict["success"], false, "{verdict}");
    assert_eq!(site.asked_for("/api/user/self").len(), asked, "a key needs no user");
}

/// Servers pad the base64 of their session cookies, and people paste the value without its name.
#[test]
fn the_bare_value_of_a_session_cookie_is_a_session() {
    for value in ["MTc2NzIyNTYwMHxiZz09fHNpZw", "MTc2NzIyNTYwMHxiZz09fHNpZw=="] {
        let (gateway, site) = (gateway(), Site::start(Program::NewApi, &["m"]));
        let made = make_site(&gateway, &site);
        site.ada().cookie = value.to_owned();
        let verdict = verify(&gateway, &made, value, json!({"platformUserId": 7659}));
        assert_eq!(verdict["tokenType"], "session", "{value}: {verdict}");
    }
}

#[test]
fn a_shield_is_reported_and_never_solved() {
    let (gateway, site) = (gateway(), Site::start(Program::NewApi, &["m"]));
    let made = make_site(&gateway, &site);
    let page = "<html><script>var arg1='B8B78DDA1D5CD2598AAEE9DD6975913AA490BAE3';</script></html>";
    // At first it shields only the users' pages; at `/v1/models` the token is refused, because it is not a key of the site.
    for path in ["/api/user/self", "/v1/models"] {
        site.answer(path, Reply::html(200, page));
        let verdict = verify(&gateway, &made, &site.token(), json!({"platformUserId": 7659}));
        assert_eq!(
            (&verdict["success"], &verdict["shieldBlocked"]),
            (&json!(false), &json!(true)),
            "{path}: {verdict}"
        );
    }
    assert!(
        site.asked().iter().all(|asked| !asked.header("cookie").unwrap_or_default().contains("acw_sc__v2"))
    );
}

#[test]
fn a_session_account_is_served_by_the_keys_it_has_at_its_site() {
    for program in Program::ALL {
        let (gateway, site) = (gateway(), Site::start(program, &["m"]));
        let made = make_site(&gateway, &site);
        let body = json!({"siteId": made["id"], "accessToken": site.token(), "platformUserId": 7659,
            "credentialMode": "session"});
        let account = gateway.admin().post("/api/accounts", &body).expect(200);
        let task = gateway.wait_for_task(&account);
        assert_eq!(task["status"], "succeeded", "{program:?}: {task}");
        assert_eq!(account["username"], "ada", "{program:?}");
        let key = format!("sk-{}", site.ada().keys[0].key);
        gateway.client().chat("m").expect(200);
        let asked = site.last("/v1/chat/completions");
        assert_eq!(asked.header("authorization"), Some(format!("Bearer {key}").as_str()), "{program:?}");
    }
}

#[test]
fn a_list_of_keys_is_read_to_its_last_page() {
    for program in Program::ALL.into_iter().filter(|program| *program != Program::Sub2Api) {
        let (gateway, site) = (gateway(), Site::start(program, &["m"]));
        site.ada().keys = (0..113)
            .map(|id| StubKey {
                id: id + 1,
                key: format!("k{id:03}{}{id:04}", "x".repeat(40)),
                name: format!("key {id}"),
                enabled: true,
                group: "default".to_owned(),
            })
            .collect();
        let made = make_site(&gateway, &site);
        let body = json!({"siteId": made["id"], "accessToken": site.token(), "platformUserId": 7659,
            "credentialMode": "session", "skipModelFetch": true});
        let account = gateway.admin().post("/api/accounts", &body).expect(200);
        gateway.wait_for_task(&account);
        let path = format!("/api/account-tokens?accountId={}", account["id"]);
        let tokens = gateway.admin().get(&path).expect(200);
        let tokens = tokens.as_array().expect("an array");
        assert_eq!(tokens.len(), 113, "{program:?}");
        assert!(tokens.iter().all(|token| token["valueStatus"] == "ready"), "{program:?}");
    }
}

#[test]
fn groups_of_sub2api_are_found_where_one_page_fails() {
    let site = Site::start(Program::Sub2Api, &["m"]);
    let gateway = gateway();
    let made = make_site(&gateway, &site);
    let session = json!({"siteId": made["id"], "accessToken": site.token()});
    let account = gateway.admin().post("/api/accounts", &session).expect(200);
    gateway.wait_for_task(&account);
    site.ada().keys[0].group = "7".to_owned();
    let path = format!("/api/account-tokens/groups/{}", account["id"]);
    let groups = || gateway.admin().get(&path).expect(200)["groups"].clone();
    site.answer("/api/v1/groups/available", Reply::json(500, &json!({"code": 500, "message": "boom"})));
    assert_eq!(groups(), json!(["7"]), "that of the key");
    let listed = json!({"code": 0, "message": "success", "data": [{"id": 3, "name": "pro"}]});
    site.answer("/api/v1/groups", Reply::json(200, &listed));
    assert_eq!(groups(), json!(["3"]));
}

#[test]
fn a_name_and_a_password_open_a_session() {
    for program in Program::ALL {
        let (gateway, site) = (gateway(), Site::start(program, &["m"]));
        let made = make_site(&gateway, &site);
        let name = if program == Program::Sub2Api { "ada@example.com" } else { "ada" };
        let mut body = json!({"siteId": made["id"], "username": name, "password": "wrong"});
        let refused = gateway.admin().post("/api/accounts/login", &body).expect(200);
        assert_eq!(refused["success"], false, "{program:?}: {refused}");
        body["password"] = json!("correct horse");
        let account = gateway.admin().post("/api/accounts/login", &body).expect(200);
        assert_eq!(account["success"], true, "{program:?}: {account}");
        assert!(!account.to_string().contains("correct horse"), "{account}");
    }
}

#[test]
fn a_page_instead_of_a_login_is_a_shield() {
    let (gateway, site) = (gateway(), Site::start(Program::NewApi, &["m"]));
    let made = make_site(&gateway, &site);
    let page =
        "<html><head><title>Cloudflare Tunnel error | site</title></head><body>Error 1033</body></html>";
    site.answer("/api/user/login", Reply::html(530, page));
    let body = json!({"siteId": made["id"], "username": "ada", "password": "correct horse"});
    let refused = gateway.admin().post("/api/accounts/login", &body).expect(200);
    assert_eq!((&refused["success"], &refused["shieldBlocked"]), (&json!(false), &json!(true)), "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("HTTP 530: Cloudflare Tunnel error (Error 1033)"), "{message}");
}

#[test]
fn no_failure_of_a_site_empties_what_was_known() {
    let garbage = "x".repeat(10 << 20);
    let faults: [(&str, Reply); 5] = [
        ("a bad gateway", Reply::html(502, "<html><title>502 Bad Gateway</title></html>")),
        ("a page", Reply::html(200, "<!doctype html><title>Relay</title><div id=root></div>")),
        ("half an answer", Reply::bytes(200, "application/json", r#"{"success":true,"data":[{"id":"m"#)),
        ("10 MB of garbage", Reply::bytes(200, "application/json", garbage)),
        ("a broken connection", Reply::silence()),
    ];
    for program in [Program::NewApi, Program::OneHub, Program::Sub2Api] {
        let (gateway, site) = (Setup::default().start(), Site::start(program, &["m"]));
        let made = make_site(&gateway, &site);
        let body = json!({"siteId": made["id"], "accessToken": site.token(), "platformUserId": 7659,
            "credentialMode": "session"});
        let account = gateway.admin().post("/api/accounts", &body).expect(200);
        gateway.wait_for_task(&account);
        let id = &account["id"];
        let tokens = || gateway.admin().get(&format!("/api/account-tokens?accountId={id}")).expect(200);
        let known = tokens();
        assert_eq!(known.as_array().map(Vec::len), Some(1), "{program:?}");
        for (what, fault) in &faults {
            for path in [
                "/api/token/",
                "/api/v1/keys",
                "/api/v1/api-keys",
                "/v1/models",
                "/api/user/models",
                "/api/available_model",
                "/api/v1/models",
                "/v1beta/models",
                "/antigravity/v1beta/models",
            ] {
                site.answer(path, fault.clone());
            }
            let synced = gateway.admin().post(&format!("/api/account-tokens/sync/{id}"), &json!({}));
            assert_eq!(synced.status, 502, "{program:?}, {what}: {:?}", synced.text());
            let now = tokens();
            assert_eq!(now[0]["tokenMasked"], known[0]["tokenMasked"], "{program:?}, {what}");
            assert_eq!(gateway.models(), ["m"], "{program:?}, {what}");
            site.answer_faithfully();
            gateway.client().chat("m").expect(200);
        }
    }
}
