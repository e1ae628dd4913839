//! `/api/oauth/connections`: connected accounts, as an operator sees and changes them.

use serde_json::{Value, json};

use crate::support::{Gateway, Provider, Reply, Request, Setup, Upstream, eventually};

const MODEL: &str = "model-connected";
const ACCESS: &str = "access-token-of-the-login";
const REFRESH: &str = "refresh-token-of-the-login";

/// Starts a gateway with a connected codex account.
fn connected(provider: &Provider) -> (Gateway, Value) {
    connected_at(provider.gateway(), provider)
}

fn connected_at(mut gateway: Gateway, provider: &Provider) -> (Gateway, Value) {
    provider.book().access.push(ACCESS.to_owned());
    provider.book().refresh.push(REFRESH.to_owned());
    gateway.add_codex(provider, MODEL);
    gateway.kill();
    let sql = "UPDATE accounts SET oauth_provider = 'codex', oauth_account_key = 'account-of-ada', \
               credential_mode = 'session', api_token = NULL, access_token = ?, refresh_token = ?, id_token = ?, \
               extra = '{\"oauth\":{\"email\":\"ada@example.com\",\"planType\":\"plus\",\
               \"lastModelSyncAt\":\"2026-01-02 03:04:05\"}}'";
    let id_token = provider.book().id_token();
    gateway.home().database().execute(sql, &[&ACCESS, &REFRESH, &id_token]);
    let gateway = gateway.restart();
    let shown = list(&gateway)["items"][0].clone();
    (gateway, shown)
}

fn list(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/oauth/connections").expect(200)
}

#[test]
fn a_connection_is_shown_with_its_models_channels_and_site_and_without_a_token() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    for (name, expected) in [
        ("provider", json!("codex")),
        ("accountKey", json!("account-of-ada")),
        ("email", json!("ada@example.com")),
        ("planType", json!("plus")),
        ("lastModelSyncAt", json!("2026-01-02T03:04:05.000Z")),
        ("modelCount", json!(1)),
        ("modelsPreview", json!([MODEL])),
        ("status", json!("healthy")),
        ("accountStatus", json!("active")),
        ("routeChannelCount", json!(1)),
        ("proxyUrl", json!(null)),
        ("useSystemProxy", json!(false)),
        ("routeUnit", json!(null)),
        ("routeParticipation", json!(null)),
    ] {
        assert_eq!(shown[name], expected, "{name} in {shown}");
    }
    assert_eq!(shown["site"]["platform"], "codex");
    assert_eq!(shown["quota"]["status"], "supported");
    assert_eq!(shown["quota"]["subscription"], json!({"planType": "plus"}));
    let whole = list(&gateway);
    assert_eq!((&whole["total"], &whole["limit"], &whole["offset"]), (&json!(1), &json!(50), &json!(0)));
    for secret in [ACCESS, REFRESH] {
        assert!(!whole.to_string().contains(secret));
    }
    let page = gateway.admin().get("/api/oauth/connections?limit=900&offset=1").expect(200);
    assert_eq!((&page["items"], &page["limit"], &page["total"]), (&json!([]), &json!(200), &json!(1)));
    for (query, message) in [
        ("limit=0", "invalid limit"),
        ("limit=x", "invalid limit"),
        ("limit=", "invalid limit"),
        ("offset=-1", "invalid offset"),
    ] {
        let refused = gateway.admin().get(&format!("/api/oauth/connections?{query}")).expect(400);
        assert_eq!(refused["message"], message, "{query}");
    }
}

#[test]
fn only_a_connected_account_is_a_connection() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    gateway.add_codex(&provider, MODEL);
    let account = gateway.admin().get("/api/accounts").expect(200)["accounts"][0]["id"].clone();
    assert_eq!(list(&gateway)["total"], 0);
    for (id, status, message) in [
        (account.to_string(), 404, "account is not managed by oauth"),
        ("77".to_owned(), 404, "oauth account not found"),
        ("x".to_owned(), 400, "invalid account id"),
    ] {
        let path = format!("/api/oauth/connections/{id}");
        let admin = gateway.admin();
        let proxy = Request::new("PATCH", &format!("{path}/proxy")).json(&json!({}));
        for answer in
            [admin.delete(&path), admin.send(proxy), admin.post(&format!("{path}/quota/refresh"), &json!({}))]
        {
            assert_eq!(answer.expect(status)["message"], message, "{id}");
        }
    }
}

