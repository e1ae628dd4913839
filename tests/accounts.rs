//! Accounts in API-key mode: verified before they are stored, masked in every answer, and removed from the routes as soon
//! as they are deleted.

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Reply, Request, Upstream, eventually};

const MODEL: &str = "model-account";
const KEY: &str = "sk-upstream-key";

/// Starts a gateway with a site for the stub; returns the site's id, too.
fn with_site(upstream: &Upstream) -> (Gateway, Value) {
    let gateway = Gateway::start();
    let site = gateway.create_site(&json!({"name": "site", "url": upstream.url(), "platform": "openai"}));
    (gateway, site["id"].clone())
}

fn accounts(gateway: &Gateway) -> Vec<Value> {
    let snapshot = gateway.admin().get("/api/accounts?refresh=1").expect(200);
    snapshot["accounts"].as_array().expect("accounts").clone()
}

#[test]
fn a_key_account_is_answered_with_what_was_made() {
    let upstream = Upstream::start(&[MODEL, "another-model"]);
    let (gateway, site) = with_site(&upstream);
    let made = gateway.admin().post(
        "/api/accounts",
        &json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey", "username": "ann"}),
    );
    let made = made.expect(200);
    for (field, value) in [
        ("siteId", site),
        ("username", json!("ann")),
        ("status", json!("active")),
        ("tokenType", json!("apikey")),
        ("credentialMode", json!("apikey")),
        ("modelCount", json!(2)),
        ("queued", json!(true)),
        ("checkinEnabled", json!(false)),
        ("capabilities", json!({"canCheckin": false, "canRefreshBalance": false, "proxyOnly": true})),
    ] {
        assert_eq!(made[field], value, "{field}: {made}");
    }
    assert!(made["id"].as_i64().is_some_and(|id| id > 0));
    assert!(made["apiTokenFound"].is_boolean(), "{made}");
    let task = gateway.wait_for_task(&made);
    assert_eq!(task["status"], "succeeded", "{task}");
    assert_eq!(gateway.models(), ["another-model", MODEL]);
}

#[test]
fn the_snapshot_lists_accounts_with_their_sites() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let (site, account) = gateway.add("Blue", &upstream);
    let snapshot = gateway.admin().get("/api/accounts").expect(200);
    assert!(snapshot["generatedAt"].as_str().is_some_and(|time| time.ends_with('Z')), "{snapshot}");
    assert_eq!(snapshot["sites"][0]["id"], site["id"]);
    let listed = &snapshot["accounts"][0];
    assert_eq!(listed["id"], account["id"]);
    assert_eq!(listed["site"]["name"], "Blue");
    assert_eq!(listed["site"]["platform"], "openai");
    assert_eq!(listed["credentialMode"], "apikey");
    assert_eq!(listed["capabilities"]["proxyOnly"], true);
    assert_eq!(listed["todaySpend"].as_f64(), Some(0.0));
    assert_eq!(listed["runtimeHealth"]["state"], "healthy", "models are known: {listed}");
}

#[test]
fn a_bad_value_of_any_field_is_a_bad_request_that_names_it() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let good = json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey"});
    for (field, values) in [
        ("siteId", vec![json!(null), json!("1"), json!(1.5), json!(0), json!(-1), json!([]), json!(true)]),
        ("accessToken", vec![json!(null), json!(7), json!([]), json!({}), json!(true)]),
        ("username", vec![json!(7), json!([]), json!({}), json!(true)]),
        ("apiToken", vec![json!(7), json!([]), json!({}), json!(true), json!("sk-u****-key")]),
        ("platformUserId", vec![json!("7"), json!(0), json!(-1), json!(1.5), json!(true), json!([])]),
        ("checkinEnabled", vec![json!("yes"), json!(1), json!([]), json!("true")]),
        ("credentialMode", vec![json!("magic"), json!(7), json!([]), json!(true)]),
        ("refreshToken", vec![json!(7), json!([]), json!({})]),
        ("tokenExpiresAt", vec![json!(true), json!([]), json!({})]),
        ("skipModelFetch", vec![json!("yes"), json!(1), json!([])]),
        ("accessTokens", vec![json!("sk-a"), json!(7), json!([7]), json!({})]),
    ] {
        for value in values {
            let mut account = good.clone();
            account[field] = value.clone();
            let error = gateway.admin().post("/api/accounts", &account).expect(400);
            assert_eq!(error["success"], false);
            let message = error["message"].as_str().unwrap_or_default();
            assert!(message.contains(field), "{field} = {value}: {message:?}");
        }
    }
    for field in ["siteId", "accessToken"] {
        let mut account = good.clone();
        account.as_object_mut().expect("an object").remove(field);
        let error = gateway.admin().post("/api/accounts", &account).expect(400);
        assert!(error["message"].as_str().is_some_and(|text| text.contains(field)), "{error}");
    }
    let blank = json!({"siteId": site, "accessToken": "  ", "credentialMode": "apikey"});
    gateway.admin().post("/api/accounts", &blank).expect(400);
    let nowhere = json!({"siteId": 999, "accessToken": KEY, "credentialMode": "apikey"});
    let error = gateway.admin().post("/api/accounts", &nowhere).expect(400);
    assert!(error["message"].as_str().is_some_and(|m| m.to_lowercase().contains("site")), "{error}");
    assert!(accounts(&gateway).is_empty());
    assert!(upstream.asked().is_empty(), "nobody was asked about bad input");
}

