//! API keys and groups of a sub2api account. The group of a key is the number of a group, as text.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::data;
use crate::routing::Secret;
use crate::time::now_ms;
use crate::upstream::Client;
use crate::upstream::platforms::contract::{NewSiteKey, SiteKey};
use crate::upstream::platforms::credential::{bare_credential, usable_key};
use crate::upstream::platforms::error::{SiteError, SiteErrorKind};
use crate::upstream::platforms::reply;
use crate::upstream::platforms::site_client::{Call, SiteClient};

const MAX_PAGES: u64 = 50;
const DEFAULT_GROUP: &str = "default";
const DAY_SECONDS: i64 = 86_400;

pub(in crate::upstream::platforms) async fn list(
    site_client: &SiteClient,
    client: &Client,
) -> Result<Vec<SiteKey>, SiteError> {
    match pages(site_client, client, "/api/v1/keys").await {
        Err(error) if error.is_missing() => pages(site_client, client, "/api/v1/api-keys").await,
        keys => keys,
    }
}

async fn pages(site_client: &SiteClient, client: &Client, path: &str) -> Result<Vec<SiteKey>, SiteError> {
    let mut keys: Vec<SiteKey> = Vec::new();
    let mut seen = HashSet::new();
    for page in 1..=MAX_PAGES {
        let path = format!("{path}?page={page}&page_size=100");
        let found = data(site_client, client, Call::get(&path)).await?;
        let items = found.get("items").or(Some(&found)).filter(|items| items.is_array() || items.is_null());
        let items = items.ok_or_else(|| SiteError::lacks(&found, "list of keys"))?;
        let before = keys.len();
        let read = items.as_array().into_iter().flatten().filter_map(read);
        keys.extend(read.filter(|key| seen.insert((key.id, key.key.expose().to_owned()))));
        let number =
            |name: &str| found.get(name).and_then(reply::whole).and_then(|number| u64::try_from(number).ok());
        let is_last = match (number("pages"), number("total")) {
            (Some(pages), _) => page >= pages,
            (None, Some(total)) => keys.len() as u64 >= total,
            (None, None) => true,
        };
        if is_last || keys.len() == before {
            break;
        }
    }
    Ok(keys)
}

fn read(item: &Value) -> Option<SiteKey> {
    let key = usable_key(item.get("key")?.as_str()?)?;
    let id = item.get("id").and_then(reply::whole);
    let unnamed = || id.map_or_else(|| "default".to_owned(), |id| format!("token-{id}"));
    Some(SiteKey {
        id,
        name: reply::name(item, "name").unwrap_or_else(unnamed),
        key: Secret::from(key),
        enabled: item.get("status").is_none_or(is_on),
        group: item.get("group_id").and_then(as_text),
    })
}

fn is_on(status: &Value) -> bool {
    match status {
        Value::Bool(on) => *on,
        Value::String(word) => {
            ["active", "enabled", "true", "1", "on"].iter().any(|on| word.trim().eq_ignore_ascii_case(on))
        }
        number => number.as_i64() == Some(1),
    }
}

pub(in crate::upstream::platforms) async fn create(
    site_client: &SiteClient,
    client: &Client,
    key: &NewSiteKey,
) -> Result<(), SiteError> {
    let group = group_of(site_client, client, key.group.trim()).await?;
    let body = body(key, group, now_ms() / 1000);
    data(site_client, client, Call::post("/api/v1/keys").with(&body)).await.map(drop)
}

/// Returns the number of a group, which is given by its number or by its name at the site. `default` is what other
/// platforms call the group of a key that is in no other.
async fn group_of(site_client: &SiteClient, client: &Client, group: &str) -> Result<Option<i64>, SiteError> {
    if group.is_empty() {
        return Ok(None);
    }
    if let Ok(number) = group.parse() {
        return Ok(Some(number));
    }
    let offered = offered(site_client, client).await?;
    let named = offered.iter().find(|offer| offer.name.eq_ignore_ascii_case(group));
    match named.and_then(|offer| offer.id.parse().ok()) {
        None if group != DEFAULT_GROUP => {
            Err(SiteError::unsupported(&format!("the site offers the account no group \"{group}\"")))
        }
        number => Ok(number),
    }
}

