//! sub2api: `{"code": 0, "message": "success", "data": …}` around every answer, money in
//! dollars, sessions by JWT, with a refresh token that is exchanged at every use.

pub(super) mod keys;
mod subscriptions;

use serde_json::{Value, json};

use super::contract::{Announcement, Balance, LoggedIn, NoticeLevel, Refreshed, Role, User};
use super::credential::usable_token;
use super::error::{SiteError, SiteErrorKind};
use super::reply;
use super::site_client::{AuthScheme, Call, SiteClient};
use crate::json_number::number_or_text;
use crate::money::Usd;
use crate::routing::Secret;
use crate::time::{self, Millis, now_ms};
use crate::upstream::Client;

/// The fractions of a dollar that a balance is rounded to: units like those of the other platforms, so that sums agree.
const UNIT: f64 = 500_000.0;

/// Returns the `data` of an answer whose `code` is 0.
async fn data(site_client: &SiteClient, client: &Client, call: Call<'_>) -> Result<Value, SiteError> {
    let scheme = AuthScheme::Bearer(site_client.session()?.to_owned());
    let answer = site_client.ask(client, call, &scheme, None).await?;
    unwrap(site_client, answer)
}

fn unwrap(site_client: &SiteClient, mut answer: Value) -> Result<Value, SiteError> {
    if answer.get("code") == Some(&json!(0)) {
        return Ok(answer.get_mut("data").map(Value::take).unwrap_or_default());
    }
    if answer.get("code").is_none() {
        return Err(SiteError::lacks(&answer, "code"));
    }
    let error = SiteError::answered(hyper::http::StatusCode::OK, answer.to_string().as_bytes());
    Err(SiteError { message: site_client.conceal(error.message), ..error })
}

/// Returns a user's name, or, where it has none, the part of its address before the `@`.
fn username(user: &Value) -> Option<String> {
    let local_part = || reply::name(user, "email")?.split('@').next().map(str::to_owned);
    reply::name(user, "username").or_else(local_part)
}

/// Reads the session's user and the balance: one call tells both.
pub(super) async fn account(
    site_client: &SiteClient,
    client: &Client,
) -> Result<(User, Result<Balance, SiteError>), SiteError> {
    let me = data(site_client, client, Call::get("/api/v1/auth/me")).await?;
    let left = me.get("balance").and_then(number_or_text).ok_or_else(|| SiteError::lacks(&me, "balance"));
    let user = User {
        id: me.get("id").and_then(reply::whole).filter(|id| *id > 0),
        username: username(&me).unwrap_or_default(),
        display_name: None,
        role: reply::name(&me, "role").map(Role::Word),
        email: reply::name(&me, "email"),
    };
    if user.is_nobody() && left.is_err() {
        return Err(SiteError::lacks(&me, "user"));
    }
    let balance = left.and_then(|left| {
        let balance = Usd::new((left * UNIT).round() / UNIT);
        Balance { balance, quota: balance, ..Balance::default() }.believed()
    });
    Ok((user, balance))
}

/// Reads the balance, with the subscriptions where the site tells them.
pub(super) async fn balance(site_client: &SiteClient, client: &Client) -> Result<Balance, SiteError> {
    let (account, subscriptions) =
        tokio::join!(account(site_client, client), subscriptions::summary(site_client, client));
    Ok(Balance { subscriptions, ..account?.1? })
}

/// Returns the user's first enabled key that is not masked.
pub(super) async fn first_key(site_client: &SiteClient, client: &Client) -> Result<Secret, SiteError> {
    let keys = keys::list(site_client, client).await?;
    let first = keys.into_iter().find(|key| key.enabled && !key.is_masked());
    first
        .map(|key| key.key)
        .ok_or_else(|| SiteError::new(SiteErrorKind::Refused, "the account has no enabled key at the site"))
}

