//! The key sections of CLIProxyAPI's `config.yaml`: credentials for upstreams, and the keys of its clients.
//!
//! | there | here |
//! |---|---|
//! | `api-keys` | keys for clients |
//! | `claude-api-key`, `gemini-api-key` | accounts at Claude and Gemini |
//! | `codex-api-key`, `xai-api-key` | accounts at upstreams of OpenAI's dialects |
//! | `openai-compatibility` | a site with an account for each of its keys |
//! | `weight`, where the strategy is `weighted-round-robin` | the weight of channels; 0 switches them off |
//! | `models` with `name` and `alias` | a route of the alias, whose channels ask for the name |
//!
//! The members are those of `config.example.yaml` in github.com/router-for-me/CLIProxyAPI. Logins are separate
//! files there, and are connected here by the import of connections.

use serde_json::{Value, json};

use super::draft::{Channel, ClientKey, DEFAULT_WEIGHT, Draft, RowId};
use super::taken::{Kind, TakenOver};
use crate::platform::Platform;

/// The lists of credentials: the section's name, the platform, and the default address.
const SECTIONS: [(&str, Platform, &str); 6] = [
    ("claude-api-key", Platform::Claude, "https://api.anthropic.com"),
    ("gemini-api-key", Platform::Gemini, GEMINI),
    ("generative-language-api-key", Platform::Gemini, GEMINI),
    ("codex-api-key", Platform::OpenAi, "https://api.openai.com"),
    ("xai-api-key", Platform::OpenAi, "https://api.x.ai"),
    ("openai-compatibility", Platform::OpenAi, ""),
];
const GEMINI: &str = "https://generativelanguage.googleapis.com";
/// Members of an entry that are taken.
const TAKEN: [&str; 10] = [
    "name",
    "base-url",
    "api-key",
    "api-keys",
    "api-key-entries",
    "proxy-url",
    "priority",
    "weight",
    "models",
    "disabled",
];
/// The lists of an entry, with the members of their items that are taken.
const MEMBERS: [(&str, &[&str]); 2] =
    [("models", &["name", "alias"]), ("api-key-entries", &["api-key", "proxy-url", "weight"])];
const UNTAKEN: [(&str, &str); 3] = [
    ("prefix", "a prefix for its models: create a route with the prefixed name by hand"),
    ("headers", "headers: set them as custom headers of the site"),
    ("excluded-models", "excluded models: disable them at the site"),
];
/// The words in place of a proxy address for a credential that bypasses every proxy.
const NO_PROXY: [&str; 2] = ["direct", "none"];
/// The maximum and the default weight, as in the other program.
const MAX_WEIGHT: i64 = 1_000_000;
const USUAL_WEIGHT: i64 = 1;

/// Properties that hold for all entries of a file.
#[derive(Clone, Copy)]
struct Scheme {
    /// The highest priority in the file: that program asks the highest first.
    highest: i64,
    /// Whether weights are used.
    is_weighted: bool,
}

/// A key of an entry, with its proxy and weight.
struct Key<'d> {
    text: &'d str,
    proxy: Option<&'d str>,
    weight: Option<i64>,
}

pub(super) fn is(document: &Value) -> bool {
    let has = |name: &str| document[name].is_array();
    SECTIONS.iter().any(|(name, ..)| has(name)) || (has("api-keys") && document["model_list"].is_null())
}

