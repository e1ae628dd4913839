//! One HTTP request of a channel, and the verdict on its response.
//!
//! Addresses of channels contain keys: in the path, the query, or before the host. No text made here shows more of an
//! address than its host, and messages of a service are searched for these keys.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::http::{Request, Uri};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::failure::{Failure, without};
use crate::one_line::short_line;
use crate::routing::{BaseUrl, OutboundProxy};
use crate::upstream::{Client, ErrorKind, FetchError, FetchLimits};

/// Maximum length of a service's message that is repeated.
const MAX_MESSAGE: usize = 160;
/// Minimum length of a part of an address that counts as a key; shorter ones are words.
const MIN_SECRET: usize = 6;
/// The fixed words in the paths of chat services; their messages use them, too.
const FIXED_WORDS: [&str; 3] = ["cgi-bin", "open-apis", "webhook"];
const LIMITS: FetchLimits = FetchLimits { timeout: super::failure::TIMEOUT, max_bytes: 64 * 1024 };

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
pub(super) const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// An address that a channel posts to.
pub(super) struct PostTarget {
    base: BaseUrl,
    /// The path and query as the operator wrote them: a webhook's path is exact.
    path_and_query: PathAndQuery,
    authorization: Option<HeaderValue>,
    secrets: Vec<String>,
}

impl PostTarget {
    /// Reads an address; a user name and password in it become Basic authentication.
    pub(super) fn parse(url: &str, proxy: Option<Arc<OutboundProxy>>) -> Result<Self, String> {
        let url = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://").ok_or("the address must begin with https://")?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let base = BaseUrl::parse(&format!("{scheme}://{host}{target}"), proxy)?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        let path_and_query = PathAndQuery::try_from(format!("{slash}{target}"))
            .map_err(|_| "the address has a path that cannot be used")?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments = path.split('/').filter(|segment| !FIXED_WORDS.contains(segment));
        let values = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let parts = segments
            .chain(values.map(|value| value.trim_end_matches('=')))
            .chain(user.into_iter().flat_map(|user| user.split(':')));
        let mut secrets: Vec<String> = Vec::new();
        for part in parts.filter(|part| part.len() >= MIN_SECRET) {
            let decoded = percent_decode_str(part).decode_utf8_lossy().into_owned();
            secrets.extend([part.to_owned(), decoded]);
        }
        let authorization = user.map(|user| {
            let user = percent_decode_str(user).decode_utf8_lossy();
            let value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(user.as_bytes())));
            value.map_err(|_| "the address has a user name that cannot be used")
        });
        Ok(Self { base, path_and_query, authorization: authorization.transpose()?, secrets })
    }

    /// Hides one more secret, which is only a piece of a part of the address.
    pub(super) fn hiding(mut self, secret: &str) -> Self {
        self.secrets.push(secret.to_owned());
        self
    }

    pub(super) fn host(&self) -> &str {
        &self.base.origin.host
    }

    pub(super) fn path(&self) -> &str {
        self.path_and_query.path()
    }

    /// Posts a body, and lets `verdict` read the beginning of the body of a 2xx response. A redirect is not followed: it
    /// would turn the message into a request without a body.
    pub(super) async fn post(
        &self,
        client: &Client,
        content_type: HeaderValue,
        body: impl Into<Bytes>,
        verdict: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<(), Failure> {
        let mut request = Request::post(Uri::from(self.path_and_query.clone()))
            .header(CONTENT_TYPE, content_type)
            .body(body.into())
            .map_err(|error| Failure::lasting(error.to_string()))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let (answer, _) = client.fetch_beginning(&self.base, request, LIMITS).await.map_err(|error| {
            let unconnected = matches!(&error, FetchError::Send(error) if is_unconnected(error.kind()));
            Failure { text: self.without_secrets(&error.to_string()), unconnected }
        })?;
        let (status, body) = (answer.status(), answer.body());
        let judged = if status.is_success() {
            verdict(body)
        } else {
            Err(match error_message(body) {
                Some(message) => format!("HTTP {}: {message}", status.as_u16()),
                None => format!("HTTP {}", status.as_u16()),
            })
        };
        judged.map_err(|text| Failure::lasting(self.without_secrets(&text)))
    }

    fn without_secrets(&self, text: &str) -> String {
        short_line(&without(text, self.secrets.iter().map(String::as_str)), MAX_MESSAGE, "…")
    }
}