#[test]
fn a_deleted_connection_takes_its_routes_with_it() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    let deleted =
        gateway.admin().delete(&format!("/api/oauth/connections/{}", shown["accountId"])).expect(200);
    assert_eq!(deleted, json!({"success": true}));
    assert_eq!(list(&gateway)["total"], 0);
    eventually("its channel is gone", || gateway.channels(MODEL).is_empty().then_some(()));
}

#[test]
fn a_proxy_is_stored_and_the_models_are_asked_for_through_it() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    let path = format!("/api/oauth/connections/{}/proxy", shown["accountId"]);
    let patch = |body: &Value| gateway.admin().send(Request::new("PATCH", &path).json(body));
    for (body, message) in [
        (json!({"proxyUrl": "nonsense"}), "invalid proxy url"),
        (json!({"proxyUrl": 7}), "Invalid proxyUrl. Expected string or null."),
        (json!({"useSystemProxy": "yes"}), "Invalid useSystemProxy. Expected boolean."),
    ] {
        assert_eq!(patch(&body).expect(400)["message"], message, "{body}");
    }
    let nowhere = patch(&json!({"proxyUrl": "http://user:secret@127.0.0.1:9"})).expect(200);
    assert_eq!(nowhere["proxyUrl"], "http://user:****@127.0.0.1:9");
    assert_eq!(nowhere["modelRefresh"]["success"], false, "{nowhere}");
    patch(&json!({"proxyUrl": nowhere["proxyUrl"], "useSystemProxy": false})).expect(200);
    let whole = gateway.admin().get("/api/settings/backup/export").expect(200);
    let extra = whole["accounts"]["accounts"][0]["extraConfig"].as_str().expect("a text");
    assert!(extra.contains("http://user:secret@127.0.0.1:9"), "{extra}");
    patch(&json!({"proxyUrl": "http://user:****@127.0.0.1:8"})).expect(400);
    let cleared = patch(&json!({"proxyUrl": null})).expect(200);
    assert_eq!(cleared["proxyUrl"], json!(null));
    assert_eq!(cleared["refreshedRoutes"], true);
    // A disabled account is asked, and stays disabled.
    let account = format!("/api/accounts/{}", shown["accountId"]);
    gateway.admin().put(&account, &json!({"status": "disabled"})).expect(200);
    let models = "/models";
    let before = provider.asked_for(models).len();
    let refreshed = patch(&json!({"proxyUrl": null})).expect(200)["modelRefresh"].clone();
    assert_eq!(refreshed, json!({"success": true, "status": "success", "errorMessage": null}));
    assert_eq!(provider.asked_for(models).len(), before + 1);
    assert_eq!(list(&gateway)["items"][0]["accountStatus"], "disabled");
}