#[test]
fn a_key_that_its_upstream_refuses_makes_no_account() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    for (what, reply) in [
        ("refused", Reply::error(401, "Incorrect API key provided")),
        ("broken", Reply::error(500, "boom")),
        ("a page", Reply::html(200, "<html><title>Hello</title></html>")),
        ("no JSON", Reply::bytes(200, "application/json", "{\"data\":")),
        ("no list", Reply::json(200, &json!({"object": "list"}))),
        ("silent", Reply::silence()),
    ] {
        upstream.answer("/v1/models", reply);
        let account = json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey"});
        let error = gateway.admin().post("/api/accounts", &account).expect(400);
        assert_eq!(error["success"], false, "{what}");
        assert!(
            error["message"].as_str().is_some_and(|m| !m.is_empty() && !m.contains(KEY)),
            "{what}: {error}"
        );
    }
    assert!(accounts(&gateway).is_empty());
}

#[test]
fn a_key_without_models_requires_verification() {
    let upstream = Upstream::start(&[]);
    let (gateway, site) = with_site(&upstream);
    let account = json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey"});
    let error = gateway.admin().post("/api/accounts", &account).expect(400);
    assert_eq!(error["requiresVerification"], true, "{error}");
}

#[test]
fn an_operator_may_skip_the_model_fetch() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let account =
        json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey", "skipModelFetch": true});
    let made = gateway.admin().post("/api/accounts", &account).expect(200);
    assert_eq!(made["queued"], false, "{made}");
    assert_eq!(accounts(&gateway).len(), 1);
    assert!(upstream.asked().is_empty());
}

#[test]
fn a_session_that_is_none_is_refused_with_a_message() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let account = json!({"siteId": site, "accessToken": "a-session", "credentialMode": "session"});
    let error = gateway.admin().post("/api/accounts", &account).expect(400);
    assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{error}");
    assert!(accounts(&gateway).is_empty());
}

#[test]
fn several_keys_at_once_make_several_accounts() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let account = json!({"siteId": site, "credentialMode": "apikey", "username": "ann",
        "accessToken": "sk-one, sk-two; sk-one\n sk-three"});
    let made = gateway.admin().post("/api/accounts", &account).expect(200);
    assert_eq!(made["batch"], true, "{made}");
    assert_eq!(made["totalCount"], 3);
    assert_eq!(made["createdCount"], 3);
    assert_eq!(made["failedCount"], 0);
    let listed = accounts(&gateway);
    let mut names: Vec<_> = listed.iter().map(|account| account["username"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [Some("ann #1"), Some("ann #2"), Some("ann #3")]);
}

#[test]
fn several_keys_that_are_all_refused_are_a_bad_request_that_lists_them() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    upstream.answer("/v1/models", Reply::error(401, "invalid key"));
    let account = json!({"siteId": site, "credentialMode": "apikey", "accessToken": "sk-one, sk-two"});
    let refused = gateway.admin().post("/api/accounts", &account).expect(400);
    assert_eq!((&refused["success"], &refused["batch"]), (&json!(false), &json!(true)), "{refused}");
    assert_eq!((&refused["createdCount"], &refused["failedCount"]), (&json!(0), &json!(2)), "{refused}");
    assert_eq!(refused["items"].as_array().map(Vec::len), Some(2), "{refused}");
}

