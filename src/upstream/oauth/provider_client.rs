//! One call to a provider: bounded in time and bytes, with the words of its refusals.
//!
//! A redirect is an answer like any other: codes, secrets and tokens go only to the address that was configured. A
//! provider's words are shown in one bounded line, without the secrets that it was sent and those that it sent itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::http::{Method, Request, StatusCode, Uri};
use serde_json::Value;

use super::grant::TokenError;
use crate::config::oauth::ProviderSettings;
use crate::mask::Mask;
use crate::one_line::short_line;
use crate::platform::OAuthProvider;
use crate::routing::{BaseUrl, OutboundProxy, Secret, encode_component};
use crate::upstream::{Client, FetchLimits};

/// The limits of one call, whose answer is read to the end.
const LIMITS: FetchLimits = FetchLimits { timeout: Duration::from_secs(30), max_bytes: 1024 * 1024 };
/// The longest text of a provider's own words that is kept, in characters.
const MAX_MESSAGE: usize = 500;
/// The longest answer, in bytes, that is taken for a sentence and not for a page.
const MAX_SENTENCE: usize = 2_000;

/// A provider, and the client, settings and proxy for calling it.
#[derive(Clone)]
pub struct ProviderClient<'a> {
    pub client: &'a Client,
    pub provider: OAuthProvider,
    pub settings: &'a ProviderSettings,
    /// The outbound proxy that calls take; `None` goes directly.
    pub proxy: Option<Arc<OutboundProxy>>,
}

