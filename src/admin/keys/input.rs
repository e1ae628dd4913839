//! The fields of a downstream key as sent on create, update and batch.
//!
//! Lists may come as arrays or as text, numbers as text, objects as JSON text. Each reader returns `None` for an absent
//! field, so that an update keeps the fields it does not name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::limits;
use super::readers::{embedded, limit, models, set, texts};
use crate::admin::input::{Fields, Invalid, Patch};
use crate::admin::secrets;
use crate::ids::{AccountId, Id, SiteId, TokenId};
use crate::json_number::{exact_integer, number_or_text, whole};
use crate::money::Usd;
use crate::store::Secret;
use crate::store::keys::{ExcludedCredential, KeySettings, MAX_TAGS, Referable, cut_group, distinct_tags};
use crate::time::{self, Millis};

const MIN_KEY_CHARS: usize = 6;
/// Maximum length of a key, in characters; a request head has room for little more.
const MAX_KEY_CHARS: usize = 512;
const MAX_IDS: usize = 500;
const MAX_EXCLUDED_CREDENTIALS: usize = 1000;

/// Reads a new key. Without a list of models or routes it may use every model.
pub fn for_create(fields: &Fields) -> Result<(Secret, KeySettings), Invalid> {
    let key = key(fields.text("key")?.unwrap_or_default())?;
    if fields.name("name")?.is_none() {
        return Err(Invalid::field("name", "non-empty string"));
    }
    let mut settings = apply(fields, KeySettings { enabled: true, ..KeySettings::default() })?;
    if !fields.is_given("supportedModels") && !fields.is_given("allowedRouteIds") {
        settings.supported_models = vec!["*".to_owned()];
    }
    Ok((key, settings))
}

/// Applies every field that was sent to the settings.
pub fn apply(fields: &Fields, mut settings: KeySettings) -> Result<KeySettings, Invalid> {
    set(&mut settings.name, fields.name("name")?);
    set(&mut settings.description, description(fields)?);
    set(&mut settings.group_name, group_name(fields)?);
    set(&mut settings.tags, tags(fields)?);
    set(&mut settings.enabled, fields.bool("enabled")?);
    set(&mut settings.expires_at, expires_at(fields)?);
    set(&mut settings.max_cost, limit(fields, "maxCost")?.map(|most| most.map(Usd::new)));
    let requests = limit(fields, "maxRequests")?;
    set(&mut settings.max_requests, requests.map(|most| most.map(|most| most.trunc() as i64)));
    set(&mut settings.supported_models, models(fields, "supportedModels")?);
    set(&mut settings.allowed_route_ids, ids(fields, "allowedRouteIds")?);
    set(&mut settings.site_weight_multipliers, multipliers(fields)?);
    let excluded_sites = ids(fields, "excludedSiteIds")?;
    set(
        &mut settings.excluded_site_ids,
        excluded_sites.map(|mut ids| {
            ids.sort_unstable();
            ids
        }),
    );
    set(&mut settings.excluded_credential_refs, excluded_credentials(fields)?);
    limits::apply(fields, &mut settings)?;
    Ok(settings)
}

/// Reads a key that a client can present.
pub fn key(text: &str) -> Result<Secret, Invalid> {
    let key = text.trim();
    let length = key.len();
    let printable = key.bytes().all(|byte| byte.is_ascii_graphic());
    if !key.starts_with("sk-") || !(MIN_KEY_CHARS..=MAX_KEY_CHARS).contains(&length) || !printable {
        let expected = "string of 6 to 512 visible ASCII characters that begins with sk-";
        return Err(Invalid::field("key", expected));
    }
    if secrets::is_our_mask(key) {
        return Err(Invalid::field("key", secrets::WHOLE));
    }
    Ok(Secret::new(key))
}

