//! Reads how much of its limits a Codex account has used: from the headers of the answer to a small request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::http::{Method, Request, StatusCode, Uri};
use serde_json::{Value, json};

use crate::dialect::errors;
use crate::mask::Mask;
use crate::routing::limit_windows::{self, FIVE_HOURS, LimitWindow, LimitWindows, SEVEN_DAYS, WindowSource};
use crate::routing::{BaseUrl, Secret, failure, pool};
use crate::time::{Millis, in_seconds};
use crate::upstream::{Answer, AnswerHeaders, Client, ErrorKind};

use super::provider_client::fit;

/// The most bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 * 1024;
const OWN_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));

/// Why no limit windows were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError {
    /// For people, without a token.
    pub message: String,
    /// Whether the token was refused.
    pub is_unauthorized: bool,
    /// Whether the address is at fault, so that another one may answer.
    pub is_of_address: bool,
}

/// The account whose windows are asked for, and how it is asked.
pub struct QuotaAsker<'a> {
    pub client: &'a Client,
    /// The address of the account's site.
    pub base: &'a BaseUrl,
    pub access_token: &'a Secret,
    pub account_id: Option<&'a str>,
    /// The model that is asked for a word.
    pub model: &'a str,
    /// The time limit for the answer.
    pub limit: Duration,
}

// === impl QuotaError ===

impl QuotaError {
    /// Builds the error of a request that the address is not at fault for.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_unauthorized: false, is_of_address: false }
    }
}

// === impl QuotaAsker ===

impl QuotaAsker<'_> {
    /// Asks the account's site for a word and reads the headers of the answer, without waiting for its body. Returns
    /// the windows of the plan; notes all windows that are told among the account's limits.
    ///
    /// # Errors
    /// When there is no answer, or one without windows.
    pub async fn ask(&self, limits: &LimitWindows, now: Millis) -> Result<Vec<LimitWindow>, QuotaError> {
        let asking = tokio::time::timeout(self.limit, Box::pin(self.answer())).await;
        let late = |_| {
            let message = format!("codex did not answer within {} s", in_seconds(self.limit));
            Err(QuotaError { is_of_address: true, ..QuotaError::new(message) })
        };
        let (status, headers, refusal) = asking.unwrap_or_else(late)?;
        let reset_at = failure::usage_limit_reset(&refusal, now);
        let reset_at = reset_at.filter(|_| status == StatusCode::TOO_MANY_REQUESTS);
        if let Some(reset_at) = reset_at {
            limits.note_reached(reset_at, now);
        }
        let mut windows = limit_windows::read_all(headers.iter(), WindowSource::Quota, now);
        limits.note(windows.clone());
        windows.retain(|window| [FIVE_HOURS, SEVEN_DAYS].contains(&&*window.name));
        if !windows.is_empty() {
            return Ok(windows);
        }
        let mut mask = Mask::default();
        mask.add(self.access_token.expose());
        let message = if status.is_success() {
            "no rate limit headers".to_owned()
        } else {
            let words = words(status, &refusal);
            format!("HTTP {}: {}", status.as_u16(), fit(&mask.hide_in(&words)))
        };
        Err(QuotaError {
            message,
            is_unauthorized: status == StatusCode::UNAUTHORIZED,
            is_of_address: reset_at.is_none() && pool::rotates(status.as_u16()),
        })
    }

    /// Returns the head of the answer, and the body of one that is no success.
    async fn answer(&self) -> Result<(StatusCode, AnswerHeaders, BytesMut), QuotaError> {
        let body = json!({
            "model": self.model,
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "stream": true,
            "store": false,
            "instructions": "You are a helpful assistant.",
        });
        let mut request = Request::new(Bytes::from(body.to_string()));
        *request.method_mut() = Method::POST;
        let target = self.base.join("/responses");
        *request.uri_mut() =
            Uri::try_from(target.to_string()).map_err(|error| QuotaError::new(error.to_string()))?;
        let unsendable = |_| QuotaError::new("the token has characters that a header cannot carry");
        let mut bearer =
            HeaderValue::try_from(format!("Bearer {}", self.access_token.expose())).map_err(unsendable)?;
        bearer.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(USER_AGENT, OWN_USER_AGENT);
        headers.insert("openai-beta", HeaderValue::from_static("responses-2025-03-11"));
        if let Some(id) = self.account_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert("chatgpt-account-id", id);
        }
        let sent = self.client.send(&self.base.origin, request).await;
        let Answer { head, mut body } = sent.map_err(|error| QuotaError {
            is_of_address: error.kind() != ErrorKind::NoProxy,
            ..QuotaError::new(format!("codex did not answer: {error}"))
        })?;
        let mut refusal = BytesMut::new();
        if head.status.is_success() {
            return Ok((head.status, head.headers, refusal));
        }
        while let Some(Ok(data)) = body.data().await {
            let room = MAX_REFUSAL - refusal.len();
            refusal.extend_from_slice(&data[..data.len().min(room)]);
            if refusal.len() == MAX_REFUSAL {
                break;
            }
        }
        Ok((head.status, head.headers, refusal))
    }
}

fn words(status: StatusCode, body: &[u8]) -> String {
    let detail =
        serde_json::from_slice(body).ok().and_then(|body: Value| body["detail"].as_str().map(str::to_owned));
    detail.unwrap_or_else(|| errors::read(status.as_u16(), body).message)
}
