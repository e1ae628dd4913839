//! Error frames: the answer to a turn that fails.
//!
//! ```text
//! {"type":"error","status":int,"error":{type, code?, message, param?},"headers":{}}
//! ```
//!
//! `headers` are those of the HTTP answer, which a client of the socket never sees; Codex reads them.

use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::{Map, Value, json};

use crate::dialect::{errors, json};
use crate::http::{Response, ResponseBody};
use crate::limits::RetryAfterSeconds;
use crate::proxy::relay;

/// The headers of a refusal that a frame repeats, by their prefixes.
const TOLD: [&str; 3] = ["retry-after", "x-codex-", "x-ratelimit-"];

/// The refusal of a turn.
#[derive(Debug)]
pub(super) struct FrameRefusal {
    status: u16,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
}

impl FrameRefusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, code: None, param: None, message: message.into() }
    }

    /// Builds the refusal of a client's mistake.
    pub(super) fn invalid(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { param, ..Self::new(400, message) }
    }

    pub(super) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(super) fn frame(&self) -> String {
        let mut error = json!({ "type": kind_of(self.status), "message": self.message });
        if let Some(code) = self.code {
            error["code"] = json!(code);
        }
        if let Some(param) = self.param {
            error["param"] = json!(param);
        }
        frame(self.status, error, Map::new())
    }
}

/// Builds the frame for a sender that exceeds its rate limit.
pub(super) fn too_many(wait: RetryAfterSeconds) -> String {
    json!({
        "type": "error",
        "status": 429,
        "retryAfter": wait.0,
        "error": {
            "type": "invalid_request_error",
            "message": "Too many requests, please try again later",
        },
        "headers": { "retry-after": wait.0.to_string() },
    })
    .to_string()
}

/// Builds the frame for the HTTP answer of a call that failed.
pub(super) fn of_response(response: Response) -> String {
    let (head, body) = response.into_parts();
    let body = match body {
        ResponseBody::Full(body) => body.unwrap_or_default(),
        // Errors are never streamed.
        ResponseBody::Stream(_) => Bytes::new(),
    };
    of_answer(head.status.as_u16(), &head.headers, &body)
}

fn of_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> String {
    let told = headers.iter().filter(|(name, _)| TOLD.iter().any(|told| name.as_str().starts_with(told)));
    let told = told.filter_map(|(name, value)| Some((name.to_string(), json!(value.to_str().ok()?))));
    let body = json::tree(body).unwrap_or_default();
    let error = match body.get("error") {
        Some(Value::Object(error)) => of_error(status, error.clone()),
        _ => {
            json!({ "type": kind_of(status), "message": format!("The request failed with status {status}") })
        }
    };
    frame(status, error, told.collect())
}

/// Builds the frame for an `error` event of an upstream's stream, which has no status of its own.
pub(super) fn of_event(event: &str) -> String {
    let event = json::tree(event.as_bytes()).unwrap_or_default();
    let nested = event.get("error").and_then(Value::as_object).cloned();
    let mut error = nested.unwrap_or_else(|| {
        let own = ["code", "message", "param"].into_iter();
        own.filter_map(|name| Some((name.to_owned(), event.get(name)?.clone()))).collect()
    });
    error.entry("message").or_insert_with(|| json!("The upstream's stream failed"));
    frame(502, of_error(502, error), Map::new())
}

/// Builds the frame for a turn whose stream ended without its last event.
pub(super) fn stream_closed() -> String {
    FrameRefusal::new(408, relay::CLOSED_EARLY).frame()
}

/// Drops null members of an error object, and replaces a missing type or our own word for upstream failures.
fn of_error(status: u16, mut error: Map<String, Value>) -> Value {
    error.retain(|_, value| !value.is_null());
    let kind = error.get("type").and_then(Value::as_str).unwrap_or("upstream_error");
    if kind == "upstream_error" {
        error.insert("type".to_owned(), json!(kind_of(status)));
    }
    Value::Object(error)
}

fn frame(status: u16, error: Value, headers: Map<String, Value>) -> String {
    json!({ "type": "error", "status": status, "error": error, "headers": headers }).to_string()
}

fn kind_of(status: u16) -> &'static str {
    match status {
        500.. => "server_error",
        _ => errors::kind_of(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(frame: &str) -> Value {
        serde_json::from_str(frame).unwrap()
    }

    #[test]
    fn a_frame_too_many_says_when_to_come_again() {
        let wanted = json!({"type":"error","status":429,"retryAfter":37,
            "error":{"type":"invalid_request_error","message":"Too many requests, please try again later"},
            "headers":{"retry-after":"37"}});
        assert_eq!(parsed(&too_many(RetryAfterSeconds(37))), wanted);
    }

    #[test]
    fn an_answer_that_failed_keeps_its_error_and_the_headers_that_help() {
        let headers = HeaderMap::from_iter([
            ("retry-after".parse().unwrap(), "2".parse().unwrap()),
            ("content-type".parse().unwrap(), "application/json".parse().unwrap()),
        ]);
        let of = |status, body: Value| parsed(&of_answer(status, &headers, body.to_string().as_bytes()));
        let site = json!({"type":"site_concurrency_limit","message":"Site concurrency limit reached"});
        let full = of(
            503,
            json!({"error":{"type":"site_concurrency_limit","code":null,"param":null,
            "message":"Site concurrency limit reached"}}),
        );
        assert_eq!(full, json!({"type":"error","status":503,"error":site,"headers":{"retry-after":"2"}}));
        let failed = of(502, json!({"error":{"type":"upstream_error","message":"m"}}));
        assert_eq!(failed["error"], json!({"type":"server_error","message":"m"}));
        let theirs = json!({"type":"x","code":"context_length_exceeded","message":"m","param":"input"});
        assert_eq!(of(400, json!({ "error": theirs }))["error"], theirs);
        assert_eq!(of(500, json!("?"))["error"]["type"], "server_error");
    }

    #[test]
    fn an_error_event_gets_a_status() {
        for event in [
            json!({"type":"error","code":"c","message":"m","param":null,"sequence_number":4}),
            json!({"type":"error","error":{"code":"c","message":"m"}}),
        ] {
            let frame = parsed(&of_event(&event.to_string()));
            assert_eq!(frame["status"], 502);
            assert_eq!(frame["error"], json!({"type":"server_error","code":"c","message":"m"}));
        }
    }

    #[test]
    fn a_stream_without_an_end_is_told_as_the_specification_has_it() {
        let wanted = json!({"type":"error","status":408,"headers":{},"error":{
            "type":"invalid_request_error","message":"stream closed before response.completed"}});
        assert_eq!(parsed(&stream_closed()), wanted);
    }
}