/// Refuses references to rows that do not exist, and names them. References that were stored before may dangle, so that
/// a key stays editable after a site is gone.
pub fn check_references(known: &Referable, before: &KeySettings, after: &KeySettings) -> Result<(), Invalid> {
    let missing = |field: &str, what: &str, ids: BTreeSet<String>| {
        let ids: Vec<_> = ids.into_iter().collect();
        let none = ids.is_empty();
        let message = || Invalid::because(field, format!("No such {what}: {}.", ids.join(", ")));
        if none { Ok(()) } else { Err(message()) }
    };
    let routes = after
        .allowed_route_ids
        .iter()
        .filter(|id| !known.routes.contains(id) && !before.allowed_route_ids.contains(id));
    missing("allowedRouteIds", "route", routes.map(ToString::to_string).collect())?;
    let weighted = after
        .site_weight_multipliers
        .keys()
        .filter(|id| !known.sites.contains(id) && !before.site_weight_multipliers.contains_key(id));
    missing("siteWeightMultipliers", "site", weighted.map(ToString::to_string).collect())?;
    let excluded = after
        .excluded_site_ids
        .iter()
        .filter(|id| !known.sites.contains(id) && !before.excluded_site_ids.contains(id));
    missing("excludedSiteIds", "site", excluded.map(ToString::to_string).collect())?;
    let credentials = after
        .excluded_credential_refs
        .iter()
        .filter(|excluded| !is_known(known, excluded) && !before.excluded_credential_refs.contains(excluded));
    let named = credentials.map(|excluded| match excluded {
        ExcludedCredential::AccountToken { token_id, .. } => format!("account_token {token_id}"),
        ExcludedCredential::DefaultApiKey { account_id, .. } => {
            format!("default_api_key of account {account_id}")
        }
    });
    missing("excludedCredentialRefs", "credential with this account and site", named.collect())
}

fn is_known(known: &Referable, excluded: &ExcludedCredential) -> bool {
    match excluded {
        ExcludedCredential::AccountToken { site_id, account_id, token_id } => {
            known.tokens.get(token_id) == Some(account_id)
                && known.accounts.get(account_id).is_some_and(|(site, _)| site == site_id)
        }
        ExcludedCredential::DefaultApiKey { site_id, account_id } => {
            known.accounts.get(account_id) == Some(&(*site_id, true))
        }
    }
}

/// The change that `updateMetadata` makes.
pub struct Metadata {
    /// `None` keeps the group, `Some(None)` clears it.
    group: Patch<String>,
    appended: Vec<String>,
}

impl Metadata {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        let group = match fields.text("groupOperation")?.unwrap_or("keep") {
            "keep" => None,
            "clear" => Some(None),
            "set" => {
                let named = group_name(fields)?.flatten();
                Some(Some(named.ok_or_else(|| Invalid::field("groupName", "non-empty string"))?))
            }
            _ => return Err(fields.unexpected("groupOperation")),
        };
        let appended = match fields.text("tagOperation")?.unwrap_or("keep") {
            "keep" => Vec::new(),
            "append" => match tags(fields)? {
                Some(tags) if !tags.is_empty() => tags,
                _ => return Err(Invalid::field("tags", "at least one tag")),
            },
            _ => return Err(fields.unexpected("tagOperation")),
        };
        Ok(Self { group, appended })
    }

    /// Applies the change. An appended tag that differs from an existing one only in case replaces its spelling and
    /// keeps its place.
    pub fn applied(&self, mut settings: KeySettings) -> KeySettings {
        set(&mut settings.group_name, self.group.clone());
        for tag in &self.appended {
            let same = |known: &&mut String| known.to_lowercase() == tag.to_lowercase();
            match settings.tags.iter_mut().find(same) {
                Some(known) => known.clone_from(tag),
                None => settings.tags.push(tag.clone()),
            }
        }
        settings.tags.truncate(MAX_TAGS);
        settings
    }
}

/// Reads trimmed text; `null` and blank text clear the field.
fn optional_text(fields: &Fields, name: &str) -> Result<Patch<String>, Invalid> {
    let text = fields.nullable_text(name)?;
    Ok(text.map(|text| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)))
}

/// Reads a text of any number of lines.
fn description(fields: &Fields) -> Result<Patch<String>, Invalid> {
    let description = optional_text(fields, "description")?;
    let is_unwanted = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    match &description {
        Some(Some(text)) if text.contains(is_unwanted) => {
            Err(Invalid::field("description", "text without control characters, or null"))
        }
        _ => Ok(description),
    }
}

fn group_name(fields: &Fields) -> Result<Patch<String>, Invalid> {
    let name = optional_text(fields, "groupName")?.map(|name| name.map(|name| cut_group(&name)));
    match &name {
        Some(Some(text)) if text.contains(char::is_control) => {
            Err(Invalid::field("groupName", "line without control characters, or null"))
        }
        _ => Ok(name),
    }
}

fn tags(fields: &Fields) -> Result<Option<Vec<String>>, Invalid> {
    let Some(tags) = texts(fields, "tags", &[',', '\u{ff0c}', '\n'])? else { return Ok(None) };
    if tags.iter().any(|tag| tag.contains(char::is_control)) {
        return Err(Invalid::field("tags", "tags without line breaks and control characters"));
    }
    Ok(Some(distinct_tags(tags)))
}

