//! Exchanges codes and refresh tokens for grants (RFC 6749, 4.1.3 and 6).
//!
//! | provider | form | whose account it is |
//! |---|---|---|
//! | codex | form | the claims of the id token |
//! | claude | JSON | `account` and `organization` in the answer |
//! | gemini-cli, antigravity | form, with the client's secret | asked of Google's user info |
//!
//! A renewal is one call: values that its answer does not have stay as they were.

use serde_json::{Map, Value, json};

use super::authorization::Verifier;
use super::claims::{Claims, clean};
use super::google::email_of;
use super::grant::{Grant, Identity, TokenError};
use super::provider_client::{Credentials, Payload, ProviderAnswer, ProviderClient};
use crate::platform::OAuthProvider;
use crate::routing::Secret;
use crate::time::{self, Millis, now_ms};
use crate::upstream::platforms::usable_token;

/// Refusals of a renewal that say nothing about the token: the client, the request or the moment is wrong.
const NOT_THE_TOKEN: [&str; 8] = [
    "invalid_client",
    "invalid_request",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "temporarily_unavailable",
    "server_error",
    "slow_down",
];

/// The code that a browser has brought back, with what its exchange needs.
#[derive(Clone, Debug)]
pub struct Code {
    pub code: Secret,
    pub state: String,
    pub verifier: Verifier,
    pub redirect_uri: String,
}

/// Exchanges a code for tokens and the identity of their account.
///
/// # Errors
/// Returns a message when the provider refuses, or its answer lacks what a login has to bring.
pub async fn exchange(provider: &ProviderClient<'_>, code: &Code) -> Result<Grant, TokenError> {
    let what = "token exchange";
    let secrets = [code.code.expose(), code.verifier.expose()];
    let answer = match provider.provider {
        OAuthProvider::Claude => {
            let body = json!({
                "grant_type": "authorization_code",
                "code": code.code.expose(),
                "state": code.state,
                "redirect_uri": code.redirect_uri,
                "code_verifier": code.verifier.expose(),
            });
            ask_in_json(provider, what, body, &secrets).await?
        }
        _ => {
            let pairs = [
                ("grant_type", "authorization_code"),
                ("code", code.code.expose()),
                ("redirect_uri", &code.redirect_uri),
                ("code_verifier", code.verifier.expose()),
            ];
            ask_in_form(provider, what, &pairs, &secrets).await?
        }
    };
    let mut grant = read(provider, what, &answer)?;
    match provider.provider {
        OAuthProvider::Codex => {
            let absent = [
                ("refresh_token", grant.refresh_token.is_none()),
                ("id_token", grant.id_token.is_none()),
                ("expires_in", grant.expires_at.is_none()),
                ("chatgpt_account_id", grant.identity.account_key.is_none()),
            ];
            if let Some((name, _)) = absent.iter().find(|(_, is_absent)| *is_absent) {
                return Err(provider.failure(format!("{what} response missing {name}")));
            }
        }
        OAuthProvider::Claude => {}
        OAuthProvider::GeminiCli | OAuthProvider::Antigravity => {
            let email = email_of(provider, &grant.access_token).await?;
            grant.identity =
                Identity { account_key: Some(email.clone()), email: Some(email), ..Identity::default() };
        }
    }
    Ok(grant)
}

/// Exchanges a refresh token for a new access token; what the provider does not say anew is absent.
///
/// # Errors
/// Returns a message; [`TokenError::is_revoked`] is set when the provider has revoked its grant.
pub async fn refresh(provider: &ProviderClient<'_>, token: &Secret) -> Result<Grant, TokenError> {
    let what = "token refresh";
    let secrets = [token.expose()];
    let answer = match provider.provider {
        OAuthProvider::Claude => {
            let body = json!({"grant_type": "refresh_token", "refresh_token": token.expose()});
            ask_in_json(provider, what, body, &secrets).await?
        }
        other => {
            let mut pairs = vec![("grant_type", "refresh_token"), ("refresh_token", token.expose())];
            if other == OAuthProvider::Codex {
                pairs.push(("scope", "openid profile email"));
            }
            ask_in_form(provider, what, &pairs, &secrets).await?
        }
    };
    read(provider, what, &answer)
}

async fn ask_in_json(
    provider: &ProviderClient<'_>,
    what: &str,
    mut body: Value,
    secrets: &[&str],
) -> Result<ProviderAnswer, TokenError> {
    let settings = provider.settings;
    body["client_id"] = json!(settings.client_id);
    if let Some(secret) = &settings.client_secret {
        body["client_secret"] = json!(secret);
    }
    ask(provider, what, Payload::Json(&body), secrets).await
}

