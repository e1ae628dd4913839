//! Databases of new-api and of one-api, which it was forked from.
//!
//! | there | here |
//! |---|---|
//! | a channel | a site by protocol and address, an account for each of its keys, a channel for each of its models |
//! | priority, the higher first | the highest becomes 0, the others follow, at the same distances unless these are too large |
//! | a weight of several keys | shared out among them |
//! | a model mapping | the upstream's name of the model is stored in the channel |
//! | a token | a key for clients, `sk-` before it as its clients send it |
//! | 500,000 of quota | 1 USD |
//! | `allow_ips`, `subnet` | the addresses that the key is bound to |
//!
//! The schemas are those of `model/channel.go` and `model/token.go` in both programs.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::channel_types::{self, ChannelType};
use super::draft::{Channel, ClientKey, DEFAULT_WEIGHT, Draft, MAX_PRIORITY, QUOTA_PER_USD, RowId, clipped};
use super::sqlite::{ForeignDatabase, ForeignRow};
use super::taken::{Error, Kind, TakenOver};
use crate::money::Usd;
use crate::platform::Platform;
use crate::time;

const CHANNEL_COLUMNS: &[&str] = &[
    "id",
    "type",
    "key",
    "open_ai_organization",
    "openai_organization",
    "test_model",
    "status",
    "name",
    "weight",
    "created_time",
    "test_time",
    "response_time",
    "base_url",
    "other",
    "balance",
    "balance_updated_time",
    "models",
    "group",
    "used_quota",
    "model_mapping",
    "status_code_mapping",
    "priority",
    "auto_ban",
    "need_reconcile",
    "other_info",
    "tag",
    "setting",
    "param_override",
    "header_override",
    "remark",
    "channel_info",
    "settings",
    "config",
    "system_prompt",
];
const TOKEN_COLUMNS: &[&str] = &[
    "id",
    "user_id",
    "key",
    "status",
    "name",
    "created_time",
    "accessed_time",
    "expired_time",
    "remain_quota",
    "unlimited_quota",
    "model_limits_enabled",
    "model_limits",
    "allow_ips",
    "used_quota",
    "group",
    "cross_group_retry",
    "billing_type",
    "deleted_at",
    "models",
    "subnet",
];
/// Known tables that are not taken, and why; other tables are listed as unknown.
const OTHER_TABLES: &[(&str, &str)] = &[
    ("users", "there are no users here, only keys for clients"),
    ("options", "settings of that program: set what you still need in the settings here"),
    ("logs", "the history of requests is not imported"),
    ("redemptions", "there are no redemption codes here"),
    ("top_ups", "there are no payments here"),
    ("midjourneys", "tasks of that program"),
    ("tasks", "tasks of that program"),
];
/// Tables that are derived from others, read elsewhere, or have no meaning without that program.
const DERIVED_TABLES: &[&str] =
    &["abilities", "quota_data", "setups", "sqlite_sequence", "channels", "tokens"];
/// Columns about the past or that program's internal work, listed once for the whole table.
const UNTAKEN_OF_CHANNELS: &[(&str, &str)] = &[
    ("test_model", "the model for tests of a channel: probes here use the models that an account offers"),
    ("test_time", "when a channel was last tested"),
    ("response_time", "how fast a channel was: it is measured again"),
    ("balance_updated_time", "when the balance was read: it is read again"),
    ("used_quota", "usage is not imported"),
    ("need_reconcile", "a part of that program's accounting"),
    ("other", "a detail of the kind of upstream, such as the version of an API"),
    ("other_info", "why and when a channel was disabled"),
];
const UNTAKEN_OF_TOKENS: &[(&str, &str)] = &[
    ("created_time", "when a token was created"),
    ("accessed_time", "when a token was last used"),
    ("used_quota", "usage is not imported: the remaining quota becomes the limit of the key"),
    ("cross_group_retry", "groups do not limit a key here"),
    ("billing_type", "a part of that program's accounting"),
];
const MAX_KEYS: usize = 1_000;
const MAX_MODELS: usize = 5_000;
/// The maximum number of steps in which a mapped model name is followed.
const MAX_RENAMES: usize = 16;

/// The value of `channels.status` and `tokens.status` for on; all others mean off.
const ON: i64 = 1;

pub(super) fn is(database: &ForeignDatabase) -> bool {
    database.has("channels", &["type", "key", "models"]) && database.has("tokens", &["key", "remain_quota"])
}

