//! Error bodies and events: our own, in the form each surface expects, and the errors read from upstreams.
//!
//! An upstream's error is shown to clients and written to the log, so it is cleaned on the way in:
//! never raw HTML, blanks collapsed, bounded, and without addresses or keys.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Dialect;
use super::error_kinds::{self, anthropic, google, in_openai_words};
use super::sse;

pub use super::error_kinds::{openai as kind_of, openai_code, reported_status};
pub use super::upstream_error::{
    CUT, MAX_MESSAGE, MAX_NAME, MAX_RETRY_AFTER, UpstreamError, read, upstream_text, without_addresses,
};

/// The code by which clients of messages learn that they must send the whole conversation again.
pub const THREAD_NOT_FOUND: &str = "thread_not_found";

/// An error on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    pub status: u16,
    /// `error.type`; `None` takes the one that fits the status. On messages only that API's own names are used, even
    /// for another kind.
    pub kind: Option<&'a str>,
    pub message: &'a str,
    pub code: Option<&'a str>,
    pub param: Option<&'a str>,
    pub request_id: &'a str,
}

/// Builds the body of an error answer in the form of the surface.
pub fn body(dialect: Dialect, error: &ErrorReply<'_>) -> Bytes {
    let named = error_kinds::naming(error.status, error.kind, error.code);
    let kind = error.kind.map_or(kind_of(named), |kind| in_openai_words(kind, named));
    let body = match dialect {
        Dialect::Messages => {
            let mut body = json!({
                "type": "error",
                "error": {"type": anthropic(error.kind, named), "message": error.message},
                "request_id": error.request_id,
            });
            if let Some(code) = error.code.filter(|code| *code == THREAD_NOT_FOUND) {
                body["error"]["details"] = json!({"error_code": code});
            }
            body
        }
        Dialect::Gemini => json!({"error": {
            "code": error.status,
            "message": error.message,
            "status": google(named),
            "type": kind,
        }}),
        _ => json!({"error": {
            "message": error.message,
            "type": kind,
            "param": error.param,
            "code": error.code,
        }}),
    };
    Bytes::from(body.to_string())
}

// === streams ===

/// Builds the event that tells a client that its stream broke after output. The SDKs raise on it; no end marker
/// follows.
pub fn stream_event(dialect: Dialect, error: &UpstreamError) -> Bytes {
    stream_event_of(dialect, error, &BrokenResponse::default())
}

/// What is known of a response whose stream broke.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BrokenResponse<'r> {
    /// The number of the next event.
    pub sequence: u64,
    /// The response object as the upstream reported it last.
    pub reported: Option<&'r str>,
    /// The id of a response that the upstream has not reported.
    pub id: &'r str,
}

/// Builds the same event as [`stream_event`]; on responses it has this response.
pub(super) fn stream_event_of(
    dialect: Dialect,
    error: &UpstreamError,
    response: &BrokenResponse<'_>,
) -> Bytes {
    let status = error_kinds::reported_status(error);
    let kind = reported_kind(error).unwrap_or(UpstreamError::BROKEN_STREAM);
    let text = match dialect {
        Dialect::Messages => {
            let kind = anthropic(error.kind.as_deref(), status);
            let event = json!({"type": "error", "error": {"type": kind, "message": error.message}});
            format!("event: error\ndata: {event}\n\n")
        }
        Dialect::Responses => {
            // SDKs do not accept a stream that does not begin with a response.
            let opening = (response.sequence == 0 && response.reported.is_none()).then(|| {
                let mut begun = unreported_response(response.id);
                (begun["status"], begun["output"]) = (json!("in_progress"), json!([]));
                let event = json!({"type": "response.created", "sequence_number": 0, "response": begun});
                format!("event: response.created\ndata: {event}\n\n")
            });
            let sequence = response.sequence + u64::from(opening.is_some());
            let event = failed_response(error, &BrokenResponse { sequence, ..*response });
            format!("{}event: response.failed\ndata: {event}\n\n", opening.unwrap_or_default())
        }
        Dialect::Gemini => {
            let name = error.kind.as_deref().filter(|kind| error_kinds::is_googles(kind));
            let event = json!({"error": {
                "code": status,
                "message": error.message,
                "status": name.unwrap_or(google(status)),
                "type": kind,
            }});
            format!("data: {event}\n\n")
        }
        _ => {
            let event = json!({"error": {
                "message": error.message, "type": kind, "param": error.param, "code": openai_code(error),
            }});
            format!("data: {event}\n\n")
        }
    };
    Bytes::from(text)
}

/// Adds the members that errors of the dialect always have to a body that is an error in the form its clients expect;
/// `None` for any other body.
pub fn completed(dialect: Dialect, body: Bytes, request_id: &str) -> Option<Bytes> {
    let mut value = super::json::tree(&body)?;
    let error = value.get_mut("error")?.as_object_mut()?;
    let says = |key: &str| error.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let members = error.len();
    match dialect {
        Dialect::Gemini => {
            let is_whole =
                error.get("code").is_some_and(Value::is_number) && says("message") && says("status");
            return is_whole.then_some(body);
        }
        _ if !says("message") || !says("type") => return None,
        Dialect::Messages => {
            let whole = value
                .as_object_mut()
                .filter(|whole| whole.get("type").is_some_and(|kind| kind == "error"))?;
            if whole.get("request_id").is_some_and(Value::is_string) {
                return Some(body);
            }
            whole.insert("request_id".to_owned(), request_id.into());
        }
        _ => {
            for name in ["param", "code"] {
                error.entry(name).or_insert(Value::Null);
            }
            if error.len() == members {
                return Some(body);
            }
        }
    }
    Some(value.to_string().into())
}

