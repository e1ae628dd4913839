//! Discovery: an upstream's model list becomes routes, and a failed request changes nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Relay, Reply, Site, Upstream, eventually, wire};

/// Changes the account's key, which makes the gateway read the upstream's models again and rebuild.
fn refresh(gateway: &Gateway, account: &Value) {
    let path = format!("/api/accounts/{}", account["id"]);
    let body = json!({"apiToken": "sk-upstream-key-renewed"});
    gateway.admin().put(&path, &body).expect(200);
}

#[test]
fn a_site_that_hangs_holds_up_the_model_lists_of_no_other() {
    let gateway = Gateway::start();
    let (hanging, good) = (Upstream::start(&["m-a"]), Upstream::start(&["m-b"]));
    let (site, _) = gateway.add("Hanging", &hanging);
    for number in 0..9 {
        let body = json!({"siteId": site["id"], "accessToken": format!("sk-hanging-{number}"),
            "credentialMode": "apikey", "skipModelFetch": true});
        gateway.admin().post("/api/accounts", &body).expect(200);
    }
    gateway.add("Good", &good);
    hanging.answer("/v1/models", Reply::stall());
    let before = good.asked_for("/v1/models").len();
    gateway.admin().post("/api/routes/rebuild", &json!({"refreshModels": true})).expect(202);
    eventually("the good site is asked", || (good.asked_for("/v1/models").len() > before).then_some(()));
}

#[test]
fn every_model_of_the_list_is_routed_once() {
    let (gateway, upstream) = Gateway::serving(&["gpt-x", " padded ", "vendor/gpt-y", "GPT-X", "gpt-x"]);
    assert_eq!(gateway.models(), ["gpt-x", "padded", "vendor/gpt-y"]);
    for model in ["gpt-x", "padded", "vendor/gpt-y"] {
        gateway.client().chat(model).expect(200);
        assert_eq!(upstream.last("/v1/chat/completions").json()["model"], model);
    }
    assert_eq!(gateway.client().chat("GPT-X").status, 503, "names are case-sensitive");
}

#[test]
fn the_same_model_on_two_sites_is_one_route_with_two_channels() {
    let (one, two) = (Upstream::start(&["shared", "only-one"]), Upstream::start(&["shared"]));
    let gateway = Gateway::start();
    gateway.add("one", &one);
    gateway.add("two", &two);
    gateway.wait_for_channels("shared", 2);
    gateway.wait_for_channels("only-one", 1);
    assert_eq!(gateway.routes().len(), 2);
}

#[test]
fn a_refresh_adds_what_came_and_removes_what_went() {
    let (gateway, upstream, account) = Gateway::with_account(&["stays", "goes"]);
    upstream.offer(&["stays", "comes"]);
    refresh(&gateway, &account);
    eventually("the routes follow", || (gateway.models() == ["comes", "stays"]).then_some(()));
}

#[test]
fn a_failed_refresh_empties_nothing() {
    let (gateway, upstream, account) = Gateway::with_account(&["kept"]);
    gateway.client().chat("kept").expect(200);
    gateway.wait_for_logs(1);
    let counted = || {
        eventually("the channel counted its success", || {
            let channel = gateway.channels("kept").pop()?;
            (channel["successCount"] == 1).then_some(channel["id"].clone())
        })
    };
    let channel = counted();
    let huge = format!("{{\"data\":[\"{}\"]}}", "x".repeat(10 << 20));
    for (what, reply) in [
        ("an error", Reply::error(500, "boom")),
        ("a refusal", Reply::error(401, "invalid key")),
        ("a page", Reply::html(200, "<!doctype html><title>Just a moment</title>")),
        ("garbage", Reply::bytes(200, "application/json", "\u{0}\u{1}{{{")),
        ("an empty list", Reply::json(200, &wire::model_list(&[]))),
        ("a list of nonsense", Reply::json(200, &json!({"data": [7, null, {"id": 5}, {"id": ""}]}))),
        ("another shape", Reply::json(200, &json!({"data": "kept"}))),
        ("ten megabytes", Reply::bytes(200, "application/json", huge)),
        ("a closed connection", Reply::silence()),
        ("a cut answer", Reply::json(200, &wire::model_list(&["new".to_owned()])).cut_after(0)),
        ("a redirect to nowhere", Reply::bytes(302, "text/plain", "").header("location", "/v1/models")),
    ] {
        upstream.answer("/v1/models", reply);
        refresh(&gateway, &account);
        assert_eq!(gateway.models(), ["kept"], "{what}");
        assert_eq!(counted(), channel, "{what}: the same channel with its counters");
    }
    gateway.client().chat("kept").expect(200);
}