fn expires_at(fields: &Fields) -> Result<Patch<Millis>, Invalid> {
    match optional_text(fields, "expiresAt")? {
        Some(Some(text)) => {
            let at =
                time::parse(&text).ok_or_else(|| Invalid::field("expiresAt", "time in ISO 8601 or null"))?;
            Ok(Some(Some(at)))
        }
        other => Ok(other.map(|_| None)),
    }
}

fn ids<I: Id>(fields: &Fields, name: &str) -> Result<Option<Vec<I>>, Invalid> {
    let invalid = || Invalid::field(name, "array of at most 500 positive integers");
    let parsed = |text: &str| text.trim().parse::<i64>().ok();
    let read: Vec<Option<i64>> = match fields.get(name) {
        None => return Ok(None),
        Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => {
            text.split([',', '\n']).filter(|part| !part.trim().is_empty()).map(parsed).collect()
        }
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map_or_else(|| exact_integer(item), parsed)).collect()
        }
        Some(_) => return Err(invalid()),
    };
    let mut ids: Vec<I> = Vec::new();
    let mut seen = HashSet::new();
    for id in read {
        let id = id.filter(|id| *id > 0).map(I::new).ok_or_else(invalid)?;
        if seen.insert(id) {
            ids.push(id);
        }
    }
    if ids.len() > MAX_IDS { Err(invalid()) } else { Ok(Some(ids)) }
}

/// Reads the weight multipliers by site; entries without a valid site id or a positive number are dropped.
fn multipliers(fields: &Fields) -> Result<Option<BTreeMap<SiteId, f64>>, Invalid> {
    let name = "siteWeightMultipliers";
    let expected = "object of numbers by site id";
    let entries = match embedded(fields, name, expected)? {
        None => return Ok(None),
        Some(Value::Null) => Map::new(),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(Invalid::field(name, expected)),
    };
    let entries = entries.into_iter().filter_map(|(site, factor)| {
        let site = site.trim().parse().ok().filter(|site| *site > 0).map(SiteId::new)?;
        let factor = number_or_text(&factor).filter(|factor| *factor > 0.0)?;
        Some((site, factor))
    });
    Ok(Some(entries.collect()))
}

fn excluded_credentials(fields: &Fields) -> Result<Option<Vec<ExcludedCredential>>, Invalid> {
    let name = "excludedCredentialRefs";
    let expected = "array of {kind, siteId, accountId, tokenId}";
    let items = match embedded(fields, name, expected)? {
        None => return Ok(None),
        Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(Invalid::field(name, expected)),
    };
    let mut credentials: Vec<ExcludedCredential> = Vec::new();
    let mut seen = HashSet::new();
    for item in items {
        let credential = excluded_credential(&item).ok_or_else(|| Invalid::field(name, expected))?;
        if seen.insert(credential) {
            credentials.push(credential);
        }
    }
    if credentials.len() > MAX_EXCLUDED_CREDENTIALS {
        return Err(Invalid::field(name, "at most 1000 credentials"));
    }
    credentials.sort_by_key(order);
    Ok(Some(credentials))
}

fn excluded_credential(item: &Value) -> Option<ExcludedCredential> {
    let number = |name: &str| {
        let value = item.get(name)?;
        let number =
            value.as_str().map_or_else(|| exact_integer(value), |text| whole(text.trim().parse().ok()?));
        number.filter(|id| *id > 0)
    };
    let site_id = SiteId::new(number("siteId")?);
    let account_id = AccountId::new(number("accountId")?);
    match item.get("kind")?.as_str()? {
        "account_token" => {
            let token_id = TokenId::new(number("tokenId")?);
            Some(ExcludedCredential::AccountToken { site_id, account_id, token_id })
        }
        "default_api_key" => Some(ExcludedCredential::DefaultApiKey { site_id, account_id }),
        _ => None,
    }
}

/// Returns the sort key: the kind, then the ids as text.
fn order(excluded: &ExcludedCredential) -> (&'static str, String) {
    match excluded {
        ExcludedCredential::AccountToken { site_id, account_id, token_id } => {
            ("account_token", format!("{site_id}:{account_id}:{token_id}"))
        }
        ExcludedCredential::DefaultApiKey { site_id, account_id } => {
            ("default_api_key", format!("{site_id}:{account_id}"))
        }
    }
}

#[cfg(test)]
mod tests;