#[test]
fn the_word_bearer_is_no_key() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let create = |keys: &str| {
        let body = json!({"siteId": site, "accessToken": keys, "credentialMode": "apikey"});
        gateway.admin().post("/api/accounts", &body).expect(200)
    };
    let made = create("Bearer sk-one");
    assert_eq!((&made["tokenType"], made.get("batch")), (&json!("apikey"), None), "{made}");
    assert_eq!(create("Bearer sk-two, bearer sk-three")["createdCount"], 2);
    assert_eq!(accounts(&gateway).len(), 3);
}

#[test]
fn a_credential_is_never_shown() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let secret = "sk-very-secret-0123456789abcdef";
    let made = gateway.create_account(&json!({"id": site}), secret);
    gateway.wait_for_task(&made);
    let path = format!("/api/accounts/{}", made["id"]);
    let updated = gateway.admin().put(&path, &json!({"username": "bob"})).expect(200);
    let listed = gateway.admin().get("/api/accounts").expect(200);
    let routes = gateway.admin().get("/api/routes").expect(200);
    let task = gateway.admin().get("/api/tasks").expect(200);
    for answer in [&made, &updated, &listed, &routes, &task] {
        assert!(!answer.to_string().contains(secret), "{answer}");
        assert!(!answer.to_string().contains("0123456789"), "{answer}");
    }
}

#[test]
fn a_masked_credential_sent_back_means_unchanged() {
    let (gateway, upstream, account) = Gateway::with_account(&[MODEL]);
    let path = format!("/api/accounts/{}", account["id"]);
    let shown = accounts(&gateway)[0]["apiToken"].clone();
    assert!(shown.as_str().is_some_and(|text| text.contains('*') || text.contains('•')), "{shown}");
    gateway.admin().put(&path, &json!({"apiToken": shown, "username": "bob"})).expect(200);
    gateway.client().chat(MODEL).expect(200);
    let asked = upstream.last("/v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
}

#[test]
fn a_changed_key_is_used_from_the_next_request_on() {
    let (gateway, upstream, account) = Gateway::with_account(&[MODEL]);
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"apiToken": "sk-another-key"})).expect(200);
    gateway.client().chat(MODEL).expect(200);
    let asked = upstream.last("/v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-another-key"));
}

#[test]
fn what_a_former_key_is_refused_says_nothing_of_the_new_one() {
    let (gateway, upstream, account) = Gateway::with_account(&[MODEL]);
    gateway.wait_for_channels(MODEL, 1);
    let gate = Gate::default();
    let refused = Reply::error(401, "Incorrect API key provided").head_waits_for(&gate);
    upstream.answer_once("/v1/models", refused);
    let before = upstream.asked_for("/v1/models").len();
    let check = format!("/api/models/check/{}", account["id"]);
    std::thread::scope(|scope| {
        let checking = scope.spawn(|| gateway.admin().post(&check, &json!({})).expect(200));
        eventually("the site is asked", || (upstream.asked_for("/v1/models").len() > before).then_some(()));
        let path = format!("/api/accounts/{}", account["id"]);
        gateway.admin().put(&path, &json!({"apiToken": "sk-another-key"})).expect(200);
        gate.open();
        let checked = checking.join().expect("an answer");
        assert_eq!(checked["refresh"]["status"], "success", "{checked}");
    });
    assert_eq!(upstream.last("/v1/models").header("authorization"), Some("Bearer sk-another-key"));
    let list = gateway.admin().get("/api/accounts").expect(200);
    assert_eq!(list["accounts"][0]["runtimeHealth"]["state"], "healthy", "{list}");
}

