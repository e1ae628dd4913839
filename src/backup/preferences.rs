//! Settings in documents: which are exported, and which are imported.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::options::ImportOptions;
use super::scope::BackupScope;
use crate::config::rule::{Rule, is_web_address};
use crate::config::runtime::SETTINGS;
use crate::settings::update_center::{self, UpdateConfig};
use crate::settings::{
    AllowList, LOG_CLEANUP_KEYS, Settings, UnusableMember, WEBDAV_KEY, WebDav, is_password_mask,
    mask_password,
};
use crate::store::staging::{Action, Conflict};
use crate::store::{Secret, settings};

/// Settings that belong to one instance: they are neither exported nor imported.
const EXCLUDED: &[&str] = &[
    "auth_token",
    "db_type",
    "db_url",
    "db_ssl",
    "backup_webdav_state_v1",
    "update_center_runtime_state_v1",
    "token_router_site_runtime_health_v1",
    "crypto_kdf_v1",
];
/// Settings without a rule, which are imported unchanged.
const PLAIN: &[&str] = &[
    "default_site_seed_v1",
    "legacy_preferences_ref_v2",
    "legacy_channel_configs_ref_v2",
    "legacy_tag_store_ref_v2",
];

const SWITCHED_OFF: &str = "the automatic export is switched off, because two instances must not write one file; switch \
                            it on again at one of them";

/// The treatment of one setting of a document.
pub struct SettingOutcome {
    pub key: String,
    pub action: Action,
    pub reason: String,
    /// A warning for the operator about a setting that is imported.
    pub warning: Option<&'static str>,
    /// The JSON to store; `None` if it is skipped.
    pub value: Option<Value>,
}

/// Returns the settings as rows of a document, sorted by name.
pub fn exported(saved: HashMap<String, Secret>) -> Vec<Value> {
    let mut saved: Vec<(String, Secret)> = saved.into_iter().collect();
    saved.sort_by(|one, other| one.0.cmp(&other.0));
    let kept = saved.into_iter().filter(|(key, _)| !EXCLUDED.contains(&key.as_str()));
    let rows = kept.filter_map(|(key, value)| {
        let mut value: Value = serde_json::from_str(value.expose()).ok()?;
        if key == WEBDAV_KEY
            && let Some(config) = value.as_object_mut()
        {
            // The credential for the place where backups are stored must not be readable in them.
            config.remove("password");
        }
        Some(json!({ "key": key, "value": value }))
    });
    rows.collect()
}

/// Decides what happens to one row of the array; `None` for a setting that belongs to one instance.
pub fn take(
    row: &Value,
    saved: &HashMap<String, Secret>,
    current: &Settings,
    options: &ImportOptions,
) -> Option<SettingOutcome> {
    let key = row.get("key").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    if EXCLUDED.contains(&key.as_str()) {
        return None;
    }
    let value = row.get("value").cloned().unwrap_or_default();
    let is_saved = saved.contains_key(&key);
    let skipped = |reason: String| SettingOutcome {
        key: key.clone(),
        action: Action::Skipped,
        reason,
        warning: None,
        value: None,
    };
    if key.is_empty() {
        return Some(skipped("it has no key".to_owned()));
    }
    if is_saved && options.conflict != Conflict::Overwrite {
        return Some(skipped("is saved already".to_owned()));
    }
    let here = saved.get(&key);
    let is_switched_off = key == WEBDAV_KEY && (is_scheduled(&value) || is_scheduled(&configuration(here)));
    let checked = match key.as_str() {
        WEBDAV_KEY => webdav(value, here),
        update_center::KEY => update_center(value),
        _ => checked(&key, value, current, options.caller),
    };
    Some(match checked {
        Err(reason) => skipped(reason),
        Ok(value) => SettingOutcome {
            action: if is_saved { Action::Updated } else { Action::Created },
            reason: if is_saved { "is saved already".to_owned() } else { String::new() },
            warning: is_switched_off.then_some(SWITCHED_OFF),
            value: Some(value),
            key,
        },
    })
}

