//! Members of other programs' files that are not known here: each is named, wherever it stands.

use serde_json::{Value, json};

use super::Move;

#[track_caller]
fn names(file: &str, document: &Value, expected: &[&str]) {
    let told = Move::of_text(file, &document.to_string()).import(&["--dry-run"]);
    for place in expected {
        assert!(told.contains(place), "{file}: {place} in {told}");
    }
    assert!(!told.contains("hidden"), "values are not shown: {told}");
}

#[test]
fn every_member_that_is_not_known_is_named() {
    let account = json!({"id": "a1", "site_name": "S", "site_url": "https://one.example", "site_type": "new-api",
        "authType": "access_token", "account_info": {"id": "4", "access_token": "token-of-ann", "username": "ann"},
        "cookieAuth": {"zCookie": "hidden"}, "sub2apiAuth": {"zSub": "hidden"}});
    let profile = json!({"id": "p", "name": "P", "apiType": "openai", "baseUrl": "https://p.example",
        "apiKey": "sk-of-a-profile", "notes": "hidden", "tagIds": ["q"], "zProfile": "hidden"});
    let hub = json!({"version": "4.0", "timestamp": 1, "zTop": {"a": 1},
        "accounts": {"accounts": [account], "bookmarks": [], "zList": [{"a": 1}]},
        "apiCredentialProfiles": {"profiles": [profile], "zSection": [1]}});
    names(
        "hub.json",
        &hub,
        &[
            "zTop",
            "accounts.zList",
            "apiCredentialProfiles.zSection",
            "accounts[].cookieAuth.zCookie (1 accounts)",
            "accounts[].sub2apiAuth.zSub (1 accounts)",
            "profiles[].notes (1 profiles)",
            "profiles[].tagIds (1 profiles)",
            "profiles[].zProfile (1 profiles)",
        ],
    );
    let rows = json!({"sites": [{"id": 1, "name": "n", "url": "https://m.example", "platform": "openai"}],
        "accounts": [], "accountTokens": [], "tokenRoutes": [], "routeChannels": [], "zArray": []});
    let metapi = json!({"version": "2.1", "timestamp": 1, "zTop": "hidden", "accounts": rows,
        "preferences": {"settings": [], "zPreference": "hidden"}});
    names("metapi.json", &metapi, &["zTop", "zArray", "preferences.zPreference"]);
    let cli = json!({"claude-api-key": [{"api-key": "sk-of-claude", "models": [
            {"name": "a", "alias": "b", "zModel": "hidden"}]}],
        "openai-compatibility": [{"name": "o", "base-url": "https://o.example",
            "api-key-entries": [{"api-key": "sk-of-another", "zKey": "hidden"}]}]});
    names(
        "cli.json",
        &cli,
        &["claude-api-key[0].models[0].zModel", "openai-compatibility[0].api-key-entries[0].zKey"],
    );
    let litellm = json!({"model_list": [{"model_name": "a", "zEntry": "hidden",
        "litellm_params": {"model": "openai/a", "api_key": "sk-of-litellm"}}]});
    names("litellm.json", &litellm, &["model_list[0].zEntry"]);
    let sub2api = json!({"type": "sub2api-data", "version": 1,
        "proxies": [{"proxy_key": "k", "protocol": "http", "host": "h", "port": 1, "zProxy": "hidden"}],
        "accounts": [{"name": "A", "platform": "openai", "type": "apikey", "proxy_key": "k",
            "credentials": {"api_key": "sk-of-sub2api"}}]});
    names("sub2api.json", &sub2api, &["proxies[0].zProxy"]);
}
