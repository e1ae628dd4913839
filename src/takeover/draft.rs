//! The document being built: rows with ids and references of their own, and the list of what was not taken.
//!
//! The files are written by strangers: texts are truncated, addresses are parsed like an operator's, and the
//! number of rows is limited. Whatever cannot be used becomes an entry in the list of what was not taken, never
//! an error of the whole import.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::taken::{Kind, LeftOut, TakenOver};
use crate::money::Usd;
use crate::networks;
use crate::one_line::short_line;
use crate::platform::{Address, Platform};
use crate::site_url::SiteUrl;
use crate::time::{iso, now_ms};

/// The maximum number of rows of all tables together.
const MAX_ROWS: usize = 500_000;
/// The maximum number of entries in the list of what was not taken; further ones are only counted.
const MAX_LISTED: usize = 2_000;
/// The maximum length of names, in characters.
pub(super) const MAX_NAME: usize = 191;
const MAX_GROUP: usize = 64;
/// The maximum length of a credential, in bytes: tokens of logins have several thousand.
const MAX_CREDENTIAL: usize = 16 * 1024;
/// The permitted lengths of a downstream key, in bytes.
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 6..=512;
/// The maximum number of addresses and networks to which a key may be bound.
const MAX_ADDRESSES: usize = 500;
/// The weight of a channel for which none was set.
pub(super) const DEFAULT_WEIGHT: i64 = 10;
/// The highest priority of a channel; higher ones are reduced to it.
pub(super) const MAX_PRIORITY: i64 = 1_000_000_000;
const MAX_WEIGHT: i64 = 1_000_000_000;
/// The number of quota units of the new-api family that make one US dollar.
pub(super) const QUOTA_PER_USD: f64 = 500_000.0;

pub(super) type RowId = i64;
pub(super) type Row = Map<String, Value>;

/// The rows collected from one file.
#[derive(Default)]
pub(super) struct Draft {
    sites: Vec<Row>,
    site_ids: HashMap<(Platform, String), RowId>,
    accounts: Vec<Row>,
    account_ids: HashMap<(RowId, String), RowId>,
    tokens: Vec<Row>,
    routes: Vec<Row>,
    route_ids: HashMap<String, RowId>,
    channels: Vec<Channel>,
    channel_at: HashMap<(RowId, RowId, String), usize>,
    channels_by_route: HashMap<RowId, Vec<usize>>,
    keys: Vec<Row>,
    key_texts: HashSet<String>,
    list: LeftList,
}

/// A channel that serves one model through one account.
#[derive(Clone)]
pub(super) struct Channel {
    pub route: RowId,
    pub account: RowId,
    /// The upstream's name of the model.
    pub source_model: String,
    /// Lower priorities are asked first.
    pub priority: i64,
    pub weight: i64,
    pub enabled: bool,
}

/// A downstream key. Clients that have it can go on using it.
#[derive(Default)]
pub(super) struct ClientKey {
    pub name: String,
    pub key: String,
    pub enabled: bool,
    pub group: Option<String>,
    /// In epoch milliseconds.
    pub expires_at: Option<i64>,
    pub max_cost: Option<Usd>,
    /// `None` allows all models.
    pub models: Option<Vec<String>>,
    /// Addresses and networks, as written; empty allows every address.
    pub allowed_ips: Vec<String>,
}

/// The list of what was not taken, and why.
#[derive(Default)]
pub(super) struct LeftList {
    entries: Vec<LeftOut>,
    more: usize,
}

// === impl Draft ===

impl Draft {
    /// Adds an entry to the list of what was not taken. `place` is how a person finds it in the file; neither
    /// text may contain a secret.
    pub fn leave(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        self.list.add(place, reason);
    }

    /// Adds the members of an object that are not known.
    pub fn leave_unknown(&mut self, place: &str, object: &Value, known: &[&str]) {
        self.list.add_unknown(place, object, known);
    }

