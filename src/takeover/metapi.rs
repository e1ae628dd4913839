//! Backups of metapi, versions 1 and 2. Their rows have the same names as ours; the differences are converted.
//!
//! | there | here |
//! |---|---|
//! | `sites[].apiKey`, of old versions | an account with that key |
//! | `autoRelogin.passwordCipher` | the password, where a secret that was given opens it |
//! | the last decision of a route | not taken; it is made again |
//!
//! The sections may be at the root, in `accounts` and `preferences`, or in those of `data`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::draft::LeftList;
use super::merged_sites::MergedSites;
use super::old_password;
use super::taken::{Context, Kind, TakenOver};
use crate::site_url::without_user_info;

/// A table: its name in the database, the name of its array in a backup, and its columns as named in the
/// database.
pub(super) struct Table {
    pub name: &'static str,
    pub array: &'static str,
    pub columns: &'static [&'static str],
}

const CHANNEL_RUNTIME: &[&str] = &[
    "success_count",
    "fail_count",
    "total_latency_ms",
    "total_cost",
    "last_used_at",
    "last_selected_at",
    "last_fail_at",
    "consecutive_fail_count",
    "cooldown_level",
    "cooldown_until",
];
/// Columns that change while the other program runs, or that are derived again.
const UNTAKEN: &[&str] = &["decision_snapshot", "decision_refreshed_at"];

#[rustfmt::skip]
pub(super) const TABLES: &[Table] = &[
    Table { name: "sites", array: "sites", columns: &[
        "id", "name", "url", "external_checkin_url", "platform", "proxy_url", "use_system_proxy", "custom_headers",
        "status", "is_pinned", "sort_order", "global_weight", "api_key", "max_concurrency",
        "post_refresh_probe_enabled", "post_refresh_probe_model", "post_refresh_probe_scope",
        "post_refresh_probe_latency_threshold_ms", "created_at", "updated_at",
    ] },
    Table { name: "site_api_endpoints", array: "siteApiEndpoints", columns: &[
        "id", "site_id", "url", "enabled", "sort_order", "cooldown_until", "last_selected_at", "last_failed_at",
        "last_failure_reason", "created_at", "updated_at",
    ] },
    Table { name: "site_disabled_models", array: "siteDisabledModels", columns: &[
        "id", "site_id", "model_name", "created_at",
    ] },
    Table { name: "accounts", array: "accounts", columns: &[
        "id", "site_id", "username", "access_token", "api_token", "balance", "balance_used", "quota", "unit_cost",
        "value_score", "status", "is_pinned", "sort_order", "checkin_enabled", "last_checkin_at",
        "last_balance_refresh", "oauth_provider", "oauth_account_key", "oauth_project_id", "extra_config",
        "created_at", "updated_at",
    ] },
    Table { name: "account_tokens", array: "accountTokens", columns: &[
        "id", "account_id", "name", "token", "token_group", "value_status", "source", "enabled", "is_default",
        "created_at", "updated_at",
    ] },
    Table { name: "token_routes", array: "tokenRoutes", columns: &[
        "id", "model_pattern", "display_name", "display_icon", "route_mode", "model_mapping", "decision_snapshot",
        "decision_refreshed_at", "routing_strategy", "enabled", "created_at", "updated_at",
    ] },
    Table { name: "route_channels", array: "routeChannels", columns: &[
        "id", "route_id", "account_id", "token_id", "oauth_route_unit_id", "source_model", "priority", "weight",
        "enabled", "manual_override", "created_at", "updated_at",
    ] },
    Table { name: "route_group_sources", array: "routeGroupSources", columns: &[
        "id", "group_route_id", "source_route_id",
    ] },
    Table { name: "oauth_route_units", array: "oauthRouteUnits", columns: &[
        "id", "site_id", "provider", "name", "strategy", "enabled", "created_at", "updated_at",
    ] },
    Table { name: "oauth_route_unit_members", array: "oauthRouteUnitMembers", columns: &[
        "id", "unit_id", "account_id", "sort_order", "created_at", "updated_at",
    ] },
    Table { name: "downstream_api_keys", array: "downstreamApiKeys", columns: &[
        "id", "name", "key", "description", "group_name", "tags", "enabled", "expires_at", "max_cost", "used_cost",
        "max_requests", "used_requests", "supported_models", "allowed_route_ids", "site_weight_multipliers",
        "excluded_site_ids", "excluded_credential_refs", "last_used_at", "created_at", "updated_at",
    ] },
];
/// The members of a document around its rows.
const HEAD: [&str; 7] = ["version", "timestamp", "type", "accounts", "preferences", "settings", "data"];
/// An array that is made from the table `model_availability` there.
const MANUAL_MODELS: (&str, &[&str]) = ("manualModels", &["account_id", "model_name"]);
/// The arrays that an accounts section always has. A backup without them is refused when it is imported, an old
/// database may lack their tables.
pub(super) const NEEDED: [&str; 5] = ["sites", "accounts", "accountTokens", "tokenRoutes", "routeChannels"];