async fn ask_in_form(
    provider: &ProviderClient<'_>,
    what: &str,
    pairs: &[(&str, &str)],
    secrets: &[&str],
) -> Result<ProviderAnswer, TokenError> {
    let settings = provider.settings;
    let client = [("client_id", &settings.client_id), ("client_secret", &settings.client_secret)];
    let client = client.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let pairs: Vec<_> = client.chain(pairs.iter().copied()).collect();
    ask(provider, what, Payload::Form(&pairs), secrets).await
}

async fn ask(
    provider: &ProviderClient<'_>,
    what: &str,
    payload: Payload<'_>,
    secrets: &[&str],
) -> Result<ProviderAnswer, TokenError> {
    let hidden = secrets.iter().copied().chain(provider.settings.client_secret.as_deref()).collect();
    let credentials = Credentials { hidden, ..Credentials::default() };
    let answer = provider.call(&provider.settings.token_url, payload, credentials).await?;
    if answer.status.is_success() {
        return Ok(answer);
    }
    // A token endpoint that refuses without a reason can only refuse the credential that it was shown.
    let is_revoked = matches!(answer.status.as_u16(), 400 | 401)
        && answer.error_code().is_none_or(|code| !NOT_THE_TOKEN.contains(&code));
    Err(TokenError { is_revoked, ..provider.refusal(what, &answer) })
}

/// Reads the answer of a token endpoint.
fn read(provider: &ProviderClient<'_>, what: &str, answer: &ProviderAnswer) -> Result<Grant, TokenError> {
    let body = &answer.body;
    let token = |name: &str| Some(Secret::from(usable_token(body[name].as_str()?)?));
    let missing = |name: &str| provider.failure(format!("{what} response missing {name}"));
    let access_token = token("access_token").ok_or_else(|| missing("access_token"))?;
    let id_token = token("id_token");
    let (identity, provider_data) = match provider.provider {
        OAuthProvider::Codex => {
            let identity = id_token.as_ref().map(|token| Claims::of(token.expose()).identity());
            (identity.unwrap_or_default(), Map::new())
        }
        OAuthProvider::Claude => {
            let email = clean(&body["account"]["email_address"]);
            let account_key = clean(&body["account"]["uuid"]).or_else(|| email.clone());
            let data = [
                ("organizationId", clean(&body["organization"]["uuid"])),
                ("organizationName", clean(&body["organization"]["name"])),
            ];
            (Identity { account_key, email, ..Identity::default() }, texts(data))
        }
        OAuthProvider::GeminiCli | OAuthProvider::Antigravity => {
            let data = [("tokenType", clean(&body["token_type"])), ("scope", scope(&body["scope"]))];
            (Identity::default(), texts(data))
        }
    };
    Ok(Grant {
        access_token,
        refresh_token: token("refresh_token"),
        id_token,
        expires_at: expiry(body, now_ms()),
        identity,
        provider_data,
    })
}

/// Returns when the access token ends: `expires_in` in seconds, a number or a text, else `expiry` as a time.
fn expiry(body: &Value, now: Millis) -> Option<Millis> {
    let seconds = match &body["expires_in"] {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let seconds = seconds.filter(|seconds: &f64| *seconds > 0.0 && *seconds < 1e10);
    let ends = seconds.map(|seconds| now + (seconds * 1000.0) as Millis);
    ends.or_else(|| time::parse(body["expiry"].as_str()?))
}

/// Returns the scopes that were granted, as one bounded text.
fn scope(value: &Value) -> Option<String> {
    let text: String = value.as_str()?.chars().filter(|c| !c.is_control()).take(2_000).collect();
    Some(text).filter(|text| !text.is_empty())
}

fn texts<const N: usize>(pairs: [(&str, Option<String>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_token_is_read_in_each_form() {
        for (body, expected) in [
            (json!({"expires_in": 3600}), Some(3_601_000)),
            (json!({"expires_in": "60"}), Some(61_000)),
            (json!({"expires_in": 0, "expiry": "1970-01-01T00:00:09Z"}), Some(9_000)),
            (json!({"expires_in": -5}), None),
            (json!({"expires_in": 1e300}), None),
            (json!({}), None),
        ] {
            assert_eq!(expiry(&body, 1_000), expected, "{body}");
        }
    }
}