    /// Returns the site at this address, created when it is new. `None` when the address is not usable or the
    /// draft is full, which is then listed.
    pub fn site(&mut self, place: &str, platform: Platform, url: &str, name: &str) -> Option<RowId> {
        let url = match SiteUrl::parse(url) {
            Ok(url) => url.persisted(),
            Err(error) => {
                self.leave(place, format!("its address {}", error.0));
                return None;
            }
        };
        if let Some(id) = self.site_ids.get(&(platform, url.clone())) {
            return Some(*id);
        }
        if self.is_full(place) {
            return None;
        }
        let name = clipped(name, MAX_NAME).unwrap_or_else(|| url.clone());
        let id = next(&self.sites);
        let site = json!({"id": id, "name": name, "url": url, "platform": platform.id(), "status": "active"});
        self.sites.push(row(site));
        self.site_ids.insert((platform, url), id);
        Some(id)
    }

    /// Returns the account with this API key at a site, created when it is new: several channels may share one.
    pub fn key_account(&mut self, place: &str, site: RowId, name: &str, key: &str) -> Option<RowId> {
        let account = json!({"accessToken": "", "apiToken": key.trim(), "checkinEnabled": false,
            "extraConfig": json!({"credentialMode": "apikey"}).to_string()});
        self.account(place, site, name, key, account)
    }