#[test]
fn a_bad_value_in_an_update_is_named_and_changes_nothing() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    let path = format!("/api/accounts/{}", account["id"]);
    for (field, values) in [
        ("username", vec![json!(7), json!([]), json!(true)]),
        ("accessToken", vec![json!(7), json!([]), json!({})]),
        ("apiToken", vec![json!(7), json!([]), json!({})]),
        ("status", vec![json!(7), json!("paused"), json!([])]),
        ("checkinEnabled", vec![json!("yes"), json!(1), json!([])]),
        ("unitCost", vec![json!("cheap"), json!([]), json!(true), json!(-1)]),
        ("extraConfig", vec![json!(7), json!([]), json!(true)]),
        ("refreshToken", vec![json!(7), json!([])]),
        ("tokenExpiresAt", vec![json!(true), json!([])]),
        ("isPinned", vec![json!("yes"), json!(1), json!([])]),
        ("sortOrder", vec![json!("1"), json!(-1), json!(1.5), json!([])]),
        ("proxyUrl", vec![json!(7), json!([]), json!("ftp://proxy.example"), json!("nonsense")]),
    ] {
        for value in values {
            let body = json!({field: value});
            let error = gateway.admin().put(&path, &body).expect(400);
            let message = error["message"].as_str().unwrap_or_default();
            assert!(message.contains(field), "{body}: {message:?}");
        }
    }
    gateway.client().chat(MODEL).expect(200);
}

#[test]
fn an_update_gives_the_row_back() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    let path = format!("/api/accounts/{}", account["id"]);
    let body = json!({"username": "carol", "unitCost": 0.5, "isPinned": true, "sortOrder": 3});
    let row = gateway.admin().put(&path, &body).expect(200);
    for (field, value) in body.as_object().expect("an object") {
        assert_eq!(&row[field], value, "{field}");
    }
    let cleared = gateway.admin().put(&path, &json!({"unitCost": null})).expect(200);
    assert_eq!(cleared["unitCost"], json!(null));
    gateway.admin().put("/api/accounts/999", &json!({"username": "x"})).expect(404);
    for id in ["abc", "1x", "0", "-1"] {
        gateway.admin().put(&format!("/api/accounts/{id}"), &json!({})).expect(400);
    }
}

#[test]
fn members_of_extra_config_that_are_set_at_the_same_time_all_hold() {
    let (gateway, _upstream, account) = Gateway::with_account(&["alpha"]);
    let path = format!("/api/accounts/{}", account["id"]);
    std::thread::scope(|scope| {
        for hand in ["left", "right", "third"] {
            let (gateway, path) = (&gateway, &path);
            scope.spawn(move || {
                for round in 0..10 {
                    let member = format!("{hand}{round}");
                    gateway.admin().put(path, &json!({"extraConfig": {member: round}})).expect(200);
                }
            });
        }
    });
    let list = gateway.admin().get("/api/accounts").expect(200);
    let text = list["accounts"][0]["extraConfig"].as_str().expect("a text").to_owned();
    let config: Value = serde_json::from_str(&text).expect("JSON");
    for hand in ["left", "right", "third"] {
        for round in 0..10 {
            assert_eq!(config[format!("{hand}{round}")], round, "{text}");
        }
    }
    gateway.admin().put("/api/accounts/999", &json!({"extraConfig": {"a": 1}})).expect(404);
}

#[test]
fn a_disabled_account_serves_nobody() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"status": "disabled"})).expect(200);
    gateway.client().chat(MODEL).expect(503);
    assert!(gateway.models().is_empty(), "a model that nobody serves is not offered");
    gateway.admin().put(&path, &json!({"status": "active"})).expect(200);
    eventually("it serves again", || (gateway.client().chat(MODEL).status == 200).then_some(()));
}

#[test]
fn an_unhealthy_account_is_listed_and_serves_nobody() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    gateway.wait_for_channels(MODEL, 1);
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"status": " Unhealthy "})).expect(200);
    let listed = accounts(&gateway).remove(0);
    assert_eq!(
        (&listed["status"], &listed["runtimeHealth"]["state"]),
        (&json!("unhealthy"), &json!("unhealthy"))
    );
    gateway.client().chat(MODEL).expect(503);
    let decision = gateway.admin().get(&format!("/api/routes/decision?model={MODEL}")).expect(200);
    assert_eq!(decision["decision"]["candidates"][0]["reasonCode"], "account_unusable", "{decision}");
    let gateway = gateway.restart();
    assert_eq!(accounts(&gateway)[0]["status"], "unhealthy", "it is stored");
    gateway.client().chat(MODEL).expect(503);
    gateway.admin().put(&path, &json!({"status": "active"})).expect(200);
    eventually("it serves again", || (gateway.client().chat(MODEL).status == 200).then_some(()));
}

