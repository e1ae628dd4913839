//! One probe: the shortest question there is, at the addresses of a site's pool, as a client would ask it.
//!
//! It leaves no trace: no log row, no slot of the site, no counter of a channel.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::verdict::{Verdict, judge};
use crate::app::App;
use crate::routing::{Credential, CredentialHeaders, Platform, Site, pool};
use crate::time::{measured_ms, now_ms};
use crate::upstream::FetchLimits;

/// The longest answer to a question of three words.
const MAX_BYTES: usize = 256 * 1024;
const QUESTION: &str = "Reply with OK.";

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    pub verdict: Verdict,
    pub latency_ms: Option<i64>,
    /// 429 or 5xx: further questions would only add to the site's trouble.
    pub is_overloaded: bool,
}

impl Probed {
    const NOTHING: Self = Self { verdict: Verdict::Inconclusive, latency_ms: None, is_overloaded: false };
}

/// Asks for a model; all addresses together have `limit`.
pub async fn probe(app: &App, site: &Site, credential: &Credential, model: &str, limit: Duration) -> Probed {
    let (Some(values), None) = (credential.headers(), &site.misconfigured) else { return Probed::NOTHING };
    let Some((path, body)) = question(site.platform, model) else { return Probed::NOTHING };
    let deadline = Instant::now() + limit;
    let mut last = Probed::NOTHING;
    for endpoint in pool::order(&site.endpoints, now_ms()) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let mut request = Request::new(Bytes::from(body.to_string()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(endpoint.base.join(path));
        *request.headers_mut() = headers(site, values);
        let began = Instant::now();
        let limits = FetchLimits { timeout: left, max_bytes: MAX_BYTES };
        let Ok(answer) = app.client.fetch(&endpoint.base, request, limits).await else { continue };
        let status = answer.status().as_u16();
        last = Probed {
            verdict: judge(status, answer.body()),
            latency_ms: Some(measured_ms(began.elapsed())),
            is_overloaded: status == 429 || status >= 500,
        };
        if !pool::rotates(status) {
            break;
        }
    }
    last
}

/// Where a platform is asked, and what; `None` for those whose envelopes come with their sign-in. A body
/// this small is the same in the chat and the messages dialect.
fn question(platform: Platform, model: &str) -> Option<(&'static str, Value)> {
    let chat = json!({
        "model": model,
        "messages": [{ "role": "user", "content": QUESTION }],
        "max_tokens": 8,
        "stream": false,
    });
    match platform {
        Platform::GeminiCli | Platform::Antigravity => None,
        Platform::Claude => Some(("/v1/messages", chat)),
        Platform::Gemini => Some(("/v1beta/openai/chat/completions", chat)),
        Platform::Codex => {
            let input = json!([{ "type": "message", "role": "user",
                "content": [{ "type": "input_text", "text": QUESTION }] }]);
            let body = json!({ "model": model, "instructions": QUESTION, "input": input, "store": false,
                "stream": true });
            Some(("/responses", body))
        }
        _ => Some(("/v1/chat/completions", chat)),
    }
}

fn headers(site: &Site, credential: &CredentialHeaders) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &site.custom_headers {
        headers.insert(name, value.clone());
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove("x-goog-api-key");
    headers.remove("x-api-key");
    headers.remove(AUTHORIZATION);
    match site.platform {
        Platform::Claude => {
            let version = HeaderName::from_static("anthropic-version");
            headers.entry(version).or_insert(HeaderValue::from_static("2023-06-01"));
            headers.insert("x-api-key", credential.key.clone());
        }
        Platform::Codex => {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            headers.insert(AUTHORIZATION, credential.bearer.clone());
        }
        _ => {
            headers.insert(AUTHORIZATION, credential.bearer.clone());
        }
    }
    headers
}
