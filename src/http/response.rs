//! Builds answers in one line: JSON or plain text.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use serde::Serialize;

use super::ResponseBody;

/// The answer to a request.
pub type Response = hyper::Response<ResponseBody>;

/// Builds a JSON answer. A value that cannot be serialised is a programming error and answers 500.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => json_bytes(status, Bytes::from(bytes)),
        Err(error) => {
            log::error!("an answer could not be written as JSON: {error}");
            let body = Bytes::from_static(
                br#"{"success":false,"message":"Internal error","error":"Internal error"}"#,
            );
            json_bytes(StatusCode::INTERNAL_SERVER_ERROR, body)
        }
    }
}

/// Builds an answer whose body is JSON already.
pub fn json_bytes(status: StatusCode, body: Bytes) -> Response {
    with_type(status, body, "application/json; charset=utf-8")
}

/// Says after how many seconds another try makes sense (RFC 9110 §10.2.3).
pub fn set_retry_after(response: &mut Response, seconds: impl Into<HeaderValue>) {
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
}

/// Returns whether a body is a stream of server-sent events, by the `Content-Type` that this service writes.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Builds a plain-text answer.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    with_type(status, body.into(), "text/plain; charset=utf-8")
}

fn with_type(status: StatusCode, body: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
