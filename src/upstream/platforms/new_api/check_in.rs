//! The daily check-in.
//!
//! ```text
//! Bearer   POST the fork's check-in route
//! cookie   where the token was not understood: POST /api/user/sign_in (older forks), then that route
//! missing  where a route is missing, asks for the user: an expired session must not look unsupported
//! ```

use serde_json::{Value, json};

use super::income::first_number;
use super::unit;
use crate::error_words::sites;
use crate::money::Usd;
use crate::platform::NewApiFork;
use crate::upstream::Client;
use crate::upstream::platforms::contract::CheckIn;
use crate::upstream::platforms::error::{SiteError, SiteErrorKind};
use crate::upstream::platforms::reply;
use crate::upstream::platforms::site_client::{AuthScheme, Call, SiteClient};

/// The largest reward that is believed, in the site's units.
const MOST_UNITS: f64 = 1e15;
/// The route of older forks.
const SIGN_IN: &str = "/api/user/sign_in";

pub(in crate::upstream::platforms) async fn check_in(
    site_client: &SiteClient,
    client: &Client,
    (fork, route): (&NewApiFork, &str),
) -> Result<CheckIn, SiteError> {
    let session = site_client.session()?;
    let (mut failure, mut missing) = (None, None);
    for scheme in site_client.schemes_for(session) {
        let by_cookie = matches!(scheme, AuthScheme::Cookie(_));
        let routes: &[&str] = if by_cookie { &[SIGN_IN, route] } else { &[route] };
        let mut refusal = None;
        for path in routes {
            let nothing = json!({});
            let call = match *path {
                SIGN_IN => Call::post(path).with(&nothing).by_script(),
                _ => Call::post(path),
            };
            let error = match site_client.with_number(client, call, session, &scheme).await {
                Ok(answer) => return read(site_client, client, fork, &answer).await,
                Err(error) => error,
            };
            // Only older forks have this route: its absence tells nothing.
            if *path == SIGN_IN && (error.is_missing() || error.is_page) {
                continue;
            }
            let is_heard = !matches!(error.kind, SiteErrorKind::Timeout | SiteErrorKind::Unreachable);
            if !is_heard || !(error.is_missing() || is_cookie_worthy(&error)) {
                return Err(error);
            }
            if error.is_missing() {
                missing = missing.or_else(|| Some(error.clone()));
            }
            refusal = Some(SiteError::more_telling(refusal, error));
        }
        if let Some(refusal) = refusal {
            failure = Some(SiteError::of_both_ways(failure, refusal));
        }
    }
    let Some(missing) = missing else {
        return Err(failure.unwrap_or_else(|| SiteError::new(SiteErrorKind::Refused, "no request was sent")));
    };
    match site_client.as_user(client, Call::get("/api/user/self")).await {
        Err(problem) if problem.wants_login() => Err(problem),
        _ => Err(missing),
    }
}

/// Whether the other way of sending the session may succeed.
fn is_cookie_worthy(error: &SiteError) -> bool {
    error.is_speechless
        || error.kind == SiteErrorKind::Expired
        || error.is_page
        || sites::has_not_understood(&error.message.to_lowercase())
}

async fn read(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
    answer: &Value,
) -> Result<CheckIn, SiteError> {
    if answer.get("success") != Some(&Value::Bool(true)) {
        return Err(SiteError::lacks(answer, "success"));
    }
    let message = reply::message(answer).unwrap_or_else(|| "checked in".to_owned());
    let data = answer.get("data").unwrap_or(&Value::Null);
    let number = |name: &str| {
        let value = data.get(name)?;
        let number = value.as_f64().or_else(|| first_number(value.as_str()?));
        number.filter(|number| *number > 0.0 && *number <= MOST_UNITS)
    };
    let reward = match fork.reward.iter().find_map(|name| number(name)) {
        Some(units) => Some(Usd::new(units / unit(site_client, client).await).rounded()),
        None => number("reward").map(Usd::new),
    };
    // A tiny unit makes any number of units absurd.
    let reward = reward.filter(|reward| reward.is_believable());
    Ok(CheckIn { message, reward })
}
