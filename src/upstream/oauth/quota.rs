//! How much of its limits a codex account has used: in the headers of every answer, asked for by a small request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::http::{Method, Request, StatusCode, Uri};
use serde_json::{Value, json};

use crate::dialect::errors;
use crate::mask::Mask;
use crate::routing::{BaseUrl, Secret};
use crate::time::Millis;
use crate::upstream::{Answer, AnswerHeaders, Client};

use super::provider_client::fit;

const TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 * 1024;
/// A window of at most this many minutes is the short one.
const SHORT_MINUTES: i64 = 360;
const OWN_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));

/// How much of a window is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaWindow {
    pub used_percent: f64,
    pub resets_at: Option<Millis>,
    pub minutes: Option<i64>,
}

/// The two windows of a codex account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaWindows {
    pub five_hour: Option<QuotaWindow>,
    pub seven_day: Option<QuotaWindow>,
}

/// Why there are no windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError {
    /// For people, without a token.
    pub message: String,
    /// The token was refused.
    pub is_unauthorized: bool,
}

/// Whose windows are asked for.
pub struct QuotaAsker<'a> {
    pub client: &'a Client,
    /// The address of the account's site.
    pub base: &'a BaseUrl,
    pub access_token: &'a Secret,
    pub account_key: Option<&'a str>,
    /// The model that a word is asked of.
    pub model: &'a str,
}

// === impl QuotaWindows ===

impl QuotaWindows {
    /// Reads the headers of an answer that came at this time; `None` without any. Of two windows whose lengths are
    /// known the shorter is the short one; without lengths the primary one is the long one.
    pub fn of(header: impl Fn(&str) -> Option<String>, now: Millis) -> Option<Self> {
        let number = |name: &str| header(name).and_then(|text| text.trim().parse::<f64>().ok());
        let window = |which: &str| {
            let used = number(&format!("x-codex-{which}-used-percent")).filter(|used| used.is_finite())?;
            let seconds = number(&format!("x-codex-{which}-reset-after-seconds"));
            let seconds = seconds.filter(|seconds| seconds.is_finite());
            let minutes = number(&format!("x-codex-{which}-window-minutes"));
            Some(QuotaWindow {
                used_percent: used.clamp(0.0, 100.0),
                // The conversion saturates.
                resets_at: seconds.map(|seconds| now.saturating_add((seconds.max(0.0) * 1000.0) as Millis)),
                minutes: minutes.filter(|minutes| *minutes > 0.0).map(|minutes| minutes as i64),
            })
        };
        let (primary, secondary) = (window("primary"), window("secondary"));
        let minutes = |window: &Option<QuotaWindow>| window.and_then(|window| window.minutes);
        let primary_is_short = match (minutes(&primary), minutes(&secondary)) {
            (Some(primary), Some(secondary)) => primary < secondary,
            (Some(primary), None) => primary <= SHORT_MINUTES,
            (None, Some(secondary)) => secondary > SHORT_MINUTES,
            (None, None) => false,
        };
        let (five_hour, seven_day) =
            if primary_is_short { (primary, secondary) } else { (secondary, primary) };
        (five_hour.is_some() || seven_day.is_some()).then_some(Self { five_hour, seven_day })
    }
}

// === impl QuotaAsker ===

