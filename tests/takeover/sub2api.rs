//! The keys of sub2api; its logins are imported in another way.

use serde_json::{Value, json};

use super::{Move, find, list};
use crate::support::Gateway;

fn of_sub2api() -> Value {
    let account = |name: &str, platform: &str, kind: &str, credentials: Value| {
        json!({"name": name, "platform": platform, "type": kind, "credentials": credentials, "concurrency": 3,
            "priority": 0})
    };
    let mut first = account(
        "one",
        "openai",
        "apikey",
        json!({"api_key": "sk-one", "base_url": "https://one.example/v1"}),
    );
    first["proxy_key"] = json!("p1");
    let mut without_its_proxy = account("five", "openai", "apikey", json!({"api_key": "sk-five"}));
    without_its_proxy["proxy_key"] = json!("gone");
    let accounts = json!([
        first,
        account("two", "anthropic", "upstream", json!({"api_key": "sk-two"})),
        account("three", "anthropic", "oauth", json!({"access_token": "at", "refresh_token": "rt"})),
        account("four", "of-the-future", "apikey", json!({"api_key": "sk-four"})),
        without_its_proxy,
    ]);
    let proxies = json!([{"proxy_key": "p1", "name": "p", "protocol": "socks5", "host": "p.example", "port": 1080,
        "username": "u", "password": "a secret"}]);
    json!({"type": "sub2api-data", "version": 1, "proxies": proxies, "accounts": accounts})
}

#[test]
fn the_keys_of_sub2api_are_taken_without_its_logins() {
    for file in [of_sub2api(), json!({ "data": of_sub2api() })] {
        let moving = Move::of_text("sub2api.json", &file.to_string());
        let told = moving.import(&[]);
        for told_of in [
            "accounts[2] “three”: an account of an OAuth login",
            "/api/oauth/import",
            "accounts[3] “four”: its platform is unknown",
            "accounts[0].concurrency",
            "accounts[4].proxy_key",
        ] {
            assert!(told.contains(told_of), "{told_of} in {told}");
        }
        for secret in ["sk-one", "a secret", "a%20secret", "sk-four"] {
            assert!(!told.contains(secret), "{secret} in {told}");
        }
        let gateway = moving.start();
        let sites = list(&gateway, "/api/sites");
        assert_eq!(find(&sites, "url", "https://one.example")["platform"], "openai");
        assert_eq!(find(&sites, "url", "https://api.anthropic.com")["platform"], "claude");
        let accounts = list(&gateway, "/api/accounts");
        assert_eq!(accounts.len(), 3);
        assert_eq!(find(&accounts, "username", "five")["status"], "disabled");
        let extra = &find(&accounts, "username", "one")["extraConfig"];
        let extra: Value = serde_json::from_str(extra.as_str().expect("a text")).expect("JSON");
        let proxy = &extra["proxyUrl"];
        assert!(proxy.as_str().is_some_and(|url| url.starts_with("socks5://u:****@p.example")), "{proxy}");
    }
}

#[test]
fn what_sub2api_says_of_a_key_and_is_not_taken_is_named() {
    let mut file = of_sub2api();
    file["zzz"] = json!(1);
    let account = &mut file["accounts"][0];
    for (member, value) in [
        ("rate_multiplier", json!(0.5)),
        ("notes", json!("n")),
        ("extra", json!({"x": 1})),
        ("mystery", json!(true)),
        ("nothing", json!("")),
    ] {
        account[member] = value;
    }
    account["credentials"]["model_mapping"] = json!({"a": "b"});
    account["credentials"]["weird"] = json!("sk-weird-secret");
    let told = Move::of_text("sub2api.json", &file.to_string()).import(&[]);
    for named in
        ["rate_multiplier", "notes", "extra", "mystery", "credentials.model_mapping", "credentials.weird"]
    {
        assert!(told.contains(&format!("accounts[0].{named}")), "{named} in {told}");
    }
    assert!(told.contains("zzz"), "{told}");
    assert!(!told.contains("nothing") && !told.contains("sk-weird-secret"), "{told}");
}

#[test]
fn a_service_that_runs_takes_the_keys_of_sub2api_and_says_where_logins_go() {
    let gateway = Gateway::start();
    let import = |file: Value| gateway.admin().post("/api/settings/backup/import", &json!({ "data": file }));
    assert_eq!(import(of_sub2api()).expect(200)["success"], true);
    assert_eq!(list(&gateway, "/api/accounts").len(), 3);
    let mut logins = of_sub2api();
    let rows = logins["accounts"].as_array_mut().expect("rows");
    rows.retain(|account| account["type"] == "oauth");
    let login = json!({"type": "codex", "access_token": "at", "refresh_token": "rt"});
    for option in ["dryRun", "mode", "conflict"] {
        let mut body = json!({ "data": of_sub2api() });
        body[option] = json!("skip");
        let refused = gateway.admin().post("/api/settings/backup/import", &body).expect(400);
        assert!(refused["message"].as_str().is_some_and(|why| why.contains(option)), "{refused}");
    }
    for file in [logins, login] {
        let refused = import(file).expect(400);
        assert!(
            refused["message"].as_str().is_some_and(|why| why.contains("/api/oauth/import")),
            "{refused}"
        );
    }
}