/// The body of a call.
pub(super) enum Payload<'a> {
    /// No body: a GET.
    None,
    Form(&'a [(&'a str, &'a str)]),
    Json(&'a Value),
}

/// The credentials and headers of a call.
#[derive(Default)]
pub(super) struct Credentials<'a> {
    pub bearer: Option<&'a Secret>,
    /// Further secrets in the body, to be hidden in messages.
    pub hidden: Vec<&'a str>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The answer of a provider. A body that is no JSON counts as `null`.
pub(super) struct ProviderAnswer {
    pub status: StatusCode,
    pub body: Value,
    /// The words of an answer that is not JSON: proxies and gateways refuse in plain words.
    sentence: Option<String>,
    mask: Mask,
}

// === impl ProviderClient ===

impl ProviderClient<'_> {
    /// Calls the provider at an address as it is written.
    ///
    /// # Errors
    /// When there is no complete answer. Any status is an answer.
    pub(super) async fn call(
        &self,
        address: &str,
        payload: Payload<'_>,
        credentials: Credentials<'_>,
    ) -> Result<ProviderAnswer, TokenError> {
        let unusable = |why: &str| self.failure(format!("cannot be asked: {why}"));
        let base = BaseUrl::parse(address, self.proxy.clone()).map_err(|why| unusable(&why))?;
        let (path, query) = (base.path.as_str(), base.query.as_deref());
        let target = match (path, query) {
            ("", None) => "/".to_owned(),
            (path, None) => path.to_owned(),
            (path, Some(query)) => format!("{path}?{query}"),
        };
        let target = PathAndQuery::try_from(target).map_err(|_| unusable("the address has no path"))?;
        let mut mask = Mask::default();
        credentials.hidden.iter().for_each(|secret| mask.add(secret));
        credentials.headers.iter().for_each(|(name, value)| mask.add_header(name, value));
        base.add_secrets(&mut mask);
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::from(target);
        request.headers_mut().extend(credentials.headers);
        if let Some(token) = credentials.bearer {
            mask.add(token.expose());
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
                .map_err(|_| unusable("the token has characters that a header cannot carry"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let content = match payload {
            Payload::None => None,
            Payload::Form(pairs) => Some(("application/x-www-form-urlencoded", form(pairs))),
            Payload::Json(value) => Some(("application/json", value.to_string())),
        };
        if let Some((content_type, body)) = content {
            *request.method_mut() = Method::POST;
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            *request.body_mut() = body.into();
        }
        let answer = self.client.fetch_without_redirects(&base, request, LIMITS).await;
        let answer = answer.map_err(|error| TokenError {
            lacks_proxy: error.lacks_proxy(),
            ..self.failure(format!("did not answer: {error}"))
        })?;
        let (body, sentence) = match serde_json::from_slice(answer.body()) {
            Ok(body) => (body, None),
            Err(_) => (Value::Null, sentence(answer.body())),
        };
        for name in ["access_token", "refresh_token", "id_token"] {
            if let Some(token) = Value::as_str(&body[name]) {
                mask.add(token);
            }
        }
        Ok(ProviderAnswer { status: answer.status(), body, sentence, mask })
    }

    /// Builds the error of a failed call, in words that name the provider.
    pub(super) fn failure(&self, what: impl std::fmt::Display) -> TokenError {
        TokenError::new(format!("{} {what}", self.provider.id()))
    }

    /// Builds the error for an answer that refuses: `codex token exchange failed with status 400: invalid_grant: …`.
    pub(super) fn refusal(&self, what: &str, answer: &ProviderAnswer) -> TokenError {
        let status = answer.status.as_u16();
        let words = answer.words().map(|words| format!(": {words}")).unwrap_or_default();
        self.failure(format!("{what} failed with status {status}{words}"))
    }
}

// === impl ProviderAnswer ===

impl ProviderAnswer {
    /// Returns the provider's code for its refusal, in OAuth's form or in the form of its interfaces.
    pub(super) fn error_code(&self) -> Option<&str> {
        let error = &self.body["error"];
        error.as_str().or_else(|| error["code"].as_str()).or_else(|| error["type"].as_str())
    }

    /// Returns the provider's words about its refusal, fit to be shown.
    pub(super) fn words(&self) -> Option<String> {
        let error = &self.body["error"];
        let text =
            |value: &Value| value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let description = text(&self.body["error_description"]).or_else(|| text(&error["message"]));
        let words = match (text(error), description) {
            (Some(code), Some(description)) if code != description => Some(format!("{code}: {description}")),
            (code, description) => {
                let message = || {
                    text(&self.body["message"])
                        .or_else(|| text(&self.body["detail"]))
                        .or_else(|| self.sentence.clone())
                };
                description.or(code).or_else(message)
            }
        };
        words.map(|words| fit(&self.mask.hide_in(&words))).filter(|words| !words.is_empty())
    }
}

/// Returns the words of an answer in plain text; `None` for a web page, for JSON that is cut off, and for what may hold
/// a token.
fn sentence(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let is_sentence = text.len() <= MAX_SENTENCE && !text.starts_with(['<', '{', '[', '"']);
    (is_sentence && !text.contains("_token")).then(|| text.to_owned())
}

/// Shortens a provider's text to one line of at most [`MAX_MESSAGE`] characters.
pub(super) fn fit(text: &str) -> String {
    short_line(text, MAX_MESSAGE, "")
}

fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", encode_component(value)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(body: Value) -> Option<String> {
        let (status, mask) = (StatusCode::BAD_REQUEST, Mask::of("refresh-0123"));
        ProviderAnswer { status, body, sentence: None, mask }.words()
    }

    #[test]
    fn plain_words_are_taken_and_pages_are_not() {
        for (body, expected) in [
            (" upstream down\n", Some("upstream down")),
            ("<html><body>502</body></html>", None),
            ("{\"access_token\":\"a", None),
            ("access_token=a&refresh_token=b", None),
        ] {
            assert_eq!(sentence(body.as_bytes()).as_deref(), expected, "{body}");
        }
        assert_eq!(sentence(&[b'x'; MAX_SENTENCE + 1]), None);
        assert_eq!(sentence(b"\xff"), None);
    }

    #[test]
    fn refusals_are_read_in_each_form() {
        for (body, expected) in [
            (
                json!({"error": "invalid_grant", "error_description": "Bad code"}),
                Some("invalid_grant: Bad code"),
            ),
            (json!({"error": {"code": 400, "message": "Bad project", "status": "X"}}), Some("Bad project")),
            (json!({"error": "invalid_grant"}), Some("invalid_grant")),
            (json!({"message": "no"}), Some("no")),
            (json!({"error": "refresh-0123 is\r\n\u{1b}[31m over"}), Some("[redacted] is [31m over")),
            (json!({"error": " "}), None),
            (json!(null), None),
            (json!("refresh-0123"), None),
        ] {
            assert_eq!(words(body.clone()).as_deref(), expected, "{body}");
        }
        assert_eq!(words(json!({"error": "x".repeat(9_000)})).map(|words| words.len()), Some(MAX_MESSAGE));
    }
}
