//! `POST /api/oauth/import`: credentials that were exported elsewhere become connected accounts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{Gateway, Provider, Proxy, Request};

const MODEL: &str = "model-imported";
const PATH: &str = "/api/oauth/import";

fn list(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/api/oauth/connections").expect(200);
    list["items"].as_array().expect("items").clone()
}

fn import(gateway: &Gateway, body: &Value) -> Value {
    gateway.admin().post(PATH, body).expect(200)
}

#[test]
fn an_auth_file_of_the_codex_cli_serves_at_once() {
    let provider = Provider::start("codex", &[MODEL]);
    provider.book().access.push("access-of-the-file".to_owned());
    let gateway = provider.gateway();
    let id_token = provider.book().id_token();
    let file = json!({"OPENAI_API_KEY": null, "last_refresh": "2026-01-01T00:00:00Z", "tokens": {
        "id_token": id_token, "access_token": "access-of-the-file", "refresh_token": "refresh-of-the-file"}});
    let done = import(&gateway, &json!({"data": file}));
    assert_eq!((&done["success"], &done["imported"], &done["failed"]), (&json!(true), &json!(1), &json!(0)));
    assert_eq!(
        (&done["items"][0]["status"], &done["items"][0]["provider"]),
        (&json!("imported"), &json!("codex"))
    );
    assert_eq!(done["items"][0]["name"], "ada@example.com");
    let shown = &list(&gateway)[0];
    assert_eq!(
        (&shown["email"], &shown["accountKey"]),
        (&json!("ada@example.com"), &json!("account-of-ada"))
    );
    let body = json!({"model": MODEL, "stream": true, "input": "Which way?"});
    assert_eq!(gateway.client().send(Request::post("/v1/responses").json(&body)).status, 200);
    // Another import for the same owner updates the same account.
    import(&gateway, &json!({"data": file}));
    assert_eq!(list(&gateway).len(), 1);
}

#[test]
fn requests_name_the_account_by_its_id_where_a_file_has_it_beside_the_key() {
    let provider = Provider::start("codex", &[MODEL]);
    provider.book().access.push("access-of-the-file".to_owned());
    let gateway = provider.gateway();
    let mut file = json!({"type": "codex", "access_token": "access-of-the-file", "account_key": "key-of-ada",
        "chatgpt_account_id": "workspace", "account_id": "id-of-ada"});
    import(&gateway, &json!({ "data": file }));
    let named = |path: &str| provider.last(path).header("chatgpt-account-id").map(str::to_owned);
    let body = json!({"model": MODEL, "stream": true, "input": "Which way?"});
    let ask = || assert_eq!(gateway.client().send(Request::post("/v1/responses").json(&body)).status, 200);
    assert_eq!(named("/models").as_deref(), Some("id-of-ada"));
    ask();
    assert_eq!(named("/responses").as_deref(), Some("id-of-ada"));
    let shown = list(&gateway)[0].clone();
    assert_eq!(shown["accountKey"], "key-of-ada");
    let account = shown["accountId"].clone();
    gateway.admin().post(&format!("/api/models/check/{account}"), &json!({})).expect(200);
    assert_eq!(named("/models").as_deref(), Some("id-of-ada"));
    gateway.admin().post(&format!("/api/oauth/connections/{account}/quota/refresh"), &json!({})).expect(200);
    assert_eq!(named("/responses").as_deref(), Some("id-of-ada"));
    // A file without them takes it away.
    for name in ["account_id", "chatgpt_account_id"] {
        file[name] = Value::Null;
    }
    import(&gateway, &json!({ "data": file }));
    ask();
    assert_eq!(named("/responses").as_deref(), Some("key-of-ada"));
}

#[test]
fn the_times_of_a_subscription_are_shown_as_all_times() {
    let provider = Provider::start("codex", &[MODEL]);
    provider.book().access.push("access-of-the-file".to_owned());
    let gateway = provider.gateway();
    for (start, end, shown) in [
        (
            json!("2025-04-15T14:26:11+00:00"),
            json!(1_776_263_171),
            json!({"activeStart": "2025-04-15T14:26:11.000Z", "activeUntil": "2026-04-15T14:26:11.000Z"}),
        ),
        (json!("soon"), json!(null), json!(null)),
    ] {
        let claims = json!({"https://api.openai.com/auth": {"chatgpt_account_id": "account-of-ada",
            "chatgpt_subscription_active_start": start, "chatgpt_subscription_active_until": end}});
        let id_token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let file = json!({"type": "codex", "access_token": "access-of-the-file", "id_token": id_token});
        import(&gateway, &json!({ "data": file }));
        assert_eq!(list(&gateway)[0]["quota"]["subscription"], shown);
    }
}