pub(super) fn read(database: &ForeignDatabase) -> Result<TakenOver, Error> {
    let newer = database.has("channels", &["channel_info"]) || database.has("channels", &["tag"]);
    let kind = if newer { Kind::NewApi } else { Kind::OneApi };
    let mut draft = Draft::default();
    for (table, columns) in [("channels", CHANNEL_COLUMNS), ("tokens", TOKEN_COLUMNS)] {
        for column in database.unknown_columns(table, columns) {
            draft.leave(format!("{table}.{column}"), "an unknown column");
        }
    }
    let (channels, is_cut) = database.rows("channels", CHANNEL_COLUMNS)?;
    if is_cut {
        draft.leave("channels", "the table has more rows than are read");
    }
    take_channels(kind, &channels, &mut draft);
    tell_untaken("channels", UNTAKEN_OF_CHANNELS, &channels, &mut draft);
    take_tokens(database, &mut draft)?;
    for table in database.tables() {
        let known = OTHER_TABLES.iter().find(|(name, _)| *name == table);
        let reason = match known {
            Some((_, reason)) => reason,
            None if DERIVED_TABLES.contains(&table) => continue,
            None => "an unknown table",
        };
        let rows = database.count(table);
        if rows > 0 {
            draft.leave(format!("{table} ({rows} rows)"), reason);
        }
    }
    Ok(draft.finish(kind))
}

/// Lists the columns of a table that are not taken but have a value, with the number of rows in which they have
/// one.
fn tell_untaken(table: &str, columns: &[(&str, &str)], rows: &[ForeignRow], draft: &mut Draft) {
    for (column, reason) in columns {
        let says_something = |row: &&ForeignRow| {
            row.text(column).is_some_and(|text| !matches!(text.as_str(), "0" | "{}" | "[]" | "null"))
        };
        let filled = rows.iter().filter(says_something).count();
        if filled > 0 {
            draft.leave(format!("{table}.{column} ({filled} rows)"), *reason);
        }
    }
}

/// A channel that can be served here.
struct SupportedChannel<'a> {
    row: &'a ForeignRow,
    place: String,
    of_type: ChannelType,
    name: String,
    keys: Vec<ChannelKey>,
    /// The model names that clients use.
    models: Vec<String>,
    mapping: HashMap<String, String>,
    priority: i64,
    weight: i64,
}

/// A key of a channel.
struct ChannelKey {
    key: String,
    is_in_use: bool,
}

/// The account that a key of a channel became.
struct ChannelAccount {
    id: RowId,
    /// Whether the channel uses it.
    is_in_use: bool,
}

fn take_channels(kind: Kind, rows: &[ForeignRow], draft: &mut Draft) {
    let served: Vec<SupportedChannel> =
        rows.iter().filter_map(|row| supported_channel(kind, row, draft)).collect();
    let priorities = priorities(&served);
    // The models of each priority at which some channel has a weight: there, a weight of 0 means hardly ever.
    let weighted: HashSet<(&str, i64)> = served
        .iter()
        .filter(|channel| channel.weight > 0)
        .flat_map(|channel| channel.models.iter().map(|model| (model.as_str(), channel.priority)))
        .collect();
    // An account is on if any channel uses it.
    let mut in_use: HashMap<RowId, bool> = HashMap::new();
    let mut accounts_of: Vec<Vec<ChannelAccount>> = Vec::new();
    for channel in &served {
        let accounts = accounts(channel, draft);
        if channel.models.is_empty() && !accounts.is_empty() {
            draft.leave(&channel.place, "it names no models: only its account is imported");
        }
        for account in &accounts {
            *in_use.entry(account.id).or_default() |= account.is_in_use;
        }
        accounts_of.push(accounts);
    }
    for (account, is_in_use) in &in_use {
        if !is_in_use {
            draft.set_account(*account, "status", "disabled".into());
        }
    }
    for (channel, accounts) in served.iter().zip(&accounts_of) {
        let keys = i64::try_from(accounts.len()).unwrap_or(1);
        if accounts.is_empty() {
            continue;
        }
        for model in &channel.models {
            let Some(route) = draft.route(&channel.place, model) else { continue };
            let is_weighted = weighted.contains(&(model.as_str(), channel.priority));
            let weight = match channel.weight {
                0 if !is_weighted => DEFAULT_WEIGHT,
                weight => (weight / keys).max(1),
            };
            for account in accounts {
                let channel_row = Channel {
                    route,
                    account: account.id,
                    source_model: renamed(&channel.mapping, model),
                    priority: priorities.get(&channel.priority).copied().unwrap_or(0),
                    weight,
                    // Channels of a disabled account stay enabled, so that they serve as before once it is
                    // enabled again.
                    enabled: account.is_in_use || !in_use.get(&account.id).copied().unwrap_or(false),
                };
                draft.channel(&channel.place, channel_row);
            }
        }
    }
}