pub(super) fn is(document: &Value) -> bool {
    accounts_of(document).is_some() || settings_of(document).is_some()
}

pub(super) fn read(document: &Value, context: &Context) -> TakenOver {
    let mut list = LeftList::default();
    let settings = settings_of(document).cloned();
    let timestamp = roots(document).map(|root| &root["timestamp"]).find(|timestamp| !timestamp.is_null());
    let section = accounts_of(document);
    for root in roots(document) {
        list.add_unknown("preferences", &root["preferences"], &["settings"]);
        // The members of a root that is the section itself are looked at with it.
        if !root.as_object().zip(section).is_some_and(|(root, section)| std::ptr::eq(root, section)) {
            list.add_unknown("", root, &HEAD);
        }
    }
    let accounts = section.map(|accounts| {
        for name in accounts.keys() {
            let is_known = TABLES.iter().any(|table| table.array == name) || name == MANUAL_MODELS.0;
            // Files without sections have everything at the root.
            if !is_known && !HEAD.contains(&name.as_str()) {
                list.add(name, "an unknown array");
            }
        }
        arrays(accounts, context, &mut list).0
    });
    finish(Kind::MetapiBackup, timestamp, accounts, settings, list)
}

/// Builds a document from its sections.
pub(super) fn finish(
    kind: Kind,
    timestamp: Option<&Value>,
    accounts: Option<Map<String, Value>>,
    settings: Option<Value>,
    list: LeftList,
) -> TakenOver {
    let mut document = json!({"version": "2.1", "timestamp": timestamp});
    if let Some(accounts) = accounts {
        document["accounts"] = Value::Object(accounts);
    }
    if let Some(settings) = settings {
        document["preferences"] = json!({"settings": settings});
    }
    list.finish(kind, document)
}