fn checked(key: &str, value: Value, current: &Settings, caller: Option<IpAddr>) -> Result<Value, String> {
    if PLAIN.contains(&key) {
        return Ok(value);
    }
    let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
        return Err("no such setting".to_owned());
    };
    if setting.rule.is_mask(&value) {
        return Err("is only the mask of a secret".to_owned());
    }
    let holds = current.values.get(key);
    let checked = match (setting.rule, &value) {
        // A list may be JSON text in other programs; a word that allows nothing is not a valid list.
        (Rule::Words | Rule::List, _) => {
            setting.rule.stored(&value, holds).map_or_else(|| setting.rule.sent(&value, holds), Ok)
        }
        (Rule::Weights, Value::Object(weights)) if weights.values().any(|weight| !weight.is_number()) => {
            Err("object of numbers".to_owned())
        }
        (Rule::Target, Value::String(url)) if !url.trim().is_empty() && !is_web_address(url.trim()) => {
            Err("http or https address".to_owned())
        }
        _ => setting.rule.sent(&value, holds),
    };
    let value = checked.map_err(|why| match setting.rule {
        Rule::ProxyToken => format!("must start with sk- ({why})"),
        _ => format!("expected {why}"),
    })?;
    if setting.rule == Rule::Networks {
        let entries: Vec<String> =
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let caller = caller.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        if !AllowList::of(&entries).admits(caller) {
            return Err(format!("would lock out {caller}, the address that imports it"));
        }
    }
    Ok(value)
}

/// Prepares a WebDAV configuration for import: its synchronisation is switched off, because two instances must
/// not write one file. The stored password is kept when it is for the same file and user.
fn webdav(value: Value, saved: Option<&Secret>) -> Result<Value, String> {
    let read: WebDav = typed(&value)?;
    if BackupScope::parse(&read.export_type).is_none() {
        return Err("exportType: expected all, accounts or preferences".to_owned());
    }
    read.check().map_err(unusable)?;
    if is_password_mask(&read.password) {
        return Err("its password is only the mask of one".to_owned());
    }
    let Value::Object(mut config) = value else { return Err("expected object".to_owned()) };
    config.insert("autoSyncEnabled".to_owned(), false.into());
    let here = configuration(saved);
    let is_same = |member: &str| here.get(member) == config.get(member);
    if !config.contains_key("password") && is_same("fileUrl") && is_same("username") {
        config.insert("password".to_owned(), here.get("password").cloned().unwrap_or_default());
    }
    Ok(Value::Object(config))
}

/// Returns a saved configuration; null if there is none.
fn configuration(saved: Option<&Secret>) -> Value {
    saved.and_then(|saved| serde_json::from_str(saved.expose()).ok()).unwrap_or_default()
}

fn is_scheduled(webdav: &Value) -> bool {
    webdav["autoSyncEnabled"] == true
}

fn update_center(value: Value) -> Result<Value, String> {
    typed::<UpdateConfig>(&value)?.check().map_err(unusable)?;
    Ok(value)
}

/// Reads a configuration, each member of which must have the type of its default. The error names the first that has not.
fn typed<T: Default + Serialize + DeserializeOwned>(value: &Value) -> Result<T, String> {
    let members = value.as_object().ok_or("expected object")?;
    let defaults = serde_json::to_value(T::default()).map_err(|error| error.to_string())?;
    for (name, default) in defaults.as_object().into_iter().flatten() {
        let is_like = |sent: &Value| {
            sent.is_boolean() == default.is_boolean() && sent.is_string() == default.is_string()
        };
        if members.get(name).is_some_and(|sent| !is_like(sent)) {
            let expected = if default.is_boolean() { "boolean" } else { "string" };
            return Err(format!("{name}: expected {expected}"));
        }
    }
    T::deserialize(value).map_err(|error| error.to_string())
}

fn unusable(member: UnusableMember) -> String {
    format!("{}: expected {}", member.name, member.expected)
}

/// Returns a value with its secrets masked, for reports.
pub fn masked(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) if settings::SEALED.contains(&key) => {
            let members = members.iter().map(|(name, value)| {
                let value = match value.as_str() {
                    Some(password) if name == "password" => mask_password(password).into(),
                    _ => value.clone(),
                };
                (name.clone(), value)
            });
            Value::Object(members.collect())
        }
        value if settings::SEALED.contains(&key) => mask(value),
        value => value.clone(),
    }
}

fn mask(value: &Value) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    crate::mask::of_secret(&text).into()
}

/// Adds the missing ones of the four log cleanup settings when one is imported: saved alone, it would leave the
/// others to the environment.
pub fn complete(taken: &mut Vec<SettingOutcome>, saved: &HashMap<String, Secret>, current: &Settings) {
    let is_taken =
        |key: &str, taken: &[SettingOutcome]| taken.iter().any(|t| t.key == key && t.value.is_some());
    if !LOG_CLEANUP_KEYS.iter().any(|key| is_taken(key, taken)) {
        return;
    }
    for key in LOG_CLEANUP_KEYS {
        if !is_taken(key, taken) && !saved.contains_key(key) {
            let value = current.values.get(key).clone();
            let reason = "is saved together with the other settings of the log cleanup".to_owned();
            taken.push(SettingOutcome {
                key: key.to_owned(),
                action: Action::Created,
                reason,
                warning: None,
                value: Some(value),
            });
        }
    }
}
