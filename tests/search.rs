//! One search over everything that an operator may look for.

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Relay, Site, Upstream};

#[test]
fn a_search_finds_rows_of_every_kind_and_shows_no_secret() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["zeta-100%", "zeta-other", "else"]);
    let (site, account) = gateway.add("Zeta House", &upstream);
    gateway.client().chat("zeta-other").expect(200);
    let find = |body: Value| gateway.admin().post("/api/search", &body).expect(200);
    let count = |found: &Value, kind: &str| found[kind].as_array().map(Vec::len);
    let found = find(json!({"query": " ZETA "}));
    assert_eq!(found["sites"][0]["name"], "Zeta House");
    assert_eq!(
        (&found["accounts"][0]["id"], &found["accounts"][0]["segment"]),
        (&account["id"], &json!("apikey"))
    );
    assert_eq!(found["accounts"][0]["site"]["id"], site["id"]);
    assert_eq!(found["proxyLogs"][0]["modelRequested"], "zeta-other");
    let models = json!([
        {"name": "zeta-100%", "accountCount": 1, "tokenCount": 0, "siteCount": 1},
        {"name": "zeta-other", "accountCount": 1, "tokenCount": 0, "siteCount": 1}]);
    assert_eq!(found["models"], models);
    assert!(!found.to_string().contains("sk-upstream-key"), "{found}");
    for kind in ["accountTokens", "checkinLogs"] {
        assert_eq!(count(&found, kind), Some(0), "{kind}");
    }
    assert_eq!(count(&find(json!({"query": "zeta", "limit": 6})), "models"), Some(1));
    assert_eq!(count(&find(json!({"query": "0%"})), "models"), Some(1));
    assert_eq!(count(&find(json!({"query": "%"})), "proxyLogs"), Some(0), "a percent sign is a percent sign");
    assert_eq!(count(&find(json!({"query": "api key"})), "accounts"), Some(1));
    let nothing = json!({"accounts": [], "accountTokens": [], "sites": [], "checkinLogs": [], "proxyLogs": [], "models": []});
    for body in [json!({}), json!({"query": "  "}), json!({"query": "no such thing"})] {
        assert_eq!(find(body), nothing);
    }
    for body in [json!({"query": 7}), json!({"query": "x", "limit": 0}), json!({"query": "x", "limit": "y"})]
    {
        gateway.admin().post("/api/search", &body).expect(400);
    }
    // A model that nobody serves at present is not found among the models.
    gateway
        .admin()
        .put(&format!("/api/accounts/{}", account["id"]), &json!({"status": "disabled"}))
        .expect(200);
    let found = find(json!({"query": "zeta"}));
    assert_eq!((count(&found, "models"), count(&found, "sites")), (Some(0), Some(1)));
}

#[test]
fn a_model_that_only_keys_of_an_expired_session_serve_is_found() {
    let gateway = Gateway::start();
    let site = Site::start(Program::NewApi, &["zeta"]);
    let made = gateway.create_site(&json!({"name": "Relay", "url": site.url(), "platform": "new-api"}));
    let account = json!({"siteId": made["id"], "accessToken": site.token(), "platformUserId": 7659,
        "credentialMode": "session"});
    let account = gateway.admin().post("/api/accounts", &account).expect(200);
    gateway.wait_for_task(&account);
    let expired = json!({"status": "expired"});
    gateway.admin().put(&format!("/api/accounts/{}", account["id"]), &expired).expect(200);
    gateway.client().chat("zeta").expect(200);
    let found = gateway.admin().post("/api/search", &json!({"query": "zeta"})).expect(200);
    let model = json!({"name": "zeta", "accountCount": 1, "tokenCount": 1, "siteCount": 1});
    assert_eq!(found["models"], json!([model]));
    let candidates = gateway.admin().get("/api/models/token-candidates").expect(200);
    assert_eq!(candidates["models"]["zeta"][0]["accountId"], account["id"], "{candidates}");
    assert_eq!(candidates["modelsWithoutToken"], json!({}), "an expired session makes no tokens");
}

#[test]
fn a_text_is_found_whatever_its_letters() {
    let gateway = Gateway::start();
    let (relay, upstream) = (Relay::start(&["m-a"]), Upstream::start(&["модель-Ж"]));
    let account = relay.account(&gateway, &relay.site(&gateway, "Älpha"), "ada");
    relay.checks_in(&json!({"success": true, "message": "Signed ÄÖ 100%_x"}));
    gateway.admin().post(&format!("/api/checkin/trigger/{}", account["id"]), &json!({})).expect(200);
    gateway.add("other", &upstream);
    gateway.client().chat("модель-Ж").expect(200);
    for (query, kind) in [
        ("ÄÖ", "checkinLogs"),
        ("signed ÄÖ", "checkinLogs"),
        ("äÖ 100%_X", "checkinLogs"),
        ("-Ж", "proxyLogs"),
        ("МОДЕЛЬ-ж", "proxyLogs"),
        ("-ж", "models"),
        ("älpha", "sites"),
        ("ÄLPHA", "sites"),
    ] {
        let found = gateway.admin().post("/api/search", &json!({"query": query})).expect(200);
        assert_eq!(found[kind].as_array().map(Vec::len), Some(1), "{query}: {found}");
    }
}
