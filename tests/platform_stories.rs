//! One story per platform: from a bare address to a site that is maintained.

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Request, Site, Upstream, eventually, wire};

/// Plays through what an operator and a client do with a site with sessions.
fn story(program: Program) {
    let site = Site::start(program, &["model-a", "model-b"]);
    let gateway = Gateway::start();
    let admin = gateway.admin();

    // The operator has an address, and finds out which platform it is.
    let found = admin.post("/api/sites/detect", &json!({"url": format!("{}/", site.url())})).expect(200);
    assert_eq!(found, json!({"url": site.url(), "platform": program.platform()}));
    let made =
        gateway.create_site(&json!({"name": "Relay", "url": found["url"], "platform": found["platform"]}));

    // The credential is recognised as Ada's session.
    let credential = json!({"siteId": made["id"], "accessToken": site.token(), "platformUserId": 7659});
    let verified = admin.post("/api/accounts/verify-token", &credential).expect(200);
    assert_eq!(verified["success"], true, "{verified}");
    assert_eq!((&verified["tokenType"], &verified["balance"]), (&json!("session"), &json!(3)));
    assert_eq!(verified["userInfo"]["username"], "ada");

    // It becomes an account, and its models can be used with its key at the site.
    let account = admin.post("/api/accounts", &credential).expect(200);
    let id = &account["id"];
    assert_eq!(gateway.wait_for_task(&account)["status"], "succeeded");
    eventually("both models are routed", || (gateway.models() == ["model-a", "model-b"]).then_some(()));
    let answer = gateway.client().chat("model-b").expect(200);
    assert_eq!(answer["choices"][0]["message"]["content"], wire::TEXT);
    let key = format!("Bearer sk-{}", site.ada().keys[0].key);
    assert_eq!(site.last("/v1/chat/completions").header("authorization"), Some(key.as_str()));

    // The daily check-in, if the site has one.
    let checked_in = admin.post(&format!("/api/checkin/trigger/{id}"), &json!({})).expect(200);
    if program.checks_in() {
        assert_eq!(checked_in["status"], "success", "{checked_in}");
        assert_eq!(checked_in["reward"], "0.025", "{checked_in}");
        assert!(site.ada().checked_in);
    } else {
        assert_eq!(checked_in["status"], "skipped", "{checked_in}");
    }

    // The balance, as the site counts it.
    site.ada().quota = 5_000_000;
    admin.post(&format!("/api/accounts/{id}/balance"), &json!({})).expect(200);
    let listed = admin.get("/api/accounts?refresh=1").expect(200);
    assert_eq!(listed["accounts"][0]["balance"], 10, "{listed}");
    assert_eq!(listed["accounts"][0]["status"], "active");

    // The site's announcements are forwarded.
    admin.post("/api/site-announcements/sync", &json!({})).expect(200);
    let heard = eventually("the announcement is there", || {
        let list = admin.get("/api/site-announcements").expect(200);
        list.as_array().and_then(|list| list.first().cloned())
    });
    assert_eq!((&heard["siteId"], &heard["content"]), (&made["id"], &json!("Maintenance on Sunday")));
}

#[test]
fn a_new_api_site_is_found_verified_used_and_looked_after() {
    story(Program::NewApi);
}

#[test]
fn an_anyrouter_site_is_found_verified_used_and_looked_after() {
    story(Program::AnyRouter);
}

#[test]
fn a_one_api_site_is_found_verified_used_and_looked_after() {
    story(Program::OneApi);
}

#[test]
fn a_one_hub_site_is_found_verified_used_and_looked_after() {
    story(Program::OneHub);
}

#[test]
fn a_done_hub_site_is_found_verified_used_and_looked_after() {
    story(Program::DoneHub);
}

#[test]
fn a_veloera_site_is_found_verified_used_and_looked_after() {
    story(Program::Veloera);
}

#[test]
fn a_sub2api_site_is_found_verified_used_and_looked_after() {
    story(Program::Sub2Api);
}

#[test]
fn an_official_api_has_keys_and_nothing_to_look_after() {
    let upstream = Upstream::start(&["model-a"]);
    let gateway = Gateway::start();
    let admin = gateway.admin();
    let official =
        admin.post("/api/sites/detect", &json!({"url": "https://api.deepseek.com/v1"})).expect(200);
    assert_eq!(
        (&official["platform"], &official["initializationPresetId"]),
        (&json!("openai"), &json!("deepseek-openai"))
    );
    for (platform, path) in [("openai", "/v1/chat/completions"), ("claude", "/v1/messages")] {
        let made =
            gateway.create_site(&json!({"name": platform, "url": upstream.url(), "platform": platform}));
        let credential =
            json!({"siteId": made["id"], "accessToken": "sk-official", "credentialMode": "apikey"});
        let verified = admin.post("/api/accounts/verify-token", &credential).expect(200);
        let wanted: Value =
            json!({"success": true, "tokenType": "apikey", "modelCount": 1, "models": ["model-a"]});
        assert_eq!(verified, wanted);
        let account = admin.post("/api/accounts", &credential).expect(200);
        gateway.wait_for_task(&account);
        let body =
            json!({"model": "model-a", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]});
        gateway.client().send(Request::post(path).json(&body)).expect(200);
        let checked_in =
            admin.post(&format!("/api/checkin/trigger/{}", account["id"]), &json!({})).expect(200);
        assert_ne!(checked_in["status"], "success", "{checked_in}");
        admin.delete(&format!("/api/sites/{}", made["id"])).expect(200);
    }
    assert!(
        upstream.asked().iter().all(|asked| !asked.path().starts_with("/api/user")),
        "nobody logs in there"
    );
}