/// Returns the priority here of each priority there.
fn priorities(channels: &[SupportedChannel]) -> HashMap<i64, i64> {
    let there: BTreeSet<i64> = channels.iter().map(|channel| channel.priority).collect();
    let (lowest, highest) = (there.first().copied().unwrap_or(0), there.last().copied().unwrap_or(0));
    let is_too_wide = highest.saturating_sub(lowest) > MAX_PRIORITY;
    let here = |(rank, there): (i64, i64)| (there, if is_too_wide { rank } else { highest - there });
    (0..).zip(there.into_iter().rev()).map(here).collect()
}

fn supported_channel<'a>(kind: Kind, row: &'a ForeignRow, draft: &mut Draft) -> Option<SupportedChannel<'a>> {
    let id = row.int("id").unwrap_or(row.rowid);
    let name =
        row.text("name").and_then(|name| clipped(&name, 191)).unwrap_or_else(|| format!("channel {id}"));
    let place = format!("channel {id} “{}”", clipped(&name, 60).unwrap_or_default());
    let of_type = match channel_types::find(kind, row.int("type").unwrap_or(0)) {
        Ok(of_type) => of_type,
        Err(what) => {
            draft.leave(place, format!("type {}: {what}", row.int("type").unwrap_or(0)));
            return None;
        }
    };
    let mut models: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for model in row.text("models").unwrap_or_default().split(',').map(str::trim) {
        if !model.is_empty() && models.len() < MAX_MODELS && seen.insert(model.to_owned()) {
            models.push(model.to_owned());
        }
    }
    let mapping = row.json("model_mapping").and_then(|mapping| serde_json::from_value(mapping).ok());
    if mapping.is_none() && row.text("model_mapping").is_some_and(|text| text != "null") {
        draft.leave(
            &place,
            "its model mapping is not a JSON object whose values are strings: models keep their own names",
        );
    }
    let keys = keys(row, &place, draft);
    untaken_columns(row, &place, draft);
    let mapping = mapping.unwrap_or_default();
    let priority = row.int("priority").unwrap_or(0);
    let weight = row.int("weight").unwrap_or(0).max(0);
    Some(SupportedChannel { row, place, of_type, name, keys, models, mapping, priority, weight })
}

/// Returns the keys of a channel: a single one, one per line, or a JSON array.
fn keys(row: &ForeignRow, place: &str, draft: &mut Draft) -> Vec<ChannelKey> {
    let text = row.text("key").unwrap_or_default();
    let list: Option<Vec<Value>> =
        if text.starts_with('[') { serde_json::from_str(&text).ok() } else { None };
    let is_several =
        list.is_some() || row.json("channel_info").is_some_and(|info| info["is_multi_key"] == true);
    let mut keys: Vec<String> = match list {
        Some(list) => {
            let key = |item: Value| match item {
                Value::String(key) => key,
                // The credentials of a login are an object.
                other => other.to_string(),
            };
            list.into_iter().map(key).collect()
        }
        // A single key that is a JSON object may span several lines.
        None if text.starts_with('{') && serde_json::from_str::<Value>(&text).is_ok() => vec![text],
        None => text.lines().map(str::to_owned).collect(),
    };
    if keys.len() > MAX_KEYS {
        draft.leave(place, format!("it has {} keys; only the first {MAX_KEYS} are imported", keys.len()));
        keys.truncate(MAX_KEYS);
    }
    let is_on = row.int("status").unwrap_or(ON) == ON;
    let info = row.json("channel_info").unwrap_or_default();
    let state = |at: usize| info["multi_key_status_list"][at.to_string()].as_i64().unwrap_or(ON);
    let mut seen = HashSet::new();
    let mut taken = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let key = key.trim();
        if key.is_empty() {
            continue;
        }
        if !seen.insert(key.to_owned()) {
            draft.leave(format!("{place}, key {}", at + 1), "the channel has this key twice");
            continue;
        }
        let is_in_use = is_on && (!is_several || state(at) == ON);
        taken.push(ChannelKey { key: key.to_owned(), is_in_use });
    }
    if taken.is_empty() {
        draft.leave(place, "it has no key");
    }
    taken
}

