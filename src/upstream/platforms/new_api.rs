//! The new-api family: new-api, anyrouter, one-api, one-hub, done-hub, veloera.
//!
//! All wrap their answers in `{"success": bool, "message": string, "data": …}` and count money in units,
//! `quota_per_unit` of them to the dollar. Their profiles say where they differ: [`NewApiFork`].
//!
//! | file | |
//! |---|---|
//! | `login` | exchanges name and password for a session |
//! | `check_in` | the daily check-in |
//! | `keys` | API keys of the account |
//! | `income` | what the account was given, by its log |
//! | `notices` | the announcements of the site |

pub(super) mod check_in;
pub(super) mod income;
pub(super) mod keys;
pub(super) mod login;
pub(super) mod notices;

use std::time::Duration;

use serde_json::Value;

use super::contract::{Balance, Role, User};
use super::error::SiteError;
use super::memory::Unit;
use super::site_client::{AuthScheme, Call, SiteClient};
use super::{quota_units, reply};
use crate::json_number::number_or_text;
use crate::money::Usd;
use crate::platform::NewApiFork;
use crate::upstream::{Client, FetchLimits};

/// The time limit for a status page: a slower one must not hold up what needs its unit.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the session's user and the balance: one call tells both. A user without an amount is still a user.
pub(super) async fn account(
    site_client: &SiteClient,
    client: &Client,
) -> Result<(User, Result<Balance, SiteError>), SiteError> {
    let (own, unit) =
        tokio::join!(site_client.as_user(client, Call::get("/api/user/self")), unit(site_client, client));
    let own = own?;
    let Some(data) = own.get("data").filter(|data| data.is_object()) else {
        return Err(SiteError::lacks(&own, "user"));
    };
    let left = data.get("quota").and_then(number_or_text).ok_or_else(|| SiteError::lacks(&own, "quota"));
    let amount = |name: &str| Some(Usd::new(number_or_text(data.get(name)?)? / unit));
    let balance = left.and_then(|left| {
        let (balance, used) = (Usd::new(left / unit), amount("used_quota").unwrap_or_default());
        Balance {
            balance,
            used,
            // Every fork's quota is what remains.
            quota: balance + used,
            today_income: amount("today_income"),
            today_quota_consumption: amount("today_quota_consumption"),
            subscriptions: None,
        }
        .believed()
    });
    let user = user(data);
    if user.is_nobody() && balance.is_err() {
        return Err(SiteError::lacks(&own, "user"));
    }
    if let Some(id) = user.id {
        site_client.learn_user_id(id);
    }
    Ok((user, balance))
}

pub(super) fn user(data: &Value) -> User {
    let text = |member: &str| reply::name(data, member);
    User {
        id: data.get("id").and_then(reply::whole).filter(|id| *id > 0),
        username: text("username").unwrap_or_default(),
        display_name: text("display_name"),
        email: text("email"),
        role: data
            .get("role")
            .and_then(Value::as_i64)
            .map(Role::Number)
            .or_else(|| text("role").map(Role::Word)),
    }
}

/// Returns how many of the site's units make a dollar. The site is asked once an hour; where it does not answer, the
/// last known value counts.
pub(super) async fn unit(site_client: &SiteClient, client: &Client) -> f64 {
    let known = match site_client.memory.unit(&site_client.base) {
        Unit::Fresh(unit) => return unit,
        Unit::Old(unit) => unit,
        Unit::Unknown => quota_units::PER_USD,
    };
    match status(site_client, client).await {
        Ok(status) => learn_unit(site_client, &status),
        Err(error) => {
            log::debug!("{}: the unit of its quota could not be read: {error}", site_client.base.origin);
            known
        }
    }
}

/// Reads the `data` of the site's public status.
pub(super) async fn status(site_client: &SiteClient, client: &Client) -> Result<Value, SiteError> {
    let timeout = site_client.limits.timeout.min(STATUS_TIMEOUT);
    let hurried = SiteClient { limits: FetchLimits { timeout, ..site_client.limits }, ..site_client.clone() };
    let mut answer = hurried.ask(client, Call::get("/api/status"), &AuthScheme::None, None).await?;
    match answer.get_mut("data").map(Value::take) {
        Some(data) if data.is_object() => Ok(data),
        _ => Err(SiteError::lacks(&answer, "status")),
    }
}

/// Remembers the unit in a status, and returns it.
pub(super) fn learn_unit(site_client: &SiteClient, status: &Value) -> f64 {
    let unit = status.get("quota_per_unit").and_then(number_or_text).filter(|unit| *unit > 0.0);
    let unit = unit.unwrap_or(quota_units::PER_USD);
    site_client.memory.learn_unit(&site_client.base, unit);
    unit
}

/// Lists the models that the session's user may use; there may be none.
pub(super) async fn models_of_session(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
) -> Result<Vec<String>, SiteError> {
    let own = site_client.as_user(client, Call::get(fork.models)).await?;
    reply::names_of_session(&own).ok_or_else(|| SiteError::lacks(&own, "list of models"))
}

/// Lists the groups that the site offers the session's user.
pub(super) async fn groups(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
) -> Result<Vec<String>, SiteError> {
    let mut failure = None;
    for path in fork.groups {
        match site_client.as_user(client, Call::get(path)).await {
            Ok(answer) => {
                let names = group_names(answer.get("data").unwrap_or(&answer));
                if !names.is_empty() {
                    return Ok(names);
                }
            }
            Err(error) if !error.is_missing() && error.is_final() => return Err(error),
            Err(error) => failure = Some(SiteError::more_telling(failure, error)),
        }
    }
    failure.map_or_else(|| Ok(Vec::new()), Err)
}

fn group_names(data: &Value) -> Vec<String> {
    const NOT_GROUPS: [&str; 5] = ["success", "message", "code", "data", "error"];
    let names: Vec<&str> = match data {
        Value::Object(groups) => {
            groups.keys().map(String::as_str).filter(|name| !NOT_GROUPS.contains(name)).collect()
        }
        Value::Array(groups) => {
            groups.iter().filter_map(|group| group.as_str().or_else(|| group.get("name")?.as_str())).collect()
        }
        _ => Vec::new(),
    };
    names.into_iter().filter_map(reply::name_of_text).collect()
}
