//! The export of accounts of sub2api (`sub2api-data`, `sub2api-bundle`), as far as they are keys. Its logins are connected by
//! the import of connections.
//!
//! The members are those of `account_data.go` in github.com/Wei-Shaw/sub2api.

use std::collections::HashMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::draft::Draft;
use super::taken::{Kind, TakenOver};
use crate::platform::Platform;
use crate::routing::OutboundProxy;
use crate::store::Secret;

/// What an account is there, whose it is here, and the address where none is written.
const PLATFORMS: [(&str, Platform, &str); 3] = [
    ("anthropic", Platform::Claude, "https://api.anthropic.com"),
    ("openai", Platform::OpenAi, "https://api.openai.com"),
    ("gemini", Platform::Gemini, "https://generativelanguage.googleapis.com"),
];
/// Types of accounts that are a key.
const KEYS: [&str; 2] = ["apikey", "upstream"];

/// Whether it is such an export.
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
    for (at, account) in list(document, "accounts").enumerate() {
        take(&mut draft, &format!("accounts[{at}]"), account, &proxies);
    }
    draft.finish(Kind::Sub2Api)
}

fn take(draft: &mut Draft, place: &str, account: &Value, proxies: &HashMap<&str, Secret>) {
    if !is_key(account) {
        return draft
            .leave(place, "an account of a login: connect it at POST /api/oauth/import, or in the console");
    }
    let text =
        |value: &Value| value.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let vendor = text(&account["platform"]).unwrap_or_default().to_ascii_lowercase();
    let Some((_, platform, address)) = PLATFORMS.into_iter().find(|(name, ..)| *name == vendor) else {
        return draft.leave(place, "its platform is not known here");
    };
    let credentials = &account["credentials"];
    let url = text(&credentials["base_url"]).unwrap_or_else(|| address.to_owned());
    let Some(key) = text(&credentials["api_key"]) else { return draft.leave(place, "it has no key") };
    let name = text(&account["name"]).unwrap_or_else(|| vendor.clone());
    let Some(site) = draft.site(place, platform, &url, "") else { return };
    let Some(id) = draft.key_account(place, site, &name, &key) else { return };
    let named = account["proxy_key"].as_str().filter(|key| !key.is_empty());
    match named.map(|key| proxies.get(key)) {
        Some(Some(proxy)) => {
            let extra = json!({"credentialMode": "apikey", "proxyUrl": proxy.expose()}).to_string();
            draft.set_account(id, "extraConfig", extra.into());
        }
        // Its owner did not want it to be asked any other way.
        Some(None) => {
            draft.set_account(id, "status", "disabled".into());
            let reason = "the file has no such proxy that can be used: the account is switched off";
            draft.leave(format!("{place}.proxy_key"), reason);
        }
        None => {}
    }
    for (member, reason) in [
        ("concurrency", "requests at once: set a limit at the site"),
        ("priority", "the order of accounts: set priorities of channels"),
        ("expires_at", "the end of an account: disable it then"),
    ] {
        if account[member].as_f64().is_some_and(|number| number > 0.0) {
            draft.leave(format!("{place}.{member}"), reason);
        }
    }
}

fn is_key(account: &Value) -> bool {
    let kind = account["type"].as_str().unwrap_or_default().trim().to_ascii_lowercase();
    KEYS.contains(&kind.as_str())
}

fn list<'d>(document: &'d Value, name: &str) -> impl Iterator<Item = &'d Value> {
    let found = document[name].as_array().or_else(|| document["data"][name].as_array());
    found.into_iter().flatten()
}

/// The address of a proxy of such an export, where it can be used.
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
