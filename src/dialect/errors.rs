//! Error bodies and events: our own, and what upstreams send.

use super::Dialect;
use bytes::Bytes;
use std::time::Duration;

/// What an upstream's error says, fit to be shown to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// Never empty, at most 400 characters, one line, without addresses or credentials.
    pub message: String,
    /// `error.type`
    pub kind: Option<String>,
    /// `error.code`
    pub code: Option<String>,
    /// `error.param`
    pub param: Option<String>,
    /// When the body says it: how long until a retry makes sense.
    pub retry_after: Option<Duration>,
}

/// An error on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    pub status: u16,
    /// `error.type` of the OpenAI-style surfaces; `None` takes the one that fits the status.
    pub kind: Option<&'a str>,
    pub message: &'a str,
    pub code: Option<&'a str>,
    pub param: Option<&'a str>,
    pub request_id: &'a str,
}

/// The body of an error answer in the surface's shape (proxy.md 4).
pub fn body(_dialect: Dialect, _error: &ErrorReply<'_>) -> Bytes {
    Bytes::new()
}

/// The event that tells a client that its stream broke after output (proxy.md 10.5). `sequence` counts on responses only.
pub fn stream_event(_dialect: Dialect, _error: &UpstreamError, _sequence: u64) -> Bytes {
    Bytes::new()
}

/// The bytes that keep a silent stream open (proxy.md 10.3).
pub fn keepalive(_dialect: Dialect, _message_started: bool) -> &'static [u8] {
    b": keepalive\n\n"
}

/// Reads an error body as an upstream sent it; the message is the detail alone.
pub fn read(_status: u16, _body: &[u8]) -> UpstreamError {
    UpstreamError::default()
}

/// The text for log and judges: `[upstream:<path>] Upstream returned HTTP <status>: <detail>`.
pub fn upstream_text(_path: &str, _status: u16, _detail: &str) -> String {
    String::new()
}
