//! Exchanges name and password for a session. Current servers answer with a cookie, the newest generation and older
//! forks with a token.

use hyper::http::HeaderMap;
use hyper::http::header::SET_COOKIE;
use serde_json::{Value, json};

use crate::routing::Secret;
use crate::time;
use crate::upstream::Client;
use crate::upstream::platforms::contract::LoggedIn;
use crate::upstream::platforms::credential::usable_token;
use crate::upstream::platforms::error::{SiteError, SiteErrorKind};
use crate::upstream::platforms::reply;
use crate::upstream::platforms::site_client::{AuthScheme, Call, SiteClient};

/// Cookies of shields: they come along, but are no session.
const SHIELD_COOKIES: [&str; 3] = ["acw_tc", "acw_sc__v2", "cdn_sec_tc"];

pub(in crate::upstream::platforms) async fn login(
    site_client: &SiteClient,
    client: &Client,
    username: &str,
    password: &str,
) -> Result<LoggedIn, SiteError> {
    let body = json!({"username": username, "password": password});
    let call = Call::post("/api/user/login").with(&body).by_script();
    let answer = site_client.exchange(client, call, &AuthScheme::None, None).await?;
    let (status, body) = (answer.status(), answer.body());
    let refused = || {
        let error = SiteError::answered(status, body);
        let message = site_client.conceal(error.message);
        let message = if password.len() < 4 { message } else { message.replace(password, "…") };
        SiteError { message, ..error }
    };
    let json = match reply::json(body) {
        Ok(json) if json.is_object() => json,
        _ if reply::is_page(body) => return Err(blocked(refused())),
        _ => {
            let refused = refused();
            return Err(match refused.kind {
                SiteErrorKind::Shield => blocked(refused),
                _ if status.is_success() => SiteError::malformed(status, body, "valid JSON"),
                _ => refused,
            });
        }
    };
    if !status.is_success() || json.get("success").is_some_and(|success| success != &Value::Bool(true)) {
        return Err(refused());
    }
    let data = json.get("data").unwrap_or(&Value::Null);
    if data.get("require_2fa") == Some(&Value::Bool(true)) {
        return Err(SiteError::new(SiteErrorKind::Refused, "two-factor login required"));
    }
    let session = token(&json).or_else(|| {
        let said_yes = json.get("success") == Some(&Value::Bool(true));
        cookie_line(answer.headers()).filter(|_| said_yes)
    });
    let Some(session) = session else {
        return Err(SiteError::lacks(&json, "session"));
    };
    let user = data.get("user").unwrap_or(data);
    Ok(LoggedIn {
        credential: Secret::from(session),
        username: reply::name(user, "username"),
        user_id: user.get("id").and_then(reply::whole).filter(|id| *id > 0),
        refresh_token: data
            .get("refresh_token")
            .and_then(Value::as_str)
            .and_then(usable_token)
            .map(Secret::from),
        expires_at: data.get("access_expires_at").and_then(time::from_json),
    })
}

/// Builds the error for an answer that did not come from the API: a shield's page, or one of whatever stands before the
/// site.
fn blocked(error: SiteError) -> SiteError {
    let message = format!("shield challenge blocked login: {}", error.message);
    SiteError { kind: SiteErrorKind::Shield, message, ..error }
}

/// Returns the token, from one of the places where forks put it.
fn token(answer: &Value) -> Option<String> {
    let data = answer.get("data");
    let names = ["token", "accessToken", "access_token"];
    let above = names.iter().map(|name| answer.get(name));
    let inside = names.iter().map(|name| data?.get(name));
    let places = std::iter::once(data).chain(above).chain(inside);
    places.flatten().filter_map(Value::as_str).find_map(usable_token).map(str::to_owned)
}

/// Joins all cookies in one line, when one of them is a session's. As in a browser, the last cookie of a name counts,
/// and one that has ended removes those before it (RFC 6265 section 5.3).
fn cookie_line(headers: &HeaderMap) -> Option<String> {
    let mut cookies: Vec<(&str, &str)> = Vec::new();
    for set in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
        let (pair, attributes) = set.split_once(';').unwrap_or((set, ""));
        let Some((name, value)) = pair.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        cookies.retain(|(known, _)| *known != name);
        if !name.is_empty() && !value.is_empty() && !has_ended(attributes) {
            cookies.push((name, value));
        }
    }
    let has_session = cookies.iter().any(|(name, _)| is_session_cookie(&name.to_ascii_lowercase()));
    let pairs: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    has_session.then(|| pairs.join("; "))
}

/// Whether the attributes of a cookie say that it has ended; `Max-Age` goes before `Expires`.
fn has_ended(attributes: &str) -> bool {
    let attribute = |wanted: &str| {
        let pairs = attributes.split(';').filter_map(|attribute| attribute.split_once('='));
        { pairs }.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    match attribute("max-age").and_then(|seconds| seconds.parse::<i64>().ok()) {
        Some(seconds) => seconds <= 0,
        None => attribute("expires").and_then(time::parse).is_some_and(|at| at <= time::now_ms()),
    }
}

fn is_session_cookie(name: &str) -> bool {
    !SHIELD_COOKIES.contains(&name)
        && (name.starts_with("jwt") || ["session", "token", "auth"].iter().any(|word| name.contains(word)))
}

#[cfg(test)]
mod tests {
    use hyper::http::HeaderValue;

    use super::*;

    #[test]
    fn the_token_is_found_where_forks_put_it() {
        for answer in [
            json!({"data": "t"}),
            json!({"token": "t"}),
            json!({"accessToken": "t"}),
            json!({"access_token": "t"}),
            json!({"data": {"token": "t"}}),
            json!({"data": {"accessToken": "t"}}),
            json!({"data": {"access_token": "t", "token_type": "Bearer"}}),
        ] {
            assert_eq!(token(&answer).as_deref(), Some("t"), "{answer}");
        }
        assert_eq!(token(&json!({"data": {"id": 7}})), None);
        for unusable in [" ", "abc\r\nX-Evil: 1", &"x".repeat(900_000)] {
            assert_eq!(token(&json!({"data": unusable})), None);
        }
    }

    #[test]
    fn the_whole_cookie_line_is_the_session() {
        for (cookies, line) in [
            (vec!["session=abc; Path=/; HttpOnly"], Some("session=abc")),
            (vec!["acw_tc=1; Path=/", "session=abc; Path=/"], Some("acw_tc=1; session=abc")),
            (vec!["jwt_token=x"], Some("jwt_token=x")),
            (vec!["my_auth=x"], Some("my_auth=x")),
            (vec!["acw_tc=1", "cdn_sec_tc=2"], None),
            (vec!["session=; Max-Age=0"], None),
            (vec!["session=old; Path=/", "session=new; Path=/; Max-Age=600"], Some("session=new")),
            (vec!["session=gone; Max-Age=0", "session=new"], Some("session=new")),
            (vec!["session=new", "token=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], Some("session=new")),
            (vec!["session=gone", "session=x; max-age=-1; Expires=Fri, 01 Jan 2100 00:00:00 GMT"], None),
            (vec!["theme=dark"], None),
        ] {
            let mut headers = HeaderMap::new();
            for cookie in &cookies {
                headers.append(SET_COOKIE, HeaderValue::from_str(cookie).expect("a header"));
            }
            assert_eq!(cookie_line(&headers).as_deref(), line, "{cookies:?}");
        }
    }
}