/// Adds the site with an account by a session, and waits until its models are known.
fn session_at(gateway: &Gateway, site: &Site) -> Value {
    let relay = json!({"name": "site", "url": site.url(), "platform": "new-api"});
    let session = json!({"siteId": gateway.create_site(&relay)["id"], "accessToken": site.token(),
        "platformUserId": 7659});
    let account = gateway.admin().post("/api/accounts", &session).expect(200);
    gateway.wait_for_task(&account);
    account
}

#[test]
fn a_failed_refresh_says_why_the_session_could_not_be_used() {
    let upstream = Upstream::start(&["kept"]);
    upstream.answer("/v1/models", Reply::error(401, "invalid key"));
    let gateway = Gateway::start();
    // Only an import stores a site whose own address cannot be used.
    let document = json!({"version": "2.1", "timestamp": 1_772_352_000_000_i64, "accounts": {
        "sites": [{"id": 7, "name": "one", "url": "ftp://one.example", "platform": "new-api"}],
        "siteApiEndpoints": [{"id": 1, "siteId": 7, "url": upstream.url()}],
        "accounts": [{"id": 9, "siteId": 7, "username": "ann", "accessToken": "a-session"}],
        "accountTokens": [], "tokenRoutes": [], "routeChannels": []}});
    gateway.admin().post("/api/settings/backup/import", &json!({ "data": document })).expect(200);
    let account = gateway.admin().get("/api/accounts").expect(200)["accounts"][0]["id"].clone();
    let checked = gateway.admin().post(&format!("/api/models/check/{account}"), &json!({})).expect(200);
    let message = checked["refresh"]["errorMessage"].as_str().unwrap_or_default();
    assert!(message.contains("nor can its session be used: the address must begin with"), "{checked}");
}

#[test]
fn a_model_list_that_never_comes_is_given_up() {
    let site = Site::start(Program::NewApi, &["kept"]);
    let gateway = Gateway::start();
    let account = session_at(&gateway, &site);
    for path in ["/v1/models", "/api/user/models"] {
        site.answer(path, Reply::stall());
    }
    let started = std::time::Instant::now();
    refresh(&gateway, &account);
    assert!(
        started.elapsed() < Duration::from_secs(36),
        "two lists are waited for, however many credentials"
    );
    assert_eq!(gateway.models(), ["kept"]);
}

/// A site that hangs does so for every key, and there may be a thousand.
#[test]
fn two_lists_in_a_row_that_never_come_end_the_discovery_of_an_account() {
    let site = Site::start(Program::NewApi, &["kept"]);
    for number in 0..5 {
        let mut key = site.ada().keys[0].clone();
        key.id = 100 + number;
        key.key = format!("more{number}0123456789012345678901234567890123456789tail");
        site.ada().keys.push(key);
    }
    let gateway = Gateway::start();
    let account = session_at(&gateway, &site);
    let before = site.asked_for("/v1/models").len();
    site.answer("/v1/models", Reply::stall());
    site.answer_once(
        "/v1/models",
        Reply::json(200, &wire::model_list(&["kept".to_owned(), "new".to_owned()])),
    );
    let started = std::time::Instant::now();
    refresh(&gateway, &account);
    assert!(started.elapsed() < Duration::from_secs(36), "two lists are waited for, not each of them");
    assert_eq!(site.asked_for("/v1/models").len(), before + 3);
    assert_eq!(gateway.channels("new").len(), 1, "the key that got a list serves by it");
    // Keys that were not asked keep their models.
    gateway.client().chat("kept").expect(200);
}

