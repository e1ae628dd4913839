//! API keys of the account. Current new-api lists masked keys and reveals the whole ones on request: many in one
//! answer, or each by itself.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::key_mask::{KeyMask, is_mask};
use crate::platform::NewApiFork;
use crate::routing::Secret;
use crate::upstream::Client;
use crate::upstream::platforms::contract::{KnowsKey, NewSiteKey, SiteKey};
use crate::upstream::platforms::credential::{bare_key, usable_key};
use crate::upstream::platforms::error::{SiteError, SiteErrorKind};
use crate::upstream::platforms::reply;
use crate::upstream::platforms::site_client::{Call, SiteClient};

const PAGE_SIZE: usize = 100;
/// The smallest page that a server of the family gives, other than the last one.
const SMALLEST_PAGE: usize = 10;
const MAX_PAGES: u32 = 50;
/// The most keys that new-api reveals in one answer.
const MOST_REVEALED: usize = 100;
/// The smallest number of bytes of a key that a mask shows if it tells keys apart.
const MIN_SHOWN: usize = 6;
/// The longest wait for one answer that reveals keys.
const REVEAL_WAIT: Duration = Duration::from_secs(6);
/// The time that a listing keeps back when it has keys revealed, so that the list is returned within the limit.
const RESERVE: Duration = Duration::from_secs(1);

/// Lists the account's keys. A masked key that `knows` returns true for is not asked for by itself: new-api reveals few in a
/// while. Keys that are not revealed within the time limit stay masked.
pub(in crate::upstream::platforms) async fn list(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
    knows: KnowsKey<'_>,
) -> Result<Vec<SiteKey>, SiteError> {
    let deadline = Instant::now() + site_client.limits.timeout.saturating_sub(RESERVE);
    let mut keys = listed(site_client, client, fork).await?;
    let masked: Vec<i64> = keys.iter().filter(|key| key.is_masked()).filter_map(|key| key.id).collect();
    let mut whole = if masked.len() > 1 {
        reveal_many(site_client, client, &masked, deadline).await
    } else {
        HashMap::new()
    };
    // Keys that this did not reveal are asked for one by one.
    let unknown = keys.iter().filter(|key| key.is_masked());
    let unknown = unknown.filter(|key| key.id.is_some_and(|id| !whole.contains_key(&id)) && !knows(key));
    let unknown: Vec<i64> = unknown.filter_map(|key| key.id).collect();
    whole.extend(reveal_each(site_client, client, &unknown, deadline).await);
    for key in keys.iter_mut().filter(|key| key.is_masked()) {
        if let Some(whole) = key.id.and_then(|id| whole.remove(&id)) {
            key.key = whole;
        }
    }
    Ok(keys)
}

pub(in crate::upstream::platforms) async fn create(
    site_client: &SiteClient,
    client: &Client,
    key: &NewSiteKey,
) -> Result<(), SiteError> {
    let body = json!({
        "name": key.name,
        "unlimited_quota": key.unlimited_quota,
        "expired_time": key.expired_time,
        "remain_quota": key.remain_quota,
        "allow_ips": key.allow_ips,
        "model_limits_enabled": key.model_limits_enabled,
        "model_limits": key.model_limits,
        "group": key.group,
    });
    let answer = site_client.as_user(client, Call::post("/api/token/").with(&body)).await?;
    if answer.get("success") == Some(&Value::Bool(true)) {
        Ok(())
    } else {
        Err(SiteError::lacks(&answer, "success"))
    }
}

pub(in crate::upstream::platforms) async fn delete(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
    key: &str,
) -> Result<(), SiteError> {
    let wanted = bare_key(key);
    let listed = listed(site_client, client, fork).await?;
    let fitting: Vec<&SiteKey> = listed.iter().filter(|key| fits(key.key.expose(), wanted)).collect();
    for key in &fitting {
        let Some(id) = key.id else { continue };
        // Two masks may look alike: then the whole keys decide.
        let is_it = fitting.len() == 1
            || bare_key(key.key.expose()) == wanted
            || reveal(site_client, client, id).await.is_ok_and(|whole| bare_key(whole.expose()) == wanted);
        if is_it {
            return remove(site_client, client, fork, id).await;
        }
    }
    Ok(())
}