/// Returns the arrays of an accounts section in our own format, and the sites that were merged.
pub(super) fn arrays(
    section: &Map<String, Value>,
    context: &Context,
    list: &mut LeftList,
) -> (Map<String, Value>, MergedSites) {
    let mut arrays = Map::new();
    let tables = TABLES.iter().map(|table| (table.array, table.columns));
    for (array, columns) in tables.chain([MANUAL_MODELS]) {
        let Some(Value::Array(rows)) = section.get(array) else { continue };
        let taken: BTreeSet<String> = columns.iter().map(|column| camel(column)).collect();
        let runtime: BTreeSet<String> =
            CHANNEL_RUNTIME.iter().chain(UNTAKEN).map(|column| camel(column)).collect();
        let mut unknown = BTreeSet::new();
        let row = |row: &Value| {
            let Value::Object(members) = row else { return row.clone() };
            let mut kept = Map::new();
            for (name, value) in members {
                if taken.contains(name) && !UNTAKEN.iter().any(|column| camel(column) == *name) {
                    kept.insert(name.clone(), value.clone());
                } else if !runtime.contains(name) {
                    unknown.insert(name.clone());
                }
            }
            Value::Object(kept)
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        for name in unknown.into_iter().take(50) {
            list.add(format!("{array}[].{name}"), "an unknown column");
        }
        arrays.insert(array.to_owned(), Value::Array(rows));
    }
    open_passwords(&mut arrays, context, list);
    name_sites(&mut arrays);
    move_site_keys(&mut arrays);
    let merged = MergedSites::merge(&mut arrays, list);
    (arrays, merged)
}

/// Returns the objects in which sections may be found.
fn roots(document: &Value) -> impl Iterator<Item = &Value> {
    [document, &document["data"]].into_iter()
}

fn accounts_of(document: &Value) -> Option<&Map<String, Value>> {
    let places = roots(document).flat_map(|root| [root, &root["accounts"]]);
    let is_section = |section: &&Map<String, Value>| {
        section.get("sites").is_some_and(Value::is_array)
            && section.get("accounts").is_some_and(Value::is_array)
    };
    places.filter_map(Value::as_object).find(is_section)
}

fn settings_of(document: &Value) -> Option<&Value> {
    let places = roots(document).flat_map(|root| [&root["settings"], &root["preferences"]["settings"]]);
    places.into_iter().find(|settings| settings.is_array())
}

/// Opens the passwords of accounts that log in again by themselves.
fn open_passwords(arrays: &mut Map<String, Value>, context: &Context, list: &mut LeftList) {
    let Some(Value::Array(accounts)) = arrays.get_mut("accounts") else { return };
    for (at, account) in accounts.iter_mut().enumerate() {
        let mut config = match &account["extraConfig"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            config => config.clone(),
        };
        let Some(Value::Object(login)) = config.get_mut("autoRelogin") else { continue };
        let Some(Value::String(sealed)) = login.remove("passwordCipher") else { continue };
        match old_password::open(&sealed, &context.secrets) {
            Some(password) => drop(login.insert("password".to_owned(), password.into())),
            None if sealed.is_empty() => {}
            None => {
                let reason =
                    "none of the given secrets decrypts its password: it cannot log in again by itself";
                list.add(format!("accounts[{at}].extraConfig.autoRelogin"), reason);
            }
        }
        account["extraConfig"] = config.to_string().into();
    }
}

/// Names sites without a name by their addresses, without a user name and password: names are shown.
fn name_sites(arrays: &mut Map<String, Value>) {
    let Some(Value::Array(sites)) = arrays.get_mut("sites") else { return };
    for site in sites.iter_mut().filter(|site| site.is_object()) {
        if site["name"].as_str().is_none_or(|name| name.trim().is_empty()) {
            let bare = site["url"].as_str().and_then(without_user_info);
            site["name"] = bare.map_or_else(|| site["url"].clone(), Value::from);
        }
    }
}

/// Turns a key that belongs to a site, as in old versions, into an account.
fn move_site_keys(arrays: &mut Map<String, Value>) {
    let mut keys: Vec<(Value, Value)> = Vec::new();
    if let Some(Value::Array(sites)) = arrays.get_mut("sites") {
        for site in sites.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::String(key)) = site.remove("apiKey")
                && !key.trim().is_empty()
            {
                keys.push((site.get("id").cloned().unwrap_or_default(), key.trim().into()));
            }
        }
    }
    let Some(Value::Array(accounts)) = arrays.get_mut("accounts") else { return };
    let known: BTreeSet<String> = accounts
        .iter()
        .filter_map(|account| Some(format!("{} {}", account["siteId"], account["apiToken"].as_str()?)))
        .collect();
    let highest = accounts.iter().filter_map(|account| account["id"].as_i64()).max().unwrap_or(0);
    let missing = keys
        .into_iter()
        .filter(|(site, key)| !known.contains(&format!("{site} {}", key.as_str().unwrap_or_default())));
    let added: Vec<Value> = missing
        .zip(highest.saturating_add(1)..)
        .map(|((site, key), id)| {
            let config = json!({"credentialMode": "apikey"}).to_string();
            json!({"id": id, "siteId": site, "username": "API key", "accessToken": "", "apiToken": key,
                "status": "active", "checkinEnabled": false, "extraConfig": config})
        })
        .collect();
    accounts.extend(added);
}

/// Returns the name that a column has in a backup.
pub(super) fn camel(column: &str) -> String {
    let mut parts = column.split('_');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// Whether a column records what happened while that program ran.
pub(super) fn is_runtime(column: &str) -> bool {
    CHANNEL_RUNTIME.contains(&column)
}
