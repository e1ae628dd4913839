//! Reads the frames of a WebSocket to an upstream of the responses dialect as what they would have been over HTTP.
//!
//! | frame | over HTTP |
//! |---|---|
//! | `response.create`, to the upstream | the body of a request |
//! | `error` with a status, as the first one | an answer with that status |
//! | `codex.rate_limits` | the headers `x-codex-…` |
//! | other `codex.…` | nothing |
//! | anything else | an event of a stream |
//!
//! The frames are those that the Codex CLI writes and reads in its published source.

use serde_json::{Map, Value};

use crate::dialect::edit::edit;
use crate::dialect::events::RESPONSE_ENDS;
use crate::dialect::json;

/// The longest header value that is taken from a frame, in bytes.
const MAX_VALUE: usize = 1024;

/// An event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// The event as it stands in an SSE stream.
    pub text: String,
    pub is_last: bool,
    /// Whether it reports a problem of the socket or the request, not how a response ended; the upstream may close
    /// the socket after it.
    pub is_error: bool,
}

/// An answer with an error status.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Refusal {
    /// Returns whether it only says that the socket has been open for too long, which has nothing to do with the
    /// request.
    pub fn is_goodbye(&self) -> bool {
        let code = json::member(&self.body, "error").and_then(|error| json::member(error, "code"));
        code == Some("\"websocket_connection_limit_reached\"")
    }
}

/// Builds the single frame of a request with this body; `None` for a body that is not a JSON object with a `model`.
pub fn request(body: &str) -> Option<String> {
    json::member(body, "model")?;
    Some(edit(body, &[("type", "\"response.create\"")], &[]).into_owned())
}

/// Reads a frame as an event of a stream; `None` for the `codex.…` frames, which are not events.
pub fn event(frame: &str) -> Option<Event> {
    let kind = kind(frame);
    if kind.starts_with("codex.") {
        return None;
    }
    // Outside of a string, JSON allows a blank in place of a line break.
    let line = frame.trim().replace(['\r', '\n'], " ");
    let text = match kind {
        "" => format!("data: {line}\n\n"),
        kind => format!("event: {kind}\ndata: {line}\n\n"),
    };
    let is_last = RESPONSE_ENDS.contains(&kind) || matches!(kind, "response.failed" | "error");
    Some(Event { text, is_last, is_error: kind == "error" })
}

/// Reads a frame that is an error with a status as the answer it stands for.
pub fn refusal(frame: &str) -> Option<Refusal> {
    if kind(frame) != "error" {
        return None;
    }
    let Value::Object(mut frame) = serde_json::from_str(frame).ok()? else { return None };
    let status = frame.get("status").or(frame.get("status_code")).and_then(Value::as_u64);
    let status = status.and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (400..600).contains(status))?;
    let headers = match frame.remove("headers") {
        Some(Value::Object(headers)) => headers.iter().filter_map(header_of_member).collect(),
        _ => Vec::new(),
    };
    let error = frame.remove("error").unwrap_or(Value::Object(frame));
    let body = Value::Object(Map::from_iter([("error".to_owned(), error)])).to_string();
    Some(Refusal { status, headers, body })
}

/// Returns the rate limits in a frame as headers.
pub fn limits(frame: &str) -> Vec<(String, String)> {
    if kind(frame) != "codex.rate_limits" {
        return Vec::new();
    }
    let frame: Value = serde_json::from_str(frame).unwrap_or_default();
    let mut headers = Vec::new();
    for which in ["primary", "secondary"] {
        let window = &frame["rate_limits"][which];
        for (member, about) in [
            ("used_percent", "used-percent"),
            ("window_minutes", "window-minutes"),
            ("reset_at", "reset-at"),
            ("reset_after_seconds", "reset-after-seconds"),
        ] {
            let value = window[member].as_f64();
            headers.extend(value.map(|value| (format!("x-codex-{which}-{about}"), value.to_string())));
        }
    }
    headers
}

/// Returns a header of a handshake or a frame that also applies to an answer: `x-…` and `retry-after`, in lower case.
pub fn header((name, value): (&[u8], &[u8])) -> Option<(String, String)> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let value = std::str::from_utf8(value).ok()?.trim();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_wanted = (name.starts_with("x-") || name == "retry-after") && name.bytes().all(is_name);
    let is_value = value.len() <= MAX_VALUE && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (is_wanted && is_value).then(|| (name, value.to_owned()))
}