pub(super) fn read(document: &Value) -> TakenOver {
    let mut draft = Draft::default();
    let no_members = serde_json::Map::new();
    let members = document.as_object().unwrap_or(&no_members);
    for (at, key) in document["api-keys"].as_array().into_iter().flatten().enumerate() {
        let place = format!("api-keys[{at}]");
        draft.leave_unknown(&place, key, &["api-key"]);
        let key = key.as_str().or_else(|| key["api-key"].as_str()).unwrap_or_default().to_owned();
        let name = format!("CLIProxyAPI key {}", at + 1);
        draft.client_key(&place, ClientKey { name, key, enabled: true, ..ClientKey::default() });
    }
    // That program asks entries of higher priority first.
    let entries = || SECTIONS.iter().flat_map(|(name, ..)| document[*name].as_array().into_iter().flatten());
    let highest = entries().filter_map(|entry| entry["priority"].as_i64()).max().unwrap_or(0).max(0);
    let is_weighted = document["routing"]["strategy"] == "weighted-round-robin";
    let scheme = Scheme { highest, is_weighted };
    for (section, platform, address) in SECTIONS {
        for (at, entry) in document[section].as_array().into_iter().flatten().enumerate() {
            let place = format!("{section}[{at}]");
            take_entry(&mut draft, &place, (platform, address), entry, scheme);
        }
    }
    for (name, value) in members {
        let is_taken = name == "api-keys" || SECTIONS.iter().any(|(section, ..)| section == name);
        let is_empty =
            matches!(value, Value::Null | Value::Bool(false)) || value == "" || value == &json!([]);
        if is_taken || is_empty {
            continue;
        }
        let reason = match name.as_str() {
            "auth-dir" => "the login files in that directory: import them with POST /api/oauth/import",
            "proxy-url" => "the proxy for all upstreams: set it as the system proxy in the settings",
            "vertex-api-key" => "Google Vertex AI is not supported here",
            "interactions-api-key" => "keys for Gemini's interactions, which are not supported here",
            "payload" => "changes to request bodies: write them as payload rules in the settings",
            _ => "a setting of that program",
        };
        draft.leave(name, reason);
    }
    draft.finish(Kind::CliProxyApi)
}

