//! Error bodies and events: our own, in the shape each surface expects (proxy.md 4 and 10.5), and
//! the reading of what upstreams send.
//!
//! An upstream's error is shown to clients and written to the log, so it is cleaned on the way in:
//! never raw HTML, blanks collapsed, bounded, and without addresses or keys.

use super::Dialect;
use bytes::Bytes;
use serde_json::{Value, json};

pub use super::upstream_error::{UpstreamError, read, upstream_text};

/// An error on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    pub status: u16,
    /// `error.type`; `None` takes the one that fits the status. On messages only that API's own
    /// names are used, whatever is asked for.
    pub kind: Option<&'a str>,
    pub message: &'a str,
    pub code: Option<&'a str>,
    pub param: Option<&'a str>,
    pub request_id: &'a str,
}

/// The body of an error answer in the surface's shape.
pub fn body(dialect: Dialect, error: &ErrorReply<'_>) -> Bytes {
    let body = match dialect {
        Dialect::Messages => json!({
            "type": "error",
            "error": {"type": messages_kind(error.kind, error.status), "message": error.message},
            "request_id": error.request_id,
        }),
        Dialect::Gemini => json!({"error": {
            "code": error.status,
            "message": error.message,
            "status": gemini_status(error.status),
            "type": error.kind.unwrap_or(kind_of(error.status)),
        }}),
        _ => json!({"error": {
            "message": error.message,
            "type": error.kind.unwrap_or(kind_of(error.status)),
            "param": error.param,
            "code": error.code,
        }}),
    };
    Bytes::from(body.to_string())
}

/// `error.type` on the OpenAI-style surfaces, by status.
pub fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        503 => "server_error",
        400..=499 | 501 => "invalid_request_error",
        _ => "upstream_error",
    }
}

/// The messages API has a closed set of names, most of them with a status of their own.
fn messages_kind(kind: Option<&str>, status: u16) -> &str {
    const NAMES: [&str; 10] = [
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "timeout_error",
        "api_error",
        "overloaded_error",
    ];
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        _ => match kind.filter(|kind| NAMES.contains(kind)) {
            Some(kind) => kind,
            None if (400..500).contains(&status) => "invalid_request_error",
            None => "api_error",
        },
    }
}

fn gemini_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

// === streams ===

/// The event that tells a client that its stream broke after output. The SDKs raise on it; no end
/// marker follows. `sequence` counts on responses only.
pub fn stream_event(dialect: Dialect, error: &UpstreamError, sequence: u64) -> Bytes {
    stream_event_of(dialect, error, sequence, None)
}

/// The same, for the response that began so, where one is known.
pub(super) fn stream_event_of(
    dialect: Dialect,
    error: &UpstreamError,
    sequence: u64,
    begun: Option<&str>,
) -> Bytes {
    let kind = error.kind.as_deref().unwrap_or(UpstreamError::BROKEN_STREAM);
    let text = match dialect {
        Dialect::Messages => {
            let kind = messages_kind(error.kind.as_deref(), 500);
            let event = json!({"type": "error", "error": {"type": kind, "message": error.message}});
            format!("event: error\ndata: {event}\n\n")
        }
        Dialect::Responses => {
            let event = failed_response(error, sequence, begun);
            format!("event: response.failed\ndata: {event}\n\n")
        }
        Dialect::Gemini => {
            let code = error.code.as_deref().and_then(|code| code.parse().ok());
            let code = code.filter(|code| (400..600).contains(code)).unwrap_or(500);
            let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            let status = error.kind.as_deref().filter(is_name).unwrap_or(gemini_status(code));
            let event = json!({"error": {
                "code": code, "message": error.message, "status": status, "type": kind,
            }});
            format!("data: {event}\n\n")
        }
        _ => {
            let event = json!({"error": {
                "message": error.message, "type": kind, "param": error.param, "code": error.code,
            }});
            format!("data: {event}\n\n")
        }
    };
    Bytes::from(text)
}