impl QuotaAsker<'_> {
    /// Asks the account's site for a word and reads the headers of the answer, whose body is not waited for.
    ///
    /// # Errors
    /// When there is no answer, or one that tells no windows.
    pub async fn ask(&self, now: Millis) -> Result<QuotaWindows, QuotaError> {
        let asking = tokio::time::timeout(TIMEOUT, Box::pin(self.answer())).await;
        let failed = |message: String| QuotaError { message, is_unauthorized: false };
        let late = |_| Err(failed(format!("codex did not answer within {} s", TIMEOUT.as_secs())));
        let (status, headers, words) = asking.unwrap_or_else(late)?;
        let header = |name: &str| {
            let value = headers.get(&name.parse().ok()?)?;
            std::str::from_utf8(value).ok().map(str::to_owned)
        };
        if let Some(windows) = QuotaWindows::of(header, now) {
            return Ok(windows);
        }
        let mut mask = Mask::default();
        mask.add(self.access_token.expose());
        let message = match words {
            Some(words) => format!("HTTP {}: {}", status.as_u16(), fit(&mask.hide_in(&words))),
            None => "no rate limit headers".to_owned(),
        };
        Err(QuotaError { message, is_unauthorized: status == StatusCode::UNAUTHORIZED })
    }

    /// The head of the answer, and the words of one that is no success.
    async fn answer(&self) -> Result<(StatusCode, AnswerHeaders, Option<String>), QuotaError> {
        let failed = |message: String| QuotaError { message, is_unauthorized: false };
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
        *request.uri_mut() = Uri::try_from(target.to_string()).map_err(|error| failed(error.to_string()))?;
        let unsendable = |_| failed("the token has characters that a header cannot carry".to_owned());
        let mut bearer =
            HeaderValue::try_from(format!("Bearer {}", self.access_token.expose())).map_err(unsendable)?;
        bearer.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(USER_AGENT, OWN_USER_AGENT);
        headers.insert("openai-beta", HeaderValue::from_static("responses-2025-03-11"));
        if let Some(key) = self.account_key.and_then(|key| HeaderValue::try_from(key).ok()) {
            headers.insert("chatgpt-account-id", key);
        }
        let sent = self.client.send(&self.base.origin, request).await;
        let Answer { head, mut body } =
            sent.map_err(|error| failed(format!("codex did not answer: {error}")))?;
        if head.status.is_success() {
            return Ok((head.status, head.headers, None));
        }
        let mut refusal = BytesMut::new();
        while let Some(Ok(data)) = body.data().await {
            let room = MAX_REFUSAL - refusal.len();
            refusal.extend_from_slice(&data[..data.len().min(room)]);
            if refusal.len() == MAX_REFUSAL {
                break;
            }
        }
        Ok((head.status, head.headers, Some(words(head.status, &refusal))))
    }
}

fn words(status: StatusCode, body: &[u8]) -> String {
    let detail =
        serde_json::from_slice(body).ok().and_then(|body: Value| body["detail"].as_str().map(str::to_owned));
    detail.unwrap_or_else(|| errors::read(status.as_u16(), body).message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Option<QuotaWindows> {
        let header =
            |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        QuotaWindows::of(header, 1_000)
    }

    #[test]
    fn the_shorter_window_is_that_of_five_hours() {
        let short = QuotaWindow { used_percent: 37.5, resets_at: Some(61_000), minutes: Some(300) };
        let long = QuotaWindow { used_percent: 12.0, resets_at: Some(1_000), minutes: Some(10_080) };
        let primary = [
            ("x-codex-primary-used-percent", "37.5"),
            ("x-codex-primary-reset-after-seconds", "60"),
            ("x-codex-primary-window-minutes", "300"),
        ];
        let secondary = [
            ("x-codex-secondary-used-percent", "12"),
            ("x-codex-secondary-reset-after-seconds", "-5"),
            ("x-codex-secondary-window-minutes", "10080"),
        ];
        let both = [primary, secondary].concat();
        let windows = |five_hour, seven_day| Some(QuotaWindows { five_hour, seven_day });
        assert_eq!(read(&both), windows(Some(short), Some(long)));
        assert_eq!(read(&primary), windows(Some(short), None));
        assert_eq!(read(&secondary), windows(None, Some(long)));
        let bare = |used_percent| QuotaWindow { used_percent, resets_at: None, minutes: None };
        let unknown = [("x-codex-primary-used-percent", "5"), ("x-codex-secondary-used-percent", "900")];
        assert_eq!(read(&unknown), windows(Some(bare(100.0)), Some(bare(5.0))));
        assert_eq!(read(&[("x-codex-primary-used-percent", "NaN")]), None);
        assert_eq!(read(&[]), None);
    }
}