fn take_entry(
    draft: &mut Draft,
    place: &str,
    (platform, address): (Platform, &str),
    entry: &Value,
    scheme: Scheme,
) {
    let text = |name: &str| entry[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let url = text("base-url").unwrap_or(address);
    if url.is_empty() {
        draft.leave(place, "it has no base-url");
        return;
    }
    let keys = keys_of(entry);
    if keys.is_empty() {
        draft.leave(place, "it has no key");
        return;
    }
    let Some(site) = draft.site(place, platform, url, text("name").unwrap_or_default()) else { return };
    let name = text("name").unwrap_or(platform.id());
    let accounts = take_keys(draft, place, site, name, &keys);
    if entry["disabled"] == true {
        for (account, _) in &accounts {
            draft.set_account(*account, "status", "disabled".into());
        }
    }
    take_models(draft, place, entry, &accounts, scheme);
    for (list, known) in MEMBERS {
        for (at, item) in entry[list].as_array().into_iter().flatten().enumerate() {
            draft.leave_unknown(&format!("{place}.{list}[{at}]"), item, known);
        }
    }
    leave_rest(draft, place, entry);
}

/// Returns the keys of an entry, in each of the forms that files have had.
fn keys_of(entry: &Value) -> Vec<Key<'_>> {
    let own_weight = entry["weight"].as_i64();
    let own = entry["api-key"].as_str().map(str::trim).filter(|key| !key.is_empty());
    // Older files have lists of plain keys.
    let own = entry.as_str().or(own);
    let mut keys: Vec<Key> =
        own.map(|key| Key { text: key, proxy: proxy(entry), weight: own_weight }).into_iter().collect();
    for key in entry["api-key-entries"].as_array().into_iter().flatten() {
        let weight = key["weight"].as_i64().or(own_weight);
        keys.push(Key { text: key["api-key"].as_str().unwrap_or_default(), proxy: proxy(key), weight });
    }
    let bare = entry["api-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    keys.extend(bare.map(|key| Key { text: key, proxy: None, weight: own_weight }));
    keys
}

/// Makes an account of each key, and returns the accounts with their weights.
fn take_keys(
    draft: &mut Draft,
    place: &str,
    site: RowId,
    name: &str,
    keys: &[Key],
) -> Vec<(RowId, Option<i64>)> {
    let mut accounts: Vec<(RowId, Option<i64>)> = Vec::new();
    for (at, Key { text: key, proxy, weight }) in keys.iter().enumerate() {
        let place = format!("{place}, key {}", at + 1);
        let before = draft.accounts();
        let Some(account) = draft.key_account(&place, site, &format!("{name} {}", before + 1), key) else {
            continue;
        };
        if accounts.iter().any(|(known, _)| *known == account) {
            draft.leave(place, "this key is listed twice");
            continue;
        }
        accounts.push((account, *weight));
        if let (Some(proxy), true) = (proxy, draft.accounts() > before) {
            let extra = json!({"credentialMode": "apikey", "proxyUrl": proxy}).to_string();
            draft.set_account(account, "extraConfig", extra.into());
        }
    }
    accounts
}

/// Makes a channel of each account for each model.
fn take_models(
    draft: &mut Draft,
    place: &str,
    entry: &Value,
    accounts: &[(RowId, Option<i64>)],
    scheme: Scheme,
) {
    let priority = scheme.highest.saturating_sub(entry["priority"].as_i64().unwrap_or(0));
    for model in entry["models"].as_array().into_iter().flatten() {
        let name = model.as_str().or_else(|| model["name"].as_str()).unwrap_or_default();
        let alias = model["alias"].as_str().filter(|alias| !alias.trim().is_empty()).unwrap_or(name);
        let Some(route) = draft.route(place, alias) else { continue };
        for (account, weight) in accounts {
            let (weight, enabled) = match weight.unwrap_or(USUAL_WEIGHT) {
                _ if !scheme.is_weighted => (DEFAULT_WEIGHT, true),
                weight => (weight.clamp(1, MAX_WEIGHT), weight > 0),
            };
            let source_model = name.to_owned();
            let channel = Channel { route, account: *account, source_model, priority, weight, enabled };
            draft.channel(place, channel);
        }
    }
}

/// Notes the members of an entry that are not taken.
fn leave_rest(draft: &mut Draft, place: &str, entry: &Value) {
    let empty = [Value::Null, json!(""), json!([]), json!({}), json!(false)];
    for (member, value) in entry.as_object().into_iter().flatten() {
        if TAKEN.contains(&member.as_str()) || empty.contains(value) {
            continue;
        }
        let known = UNTAKEN.iter().find(|(known, _)| known == member);
        let reason = known.map_or("a setting of that program", |(_, reason)| *reason);
        draft.leave(format!("{place}.{member}"), reason);
    }
}

/// Returns the proxy of an entry or of one of its keys.
fn proxy(of: &Value) -> Option<&str> {
    let written = of["proxy-url"].as_str().map(str::trim);
    written.filter(|proxy| !proxy.is_empty() && !NO_PROXY.contains(proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_an_address_is_one_of_the_vendor_and_older_lists_have_bare_keys() {
        let taken = read(
            &json!({"claude-api-key": [{"api-key": "sk-claude"}], "codex-api-key": [{"api-key": "sk-codex"}],
            "gemini-api-key": [{"api-key": "AIza-1"}], "generative-language-api-key": ["AIza-old", "AIza-1"]}),
        );
        let accounts = &taken.document["accounts"];
        let sites: Vec<_> = accounts["sites"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|site| {
                (site["platform"].as_str().unwrap_or_default(), site["url"].as_str().unwrap_or_default())
            })
            .collect();
        assert_eq!(
            sites,
            [
                ("claude", "https://api.anthropic.com"),
                ("gemini", "https://generativelanguage.googleapis.com"),
                ("openai", "https://api.openai.com")
            ]
        );
        let keys: Vec<_> = accounts["accounts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|account| &account["apiToken"])
            .collect();
        assert_eq!(keys, ["sk-claude", "AIza-1", "AIza-old", "sk-codex"]);
    }
}