/// A whole response object: the SDKs' types require its keys.
fn failed_response(error: &UpstreamError, sequence: u64, begun: Option<&str>) -> Value {
    let begun = begun.and_then(|begun| serde_json::from_str::<Value>(begun).ok());
    let mut response = begun.filter(Value::is_object).unwrap_or_else(
        || json!({"id": "resp_unknown", "object": "response", "incomplete_details": null, "metadata": {}}),
    );
    response["status"] = json!("failed");
    response["error"] = json!({"code": error.response_code(), "message": error.message});
    if let Some(kind) = &error.kind {
        response["error"]["type"] = json!(kind);
    }
    response["output"] = json!([]);
    response["usage"] = Value::Null;
    json!({"type": "response.failed", "sequence_number": sequence, "response": response})
}

/// The bytes that keep a silent stream open. On messages a `ping`, once `message_start` has passed;
/// elsewhere a comment: typed events are never invented.
pub fn keepalive(dialect: Dialect, message_started: bool) -> &'static [u8] {
    if dialect == Dialect::Messages && message_started {
        b"event: ping\ndata: {\"type\":\"ping\"}\n\n"
    } else {
        b": keepalive\n\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn every_surface_has_its_own_error_body() {
        let error = ErrorReply {
            status: 503,
            kind: None,
            message: "No available channels for this model",
            code: Some("c"),
            param: None,
            request_id: "r-1",
        };
        let message = error.message;
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Completions, Dialect::Images] {
            let wanted = json!({"error":{"message":message,"type":"server_error","param":null,"code":"c"}});
            assert_eq!(parsed(&body(dialect, &error)), wanted);
        }
        let wanted =
            json!({"type":"error","error":{"type":"overloaded_error","message":message},"request_id":"r-1"});
        assert_eq!(parsed(&body(Dialect::Messages, &error)), wanted);
        let wanted =
            json!({"error":{"code":503,"message":message,"status":"UNAVAILABLE","type":"server_error"}});
        assert_eq!(parsed(&body(Dialect::Gemini, &error)), wanted);
    }

    #[test]
    fn types_follow_the_status() {
        for (status, openai, messages) in [
            (400, "invalid_request_error", "invalid_request_error"),
            (401, "authentication_error", "authentication_error"),
            (403, "permission_error", "permission_error"),
            (404, "not_found_error", "not_found_error"),
            (413, "invalid_request_error", "request_too_large"),
            (429, "rate_limit_error", "rate_limit_error"),
            (500, "upstream_error", "api_error"),
            (501, "invalid_request_error", "api_error"),
            (502, "upstream_error", "api_error"),
            (503, "server_error", "overloaded_error"),
            (529, "upstream_error", "overloaded_error"),
        ] {
            assert_eq!(kind_of(status), openai, "{status}");
            assert_eq!(messages_kind(None, status), messages, "{status}");
            assert_eq!(messages_kind(Some("upstream_error"), status), messages, "{status}");
        }
        assert_eq!(messages_kind(Some("overloaded_error"), 500), "overloaded_error");
        // Another dialect's word for a missing model.
        assert_eq!(messages_kind(Some("invalid_request_error"), 404), "not_found_error");
    }

    #[test]
    fn a_broken_stream_ends_in_the_clients_dialect() {
        let error = UpstreamError { message: "gone".into(), code: Some("c".into()), ..Default::default() };
        let text = |dialect| {
            String::from_utf8(
                stream_event_of(dialect, &error, 7, Some(r#"{"id":"resp_1","model":"m"}"#)).to_vec(),
            )
            .unwrap()
        };
        let data = |text: &str, start: &str| {
            assert!(text.starts_with(start) && text.ends_with("\n\n"), "{text}");
            parsed(text.split_once("data: ").unwrap().1.as_bytes())
        };
        let chat = data(&text(Dialect::Chat), "data: ");
        assert_eq!(chat, json!({"error":{"message":"gone","type":"stream_error","param":null,"code":"c"}}));
        let messages = data(&text(Dialect::Messages), "event: error\n");
        assert_eq!(messages, json!({"type":"error","error":{"type":"api_error","message":"gone"}}));
        let gemini = data(&text(Dialect::Gemini), "data: ");
        let wanted = json!({"code":500,"message":"gone","status":"INTERNAL","type":"stream_error"});
        assert_eq!(gemini["error"], wanted);
        let failed = data(&text(Dialect::Responses), "event: response.failed\n");
        assert_eq!(failed["sequence_number"], 7);
        assert_eq!(failed["response"]["id"], "resp_1");
        assert_eq!(failed["response"]["error"], json!({"code":"c","message":"gone"}));
    }
}