#[test]
fn a_quota_is_read_from_the_headers_of_a_small_request() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    let id = &shown["accountId"];
    let path = format!("/api/oauth/connections/{id}/quota/refresh");
    let headers = [
        ("x-codex-primary-used-percent", "37.504"),
        ("x-codex-primary-reset-after-seconds", "3600"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-secondary-used-percent", "12"),
        ("x-codex-secondary-reset-after-seconds", "7200"),
        ("x-codex-secondary-window-minutes", "10080"),
    ];
    let mut reply = Reply::json(200, &json!({}));
    for (name, value) in headers {
        reply = reply.header(name, value);
    }
    provider.answer_once("/responses", reply);
    let quota = gateway.admin().post(&path, &json!({})).expect(200)["quota"].clone();
    let asked = provider.last("/responses");
    assert_eq!(asked.header("chatgpt-account-id"), Some("account-of-ada"));
    assert_eq!(asked.json()["model"], MODEL);
    assert_eq!(quota["status"], "supported", "{quota}");
    let (five, seven) = (&quota["windows"]["fiveHour"], &quota["windows"]["sevenDay"]);
    assert_eq!((&five["used"], &five["remaining"]), (&json!(37.5), &json!(62.5)));
    assert_eq!((&five["limit"], &five["message"]), (&json!(100), &json!("300 minute window")));
    assert_eq!((&seven["used"], &seven["supported"]), (&json!(12.0), &json!(true)));
    assert_eq!(list(&gateway)["items"][0]["quota"], quota);
    // A window whose length is not told has no message.
    let untold = [("x-codex-primary-used-percent", "10"), ("x-codex-secondary-used-percent", "20")];
    let reply = Reply::json(200, &json!({}));
    let reply = untold.into_iter().fold(reply, |reply, (name, value)| reply.header(name, value));
    provider.answer_once("/responses", reply);
    let quota = gateway.admin().post(&path, &json!({})).expect(200)["quota"].clone();
    assert!(quota["windows"]["fiveHour"].get("message").is_none(), "{quota}");
    // An unreadable answer keeps the previous values.
    provider.answer_once("/responses", Reply::json(400, &json!({"detail": "no such model"})));
    let failed = gateway.admin().post(&path, &json!({})).expect(200)["quota"].clone();
    assert_eq!(
        (&failed["status"], &failed["lastError"]),
        (&json!("error"), &json!("HTTP 400: no such model"))
    );
    assert_eq!(failed["windows"], quota["windows"]);
    // A refused token is renewed, and the provider is asked again.
    provider.end_access();
    let renewed = gateway.admin().post(&path, &json!({})).expect(200)["quota"].clone();
    assert_eq!(renewed["lastError"], "no rate limit headers", "{renewed}");
    assert_eq!(provider.book().refreshes, 1);
}

#[test]
fn a_quota_and_models_are_read_at_the_next_address_where_the_first_one_fails() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    let bad = Upstream::start(&[]);
    let site = format!("/api/sites/{}", shown["site"]["id"]);
    let quota = format!("/api/oauth/connections/{}/quota/refresh", shown["accountId"]);
    let models = format!("/api/models/check/{}", shown["accountId"]);
    for (reply, rests) in [
        (Reply::error(503, "overloaded"), true),
        (Reply::stall(), true),
        (Reply::error(403, "forbidden"), false),
    ] {
        for (asked, path) in [(&quota, "/responses"), (&models, "/models")] {
            bad.answer(path, reply.clone());
            // A pool that is set anew has no address that rests.
            let pool = json!([{"url": bad.url(), "sortOrder": 0}, {"url": provider.url(), "sortOrder": 1}]);
            gateway.admin().put(&site, &json!({"apiEndpoints": []})).expect(200);
            gateway.admin().put(&site, &json!({"apiEndpoints": pool})).expect(200);
            let before = provider.asked_for(path).len();
            gateway.admin().post(asked, &json!({})).expect(200);
            assert_eq!(provider.asked_for(path).len() > before, rests, "{path}: the next one is asked");
            let until = || {
                gateway.admin().get("/api/sites").expect(200)[0]["apiEndpoints"][0]["cooldownUntil"].clone()
            };
            if rests {
                eventually("it rests", || until().is_string().then_some(()));
            } else {
                assert_eq!(until(), json!(null));
            }
        }
    }
}

#[test]
fn an_operator_chooses_the_model_that_a_quota_is_read_with() {
    let provider = Provider::start("codex", &[MODEL]);
    let setup = provider.setup(Setup::default()).with("CODEX_QUOTA_PROBE_MODEL", "model-of-choice");
    let (gateway, shown) = connected_at(setup.start(), &provider);
    let path = format!("/api/oauth/connections/{}/quota/refresh", shown["accountId"]);
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(provider.last("/responses").json()["model"], "model-of-choice");
}

#[test]
fn a_quota_is_what_the_latest_answer_to_a_client_told() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    assert_eq!(shown["quota"]["windows"]["fiveHour"]["supported"], false);
    let told = [
        ("x-codex-primary-used-percent", "41"),
        ("x-codex-primary-reset-after-seconds", "3600"),
        ("x-codex-primary-window-minutes", "300"),
    ];
    let refused = Reply::error(400, "no such member");
    provider.answer_once(
        "/responses",
        told.into_iter().fold(refused, |reply, (name, value)| reply.header(name, value)),
    );
    gateway.client().chat(MODEL);
    let quota = list(&gateway)["items"][0]["quota"].clone();
    let window = &quota["windows"]["fiveHour"];
    assert_eq!((&window["used"], &window["remaining"]), (&json!(41.0), &json!(59.0)), "{quota}");
    assert!(window["resetAt"].is_string() && quota["lastSyncAt"].is_string(), "{quota}");
    assert_eq!(quota["windows"]["sevenDay"]["supported"], false);
}