/// Returns the `error.type` that an OpenAI-style client is given in a stream.
pub(super) fn reported_kind(error: &UpstreamError) -> Option<&str> {
    error.kind.as_deref().map(|kind| in_openai_words(kind, error_kinds::reported_status(error)))
}

/// Builds the members of a response that the upstream has not reported.
fn unreported_response(id: &str) -> Value {
    json!({"id": id, "object": "response", "incomplete_details": null, "metadata": {}})
}

/// Builds a `response.failed` event with a whole response object: the SDKs' types require its keys.
fn failed_response(error: &UpstreamError, broken: &BrokenResponse<'_>) -> Value {
    let reported = broken.reported.and_then(|response| serde_json::from_str::<Value>(response).ok());
    let mut response = reported.filter(Value::is_object).unwrap_or_else(|| unreported_response(broken.id));
    response["status"] = json!("failed");
    response["error"] = json!({"code": error.response_code(), "message": error.message});
    if let Some(kind) = reported_kind(error) {
        response["error"]["type"] = json!(kind);
    }
    if !response["output"].is_array() {
        response["output"] = json!([]);
    }
    if !response["usage"].is_object() {
        response["usage"] = Value::Null;
    }
    json!({"type": "response.failed", "sequence_number": broken.sequence, "response": response})
}

/// Returns the bytes that keep a silent stream open. On messages it is a `ping`, as that API sends it; its clients skip
/// one wherever it stands. Elsewhere it is a comment: typed events are never invented.
pub fn heartbeat(dialect: Dialect) -> &'static [u8] {
    match dialect {
        Dialect::Messages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        _ => sse::KEEP_ALIVE,
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
    fn a_broken_stream_ends_in_the_clients_dialect() {
        let error = UpstreamError { message: "gone".into(), code: Some("c".into()), ..Default::default() };
        let text = |dialect| {
            let reported = Some(r#"{"id":"resp_1","model":"m"}"#);
            let response = BrokenResponse { sequence: 7, reported, id: "resp_2" };
            String::from_utf8(stream_event_of(dialect, &error, &response).to_vec()).unwrap()
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
        // A response that had not begun begins first.
        let response = BrokenResponse { id: "resp_2", ..BrokenResponse::default() };
        let event = stream_event_of(Dialect::Responses, &error, &response);
        let text = String::from_utf8(event.to_vec()).unwrap();
        let (created, failed) = text.split_once("\n\n").unwrap();
        assert_eq!(data(&format!("{created}\n\n"), "event: response.created\n")["sequence_number"], 0);
        let failed = data(failed, "event: response.failed\n");
        assert_eq!(failed["sequence_number"], 1);
        assert_eq!(failed["response"]["id"], "resp_2");
    }

    #[test]
    fn an_upstreams_error_gets_what_its_dialect_always_has() {
        let told = |dialect, body: &'static str| {
            completed(dialect, Bytes::from_static(body.as_bytes()), "req_1").map(|body| parsed(&body))
        };
        let error = r#"{"type":"error","error":{"type":"a","message":"b"}}"#;
        assert_eq!(told(Dialect::Messages, error).unwrap()["request_id"], "req_1");
        let named = r#"{"type":"error","error":{"type":"a","message":"b"},"request_id":"req_up"}"#;
        assert_eq!(told(Dialect::Messages, named).unwrap()["request_id"], "req_up");
        let chat = told(Dialect::Responses, r#"{"error":{"type":"a","message":"b","more":1}}"#).unwrap();
        assert_eq!(chat, json!({"error": {"type":"a","message":"b","more":1,"param":null,"code":null}}));
        for no_error in ["{}", r#"{"error":"a"}"#, r#"{"error":{"message":"b"}}"#, "[]", "nothing"] {
            assert_eq!(told(Dialect::Chat, no_error), None, "{no_error}");
        }
    }

    #[test]
    fn an_error_of_another_vendor_is_told_in_the_clients_words() {
        let told = |dialect, kind: &str, code: Option<&str>| {
            let (kind, code) = (Some(kind.to_owned()), code.map(str::to_owned));
            let event = stream_event(dialect, &UpstreamError { kind, code, ..UpstreamError::new("no") });
            let event = String::from_utf8(event.to_vec()).unwrap();
            parsed(event.rsplit_once("data: ").unwrap().1.as_bytes())
        };
        for (kind, code, chat, messages, gemini) in [
            ("RESOURCE_EXHAUSTED", Some("429"), "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
            ("UNAVAILABLE", Some("503"), "server_error", "overloaded_error", "UNAVAILABLE"),
            ("overloaded_error", None, "overloaded_error", "overloaded_error", "UNAVAILABLE"),
            ("requests", Some("rate_limit_exceeded"), "requests", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        ] {
            let of_chat = &told(Dialect::Chat, kind, code)["error"];
            assert_eq!(of_chat["type"], chat);
            // A number that repeats the status is Google's; a client of chat compares words.
            assert_eq!(of_chat["code"].as_str(), code.filter(|code| code.parse::<u16>().is_err()));
            assert_eq!(told(Dialect::Messages, kind, code)["error"]["type"], messages);
            let google = told(Dialect::Gemini, kind, code);
            assert_eq!(
                (&google["error"]["status"], &google["error"]["type"]),
                (&json!(gemini), &json!(chat))
            );
            assert_eq!(told(Dialect::Responses, kind, code)["response"]["error"]["type"], chat);
        }
        let reply = ErrorReply {
            status: 400,
            kind: Some("INVALID_ARGUMENT"),
            message: "no",
            code: None,
            param: None,
            request_id: "r-1",
        };
        assert_eq!(parsed(&body(Dialect::Chat, &reply))["error"]["type"], "invalid_request_error");
    }
}