#[test]
fn a_session_whose_user_has_no_models_is_not_called_refused() {
    let site = Site::start(Program::NewApi, &["m"]);
    site.ada().keys.clear();
    let gateway = Gateway::start();
    let account = session_at(&gateway, &site);
    for none in [json!([]), json!(null), json!({})] {
        let answer = json!({"success": true, "message": "", "data": none});
        site.answer("/api/user/models", Reply::json(200, &answer));
        let path = format!("/api/models/check/{}", account["id"]);
        let checked = gateway.admin().post(&path, &json!({})).expect(200);
        assert_eq!(checked["refresh"]["errorCode"], "empty_models", "{checked}");
        assert_eq!(checked["refresh"]["errorMessage"], "the site lists no models");
    }
}

#[test]
fn keys_are_asked_where_the_list_of_their_session_never_comes() {
    let (gateway, relay) = (Gateway::start(), Relay::start(&["m"]));
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let list = |session: fn() -> Reply| {
        relay.upstream.serve(move |asked| {
            let is_key = asked.header("authorization").is_some_and(|value| value.contains("sk-"));
            (asked.path() == "/v1/models" && !is_key).then(session)
        });
    };
    list(|| Reply::error(401, "no key"));
    for token in ["sk-first-0123456789", "sk-second-0123456789"] {
        let body = json!({"accountId": account["id"], "token": token});
        gateway.admin().post("/api/account-tokens", &body).expect(200);
    }
    list(Reply::stall);
    relay.upstream.offer(&["m", "new"]);
    let path = format!("/api/models/check/{}", account["id"]);
    let checked = gateway.admin().post(&path, &json!({})).expect(200);
    let refresh = &checked["refresh"];
    assert_eq!((&refresh["status"], &refresh["tokenScanned"]), (&json!("success"), &json!(2)), "{checked}");
    assert_eq!(gateway.channels("new").len(), 2);
}

#[test]
fn a_refresh_in_which_no_key_gets_a_list_in_time_is_a_failure() {
    let (gateway, relay) = (Gateway::start(), Relay::start(&["m"]));
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    let body = json!({"accountId": account["id"], "token": "sk-first-0123456789"});
    gateway.admin().post("/api/account-tokens", &body).expect(200);
    relay.upstream.serve(|asked| {
        let is_key = asked.header("authorization").is_some_and(|value| value.contains("sk-"));
        (asked.path() == "/v1/models" && is_key).then(Reply::stall)
    });
    let path = format!("/api/models/check/{}", account["id"]);
    let checked = gateway.admin().post(&path, &json!({})).expect(200);
    let refresh = &checked["refresh"];
    assert_eq!(
        (&refresh["status"], &refresh["errorCode"]),
        (&json!("failed"), &json!("timeout")),
        "{checked}"
    );
    assert_eq!(gateway.channels("m").len(), 1, "what was known stays");
}

