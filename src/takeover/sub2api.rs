//! The keys in an export of sub2api's accounts (`sub2api-data`, `sub2api-bundle`). Logins in it are connected
//! by the import of connections.
//!
//! The members are those of `account_data.go` in github.com/Wei-Shaw/sub2api.

use std::collections::HashMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::draft::{Draft, named, says_something};
use super::taken::{Kind, TakenOver};
use crate::platform::Platform;
use crate::routing::OutboundProxy;
use crate::store::Secret;

/// The platforms of accounts there, ours for each, and the default address.
const PLATFORMS: [(&str, Platform, &str); 3] = [
    ("anthropic", Platform::Claude, "https://api.anthropic.com"),
    ("openai", Platform::OpenAi, "https://api.openai.com"),
    ("gemini", Platform::Gemini, "https://generativelanguage.googleapis.com"),
];
/// The types of accounts that are a key.
const KEYS: [&str; 2] = ["apikey", "upstream"];

/// Members that are read, or that say nothing about a key.
const OF_DOCUMENT: &[&str] = &["type", "version", "exported_at", "proxies", "accounts", "data"];
const OF_ACCOUNT: &[&str] = &[
    "name",
    "platform",
    "type",
    "credentials",
    "proxy_key",
    "concurrency",
    "priority",
    "expires_at",
    "auto_pause_on_expired",
];
const OF_PROXY: &[&str] =
    &["proxy_key", "name", "protocol", "host", "port", "username", "password", "status"];
const OF_CREDENTIALS: &[&str] = &["api_key", "base_url"];
/// Members of an account that are not taken, and why.
const LEFT: [(&str, &str); 3] = [
    ("rate_multiplier", "the price of an account: set it as its unit cost"),
    ("notes", "notes"),
    ("extra", "settings of that program"),
];

/// Whether a document is such an export.
pub(super) fn is(document: &Value) -> bool {
    let kind =
        |document: &Value| matches!(document["type"].as_str(), Some("sub2api-data" | "sub2api-bundle"));
    kind(document) || kind(&document["data"])
}

/// Whether some of its accounts are keys.
pub(super) fn has_keys(document: &Value) -> bool {
    list(document, "accounts").any(is_key)
}

pub(super) fn read(document: &Value) -> TakenOver {
    let mut draft = Draft::default();
    let proxies: HashMap<&str, Secret> = list(document, "proxies")
        .filter_map(|proxy| Some((proxy["proxy_key"].as_str()?, proxy_url(proxy)?)))
        .collect();
    let wrapped = document["data"].is_object().then(|| &document["data"]);
    for document in std::iter::once(document).chain(wrapped) {
        draft.leave_unknown("", document, OF_DOCUMENT);
    }
    for (at, proxy) in list(document, "proxies").enumerate() {
        draft.leave_unknown(&format!("proxies[{at}]"), proxy, OF_PROXY);
    }
    for (at, account) in list(document, "accounts").enumerate() {
        take(&mut draft, &format!("accounts[{at}]"), account, &proxies);
    }
    draft.finish(Kind::Sub2Api)
}

fn take(draft: &mut Draft, place: &str, account: &Value, proxies: &HashMap<&str, Secret>) {
    let row = named(place, account["name"].as_str());
    if !is_key(account) {
        return draft.leave(
            row,
            "an account of an OAuth login: import it with POST /api/oauth/import, or in the console",
        );
    }
    let text =
        |value: &Value| value.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let vendor = text(&account["platform"]).unwrap_or_default().to_ascii_lowercase();
    let Some((_, platform, address)) = PLATFORMS.into_iter().find(|(name, ..)| *name == vendor) else {
        return draft.leave(row, "its platform is unknown");
    };
    let credentials = &account["credentials"];
    let url = text(&credentials["base_url"]).unwrap_or_else(|| address.to_owned());
    let Some(key) = text(&credentials["api_key"]) else { return draft.leave(row, "it has no key") };
    let name = text(&account["name"]).unwrap_or_else(|| vendor.clone());
    let Some(site) = draft.site(&row, platform, &url, "") else { return };
    let Some(id) = draft.key_account(&row, site, &name, &key) else { return };
    let named = account["proxy_key"].as_str().filter(|key| !key.is_empty());
    match named.map(|key| proxies.get(key)) {
        Some(Some(proxy)) => {
            let extra = json!({"credentialMode": "apikey", "proxyUrl": proxy.expose()}).to_string();
            draft.set_account(id, "extraConfig", extra.into());
        }
        // The account's owner did not want it to be used without its proxy.
        Some(None) => {
            draft.set_account(id, "status", "disabled".into());
            let reason = "the file has no usable proxy with this key: the account is imported disabled";
            draft.leave(format!("{place}.proxy_key"), reason);
        }
        None => {}
    }
    for (member, reason) in [
        ("concurrency", "the number of requests at once: set a limit at the site"),
        ("priority", "the order of accounts: set the priorities of channels"),
        ("expires_at", "the expiry date of an account: disable it then"),
    ] {
        if account[member].as_f64().is_some_and(|number| number > 0.0) {
            draft.leave(format!("{place}.{member}"), reason);
        }
    }
    for (member, reason) in LEFT.into_iter().filter(|(member, _)| says_something(&account[*member])) {
        draft.leave(format!("{place}.{member}"), reason);
    }
    if says_something(&credentials["model_mapping"]) {
        let reason = "other names of the account's models: write them as model mappings of routes";
        draft.leave(format!("{place}.credentials.model_mapping"), reason);
    }
    let left: Vec<&str> = OF_ACCOUNT.iter().copied().chain(LEFT.map(|(member, _)| member)).collect();
    draft.leave_unknown(place, account, &left);
    let known: Vec<&str> = OF_CREDENTIALS.iter().copied().chain(["model_mapping"]).collect();
    draft.leave_unknown(&format!("{place}.credentials"), credentials, &known);
}

fn is_key(account: &Value) -> bool {
    let kind = account["type"].as_str().unwrap_or_default().trim().to_ascii_lowercase();
    KEYS.contains(&kind.as_str())
}

fn list<'d>(document: &'d Value, name: &str) -> impl Iterator<Item = &'d Value> {
    let found = document[name].as_array().or_else(|| document["data"][name].as_array());
    found.into_iter().flatten()
}

/// Returns the URL of a proxy in such an export, if it can be used.
pub fn proxy_url(proxy: &Value) -> Option<Secret> {
    let (protocol, host) = (proxy["protocol"].as_str()?, proxy["host"].as_str()?);
    let port = proxy["port"].as_u64()?;
    let escaped = |name: &str| {
        let text = proxy[name].as_str().unwrap_or_default();
        utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
    };
    let (user, password) = (escaped("username"), escaped("password"));
    let user = match (user.as_str(), password.as_str()) {
        ("", _) => String::new(),
        (user, "") => format!("{user}@"),
        (user, password) => format!("{user}:{password}@"),
    };
    let url = format!("{protocol}://{user}{host}:{port}");
    OutboundProxy::parse(&url).ok().map(|_| Secret::from(url))
}