/// Access tokens last an hour or a few; files are kept for longer.
#[test]
fn a_file_whose_access_token_has_ended_is_imported_by_its_refresh_token() {
    for id in Provider::IDS {
        let provider = Provider::start(id, &[MODEL]);
        provider.book().refresh.push("refresh-of-the-file".to_owned());
        let gateway = provider.gateway();
        // Gemini CLI's service has its own models.
        let serves = || match id {
            "gemini-cli" => assert_eq!(list(&gateway)[0]["accountStatus"], "active"),
            _ => drop(gateway.client().chat(MODEL).expect(200)),
        };
        let file = |refresh: &str| {
            json!({"data": {"type": id, "access_token": "ended", "refresh_token": refresh, "email": "ada@example.com",
                "account_id": "account-of-ada", "project_id": "project-of-ada", "expired": "2025-01-01T00:00:00Z"}})
        };
        import(&gateway, &file("refresh-of-the-file"));
        assert_eq!(provider.book().refreshes, 1, "{id}");
        serves();
        let shown = &gateway.admin().get("/api/accounts?refresh=1").expect(200)["accounts"][0];
        let extra: Value = serde_json::from_str(shown["extraConfig"].as_str().expect("text")).expect("JSON");
        assert!(extra["oauth"]["tokenExpiresAt"].as_i64().is_some(), "{id}: {extra}");

        // Imported again with the account's present refresh token: the renewed tokens belong to the account, whatever
        // happens.
        let current = provider.book().refresh.last().expect("a token").clone();
        provider.end_access();
        import(&gateway, &file(&current));
        assert_eq!(provider.book().refreshes, 2, "{id}");
        serves();
        assert_eq!(list(&gateway).len(), 1);

        let refused = gateway.admin().post(PATH, &file("refresh-of-nobody"));
        assert_eq!(refused.status, 500, "{}", refused.text());
        assert!(refused.text().contains("token refresh failed"), "{}", refused.text());
        serves();
    }
}

/// A refused token rests the channel for ten minutes; a fresh token of the same account must not wait for that.
#[test]
fn an_account_that_is_imported_again_serves_at_once() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let bring = |access: &str| {
        provider.book().access.push(access.to_owned());
        import(
            &gateway,
            &json!({"data": {"type": "codex", "access_token": access, "refresh_token": format!("refresh-{access}"),
                "account_id": "account-of-ada"}}),
        );
    };
    let body = json!({"model": MODEL, "stream": true, "input": "Which way?"});
    let ask = || gateway.client().send(Request::post("/v1/responses").json(&body)).status;
    bring("access-of-the-first-file");
    assert_eq!(ask(), 200);
    provider.revoke();
    assert_eq!(ask(), 502);
    assert_eq!(ask(), 503, "the account has expired");
    bring("access-of-the-second-file");
    assert_eq!(ask(), 200);
}

#[test]
fn models_that_are_named_by_the_token_are_left_out() {
    for id in ["codex", "claude"] {
        let token = "access-of-the-file-0123456789";
        let provider = Provider::start(id, &[MODEL, token, "x-access-of-the-file-0123456789-y"]);
        provider.book().access.push(token.to_owned());
        let gateway = provider.gateway();
        import(
            &gateway,
            &json!({"data": {"type": id, "access_token": token, "account_id": "account-of-ada"}}),
        );
        assert_eq!(list(&gateway)[0]["modelsPreview"], json!([MODEL]), "{id}");
    }
}