    /// Returns the account with this credential at a site; `columns` are used when it is new.
    pub fn account(
        &mut self,
        place: &str,
        site: RowId,
        name: &str,
        credential: &str,
        columns: Value,
    ) -> Option<RowId> {
        let credential = credential.trim();
        if credential.is_empty() {
            self.leave(place, "it has no credential");
            return None;
        }
        if credential.len() > MAX_CREDENTIAL || credential.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            self.leave(
                place,
                "its credential is too long, or has characters that cannot be sent in a header",
            );
            return None;
        }
        let identity = (site, credential.to_owned());
        if let Some(id) = self.account_ids.get(&identity) {
            return Some(*id);
        }
        if self.is_full(place) {
            return None;
        }
        let id = next(&self.accounts);
        let mut account = row(columns);
        account.insert("id".into(), id.into());
        account.insert("siteId".into(), site.into());
        account.insert("username".into(), clipped(name, MAX_NAME).into());
        account.entry("status").or_insert_with(|| "active".into());
        self.accounts.push(account);
        self.account_ids.insert(identity, id);
        Some(id)
    }

    pub fn set_account(&mut self, id: RowId, column: &str, value: Value) {
        if let Some(account) = usize::try_from(id - 1).ok().and_then(|at| self.accounts.get_mut(at)) {
            account.insert(column.to_owned(), value);
        }
    }

    /// Gives an account the token that it is used with.
    pub fn default_token(&mut self, account: RowId, token: &str) {
        let id = next(&self.tokens);
        let token = json!({"id": id, "accountId": account, "name": "default", "token": token.trim(),
            "tokenGroup": "default", "valueStatus": "ready", "source": "legacy", "enabled": true, "isDefault": true});
        self.tokens.push(row(token));
    }

    /// Returns the number of sites that have an account; others are not imported.
    pub fn sites(&self) -> usize {
        self.sites_in_use().len()
    }

    fn sites_in_use(&self) -> HashSet<RowId> {
        self.accounts.iter().filter_map(|account| account.get("siteId")?.as_i64()).collect()
    }

    /// Returns the number of tokens so far.
    pub fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the number of accounts so far.
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Returns the route of a model name that clients use, created when it is new. `None` when the name cannot
    /// be used or the draft is full, which is then listed.
    pub fn route(&mut self, place: &str, model: &str) -> Option<RowId> {
        let Some(model) = model_name(model) else {
            self.leave(place, "the name of a model is empty, too long or has control characters");
            return None;
        };
        if is_pattern(&model) {
            self.leave(
                place,
                format!("`{model}` would be taken for a pattern here; create such a route by hand"),
            );
            return None;
        }
        if let Some(id) = self.route_ids.get(&model) {
            return Some(*id);
        }
        if self.is_full(place) {
            return None;
        }
        let id = next(&self.routes);
        let route = json!({"id": id, "modelPattern": model, "routeMode": "pattern",
            "routingStrategy": "weighted", "enabled": true, "isManual": true});
        self.routes.push(row(route));
        self.route_ids.insert(model, id);
        Some(id)
    }

    /// Returns the route of a model, if there is one.
    pub fn known_route(&self, model: &str) -> Option<RowId> {
        self.route_ids.get(model.trim()).copied()
    }

    /// Adds a channel. If the file has it twice, the one that is asked first is kept.
    pub fn channel(&mut self, place: &str, channel: Channel) {
        let Some(source_model) = model_name(&channel.source_model) else {
            self.leave(place, "the name of a model is empty, too long or has control characters");
            return;
        };
        let channel = Channel {
            source_model,
            priority: channel.priority.clamp(0, MAX_PRIORITY),
            weight: channel.weight.clamp(1, MAX_WEIGHT),
            ..channel
        };
        let identity = (channel.route, channel.account, channel.source_model.clone());
        if let Some(known) = self.channel_at.get(&identity).and_then(|at| self.channels.get_mut(*at)) {
            let reason = format!(
                "two channels send `{}` to the same model with the same credential; the one with the better \
                 priority is kept",
                channel.source_model
            );
            if (!channel.enabled, channel.priority) < (!known.enabled, known.priority) {
                *known = channel;
            }
            self.leave(place, reason);
            return;
        }
        if self.is_full(place) {
            return;
        }
        self.channel_at.insert(identity, self.channels.len());
        self.channels_by_route.entry(channel.route).or_default().push(self.channels.len());
        self.channels.push(channel);
    }

    /// Returns the channels of a route, in the order of the file.
    pub fn channels_of(&self, route: RowId) -> Vec<Channel> {
        let of_route = self.channels_by_route.get(&route).into_iter().flatten();
        of_route.filter_map(|at| self.channels.get(*at).cloned()).collect()
    }

    pub fn client_key(&mut self, place: &str, key: ClientKey) {
        let text = key.key.trim();
        if !text.starts_with("sk-")
            || !KEY_LENGTHS.contains(&text.len())
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let form = "a key for clients has 6 to 512 visible ASCII characters and begins with sk-";
            self.leave(place, format!("{form}; create a new key for its clients"));
            return;
        }
        if !self.key_texts.insert(text.to_owned()) {
            self.leave(place, "the file has this key twice; the first is kept");
            return;
        }
        if self.is_full(place) {
            return;
        }
        let models = key.models.map(|models| self.literal_models(place, &models));
        let addresses = self.addresses(place, &key.allowed_ips);
        // A key that was bound to addresses must not become usable from everywhere because none of them can be
        // read.
        let is_bound_to_none = addresses.is_empty() && !key.allowed_ips.is_empty();
        if is_bound_to_none {
            self.leave(
                place,
                "none of the addresses that it is limited to is valid: the key is imported disabled",
            );
        }
        let enabled = key.enabled && !is_bound_to_none;
        let mut columns = json!({"name": clipped(&key.name, MAX_NAME).unwrap_or_else(|| "unnamed".to_owned()),
            "key": text, "enabled": enabled, "groupName": key.group.and_then(|group| clipped(&group, MAX_GROUP)),
            "expiresAt": key.expires_at.map(iso), "maxCost": key.max_cost.map(|most| most.max(Usd::ZERO))});
        // An empty list allows nothing, while a missing list would allow everything.
        if let Some(models) = models {
            columns["supportedModels"] = json!(models).to_string().into();
            columns["allowedRouteIds"] = "[]".into();
        }
        if !addresses.is_empty() {
            columns["allowedIps"] = json!(addresses).to_string().into();
        }
        self.keys.push(row(columns));
    }

    /// Returns the addresses and networks that can be parsed, each once.
    fn addresses(&mut self, place: &str, written: &[String]) -> Vec<String> {
        let mut usable: Vec<String> = Vec::new();
        for address in written {
            if networks::parse(address).is_none() {
                let shown = clipped(address, 60).unwrap_or_default();
                self.leave(
                    place,
                    format!("`{shown}` is not an address or network: it is left out of the key's addresses"),
                );
            } else if usable.len() == MAX_ADDRESSES {
                self.leave(
                    place,
                    format!(
                        "the key has more than {MAX_ADDRESSES} addresses; only the first ones are imported"
                    ),
                );
                break;
            } else if !usable.contains(address) {
                usable.push(address.clone());
            }
        }
        usable
    }

    /// Returns the model names that are not patterns, each once.
    fn literal_models(&mut self, place: &str, models: &[String]) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut literal = Vec::new();
        for model in models.iter().filter_map(|model| model_name(model)) {
            if is_pattern(&model) {
                self.leave(
                    place,
                    format!("`{model}` would be taken for a pattern here: the key is not allowed to use it"),
                );
            } else if seen.insert(model.clone()) {
                literal.push(model);
            }
        }
        literal
    }

    fn is_full(&mut self, place: &str) -> bool {
        let rows = [self.sites.len(), self.accounts.len(), self.tokens.len(), self.routes.len()];
        let rows = rows.iter().sum::<usize>() + self.channels.len() + self.keys.len();
        if rows >= MAX_ROWS {
            self.leave(place, format!("the file has more than {MAX_ROWS} rows"));
        }
        rows >= MAX_ROWS
    }

    pub fn finish(mut self, kind: Kind) -> TakenOver {
        // Where no credential could be taken, the site is of no use.
        let in_use = self.sites_in_use();
        self.sites
            .retain(|site| site.get("id").and_then(Value::as_i64).is_some_and(|id| in_use.contains(&id)));
        let channels = self.channels.into_iter().zip(1..).map(|(channel, id): (Channel, RowId)| {
            json!({"id": id, "routeId": channel.route, "accountId": channel.account, "tokenId": null,
                "sourceModel": channel.source_model, "priority": channel.priority, "weight": channel.weight,
                "enabled": channel.enabled, "manualOverride": true})
        });
        let accounts = json!({
            "sites": self.sites, "accounts": self.accounts, "accountTokens": self.tokens,
            "tokenRoutes": self.routes, "routeChannels": channels.collect::<Vec<_>>(),
            "downstreamApiKeys": self.keys,
        });
        let document =
            json!({"version": "2.1", "timestamp": now_ms(), "type": "accounts", "accounts": accounts});
        self.list.finish(kind, document)
    }
}