#[test]
fn an_unhealthy_account_whose_models_are_found_is_active_again() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    gateway.wait_for_channels(MODEL, 1);
    gateway
        .admin()
        .put(&format!("/api/accounts/{}", account["id"]), &json!({"status": "unhealthy"}))
        .expect(200);
    let checked =
        gateway.admin().post(&format!("/api/models/check/{}", account["id"]), &json!({})).expect(200);
    assert_eq!(
        (&checked["refresh"]["status"], &checked["rebuild"]["models"]),
        (&json!("success"), &json!(1))
    );
    assert_eq!(accounts(&gateway)[0]["status"], "active");
    gateway.client().chat(MODEL).expect(200);
}

/// Does one thing to an account or its site, and returns the status that the account then has.
fn status_after(gateway: &Gateway, account: &Value, change: &str) -> String {
    let admin = gateway.admin();
    let (subject, to) = change.split_once(' ').expect("two words");
    match subject {
        "batch" => admin.post("/api/accounts/batch", &json!({"action": to, "ids": [account["id"]]})),
        "site" => admin.put(&format!("/api/sites/{}", account["siteId"]), &json!({"status": to})),
        _ => {
            let form = json!({"username": "edited", "status": to});
            admin.put(&format!("/api/accounts/{}", account["id"]), &form)
        }
    }
    .expect(200);
    gateway.account(&account["id"])["status"].as_str().expect("a status").to_owned()
}

#[test]
fn an_expired_account_is_expired_again_when_it_is_enabled() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    for (change, status) in [
        ("form expired", "expired"),
        ("batch disable", "disabled"),
        ("batch enable", "expired"),
        ("form disabled", "disabled"),
        ("form disabled", "disabled"),
        ("form active", "expired"),
        // Its site does not enable an account that an operator disabled.
        ("batch disable", "disabled"),
        ("site disabled", "disabled"),
        ("site active", "disabled"),
        ("batch enable", "expired"),
        ("site disabled", "disabled"),
        ("batch enable", "expired"),
        ("site active", "expired"),
        ("batch disable", "disabled"),
    ] {
        assert_eq!(status_after(&gateway, &account, change), status, "{change}");
    }
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"apiToken": "sk-new"})).expect(200);
    assert_eq!(status_after(&gateway, &account, "batch enable"), "active", "its new key is another one");
}

#[test]
fn a_form_saved_while_its_site_is_disabled_disables_nothing() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    for (change, status) in [
        ("site disabled", "disabled"),
        ("form disabled", "disabled"),
        ("site active", "active"),
        ("site disabled", "disabled"),
        ("batch disable", "disabled"),
        ("site active", "disabled"),
    ] {
        assert_eq!(status_after(&gateway, &account, change), status, "{change}");
    }
}

#[test]
fn a_deleted_account_takes_its_channels_along() {
    let (gateway, _upstream, account) = Gateway::with_account(&[MODEL]);
    let path = format!("/api/accounts/{}", account["id"]);
    assert_eq!(gateway.admin().delete(&path).expect(200)["success"], true);
    assert!(accounts(&gateway).is_empty());
    gateway.client().chat(MODEL).expect(503);
    eventually("its route is gone", || gateway.channels(MODEL).is_empty().then_some(()));
    assert_eq!(gateway.admin().delete(&path).expect(200)["success"], true, "again is fine");
}

#[test]
fn a_batch_reports_each_account_by_itself() {
    let upstream = Upstream::start(&[MODEL]);
    let (gateway, site) = with_site(&upstream);
    let ids: Vec<Value> =
        ["sk-1", "sk-2"].map(|key| gateway.create_account(&json!({"id": site}), key)["id"].clone()).into();
    let batch = |action: &str, ids: Value| {
        gateway.admin().post("/api/accounts/batch", &json!({"action": action, "ids": ids}))
    };
    let done = batch("disable", json!([ids[0], 999, ids[1], ids[0]])).expect(200);
    assert_eq!(done["successIds"], json!(ids));
    assert_eq!(done["failedItems"][0]["id"], 999);
    assert!(accounts(&gateway).iter().all(|account| account["status"] == "disabled"));
    batch("enable", json!(ids)).expect(200);
    assert!(accounts(&gateway).iter().all(|account| account["status"] == "active"));
    batch("delete", json!(ids)).expect(200);
    assert!(accounts(&gateway).is_empty());
    for (action, ids, field) in [
        ("delete", json!([]), "ids"),
        ("delete", json!(["1"]), "ids"),
        ("delete", json!(null), "ids"),
        ("explode", json!([1]), "action"),
    ] {
        let error = batch(action, ids).expect(400);
        assert!(error["message"].as_str().is_some_and(|m| m.contains(field)), "{error}");
    }
}

