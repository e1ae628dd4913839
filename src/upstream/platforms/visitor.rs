//! Management calls of an account: who asks, and in which of the ways that its site understands
//! (upstreams.md 5.1, 5.2).
//!
//! A session's token goes as Bearer, a session cookie as `Cookie`; the new-api family also wants the
//! number of the user. Bot shields are not solved: their page is an error like any other.

use std::fmt;

use bytes::Bytes;
use hyper::http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::{Request, StatusCode, Uri};

use super::reply;
use crate::routing::{BaseUrl, Platform};
use crate::upstream::{Client, FetchLimits};

/// The headers in which forks of new-api expect the user's number.
const USER_ID_HEADERS: [&str; 6] =
    ["new-api-user", "veloera-user", "voapi-user", "user-id", "rix-api-user", "neo-api-user"];

/// An account at its site.
pub struct Visitor<'a> {
    pub platform: Platform,
    /// The site's own address.
    pub base: &'a BaseUrl,
    /// In the order in which they are tried.
    pub credentials: Vec<&'a str>,
    /// The account's number at the site, where known.
    pub user_id: Option<i64>,
    /// The site's own headers; they replace none of a credential.
    pub custom_headers: &'a [(HeaderName, HeaderValue)],
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitError {
    /// The site's status, when it answered.
    pub status: Option<u16>,
    /// One short line for people; never a credential.
    pub message: String,
}

/// How a call carries a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof<'a> {
    Bearer(&'a str),
    Cookie(String),
    None,
}

// === impl Visitor ===

impl<'a> Visitor<'a> {
    /// The ways to ask, one after the other. What looks like a cookie, or is for a site that knows
    /// little else, goes as one first.
    pub(super) fn proofs(&self) -> Vec<Proof<'a>> {
        let mut proofs = Vec::new();
        for credential in &self.credentials {
            let pair = credential.contains('=');
            if pair {
                proofs.push(Proof::Cookie((*credential).to_owned()));
            } else if self.platform == Platform::AnyRouter && !credential.starts_with("sk-") {
                proofs.push(Proof::Cookie(format!("session={credential}")));
            }
            proofs.push(Proof::Bearer(credential));
        }
        proofs
    }

    /// The body of a successful answer.
    pub(super) async fn get(
        &self,
        client: &Client,
        path: &str,
        proof: &Proof<'_>,
        limits: FetchLimits,
    ) -> Result<Bytes, VisitError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::from(self.base.join(path));
        *request.headers_mut() = self.headers(proof)?;
        let answer = client.fetch(self.base, request, limits).await;
        let answer = answer.map_err(|error| VisitError { status: None, message: error.to_string() })?;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer.into_body());
        }
        let message = self.conceal(reply::failure(status, answer.body()));
        Err(VisitError { status: Some(status.as_u16()), message })
    }

    /// Some sites quote the credential that they refuse.
    pub(super) fn conceal(&self, message: String) -> String {
        let secrets = self.credentials.iter().filter(|secret| secret.len() >= 4);
        secrets.fold(message, |message, secret| message.replace(secret, "…"))
    }

    fn headers(&self, proof: &Proof<'_>) -> Result<HeaderMap, VisitError> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.custom_headers {
            headers.insert(name, value.clone());
        }
        for name in [AUTHORIZATION, COOKIE] {
            headers.remove(name);
        }
        let (name, value) = match proof {
            Proof::None => return Ok(headers),
            Proof::Bearer(credential) => (AUTHORIZATION, format!("Bearer {credential}")),
            Proof::Cookie(cookie) => (COOKIE, cookie.clone()),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| VisitError {
            status: None,
            message: "the credential has characters that a header cannot carry".to_owned(),
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        let by_cookie = matches!(proof, Proof::Cookie(_));
        for name in self.user_id_headers(by_cookie) {
            if let Some(id) = self.user_id {
                headers.insert(HeaderName::from_static(name), HeaderValue::from(id));
            }
        }
        Ok(headers)
    }

    fn user_id_headers(&self, by_cookie: bool) -> &'static [&'static str] {
        match self.platform {
            Platform::NewApi | Platform::AnyRouter if by_cookie => &USER_ID_HEADERS[..1],
            Platform::NewApi | Platform::AnyRouter => &USER_ID_HEADERS,
            Platform::Veloera => &["new-api-user", "veloera-user", "user-id"],
            _ => &[],
        }
    }
}

// === impl VisitError ===

impl VisitError {
    /// The site has no such page at all.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.status, Some(404 | 405))
    }
}

impl fmt::Display for VisitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for VisitError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor<'a>(base: &'a BaseUrl, platform: Platform, credentials: &[&'a str]) -> Visitor<'a> {
        Visitor { platform, base, credentials: credentials.to_vec(), user_id: Some(7), custom_headers: &[] }
    }

    #[test]
    fn what_looks_like_a_cookie_goes_as_one_first() {
        let base = BaseUrl::parse("https://example.com", None).expect("a base address");
        let cookie = |text: &str| Proof::Cookie(text.to_owned());
        for (platform, credential, proofs) in [
            (Platform::NewApi, "pat", vec![Proof::Bearer("pat")]),
            (Platform::NewApi, "session=x", vec![cookie("session=x"), Proof::Bearer("session=x")]),
            (Platform::AnyRouter, "pat", vec![cookie("session=pat"), Proof::Bearer("pat")]),
            (Platform::AnyRouter, "sk-1", vec![Proof::Bearer("sk-1")]),
        ] {
            assert_eq!(visitor(&base, platform, &[credential]).proofs(), proofs, "{credential}");
        }
    }

    #[test]
    fn the_number_of_the_user_goes_along_where_it_is_wanted() {
        let base = BaseUrl::parse("https://example.com", None).expect("a base address");
        for (platform, proof, headers) in [
            (Platform::NewApi, Proof::Bearer("k"), 7),
            (Platform::NewApi, Proof::Cookie("session=k".into()), 2),
            (Platform::Veloera, Proof::Bearer("k"), 4),
            (Platform::OneHub, Proof::Bearer("k"), 1),
            (Platform::NewApi, Proof::None, 0),
        ] {
            let map = visitor(&base, platform, &["k"]).headers(&proof).expect("headers");
            assert_eq!(map.len(), headers, "{platform}: {map:?}");
        }
    }
}