// === impl LeftList ===

impl LeftList {
    pub fn add(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        if self.entries.len() >= MAX_LISTED {
            self.more += 1;
            return;
        }
        let line = |text: String| short_line(&text, 300, "");
        self.entries.push(LeftOut { place: line(place.into()), reason: line(reason.into()) });
    }

    /// Adds the members of an object that are not known. `place` is empty for the whole document.
    pub fn add_unknown(&mut self, place: &str, object: &Value, known: &[&str]) {
        let members = object.as_object().into_iter().flatten();
        for (member, _) in
            members.filter(|(name, value)| !known.contains(&name.as_str()) && says_something(value))
        {
            let place = if place.is_empty() { member.clone() } else { format!("{place}.{member}") };
            self.add(place, "an unknown member");
        }
    }

    pub fn finish(self, kind: Kind, document: Value) -> TakenOver {
        TakenOver { kind, document, left_out: self.entries, more_left_out: self.more, summary: None }
    }
}

/// Returns the platform that an address indicates, else `otherwise`.
pub(super) fn platform_at(url: &str, otherwise: Platform) -> Platform {
    let Ok(url) = SiteUrl::parse(url) else { return otherwise };
    let address = Address { host: url.host(), port: url.port(), path: url.path() };
    Platform::at(&address).unwrap_or(otherwise)
}

/// Returns the place of a row with the row's name, by which people find it in their program.
pub(super) fn named(place: &str, name: Option<&str>) -> String {
    match name.and_then(|name| clipped(name, 60)) {
        Some(name) => format!("{place} “{name}”"),
        None => place.to_owned(),
    }
}

/// Returns a text as one line of at most `most` characters; `None` when nothing is left.
pub(super) fn clipped(text: &str, most: usize) -> Option<String> {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line: String = line.trim().chars().take(most).collect();
    Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// Whether a value is neither absent nor empty.
pub(super) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn model_name(text: &str) -> Option<String> {
    let name = text.trim();
    let is_sound =
        !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control);
    is_sound.then(|| name.to_owned())
}

/// Whether a route or key with this name would match other models, too.
fn is_pattern(model: &str) -> bool {
    model.starts_with("re:") || model.contains(['*', '?', '['])
}

fn next<T>(rows: &[T]) -> RowId {
    RowId::try_from(rows.len()).unwrap_or(RowId::MAX - 1) + 1
}

fn row(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => Row::new(),
    }
}