// === verify-token ===

fn verify(gateway: &Gateway, body: &Value) -> Value {
    gateway.admin().post("/api/accounts/verify-token", body).expect(200)
}

#[test]
fn a_good_key_is_verified_with_its_models_and_nothing_is_stored() {
    let names: Vec<String> = (0..25).map(|n| format!("model-{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let upstream = Upstream::start(&names);
    let (gateway, site) = with_site(&upstream);
    let body = json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey"});
    let verified = verify(&gateway, &body);
    assert_eq!(verified["success"], true, "{verified}");
    assert_eq!(verified["tokenType"], "apikey");
    assert_eq!(verified["modelCount"], 25);
    assert_eq!(verified["models"].as_array().map(Vec::len), Some(10));
    let asked = upstream.last("/v1/models");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
    assert!(accounts(&gateway).is_empty());
}

#[test]
fn what_is_wrong_with_a_key_is_said_with_status_200() {
    let upstream = Upstream::start(&[]);
    let (gateway, site) = with_site(&upstream);
    let body = json!({"siteId": site, "accessToken": KEY, "credentialMode": "apikey"});
    let mut unknown_site = body.clone();
    unknown_site["siteId"] = json!(999);
    let mut blank = body.clone();
    blank["accessToken"] = json!("  ");
    for body in [unknown_site, blank, body.clone()] {
        let failed = verify(&gateway, &body);
        assert_eq!(failed["success"], false, "{body}: {failed}");
        assert!(failed["message"].as_str().is_some_and(|m| !m.is_empty()), "{failed}");
    }
    upstream.answer("/v1/models", Reply::error(401, "Incorrect API key provided"));
    assert_eq!(verify(&gateway, &body)["success"], false);
    let shield = Reply::html(200, "<html><script>var arg1='B8B78DDA1D5CD259';</script></html>");
    upstream.answer("/v1/models", shield.clone());
    upstream.answer("/api/user/self", shield);
    let blocked = verify(&gateway, &body);
    assert_eq!(blocked["success"], false);
    assert_eq!(blocked["shieldBlocked"], true, "{blocked}");
}

#[test]
fn a_challenge_to_a_key_is_no_refusal_of_it() {
    let upstream = Upstream::start(&[]);
    let (gateway, site) = with_site(&upstream);
    let challenge = "<html><title>Just a moment...</title><body class='challenge-platform'></body></html>";
    upstream.answer("/v1/models", Reply::html(403, challenge));
    for mode in ["apikey", "auto"] {
        let body = json!({"siteId": site, "accessToken": KEY, "credentialMode": mode});
        let blocked = verify(&gateway, &body);
        assert_eq!(
            (&blocked["success"], &blocked["shieldBlocked"]),
            (&json!(false), &json!(true)),
            "{blocked}"
        );
    }
}

#[test]
fn verification_input_is_checked_and_its_field_named() {
    for cases in [
        ("siteId", [json!("1"), json!(0), json!(null)]),
        ("accessToken", [json!(7), json!([]), json!(null)]),
        ("platformUserId", [json!("7"), json!(-1), json!(1.5)]),
        ("credentialMode", [json!("magic"), json!(7), json!([])]),
    ] {
        // The route allows twenty requests a minute, so every field gets its own gateway.
        let gateway = Gateway::start();
        for value in cases.1 {
            let mut body = json!({"siteId": 1, "accessToken": KEY});
            body[cases.0] = value.clone();
            let error = gateway.admin().post("/api/accounts/verify-token", &body).expect(400);
            assert!(error["message"].as_str().is_some_and(|m| m.contains(cases.0)), "{value}: {error}");
        }
    }
}

#[test]
fn verification_is_guarded_per_address() {
    let gateway = Gateway::start();
    let ask = |address: &str| {
        let ask = Request::post("/api/accounts/verify-token").header("x-forwarded-for", address);
        gateway.admin().send(ask.json(&json!({"siteId": 999, "accessToken": KEY})))
    };
    for _ in 0..20 {
        ask("203.0.113.7").expect(200);
    }
    let refused = ask("203.0.113.7");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.expect(429)["success"], false);
    ask("203.0.113.8").expect(200);
}