#[test]
fn a_reached_limit_is_told_with_the_time_of_its_reset() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    assert_eq!(shown["quota"]["lastLimitResetAt"], json!(null));
    let reached = |at: i64| {
        let error = json!({"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_at": at});
        Reply::json(429, &json!({ "error": error }))
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs() as i64;
    let hour = now / 3600 * 3600;
    provider.answer_once("/responses", reached(hour + 7200));
    gateway.client().chat(MODEL).expect(429);
    let told = list(&gateway)["items"][0]["quota"]["lastLimitResetAt"].clone();
    assert!(told.as_str().is_some_and(|time| time.ends_with(":00:00.000Z")), "{told}");
    let path = format!("/api/oauth/connections/{}/quota/refresh", shown["accountId"]);
    // A probe gets the same report, and stores it.
    provider.answer_once("/responses", reached(hour + 10_800));
    let quota = gateway.admin().post(&path, &json!({})).expect(200)["quota"].clone();
    assert_eq!(
        (&quota["status"], quota["lastError"].as_str().map(|text| &text[..8])),
        (&json!("error"), Some("HTTP 429"))
    );
    let later = quota["lastLimitResetAt"].clone();
    assert!(later.as_str() > told.as_str(), "{later} after {told}");
    let gateway = gateway.restart();
    assert_eq!(list(&gateway)["items"][0]["quota"]["lastLimitResetAt"], later);
}

#[test]
fn a_renewed_token_makes_an_unhealthy_account_active_and_no_disabled_one() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    let id = &shown["accountId"];
    let status = || list(&gateway)["items"][0]["accountStatus"].clone();
    for (before, after) in [("unhealthy", "active"), ("expired", "active"), ("disabled", "disabled")] {
        gateway.admin().put(&format!("/api/accounts/{id}"), &json!({"status": before})).expect(200);
        assert_eq!(status(), before);
        provider.end_access();
        let refreshes = provider.book().refreshes;
        gateway.admin().post(&format!("/api/oauth/connections/{id}/quota/refresh"), &json!({})).expect(200);
        assert_eq!(provider.book().refreshes, refreshes + 1, "{before}");
        assert_eq!(status(), after, "{before}");
    }
}

#[test]
fn several_quotas_are_read_in_one_call_each_once_and_in_order() {
    let provider = Provider::start("codex", &[MODEL]);
    let (gateway, shown) = connected(&provider);
    let id = shown["accountId"].as_i64().expect("an id");
    let path = "/api/oauth/connections/quota/refresh-batch";
    let read = gateway.admin().post(path, &json!({"accountIds": [77, id, 77]})).expect(200);
    assert_eq!(
        (&read["success"], &read["refreshed"], &read["failed"]),
        (&json!(false), &json!(0), &json!(2))
    );
    let items = read["items"].as_array().expect("items");
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0]["accountId"], &items[0]["error"]), (&json!(77), &json!("oauth account not found")));
    assert_eq!((&items[1]["accountId"], &items[1]["error"]), (&json!(id), &json!("no rate limit headers")));
    for (body, message) in [
        (json!({}), "accountIds is required"),
        (json!({"accountIds": []}), "accountIds is required"),
        (json!({"accountIds": vec![1; 101]}), "accountIds must contain at most 100 items"),
        (json!({"accountIds": [0]}), "Invalid accountIds. Expected positive number array."),
        (json!({"accountIds": "1"}), "Invalid accountIds. Expected positive number array."),
    ] {
        assert_eq!(gateway.admin().post(path, &body).expect(400)["message"], message, "{body}");
    }
}

#[test]
fn an_address_has_twenty_changes_a_minute() {
    let gateway = Gateway::start();
    let delete = || gateway.admin().delete("/api/oauth/connections/77");
    for _ in 0..20 {
        delete().expect(404);
    }
    let refused = delete();
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.expect(429)["success"], false);
}