#[test]
fn a_batch_goes_on_after_a_failure_and_disabled_accounts_stay_so() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let items = json!([
        {"type": "claude", "access_token": "a-1", "refresh_token": "", "email": "one@example.com",
            "expired": "2030-01-01T00:00:00Z", "disabled": true},
        {"type": "codex"},
        {"type": " Gemini ", "email": "two@example.com", "project_id": "p-1", "disabled": true,
            "token": {"access_token": "a-2", "refresh_token": "r-2", "expiry": "2030-01-01T00:00:00Z"}},
    ]);
    let done = import(&gateway, &json!({"items": items, "data": {"type": "nonsense"}}));
    assert_eq!((&done["success"], &done["imported"], &done["failed"]), (&json!(false), &json!(2), &json!(1)));
    assert_eq!(done["items"][1]["message"], "oauth credentials missing access_token");
    assert_eq!(done["items"][2]["provider"], "gemini-cli");
    let shown = list(&gateway);
    assert!(shown.iter().all(|one| one["accountStatus"] == "disabled"), "{shown:?}");
    // Several are stored at once, so their order may vary.
    let of = |email: &str| shown.iter().find(|one| one["email"] == email).expect(email);
    assert_eq!(of("two@example.com")["projectId"], "p-1");
    assert_eq!(of("one@example.com")["tokenExpiresAt"], "2030-01-01T00:00:00.000Z");
}

#[test]
fn a_bundle_gives_its_accounts() {
    let provider = Provider::start("codex", &[MODEL]);
    provider.book().access.push("access-of-the-bundle".to_owned());
    let gateway = provider.gateway();
    let bundle = json!({"type": "sub2api-data", "version": 1, "exported_at": "2026-01-01T00:00:00Z", "proxies": [],
        "accounts": [
            {"name": "one", "platform": "openai", "type": "oauth", "credentials": {
                "access_token": "access-of-the-bundle", "chatgpt_account_id": "acc", "expires_at": 1_893_456_000}},
            {"name": "two", "platform": "openai", "type": "apikey", "credentials": {"api_key": "sk"}}]});
    let done = import(&gateway, &json!({"items": [bundle]}));
    assert_eq!((&done["imported"], &done["failed"]), (&json!(1), &json!(1)), "{done}");
    assert_eq!(done["items"][1]["message"], "unsupported oauth import type: apikey");
    let shown = &list(&gateway)[0];
    assert_eq!((&shown["accountKey"], &shown["modelCount"]), (&json!("acc"), &json!(1)));
    assert_eq!(shown["tokenExpiresAt"], "2030-01-01T00:00:00.000Z");
}

#[test]
fn an_account_of_a_bundle_is_sent_through_the_proxy_that_the_bundle_names() {
    let provider = Provider::start("codex", &[MODEL]);
    provider.book().access.push("access-of-the-bundle".to_owned());
    let (proxy, other) = (Proxy::start(), Proxy::start());
    let gateway = provider.gateway();
    let url = proxy.url("http", "");
    let (host, port) = url.trim_start_matches("http://").rsplit_once(':').expect("a port");
    let bundle = json!({"type": "sub2api-data", "version": 1,
        "proxies": [
            {"proxy_key": "k-1", "protocol": "http", "host": host, "port": port.parse::<u16>().expect("a port"),
                "username": "u s", "password": "p@ss"},
            {"proxy_key": "k-2", "protocol": "carrier-pigeon", "host": "x", "port": 1}],
        "accounts": [
            {"name": "one", "platform": "openai", "type": "oauth", "proxy_key": "k-1",
                "credentials": {"access_token": "access-of-the-bundle", "chatgpt_account_id": "acc"}},
            {"name": "two", "platform": "openai", "type": "oauth", "proxy_key": "k-2", "credentials":
                {"access_token": "access-of-the-bundle", "chatgpt_account_id": "acc-2"}}]});
    let done = import(&gateway, &json!({"items": [bundle]}));
    assert_eq!((&done["imported"], &done["failed"]), (&json!(2), &json!(0)), "{done}");
    let shown = list(&gateway);
    let proxy_of = |account: &str| {
        let connection = shown.iter().find(|one| one["accountKey"] == account);
        connection.unwrap_or_else(|| panic!("no {account} in {shown:?}"))["proxyUrl"].clone()
    };
    assert_eq!(proxy_of("acc"), format!("http://u%20s:****@{host}:{port}"));
    assert_eq!(proxy_of("acc-2"), json!(null), "of a proxy that is none");
    assert_eq!(proxy.seen()[0].credentials.as_deref(), Some("u s:p@ss"));
    // The proxy named by the import itself takes precedence.
    let crossings = proxy.seen().len();
    import(&gateway, &json!({"items": [bundle], "proxyUrl": other.url("http", "")}));
    assert_eq!((proxy.seen().len(), other.seen().is_empty()), (crossings, false));
}