fn header_of_member((name, value): (&String, &Value)) -> Option<(String, String)> {
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return None,
    };
    header((name.as_bytes(), value.as_bytes()))
}

/// Returns the type of a frame; empty where it has none.
fn kind(frame: &str) -> &str {
    let kind = json::member(frame, "type").map(|kind| kind.trim_matches('"')).unwrap_or_default();
    let is_kind = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if kind.bytes().all(is_kind) { kind } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(frame: &str) -> Option<(String, bool)> {
        event(frame).map(|event| (event.text, event.is_last))
    }

    #[test]
    fn a_frame_is_an_event() {
        for (frame, text, is_last) in [
            (
                r#"{"type":"response.created","response":{}}"#,
                "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n",
                false,
            ),
            (
                "{\n \"type\": \"response.completed\"\r\n}\n",
                "event: response.completed\ndata: {  \"type\": \"response.completed\"  }\n\n",
                true,
            ),
            (r#"{"type":"error"}"#, "event: error\ndata: {\"type\":\"error\"}\n\n", true),
            (r#"{"type":"a\nb: c"}"#, "data: {\"type\":\"a\\nb: c\"}\n\n", false),
            ("nonsense", "data: nonsense\n\n", false),
            ("", "data: \n\n", false),
        ] {
            assert_eq!(seen(frame), Some((text.to_owned(), is_last)), "{frame}");
        }
        assert_eq!(seen(r#"{"type":"codex.rate_limits"}"#), None);
    }

    #[test]
    fn an_error_with_a_status_is_a_refusal() {
        let refused = refusal(
            r#"{"type":"error","status":429,"error":{"type":"usage_limit_reached","resets_at":7},
                "headers":{"X-Codex-Primary-Used-Percent":"100.0","retry-after":9,"set-cookie":"a=b",
                "x-bad":"a\r\nb: c","x-b:":"d","content-length":"5","x-list":[1]}}"#,
        )
        .expect("a refusal");
        assert_eq!(refused.status, 429);
        let headers = [("retry-after", "9"), ("x-codex-primary-used-percent", "100.0")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut told = refused.headers;
        told.sort();
        assert_eq!(told, headers);
        assert_eq!(refused.body, r#"{"error":{"resets_at":7,"type":"usage_limit_reached"}}"#);
        assert_eq!(refusal(r#"{"type":"error","status_code":503}"#).map(|refused| refused.status), Some(503));
        for frame in [
            r#"{"type":"error","error":{"message":"x"}}"#,
            r#"{"type":"error","status":200}"#,
            r#"{"type":"error","status":"429"}"#,
            r#"{"type":"error","status":70000}"#,
            r#"{"type":"response.failed","status":429}"#,
            "[]",
            "",
        ] {
            assert_eq!(refusal(frame), None, "{frame}");
        }
    }

    #[test]
    fn limits_are_told_as_headers() {
        let told = limits(
            r#"{"type":"codex.rate_limits","plan_type":"plus","rate_limits":{"allowed":true,
                "primary":{"used_percent":42.5,"window_minutes":300,"reset_at":1777626000},"secondary":null}}"#,
        );
        let wanted = [
            ("x-codex-primary-used-percent", "42.5"),
            ("x-codex-primary-window-minutes", "300"),
            ("x-codex-primary-reset-at", "1777626000"),
        ];
        assert_eq!(told, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(limits(r#"{"type":"codex.other","rate_limits":{"primary":{"used_percent":1}}}"#).is_empty());
    }

    #[test]
    fn a_body_becomes_the_frame_that_creates_an_answer() {
        let frame = request(r#"{"model":"m","input":[],"stream":true}"#).expect("a frame");
        let frame: Value = serde_json::from_str(&frame).expect("JSON");
        assert_eq!(
            frame,
            serde_json::json!({"model": "m", "input": [], "stream": true, "type": "response.create"})
        );
        assert_eq!((request("[]"), request("")), (None, None));
    }
}