fn body(key: &NewSiteKey, group: Option<i64>, now: i64) -> Value {
    let mut body = Map::new();
    body.insert("name".into(), json!(key.name));
    if let Some(group) = group {
        body.insert("group_id".into(), json!(group));
    }
    if key.expired_time > 0 {
        let days = (key.expired_time - now + DAY_SECONDS - 1).div_euclid(DAY_SECONDS);
        body.insert("expires_in_days".into(), json!(days.clamp(1, 3650)));
    }
    if !key.unlimited_quota && key.remain_quota > 0 {
        body.insert("quota".into(), json!(key.remain_quota));
    }
    Value::Object(body)
}

pub(in crate::upstream::platforms) async fn delete(
    site_client: &SiteClient,
    client: &Client,
    key: &str,
) -> Result<(), SiteError> {
    let wanted = bare_credential(key);
    let listed = list(site_client, client).await?;
    let Some(id) = listed.iter().find(|key| key.key.expose() == wanted).and_then(|key| key.id) else {
        return Ok(());
    };
    match data(site_client, client, Call::delete(&format!("/api/v1/keys/{id}"))).await {
        Err(error) if !error.is_missing() => Err(error),
        _ => Ok(()),
    }
}

/// Returns the numbers of the groups on offer, as text, or else those of the groups that the keys are in.
pub(in crate::upstream::platforms) async fn groups(
    site_client: &SiteClient,
    client: &Client,
) -> Result<Vec<String>, SiteError> {
    let mut ids: Vec<String> = match offered(site_client, client).await {
        Ok(offered) => offered.into_iter().map(|offer| offer.id).collect(),
        Err(error) if concerns_one_page(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    if !ids.is_empty() {
        return Ok(ids);
    }
    for group in list(site_client, client).await?.into_iter().filter_map(|key| key.group) {
        if !ids.contains(&group) {
            ids.push(group);
        }
    }
    Ok(ids)
}

/// A group that keys may be put into.
struct Offer {
    id: String,
    name: String,
}

/// Returns the groups on offer, by the first page that lists any; none where the site has no such list.
async fn offered(site_client: &SiteClient, client: &Client) -> Result<Vec<Offer>, SiteError> {
    let mut failure = None;
    for path in ["/api/v1/groups/available", "/api/v1/groups", "/api/v1/group"] {
        match data(site_client, client, Call::get(path)).await {
            Ok(found) => {
                let items = found.as_array().or_else(|| found.get("items")?.as_array());
                let offered: Vec<Offer> = items.into_iter().flatten().filter_map(Offer::read).collect();
                if !offered.is_empty() {
                    return Ok(offered);
                }
            }
            Err(error) if error.is_missing() => {}
            Err(error) if concerns_one_page(&error) => failure = failure.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    failure.map_or_else(|| Ok(Vec::new()), Err)
}

/// Whether other pages may answer all the same: the site is reached, and knows who asks.
fn concerns_one_page(error: &SiteError) -> bool {
    let is_of_all =
        matches!(error.kind, SiteErrorKind::Timeout | SiteErrorKind::Unreachable | SiteErrorKind::Shield);
    !is_of_all && !error.wants_login()
}

impl Offer {
    fn read(group: &Value) -> Option<Self> {
        let id = as_text(group.get("id").unwrap_or(group))?;
        Some(Self { id, name: group.get("name").and_then(as_text).unwrap_or_default() })
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => reply::name_of_text(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_on_in_many_words() {
        for (status, on) in [
            (json!("active"), true),
            (json!("enabled"), true),
            (json!(true), true),
            (json!(1), true),
            (json!("on"), true),
            (json!("inactive"), false),
            (json!(0), false),
        ] {
            let item = json!({"id": 9, "key": "sk-1", "name": "", "group_id": 4, "status": status});
            let key = read(&item).expect("a key");
            assert_eq!((key.enabled, key.group.as_deref(), key.name.as_str()), (on, Some("4"), "token-9"));
        }
    }

    #[test]
    fn a_new_keys_limits_are_told_in_the_sites_terms() {
        let now = 1_767_225_600;
        let plain = NewSiteKey::default();
        assert_eq!(body(&plain, None, now), json!({"name": "Switchyard"}));
        let limited = NewSiteKey {
            name: "cli".into(),
            unlimited_quota: false,
            remain_quota: 25,
            expired_time: now + DAY_SECONDS + 1,
            ..plain
        };
        let wanted = json!({"name": "cli", "group_id": 4, "expires_in_days": 2, "quota": 25});
        assert_eq!(body(&limited, Some(4), now), wanted);
    }
}