#[test]
fn the_end_of_a_token_is_read_in_seconds_in_milliseconds_and_as_a_date() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let claims = |exp: &Value| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(&json!({"alg": "RS256"})), part(&json!({ "exp": exp })))
    };
    let named = |name: &str, value: Value| json!({"type": "codex", "access_token": "a-1", "disabled": true, "email": name, name: value});
    for (number, item) in [
        named("expired", json!(1_893_456_000)),
        named("expired", json!(1_893_456_000_000_i64)),
        named("expired", json!("1893456000")),
        named("expires_at", json!("1893456000000")),
        named("token_expires_at", json!("2030-01-01T00:00:00Z")),
        named("expiry", json!("2030-01-01T08:00:00+08:00")),
        // The claim in a token is in seconds, and the value given beside it takes precedence.
        json!({"type": "codex", "access_token": claims(&json!(1_893_456_000)), "disabled": true}),
        json!({"type": "codex", "access_token": claims(&json!(1)), "disabled": true, "expired": 1_893_456_000}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut item = item;
        item["account_id"] = json!(format!("account-{number}"));
        import(&gateway, &json!({ "data": item }));
        assert_eq!(list(&gateway)[0]["tokenExpiresAt"], "2030-01-01T00:00:00.000Z", "{item}");
    }
    for (number, at) in
        [(99_999_999_999_i64, "5138-11-16T09:46:39.000Z"), (100_000_000_000, "1973-03-03T09:46:40.000Z")]
    {
        let item = json!({"type": "codex", "access_token": "a-1", "disabled": true, "account_id": number.to_string(),
            "expired": number});
        import(&gateway, &json!({ "data": item }));
        assert_eq!(list(&gateway)[0]["tokenExpiresAt"], at);
    }
}

#[test]
fn what_cannot_be_imported_says_why_and_stores_nothing() {
    let gateway = Gateway::start();
    let envelope = "native oauth json expected; sub2api envelopes are no longer supported";
    for (body, message) in [
        (json!({}), "data must be a native oauth json object"),
        (json!({"data": [1]}), "data must be a native oauth json object"),
        (json!({"items": []}), "data must be a native oauth json object"),
        (json!({"items": {}}), "Invalid items. Expected object array."),
        (json!({"items": [7]}), "Invalid items. Expected object array."),
        (json!({"items": vec![json!({}); 101]}), "oauth import supports at most 100 items"),
        (json!({"data": {"type": "codex"}}), "oauth credentials missing access_token"),
        (json!({"data": {"type": "codex", "access_token": "a b"}}), "oauth credentials missing access_token"),
        (json!({"data": {"type": "qwen", "access_token": "a"}}), "unsupported oauth import type: qwen"),
        (
            json!({"data": {"type": "codex", "access_token": "a", "expired": "soon"}}),
            "invalid oauth expired timestamp",
        ),
        (json!({"data": {"type": "sub2api-data", "version": 1}}), envelope),
        (json!({"items": [{"accounts": vec![json!({}); 101]}]}), "oauth import supports at most 100 items"),
        (
            json!({"data": {"accounts": [{"platform": "openai", "credentials": {"access_token": "a"}}]}}),
            envelope,
        ),
        (json!({"data": {"type": "codex", "access_token": "a"}, "proxyUrl": "x"}), "invalid proxy url"),
    ] {
        assert_eq!(gateway.admin().post(PATH, &body).expect(400)["message"], message, "{body}");
    }
    assert!(list(&gateway).is_empty());
}

#[test]
fn a_bundle_that_cannot_be_read_fails_alone_among_items() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let good = json!({"type": "codex", "access_token": "a-1", "disabled": true, "account_id": "good"});
    for (number, bundle) in [
        json!({"type": "codex", "access_token": "a-2", "version": 1, "email": "two@example.com"}),
        json!({"proxies": []}),
        json!({"accounts": []}),
        json!({"type": "sub2api-data", "accounts": [1]}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut good = good.clone();
        good["account_id"] = json!(format!("good-{number}"));
        let done = gateway.admin().post(PATH, &json!({"items": [bundle, good]})).expect(200);
        assert_eq!(
            (&done["success"], &done["imported"], &done["failed"]),
            (&json!(false), &json!(1), &json!(1))
        );
        let failed = &done["items"][0];
        assert_eq!(
            (&failed["status"], &failed["message"]),
            (
                &json!("failed"),
                &json!("native oauth json expected; sub2api envelopes are no longer supported")
            ),
            "{bundle}"
        );
        assert_eq!(list(&gateway).len(), number + 1);
    }
}