async fn remove(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
    id: i64,
) -> Result<(), SiteError> {
    let path = format!("/api/token/{id}");
    match site_client.as_user(client, Call::delete(&path)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_missing() && fork.deletes_with_slash => {
            site_client.as_user(client, Call::delete(&format!("{path}/"))).await.map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Reads all pages of the list, as the site shows it. Newer sites show their administrator the keys of all users: those
/// of others are left out.
async fn listed(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
) -> Result<Vec<SiteKey>, SiteError> {
    let mut keys: Vec<(Option<i64>, SiteKey)> = Vec::new();
    let mut seen = HashSet::new();
    // A server that counts from 1 takes 0 for 1, and its answer says so.
    let mut page = if fork.page == "p" { 0 } else { fork.first_page };
    for _ in 0..MAX_PAGES {
        let path = format!("/api/token/?{}={page}&{}={PAGE_SIZE}", fork.page, fork.size);
        let answer = site_client.as_user(client, Call::get(&path)).await?;
        let items = items(&answer).ok_or_else(|| SiteError::lacks(&answer, "list of keys"))?;
        let before = keys.len();
        for item in items {
            let key = read(item, keys.len() + 1);
            if seen.insert((key.id, key.key.expose().to_owned())) {
                keys.push((item.get("user_id").and_then(reply::whole), key));
            }
        }
        let number = |name: &str| {
            answer
                .pointer(&format!("/data/{name}"))
                .and_then(reply::whole)
                .and_then(|number| u64::try_from(number).ok())
        };
        let total = number("total").or_else(|| number("total_count"));
        let has_all = total.is_some_and(|total| keys.len() as u64 >= total);
        if has_all || keys.len() == before || items.len() < SMALLEST_PAGE {
            break;
        }
        page = number("page")
            .and_then(|page| u32::try_from(page).ok())
            .unwrap_or(page)
            .max(page)
            .saturating_add(1);
    }
    Ok(own(keys, site_client.known_user_id()))
}

/// Returns the keys of the user of that number, where the list says which those are; else all keys.
fn own(keys: Vec<(Option<i64>, SiteKey)>, user_id: Option<i64>) -> Vec<SiteKey> {
    let says_so = user_id.is_some() && keys.iter().any(|(owner, _)| *owner == user_id);
    let own = keys.into_iter().filter(|(owner, _)| !says_so || owner.is_none() || *owner == user_id);
    own.map(|(_, key)| key).collect()
}

fn items(answer: &Value) -> Option<&Vec<Value>> {
    let places = ["/data", "/data/items", "/data/data", "/items", "/list", "/data/list"];
    let found = places.into_iter().find_map(|place| answer.pointer(place)?.as_array());
    // Go writes an empty list as null.
    static NONE: Vec<Value> = Vec::new();
    found.or_else(|| {
        let lists = ["/data/items", "/data/data"].into_iter().filter_map(|place| answer.pointer(place));
        lists.chain(answer.get("data")).any(Value::is_null).then_some(&NONE)
    })
}

fn read(item: &Value, number: usize) -> SiteKey {
    let text = |member: &str| reply::name(item, member);
    let unnamed = || if number == 1 { "default".to_owned() } else { format!("token-{number}") };
    SiteKey {
        id: item.get("id").and_then(reply::whole),
        name: text("name").unwrap_or_else(unnamed),
        // A key without a value is skipped by whoever lists them.
        key: with_prefix(item.get("key").and_then(Value::as_str).and_then(usable_key).unwrap_or_default()),
        enabled: item.get("status").and_then(reply::whole).is_none_or(|status| status == 1),
        group: text("group").or_else(|| text("group_name")).or_else(|| text("token_group")),
    }
}

/// Returns the whole keys that the site reveals together, by their numbers.
async fn reveal_many(
    site_client: &SiteClient,
    client: &Client,
    ids: &[i64],
    deadline: Instant,
) -> HashMap<i64, Secret> {
    let mut whole = HashMap::new();
    for some in ids.chunks(MOST_REVEALED) {
        let body = json!({ "ids": some });
        let call = Call::post("/api/token/batch/keys").with(&body);
        match in_time(deadline, site_client.as_user(client, call)).await {
            Ok(answer) => whole.extend(revealed(&answer)),
            Err(error) => {
                log::debug!(
                    "{}: the keys could not be read in one request: {error}",
                    site_client.base.origin
                );
                break;
            }
        }
    }
    whole
}

/// Returns the whole keys that the site reveals one by one until the deadline, by their numbers.
async fn reveal_each(
    site_client: &SiteClient,
    client: &Client,
    ids: &[i64],
    deadline: Instant,
) -> HashMap<i64, Secret> {
    let mut whole = HashMap::new();
    let mut failure = None;
    for id in ids {
        match in_time(deadline, reveal(site_client, client, *id)).await {
            Ok(key) => {
                whole.insert(*id, key);
            }
            Err(error) => {
                // A key that takes too long may be the only one that does. After a refusal no more are asked for.
                let goes_on = error.kind == SiteErrorKind::Timeout && Instant::now() < deadline;
                failure = Some(error);
                if !goes_on {
                    break;
                }
            }
        }
    }
    // An older server reveals none, which is no failure.
    if let Some(error) = failure.filter(SiteError::stands_for_itself) {
        let (site, count) = (&site_client.base.origin, ids.len() - whole.len());
        log::warn!("{site}: {count} key(s) stay masked, because one was not revealed: {error}");
    }
    whole
}

/// Waits for one answer that reveals keys, at most until the deadline.
async fn in_time<T>(
    deadline: Instant,
    answer: impl Future<Output = Result<T, SiteError>>,
) -> Result<T, SiteError> {
    let until = deadline.min(Instant::now() + REVEAL_WAIT);
    timeout_at(until, answer)
        .await
        .unwrap_or_else(|_elapsed| Err(SiteError::new(SiteErrorKind::Timeout, "no complete answer in time")))
}

fn revealed(answer: &Value) -> impl Iterator<Item = (i64, Secret)> {
    let keys = answer.pointer("/data/keys").and_then(Value::as_object);
    keys.into_iter().flatten().filter_map(|(id, key)| Some((id.parse().ok()?, whole_form(key.as_str()?)?)))
}

async fn reveal(site_client: &SiteClient, client: &Client, id: i64) -> Result<Secret, SiteError> {
    let answer = site_client.as_user(client, Call::post(&format!("/api/token/{id}/key"))).await?;
    let key = answer.pointer("/data/key").and_then(Value::as_str).and_then(whole_form);
    key.ok_or_else(|| SiteError::lacks(&answer, "key"))
}

/// Returns a revealed key; `None` when it is still a mask.
fn whole_form(key: &str) -> Option<Secret> {
    let key = usable_key(key)?;
    (!is_mask(key)).then(|| with_prefix(key))
}

/// Adds the `sk-` that clients send and sites do not store; a mask stays as it is.
fn with_prefix(key: &str) -> Secret {
    let is_whole = !key.is_empty() && !is_mask(key);
    Secret::from(if is_whole && !key.starts_with("sk-") { format!("sk-{key}") } else { key.to_owned() })
}

/// Whether a listed key, whole or masked, may be the wanted one. A mask has to show enough to tell keys apart.
fn fits(listed: &str, wanted: &str) -> bool {
    let listed = bare_key(listed);
    let is_masked_form = |mask: KeyMask<'_>| mask.shown() >= MIN_SHOWN && mask.fits(wanted);
    listed == wanted || KeyMask::of(listed).is_some_and(is_masked_form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_told_together_are_read_by_their_numbers() {
        let answer =
            json!({"data": {"keys": {"7": "abcd", "8": "ab**yz", "x": "efgh", "9": 5, "10": "sk-q"}}});
        let mut told: Vec<(i64, String)> =
            revealed(&answer).map(|(id, key)| (id, key.expose().to_owned())).collect();
        told.sort();
        assert_eq!(told, [(7, "sk-abcd".to_owned()), (10, "sk-q".to_owned())]);
        assert_eq!(revealed(&json!({"data": null})).count(), 0);
    }

    #[test]
    fn a_key_is_read_from_every_known_shape() {
        let item = json!({"id": 7, "key": "abcd", "status": 2, "name": " cli ", "group": "vip"});
        let key = read(&item, 1);
        assert_eq!((key.id, key.name.as_str(), key.key.expose()), (Some(7), "cli", "sk-abcd"));
        assert_eq!((key.enabled, key.group.as_deref()), (false, Some("vip")));
        let bare = read(&json!({"key": "sk-x", "token_group": " g ", "group": ""}), 1);
        assert_eq!((bare.name.as_str(), bare.enabled, bare.group.as_deref()), ("default", true, Some("g")));
        assert_eq!(read(&json!({"key": "k"}), 3).name, "token-3");
        for answer in [
            json!({"data": [1]}),
            json!({"data": {"items": [1]}}),
            json!({"data": {"data": [1]}}),
            json!({"items": [1]}),
            json!({"list": [1]}),
            json!({"data": {"list": [1]}}),
        ] {
            assert_eq!(items(&answer).map(Vec::len), Some(1), "{answer}");
        }
        assert_eq!(items(&json!({"success": true, "data": null})).map(Vec::len), Some(0));
        assert!(items(&json!({"success": true})).is_none());
    }

    #[test]
    fn what_a_header_cannot_carry_is_no_key() {
        for key in ["sk-", "sk-a\nb", "sk-\u{1b}[31m", " ", "a b"] {
            assert_eq!(read(&json!({"key": key}), 1).key.expose(), "", "{key:?}");
            assert!(whole_form(key).is_none(), "{key:?}");
        }
        assert_eq!(read(&json!({"key": "sk-".to_owned() + &"x".repeat(200_000)}), 1).key.expose(), "");
        assert_eq!(read(&json!({"key": "ab••yz"}), 1).key.expose(), "ab••yz");
        let item = json!({"key": "k", "name": "a\r\n\u{202e}b", "group": "g".repeat(300_000)});
        let key = read(&item, 1);
        assert_eq!((key.name.as_str(), key.group.map(|group| group.len())), ("a b", Some(191)));
    }

    #[test]
    fn a_mask_fits_the_keys_that_look_like_it() {
        for (listed, wanted, fits_it) in [
            ("abcd**********wxyz", "abcd0123456789wxyz", true),
            ("abcd**********wxyz", "abcd**********wxyz", true),
            ("abcd**********wxyz", "abcX0123456789wxyz", false),
            ("sk-abcdef", "abcdef", true),
            ("sk-abcdef", "abcdeg", false),
            ("**", "anything", false),
        ] {
            assert_eq!(fits(listed, bare_key(wanted)), fits_it, "{listed} {wanted}");
        }
    }
}