/// Whether the error means that nothing has reached the other side.
fn is_unconnected(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Dns
        | ErrorKind::Connect
        | ErrorKind::NoProxy
        | ErrorKind::Proxy
        | ErrorKind::Tls
        | ErrorKind::Exhausted => true,
        ErrorKind::Timeout | ErrorKind::Closed | ErrorKind::Expired | ErrorKind::Protocol => false,
    }
}

/// Reads a body that must be JSON.
pub(super) fn json_of(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())
}

/// Refuses a code other than 0, with the message that came with it.
pub(super) fn refusal_code(answer: &Value, member: &str) -> Result<(), String> {
    let code = &answer[member];
    let is_zero = code.is_null() || code.as_f64() == Some(0.0) || code.as_str() == Some("0");
    if is_zero {
        return Ok(());
    }
    let words = words(answer).unwrap_or("refused");
    Err(format!("{member} {code}: {words}"))
}

/// Returns the message of an error body, if it has one for people.
fn error_message(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(answer) => words(&answer).map(str::to_owned)?,
        Err(_) if text.trim_start().starts_with('<') => return None,
        Err(_) => text.into_owned(),
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

fn words(answer: &Value) -> Option<&str> {
    let members = ["description", "errmsg", "msg", "message", "error", "info"];
    members.iter().find_map(|member| answer[*member].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_it_was_written() {
        let target =
            PostTarget::parse("https://u:p%40ss@h.example:8443/a/b/?k=v#x", None).expect("an address");
        assert_eq!(target.host(), "h.example");
        assert_eq!(target.path_and_query.as_str(), "/a/b/?k=v");
        let basic = target.authorization.as_ref().and_then(|value| value.to_str().ok());
        assert_eq!(basic, Some("Basic dTpwQHNz"));
        let bare = PostTarget::parse("http://h.example?k=v", None).expect("an address");
        assert_eq!(bare.path_and_query.as_str(), "/?k=v");
        for refused in ["ftp://h.example", "h.example", "https://", "https://h.example/a b"] {
            assert!(PostTarget::parse(refused, None).is_err(), "{refused}");
        }
    }

    #[test]
    fn nothing_said_shows_a_part_of_the_address() {
        let url = "https://user01:passw%6Frd@h.example/hook/T0KEN-%41bcdef?key=0123456789";
        let target = PostTarget::parse(url, None).expect("an address");
        let said = "no T0KEN-%41bcdef or T0KEN-Abcdef, 0123456789,\nuser01 password passw%6Frd at hook";
        assert_eq!(target.without_secrets(said), "no **** or ****, ****, **** **** **** at hook");
        assert_eq!(target.without_secrets(&"x".repeat(500)).chars().count(), MAX_MESSAGE + 1);
        let url = "https://h.example/cgi-bin/webhook/send?access_token=0123456789==&flagged-one";
        let target = PostTarget::parse(url, None).expect("an address");
        let said = "invalid webhook url, access_token 0123456789 of flagged-one";
        assert_eq!(target.without_secrets(said), "invalid webhook url, access_token **** of ****");
    }

    #[test]
    fn an_error_is_told_in_the_words_of_the_service() {
        for (body, expected) in [
            (r#"{"ok":false,"description":"Unauthorized"}"#, Some("Unauthorized")),
            (r#"{"code":400,"message":"no"}"#, Some("no")),
            (r#"{"a":1}"#, None),
            ("<html>", None),
            ("  ", None),
            ("plain", Some("plain")),
        ] {
            assert_eq!(error_message(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }
}
