//! Converts a row of a document to our own format: what older documents and other programs write differently,
//! and what the API would not accept.

use serde_json::{Map, Value as Json};

use super::accounts::{self, LoginSecrets};
use super::keys::{self, Unfit, parsed};
use crate::key_mask::is_mask;
use crate::mask;
use crate::money::Usd;
use crate::platform::Platform;
use crate::site_headers::{self, Fault};
use crate::site_url::{SiteUrl, UrlError, check_page, without_user_info};
use crate::store::staging::tables::Table;
use crate::store::tokens::{MASKED_PENDING, READY};

/// The highest limit of concurrent requests to a site.
const MAX_CONCURRENCY: f64 = 10_000.0;

/// Converts a row to our own format: what older documents and other programs write differently.
pub(super) fn row(
    secrets: LoginSecrets<'_>,
    table: &Table,
    line: i64,
    row: &mut Map<String, Json>,
    left_out: &mut Vec<String>,
) -> Result<(), Unfit> {
    match table.name {
        "sites" => site(row, left_out),
        "site_api_endpoints" => address(row, SiteUrl::canonical, left_out),
        "accounts" => {
            accounts::flatten(secrets, row, left_out).map_err(|expected| ("extraConfig", expected))?;
            one_of(row, "status", &["active", "disabled", "expired", "unhealthy"], left_out);
            one_of(row, "credentialMode", &["auto", "session", "apikey"], left_out);
            leave_out_unless(row, "apiToken", "is only the mask of a key", left_out, |value| {
                value.as_str().is_none_or(|text| !is_mask(text))
            });
            // A session may be a cookie, which may contain asterisks.
            leave_out_unless(row, "accessToken", "is only the mask of a session", left_out, |value| {
                value.as_str().is_none_or(|text| !mask::is_of_secret(text.trim()))
            });
            within(row, "unitCost", 0.0, left_out);
            for amount in ["balance", "balanceUsed", "quota"] {
                leave_out_unless(row, amount, "is no amount that a site may mean", left_out, |value| {
                    value.as_f64().is_none_or(|value| Usd::new(value).is_believable())
                });
            }
        }
        "account_tokens" => {
            let masked = row.get("token").and_then(Json::as_str).is_some_and(is_mask);
            let is_pending = row.get("valueStatus").is_some_and(|status| status == MASKED_PENDING);
            let status = if masked || is_pending { MASKED_PENDING } else { READY };
            row.insert("valueStatus".to_owned(), status.into());
            one_of(row, "source", &["manual", "sync", "legacy"], left_out);
        }
        "oauth_route_units" => one_of(row, "strategy", &["round_robin", "stick_until_unavailable"], left_out),
        "token_routes" => {
            one_of(row, "routeMode", &["pattern", "explicit_group"], left_out);
            one_of(row, "routingStrategy", &["weighted", "round_robin", "stable_first"], left_out);
            if row.get("isManual").is_none_or(Json::is_null) {
                // Only an operator creates a route with a pattern.
                let pattern = row.get("modelPattern").and_then(Json::as_str).unwrap_or_default();
                let is_group = row.get("routeMode").is_some_and(|mode| mode == "explicit_group");
                let is_manual = is_group || pattern.contains('*') || pattern.starts_with("re:");
                row.insert("isManual".to_owned(), is_manual.into());
            }
        }
        "route_group_sources" if row.get("position").is_none_or(Json::is_null) => {
            row.insert("position".to_owned(), (line - 1).into());
        }
        "route_channels" => {
            within(row, "weight", 0.0, left_out);
            within(row, "priority", 0.0, left_out);
        }
        "downstream_api_keys" => {
            trim(row, "key");
            keys::amend(row, left_out)?;
        }
        _ => {}
    }
    Ok(())
}

fn site(row: &mut Map<String, Json>, left_out: &mut Vec<String>) {
    keys::line(row, "name", left_out);
    lower(row, "platform");
    // Under another name of its platform the site would not match ours at the same address.
    if let Some(platform) = row.get("platform").and_then(Json::as_str).and_then(Platform::parse) {
        row.insert("platform".to_owned(), platform.id().into());
    }
    one_of(row, "status", &["active", "disabled"], left_out);
    one_of(row, "postRefreshProbeScope", &["single", "all"], left_out);
    address(row, SiteUrl::persisted, left_out);
    if row.get("maxConcurrency") == Some(&Json::from(0)) {
        row.insert("maxConcurrency".to_owned(), Json::Null);
    }
    within(row, "maxConcurrency", 1.0, left_out);
    leave_out_unless(row, "maxConcurrency", "is too large", left_out, |value| {
        value.as_f64().is_none_or(|value| value <= MAX_CONCURRENCY)
    });
    within(row, "globalWeight", f64::MIN_POSITIVE, left_out);
    // As the API does.
    let weight = row.get("globalWeight").and_then(Json::as_f64);
    if let Some(weight) = weight.filter(|weight| !(0.01..=100.0).contains(weight)) {
        row.insert("globalWeight".to_owned(), weight.clamp(0.01, 100.0).into());
    }
    within(row, "sortOrder", 0.0, left_out);
    checkin_page(row, left_out);
    custom_headers(row, left_out);
}