/// Adds the accounts of a channel to the draft, one for each of its keys.
fn accounts(channel: &SupportedChannel, draft: &mut Draft) -> Vec<ChannelAccount> {
    let row = channel.row;
    let url = channel.of_type.address(row.text("base_url").as_deref());
    if url.is_empty() || url.contains(['{', '}']) {
        draft.leave(&channel.place, "its address is missing, or contains the name of the model");
        return Vec::new();
    }
    let site_name = if row.text("base_url").is_some() { &channel.name } else { channel.of_type.name };
    if channel.keys.is_empty() {
        return Vec::new();
    }
    let Some(site) = draft.site(&channel.place, channel.of_type.platform, &url, site_name) else {
        return Vec::new();
    };
    let proxy = row.json("setting").and_then(|setting| Some(setting["proxy"].as_str()?.trim().to_owned()));
    let proxy = proxy.filter(|proxy| !proxy.is_empty());
    let mut accounts = Vec::new();
    for (at, ChannelKey { key, is_in_use }) in channel.keys.iter().enumerate() {
        let several = channel.keys.len() > 1;
        let (place, name) = if several {
            (format!("{}, key {}", channel.place, at + 1), format!("{} #{}", channel.name, at + 1))
        } else {
            (channel.place.clone(), channel.name.clone())
        };
        let before = draft.accounts();
        let account = if channel.of_type.platform == Platform::Codex && key.starts_with('{') {
            login_account(&place, site, &name, key, draft)
        } else {
            draft.key_account(&place, site, &name, key)
        };
        let Some(account) = account else { continue };
        accounts.push(ChannelAccount { id: account, is_in_use: *is_in_use });
        if draft.accounts() == before {
            continue;
        }
        if let Some(made) = row.int("created_time").and_then(|made| time::of_unix(made as f64)) {
            draft.set_account(account, "createdAt", made.into());
        }
        if let Some(balance) = row.real("balance").filter(|balance| *balance != 0.0 && !several) {
            draft.set_account(account, "balance", balance.into());
        }
        if let Some(proxy) = &proxy {
            let extra = serde_json::json!({"credentialMode": "apikey", "proxyUrl": proxy}).to_string();
            draft.set_account(account, "extraConfig", extra.into());
        }
    }
    accounts
}