pub(super) async fn announcements(
    site_client: &SiteClient,
    client: &Client,
) -> Result<Vec<Announcement>, SiteError> {
    let found = data(site_client, client, Call::get("/api/v1/announcements?page=1&page_size=100")).await?;
    let items = found.as_array().or_else(|| found.get("items")?.as_array());
    match items {
        Some(items) => Ok(items.iter().filter_map(announcement).collect()),
        None if found.is_null() || found.get("items").is_some_and(Value::is_null) => Ok(Vec::new()),
        None => Err(SiteError::lacks(&found, "list of announcements")),
    }
}

fn announcement(item: &Value) -> Option<Announcement> {
    let id = match item.get("id")? {
        Value::String(id) => id.clone(),
        id => id.as_i64()?.to_string(),
    };
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let when = |name: &str| item.get(name).and_then(moment);
    let (title, content) = (text("title"), text("content"));
    if title.is_empty() && content.is_empty() {
        return None;
    }
    Some(Announcement {
        source_key: format!("announcement:{id}"),
        title: if title.is_empty() { super::GENERIC_TITLE.to_owned() } else { title },
        content,
        level: NoticeLevel::Info,
        source_url: None,
        starts_at: when("starts_at"),
        ends_at: when("ends_at"),
        upstream_created_at: when("created_at"),
        upstream_updated_at: when("updated_at"),
        raw_payload: item.clone(),
    })
}

pub(super) async fn login(
    site_client: &SiteClient,
    client: &Client,
    email: &str,
    password: &str,
) -> Result<LoggedIn, SiteError> {
    let body = json!({"email": email, "password": password});
    let call = Call::post("/api/v1/auth/login").with(&body);
    let given = site_client.ask(client, call, &AuthScheme::None, None).await;
    let given = given.and_then(|answer| unwrap(site_client, answer)).map_err(|error| {
        let message = if password.len() < 4 { error.message } else { error.message.replace(password, "…") };
        SiteError { message, ..error }
    })?;
    if given.get("requires_2fa") == Some(&Value::Bool(true)) {
        return Err(SiteError::new(SiteErrorKind::Refused, "two-factor login required"));
    }
    let Some(access) = token(&given, "access_token") else {
        return Err(SiteError::lacks(&given, "access token"));
    };
    let user = given.get("user").unwrap_or(&Value::Null);
    Ok(LoggedIn {
        credential: access,
        username: username(user),
        user_id: user.get("id").and_then(reply::whole).filter(|id| *id > 0),
        refresh_token: token(&given, "refresh_token"),
        expires_at: given.get("expires_in").and_then(number_or_text).map(expiry),
    })
}

/// Exchanges a refresh token. Fails unless the answer has all three parts.
pub(super) async fn refresh(
    site_client: &SiteClient,
    client: &Client,
    refresh_token: &Secret,
) -> Result<Refreshed, SiteError> {
    let body = json!({"refresh_token": refresh_token.expose()});
    let given = data(site_client, client, Call::post("/api/v1/auth/refresh").with(&body)).await;
    let given = given.and_then(|given| {
        let parts = (
            token(&given, "access_token"),
            token(&given, "refresh_token"),
            given.get("expires_in").and_then(number_or_text),
        );
        match parts {
            (Some(access), Some(refresh), Some(seconds)) => {
                Ok(Refreshed { access_token: access, refresh_token: refresh, expires_at: expiry(seconds) })
            }
            _ => Err(SiteError::lacks(&given, "new pair of tokens")),
        }
    });
    given.map_err(|error| {
        let message = format!("sub2api token refresh failed: {}", error.message);
        SiteError { message: message.replace(refresh_token.expose(), "…"), ..error }
    })
}

fn expiry(seconds: f64) -> Millis {
    // A lifetime in seconds: far from the limits of a clock.
    now_ms().saturating_add((seconds.clamp(0.0, 1e10) * 1000.0) as Millis)
}

fn token(value: &Value, member: &str) -> Option<Secret> {
    usable_token(value.get(member)?.as_str()?).map(Secret::from)
}

/// Reads a time from a text, or from a number of seconds or milliseconds.
fn moment(value: &Value) -> Option<Millis> {
    match value {
        Value::String(text) => time::parse(text),
        value => value.as_f64().and_then(time::of_unix),
    }
}