#[test]
fn a_site_that_lists_models_without_end_is_used_with_the_first_five_thousand() {
    let names: Vec<String> = (0..15_000).map(|number| format!("m-{number:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let upstream = Upstream::start(&names);
    let gateway = Gateway::start();
    let (_, account) = gateway.add("site", &upstream);
    assert_eq!(gateway.models(), names[..5000]);
    gateway.client().chat("m-04999").expect(200);
    gateway.client().chat("m-05000").expect(503);
    let health = || gateway.account(&account["id"])["runtimeHealth"].clone();
    assert_eq!(health()["state"], "degraded");
    assert_eq!(health()["reason"], "more than 5000 models are listed: the first 5000 are used");

    // New models of the list replace the old ones.
    upstream.offer(&names[2000..6000]);
    refresh(&gateway, &account);
    eventually("the routes follow", || (gateway.models() == names[2000..6000]).then_some(()));
    assert_eq!(health()["state"], "healthy");
}

#[test]
fn models_whose_names_are_too_long_are_skipped_and_logged() {
    let (fits, long, longer) = ("模型".repeat(60), "y".repeat(192), "x".repeat(300));
    let upstream = Upstream::start(&["m", &fits, &long, &longer]);
    let gateway = Gateway::start().in_front_of("openai", &upstream);
    assert_eq!(gateway.models(), ["m", fits.as_str()]);
    gateway.wait_for_output("2 model(s) are skipped because their names have more than 191 characters");
}

#[test]
fn an_account_whose_models_all_have_names_that_are_too_long_is_told_so() {
    let upstream = Upstream::start(&["kept"]);
    let gateway = Gateway::start().in_front_of("openai", &upstream);
    let account = gateway.admin().get("/api/accounts").expect(200)["accounts"][0]["id"].clone();
    upstream.answer("/v1/models", Reply::json(200, &wire::model_list(&["y".repeat(192), "z".repeat(300)])));
    let checked = gateway.admin().post(&format!("/api/models/check/{account}"), &json!({})).expect(200);
    let refresh = &checked["refresh"];
    assert_eq!(refresh["errorCode"], "empty_models", "{checked}");
    let message = "the names of all 2 listed models have more than 191 characters";
    assert_eq!(refresh["errorMessage"], message, "{checked}");
}

#[test]
fn a_claude_site_is_asked_in_its_own_way() {
    let (_gateway, upstream) = Gateway::serving_as("claude", &["claude-x"]);
    let asked = upstream.last("/v1/models");
    assert_eq!(asked.header("x-api-key"), Some("sk-upstream-key"));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
}

#[test]
fn a_sites_own_headers_go_along_but_never_replace_the_credential() {
    let upstream = Upstream::start(&["m"]);
    let gateway = Gateway::start();
    let headers = json!({"x-custom": "kept", "authorization": "Bearer stolen"}).to_string();
    gateway.add_as(&json!({"name": "h", "platform": "openai", "customHeaders": headers}), &upstream);
    let asked = upstream.last("/v1/models");
    assert_eq!(asked.header("x-custom"), Some("kept"));
    assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
}

#[test]
fn a_base_address_that_ends_in_a_version_gets_no_second_one() {
    let upstream = Upstream::start(&[]);
    upstream.answer("/paas/v4/models", Reply::json(200, &wire::model_list(&["glm".to_owned()])));
    upstream.answer("/paas/v4/chat/completions", Reply::json(200, &wire::chat("glm")));
    let gateway = Gateway::start();
    let url = format!("{}/paas/v4", upstream.url());
    let site = gateway.create_site(&json!({"name": "v4", "url": url, "platform": "openai"}));
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_task(&account);
    gateway.client().chat("glm").expect(200);
    assert_eq!(upstream.asked_for("/paas/v4/chat/completions").len(), 1);
}

#[test]
fn a_redirect_to_another_host_gets_no_credential() {
    let other = Upstream::start(&["stolen"]);
    let (gateway, upstream, account) = Gateway::with_account(&["kept"]);
    let elsewhere = other.url().replace("127.0.0.1", "localhost") + "/v1/models";
    upstream.answer("/v1/models", Reply::bytes(302, "text/plain", "").header("location", &elsewhere));
    refresh(&gateway, &account);
    assert_eq!(gateway.models(), ["kept"]);
    assert!(other.asked().iter().all(|asked| asked.header("authorization").is_none()));
}

#[test]
fn an_unreachable_proxy_is_never_gone_around() {
    let upstream = Upstream::start(&["m"]);
    let gateway = Gateway::start();
    let closed = Upstream::start(&[]);
    let proxy = closed.url();
    closed.refuse();
    let site = gateway
        .create_site(&json!({"name": "p", "url": upstream.url(), "platform": "openai", "proxyUrl": proxy}));
    let account = json!({"siteId": site["id"], "accessToken": "sk-k", "credentialMode": "apikey"});
    gateway.admin().post("/api/accounts", &account).expect(400);
    assert!(upstream.asked().is_empty(), "no direct connection was made");
}

#[test]
fn an_accounts_own_proxy_is_never_gone_around_either() {
    let (gateway, upstream, account) = Gateway::with_account(&["kept"]);
    let closed = Upstream::start(&[]);
    let proxy = closed.url();
    closed.refuse();
    let asked = upstream.asked_for("/v1/models").len();
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"proxyUrl": proxy})).expect(200);
    let rebuilt = gateway.admin().post("/api/routes/rebuild", &json!({"wait": true})).expect(200);
    assert_eq!(rebuilt["refresh"][0]["status"], "failed");
    assert_eq!(upstream.asked_for("/v1/models").len(), asked, "no direct connection was made");
    assert_eq!(gateway.models(), ["kept"]);
}

