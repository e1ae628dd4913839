//! One probe: sends the shortest question to the addresses of a site's pool, as a client would.
//!
//! It leaves no trace: no log row, no slot of the site, no counter of a channel.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::verdict::{ProbeVerdict, judge};
use crate::core::Core;
use crate::dialect::messages::API_VERSION;
use crate::dialect::{Dialect, errors};
use crate::error_words::requests::wants_completion_limit;
use crate::mask::Mask;
use crate::routing::{Credential, CredentialHeaders, Site, pool};
use crate::time::{measured_ms, now_ms};
use crate::upstream::{FetchError, FetchLimits};

/// The longest answer to the question, in bytes.
const MAX_BYTES: usize = 256 * 1024;
const QUESTION: &str = "Reply with OK.";
/// The token limit for models that reason: enough to think of three words.
const REASONING_TOKENS: u32 = 256;

/// What is asked for, and as whom.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub site: &'a Site,
    pub credential: &'a Credential,
    /// Whether the credential is the token of a login.
    pub is_login: bool,
    pub model: &'a str,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    pub verdict: ProbeVerdict,
    pub latency_ms: Option<i64>,
    /// Why the model got no real answer.
    pub trouble: Option<Trouble>,
    /// Why the model is not known to be served, in the site's words where it has any; never a credential.
    pub reason: Option<String>,
}

/// Why a question got no real answer. One says little about the site: some sites keep refusing one model so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The site answered 429 or 5xx.
    Overloaded,
    /// No answer came in time, or the connection failed.
    Unanswered,
}

// === impl Trouble ===

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overloaded => "the site is overloaded",
            Self::Unanswered => "the site does not answer",
        })
    }
}

// === impl Probed ===

impl Probed {
    /// Builds the result of a question that was not asked, or not answered.
    pub(super) fn unanswered(reason: impl Into<String>) -> Self {
        let reason = Some(reason.into());
        Self { verdict: ProbeVerdict::Inconclusive, latency_ms: None, trouble: None, reason }
    }

    fn failed(error: &FetchError) -> Self {
        let is_silent = matches!(error, FetchError::Send(_) | FetchError::Body(_) | FetchError::Timeout(_));
        Self { trouble: is_silent.then_some(Trouble::Unanswered), ..Self::unanswered(error.to_string()) }
    }

    fn answered(dialect: Dialect, status: u16, body: &[u8], latency_ms: i64) -> Self {
        let verdict = judge(dialect, status, body);
        Self {
            verdict,
            latency_ms: Some(latency_ms),
            trouble: (status == 429 || status >= 500).then_some(Trouble::Overloaded),
            reason: (verdict != ProbeVerdict::Supported).then(|| {
                let error = errors::read(status, body);
                if error.is_ours { error.message } else { format!("HTTP {status}: {}", error.message) }
            }),
        }
    }

    fn without(mut self, secrets: &Mask) -> Self {
        if let Some(reason) = &mut self.reason {
            secrets.hide(reason);
        }
        self
    }
}

/// Asks a question; `limit` is the time for all addresses together. An address that others follow gets half of what is
/// left of it.
pub async fn probe(core: &Core, question: Question<'_>, limit: Duration) -> Probed {
    let probed = ask(core, question, limit).await;
    probed.without(question.site.secrets()).without(&Mask::of(question.credential.secret().expose()))
}

async fn ask(core: &Core, question: Question<'_>, limit: Duration) -> Probed {
    let Question { site, credential, is_login, model } = question;
    if let Some(problem) = &site.misconfigured {
        return Probed::unanswered(problem.to_string());
    }
    let Some(values) = credential.headers() else {
        return Probed::unanswered("the credential does not fit into a header");
    };
    // Some platforms take only envelopes that come with their sign-in.
    let profile = site.platform.profile();
    let Some(dialect) = profile.plain_dialect() else {
        return Probed::unanswered(format!("sites of platform {} cannot be probed", site.platform));
    };
    let path = (profile.path)(dialect);
    let deadline = Instant::now() + limit;
    let mut last = None;
    let mut addresses = pool::order(&site.endpoints, now_ms());
    while let Some(endpoint) = addresses.next() {
        let now = Instant::now();
        let address_deadline = now + addresses.share(deadline.saturating_duration_since(now));
        for body in questions(dialect, model) {
            let left = address_deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let headers = headers(site, dialect, values, is_login);
            let request = posted(Uri::from(endpoint.base.join(path)), headers, &body);
            let began = Instant::now();
            let limits = FetchLimits { timeout: left, max_bytes: MAX_BYTES };
            let answer = match core.client.fetch(&endpoint.base, request, limits).await {
                Ok(answer) => answer,
                Err(error) => {
                    last.get_or_insert_with(|| Probed::failed(&error));
                    break;
                }
            };
            let status = answer.status().as_u16();
            let probed = Probed::answered(dialect, status, answer.body(), measured_ms(began.elapsed()));
            let text = String::from_utf8_lossy(answer.body());
            let wants_other_limit = status == 400 && wants_completion_limit(&text);
            if !wants_other_limit && !pool::rotates(status) {
                return probed;
            }
            last = Some(probed);
            if !wants_other_limit {
                break;
            }
        }
    }
    last.unwrap_or_else(|| Probed::unanswered("no available endpoint"))
}

fn posted(uri: Uri, headers: HeaderMap, body: &Value) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from(body.to_string()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

/// Returns the shortest question, and for chat its form for models that refuse the limit: the reasoning models of
/// OpenAI.
fn questions(dialect: Dialect, model: &str) -> impl Iterator<Item = Value> {
    let first = question(dialect, model);
    let second = (dialect == Dialect::Chat).then(|| {
        json!({ "model": model, "messages": first["messages"], "max_completion_tokens": REASONING_TOKENS,
            "stream": false })
    });
    std::iter::once(first).chain(second)
}

/// Builds the shortest question in a dialect.
fn question(dialect: Dialect, model: &str) -> Value {
    match dialect {
        Dialect::Responses => {
            let input = json!([{ "type": "message", "role": "user",
                "content": [{ "type": "input_text", "text": QUESTION }] }]);
            json!({ "model": model, "instructions": QUESTION, "input": input, "store": false,
                "stream": true })
        }
        // A body this small is the same in the other dialects.
        _ => json!({
            "model": model,
            "messages": [{ "role": "user", "content": QUESTION }],
            "max_tokens": 8,
            "stream": false,
        }),
    }
}

fn headers(site: &Site, dialect: Dialect, credential: &CredentialHeaders, is_login: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &site.custom_headers {
        headers.insert(name, value.clone());
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove("x-goog-api-key");
    headers.remove("x-api-key");
    headers.remove(AUTHORIZATION);
    match dialect {
        Dialect::Messages => {
            let version = HeaderName::from_static("anthropic-version");
            headers.entry(version).or_insert(HeaderValue::from_static(API_VERSION));
            let profile = site.platform.profile();
            let form = profile.messages_credential(is_login);
            if form.has_key() {
                headers.insert("x-api-key", credential.key.clone());
            }
            if form.has_bearer() {
                headers.insert(AUTHORIZATION, credential.bearer.clone());
            }
            let login_headers = profile.login_headers.as_ref().filter(|_| is_login);
            if let Some(beta) = login_headers.and_then(|headers| headers.beta) {
                headers.append("anthropic-beta", HeaderValue::from_static(beta));
            }
        }
        Dialect::Responses => {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            headers.insert(AUTHORIZATION, credential.bearer.clone());
        }
        _ => {
            headers.insert(AUTHORIZATION, credential.bearer.clone());
        }
    }
    headers
}