/// Converts the custom headers to our own format, without those that cannot be sent.
fn custom_headers(row: &mut Map<String, Json>, left_out: &mut Vec<String>) {
    let sent = match row.get("customHeaders") {
        None | Some(Json::Null) => return,
        Some(Json::String(text)) if text.trim().is_empty() => return,
        Some(sent) => parsed(sent),
    };
    row.remove("customHeaders");
    let Json::Object(mut headers) = sent else {
        return left_out
            .push("customHeaders is not an object whose values are strings: it is left out".to_owned());
    };
    headers.retain(|name, value| {
        let fault = match site_headers::one(name, value) {
            Ok((_, text)) if mask::is_of_secret(text.trim()) => {
                Some(Fault::of(name, "is only the mask of a secret"))
            }
            checked => checked.err(),
        };
        left_out.extend(fault.as_ref().map(|fault| format!("customHeaders: {fault} It is left out")));
        fault.is_none()
    });
    match site_headers::canonical(&headers) {
        Ok(text) => drop(row.insert("customHeaders".to_owned(), text.into())),
        Err(fault) => left_out.push(format!("customHeaders: {fault} They are left out")),
    }
}

/// Leaves a number out that is below `least`.
fn within(row: &mut Map<String, Json>, member: &str, least: f64, left_out: &mut Vec<String>) {
    leave_out_unless(row, member, "is too small", left_out, |value| {
        value.as_f64().is_none_or(|value| value >= least)
    });
}

/// Leaves a member out that is not sound, and reports it.
fn leave_out_unless(
    row: &mut Map<String, Json>,
    member: &str,
    why_not: &str,
    left_out: &mut Vec<String>,
    is_sound: impl Fn(&Json) -> bool,
) {
    if row.get(member).is_some_and(|value| !is_sound(value)) {
        left_out.push(format!("{member} {why_not}: it is left out"));
        row.remove(member);
    }
}

fn trim(row: &mut Map<String, Json>, member: &str) {
    if let Some(Json::String(text)) = row.get_mut(member) {
        *text = text.trim().to_owned();
    }
}

/// Writes the address in the form that the API stores, because two spellings of one address would be two sites.
/// An invalid address stays as it is, but without a user name and password: addresses are shown.
fn address(row: &mut Map<String, Json>, form: fn(&SiteUrl) -> String, left_out: &mut Vec<String>) {
    trim(row, "url");
    drop_user_info(row, "url", left_out);
    if let Some(Json::String(text)) = row.get_mut("url")
        && let Ok(url) = SiteUrl::parse_absolute(text)
    {
        *text = form(&url);
    }
}

/// Leaves the address of a check-in page out that the API would not accept.
fn checkin_page(row: &mut Map<String, Json>, left_out: &mut Vec<String>) {
    let member = "externalCheckinUrl";
    trim(row, member);
    drop_user_info(row, member, left_out);
    let page = row.get(member).and_then(Json::as_str).filter(|page| !page.is_empty());
    if let Some(UrlError(why)) = page.and_then(|page| check_page(page).err()) {
        left_out.push(format!("{member} {why}: it is left out"));
        row.remove(member);
    }
}

/// Removes the user name and password from an address, and reports it.
fn drop_user_info(row: &mut Map<String, Json>, member: &str, left_out: &mut Vec<String>) {
    if let Some(Json::String(text)) = row.get_mut(member)
        && let Some(address) = without_user_info(text)
    {
        *text = address;
        left_out.push(format!("{member} carries a user name or password: they are left out"));
    }
}

fn lower(row: &mut Map<String, Json>, member: &str) {
    if let Some(Json::String(text)) = row.get_mut(member) {
        *text = text.trim().to_ascii_lowercase();
    }
}

/// Leaves a word out that is none of these.
fn one_of(row: &mut Map<String, Json>, member: &str, words: &[&str], left_out: &mut Vec<String>) {
    lower(row, member);
    let is_known = |word: &Json| word.is_null() || word.as_str().is_some_and(|word| words.contains(&word));
    leave_out_unless(row, member, "has an unknown value", left_out, is_known);
}