#[test]
fn an_account_keeps_the_models_of_a_key_that_cannot_be_asked_for_a_while() {
    let (gateway, relay) = (Gateway::start(), Relay::start(&[]));
    let is_down = Arc::new(AtomicBool::new(false));
    let of_second = Arc::clone(&is_down);
    relay.upstream.serve(move |asked| {
        let list = |names: [&str; 2]| {
            Reply::json(200, &json!({"object": "list", "data": names.map(|name| json!({"id": name}))}))
        };
        (asked.path() == "/v1/models").then(|| match asked.header("authorization") {
            Some("Bearer sk-first-0123456789") => list(["x", "both"]),
            Some("Bearer sk-second-0123456789") if of_second.load(SeqCst) => Reply::error(500, "boom"),
            Some("Bearer sk-second-0123456789") => list(["both", "y"]),
            _ => Reply::error(401, "no key"),
        })
    });
    let account = relay.account(&gateway, &relay.site(&gateway, "Relay A"), "ada");
    for token in ["sk-first-0123456789", "sk-second-0123456789"] {
        let body = json!({"accountId": account["id"], "token": token});
        gateway.admin().post("/api/account-tokens", &body).expect(200);
    }
    for down in [false, true] {
        is_down.store(down, SeqCst);
        let checked =
            gateway.admin().post(&format!("/api/models/check/{}", account["id"]), &json!({})).expect(200);
        assert_eq!(checked["refresh"]["status"], "success", "{checked}");
        let listed = gateway.admin().get(&format!("/api/accounts/{}/models", account["id"])).expect(200);
        let mut names: Vec<_> = listed["models"]
            .as_array()
            .expect("models")
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["both", "x", "y"], "down: {down}");
        assert_eq!(gateway.models(), ["both", "x", "y"], "down: {down}");
    }
}

/// Such a site may be left by an import from another program.
#[test]
fn a_site_of_an_unknown_platform_is_not_asked() {
    let (gateway, relay) = (Gateway::start(), Relay::start(&["m"]));
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    gateway.home().database().run(&format!("UPDATE sites SET platform = 'azure' WHERE id = {}", site["id"]));
    let asked = relay.upstream.asked().len();
    let checked =
        gateway.admin().post(&format!("/api/models/check/{}", account["id"]), &json!({})).expect(200);
    let refresh = &checked["refresh"];
    assert_eq!((&refresh["refreshed"], &refresh["status"]), (&json!(false), &json!("skipped")), "{checked}");
    assert_eq!(refresh["reason"], "adapter_or_status");
    let can = gateway.account(&account["id"])["capabilities"].clone();
    assert_eq!((&can["canCheckin"], &can["canRefreshBalance"]), (&json!(false), &json!(false)));
    assert_eq!(relay.upstream.asked().len(), asked);
}

#[test]
fn a_session_is_told_of_no_models_that_its_keys_do_not_reach() {
    let sub = Site::start(Program::Sub2Api, &["m"]);
    let gateway = Gateway::start();
    for (path, models) in [("/api/v1", &[][..]), ("/v1", &["m"])] {
        let url = format!("{}{path}", sub.url());
        let site = gateway.create_site(&json!({"name": path, "url": url, "platform": "sub2api",
            "apiEndpoints": [{"url": url}]}));
        let body = json!({"siteId": site["id"], "accessToken": sub.token(), "credentialMode": "session"});
        let account = gateway.admin().post("/api/accounts", &body).expect(200);
        gateway.wait_for_task(&account);
        let listed = gateway.admin().get(&format!("/api/accounts/{}/models", account["id"])).expect(200);
        let names: Vec<_> =
            listed["models"].as_array().expect("models").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, models.to_vec(), "{path}");
        assert_eq!(gateway.models(), models.to_vec(), "{path}");
    }
}