/// Returns the account for a key that consists of the credentials of a ChatGPT login.
fn login_account(place: &str, site: RowId, name: &str, key: &str, draft: &mut Draft) -> Option<RowId> {
    let login: Value = serde_json::from_str(key).unwrap_or_default();
    let text = |name: &str| login[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let (Some(token), Some(account)) = (text("access_token"), text("account_id")) else {
        draft.leave(place, "its credentials lack access_token or account_id");
        return None;
    };
    let oauth = serde_json::json!({"provider": "codex", "accountKey": account, "email": text("email"),
        "refreshToken": text("refresh_token"), "idToken": text("id_token")});
    let extra = serde_json::json!({"credentialMode": "session", "oauth": oauth}).to_string();
    let columns = serde_json::json!({"accessToken": token, "checkinEnabled": false, "oauthProvider": "codex",
        "oauthAccountKey": account, "extraConfig": extra});
    draft.account(place, site, text("email").unwrap_or(name), token, columns)
}

/// Lists the columns of a channel that are not taken.
fn untaken_columns(row: &ForeignRow, place: &str, draft: &mut Draft) {
    let is_set = |column: &str| {
        row.text(column).is_some_and(|text| !matches!(text.as_str(), "{}" | "null" | "[]" | "\"\""))
    };
    let untaken = [
        ("open_ai_organization", "the OpenAI organization: set it as a custom header of the site"),
        ("openai_organization", "the OpenAI organization: set it as a custom header of the site"),
        ("status_code_mapping", "status codes: they are judged by built-in rules here"),
        ("param_override", "changes to request bodies: write them as payload rules in the settings"),
        ("header_override", "headers: set them as custom headers of the site"),
        ("system_prompt", "a prompt of the channel: write it as a payload rule in the settings"),
        ("remark", "notes"),
        ("tag", "tags of channels"),
    ];
    for (column, reason) in untaken {
        if is_set(column) {
            draft.leave(format!("{place}, {column}"), reason);
        }
    }
    for column in ["setting", "settings", "config"] {
        let Some(Value::Object(members)) = row.json(column) else { continue };
        let used =
            |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && value.as_str() != Some("");
        let mut names: Vec<&str> = members
            .iter()
            .filter(|(name, value)| used(value) && !(column == "setting" && name.as_str() == "proxy"))
            .map(|(name, _)| name.as_str())
            .collect();
        names.truncate(10);
        if !names.is_empty() {
            draft.leave(format!("{place}, {column}"), format!("unknown: {}", names.join(", ")));
        }
    }
    let groups = row.text("group").unwrap_or_default();
    if !groups.is_empty() && groups != "default" {
        draft.leave(
            format!("{place}, group"),
            "groups do not limit who uses a channel here: every key may use it for the models that it allows",
        );
    }
    if row.int("auto_ban") == Some(0) {
        draft.leave(
            format!("{place}, auto_ban"),
            "whether a failing channel is disabled: here it always cools down for a while",
        );
    }
}

/// Returns the upstream's name of a model: mapped names are followed, in a cycle until it closes.
fn renamed(mapping: &HashMap<String, String>, model: &str) -> String {
    let mut name = model;
    for _ in 0..MAX_RENAMES {
        match mapping.get(name).map(|next| next.trim()) {
            Some(next) if !next.is_empty() && next != name && next != model => name = next,
            _ => break,
        }
    }
    name.to_owned()
}

fn take_tokens(database: &ForeignDatabase, draft: &mut Draft) -> Result<(), Error> {
    let (users, _) = database.rows("users", &["id", "status", "deleted_at"])?;
    let is_blocked = |user: &&ForeignRow| {
        user.int("status").is_some_and(|status| status != ON) || user.text("deleted_at").is_some()
    };
    let blocked: HashSet<i64> = users.iter().filter(is_blocked).filter_map(|user| user.int("id")).collect();
    let (tokens, is_cut) = database.rows("tokens", TOKEN_COLUMNS)?;
    if is_cut {
        draft.leave("tokens", "the table has more rows than are read");
    }
    for row in &tokens {
        let id = row.int("id").unwrap_or(row.rowid);
        let name = row.text("name").unwrap_or_else(|| format!("token {id}"));
        let place = format!("token {id} “{}”", clipped(&name, 60).unwrap_or_default());
        if row.text("deleted_at").is_some() {
            draft.leave(place, "it was deleted");
            continue;
        }
        let Some(key) = row.text("key") else {
            draft.leave(place, "it has no key");
            continue;
        };
        let owner_is_blocked = row.int("user_id").is_some_and(|user| blocked.contains(&user));
        if owner_is_blocked {
            draft.leave(&place, "its user is disabled or deleted: the key is imported disabled");
        }
        let is_limited = row.flag("model_limits_enabled").unwrap_or(false);
        let listed =
            if is_limited { row.text("model_limits").or(Some(String::new())) } else { row.text("models") };
        let models = listed.map(|list| list.split(',').map(|model| model.trim().to_owned()).collect());
        let addresses = row.text("allow_ips").or_else(|| row.text("subnet")).unwrap_or_default();
        let split = |c: char| c == ',' || c == ';' || c.is_whitespace();
        let allowed_ips = addresses.split(split).filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let unlimited = row.flag("unlimited_quota").unwrap_or(false);
        let remaining = Usd::new(row.real("remain_quota").unwrap_or(0.0) / QUOTA_PER_USD);
        // Only -1 means never: in that program, any other time in the past means expired.
        let expiry = row.int("expired_time").filter(|seconds| *seconds != -1).map(|seconds| seconds.max(1));
        let expires_at = expiry.and_then(|seconds| time::of_unix(seconds as f64));
        if expiry.is_some() && expires_at.is_none() {
            draft.leave(&place, "it expires after the year 9999: the key is imported without an expiry");
        }
        let key = ClientKey {
            name,
            key: if key.starts_with("sk-") { key } else { format!("sk-{key}") },
            enabled: row.int("status").unwrap_or(ON) == ON && !owner_is_blocked,
            group: row.text("group"),
            expires_at,
            max_cost: (!unlimited).then_some(remaining),
            models,
            allowed_ips,
        };
        draft.client_key(&place, key);
    }
    tell_untaken("tokens", UNTAKEN_OF_TOKENS, &tokens, draft);
    Ok(())
}
