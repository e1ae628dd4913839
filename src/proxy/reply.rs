//! Refusals and failures in the shape of the surface that was called (proxy.md 4).

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};

use crate::dialect::Dialect;
use crate::dialect::errors::{self, ErrorReply, UpstreamError};
use crate::http::{self, BodyError, RequestId, Response};

use super::headers;

/// Where an error is to be written: which shape, whose request.
#[derive(Clone, Copy)]
pub struct Face {
    pub dialect: Dialect,
    pub id: RequestId,
}

impl Face {
    /// The face of a path under `/v1`: by the request's headers where the path does not tell
    /// (proxy.md 4: any request with `anthropic-version` gets the messages shape).
    pub fn of(headers: &HeaderMap, dialect: Option<Dialect>, id: RequestId) -> Self {
        let by_header =
            if headers.contains_key("anthropic-version") { Dialect::Messages } else { Dialect::Chat };
        Self { dialect: dialect.unwrap_or(by_header), id }
    }

    /// An error of our own; the type is the one that fits the status.
    pub fn refuse(self, status: u16, message: &str, code: Option<&str>, param: Option<&str>) -> Response {
        self.write(status, None, message, code, param)
    }

    /// 503 with the text that monitoring looks for (routing.md 1).
    pub fn no_channels(self, retry_after_secs: Option<i64>) -> Response {
        let mut response =
            self.write(503, Some("server_error"), "No available channels for this model", None, None);
        if let Some(seconds) = retry_after_secs {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }

    /// What a body that could not be read answers.
    pub fn body_error(self, error: &BodyError) -> Response {
        self.refuse(error.status().as_u16(), &error.to_string(), None, None)
    }

    /// The last failure of an upstream, when no further attempt is made. The client's own key is
    /// fine, so an upstream's 401, 402 and 403 become 502 (design §5).
    pub fn upstream_failure(self, status: u16, error: &UpstreamError) -> Response {
        let shown = match status {
            401..=403 => 502,
            400..=599 => status,
            _ => 502,
        };
        let kind = error.kind.as_deref().unwrap_or("upstream_error");
        self.write(shown, Some(kind), &error.message, error.code.as_deref(), error.param.as_deref())
    }

    /// An upstream's own error body, handed on as it came.
    pub fn verbatim(self, status: u16, body: Bytes) -> Response {
        let mut response = http::json_bytes(status_code(status), body);
        headers::request_id(self.dialect, self.id, response.headers_mut());
        response
    }

    fn write(
        self,
        status: u16,
        kind: Option<&str>,
        message: &str,
        code: Option<&str>,
        param: Option<&str>,
    ) -> Response {
        let message: Cow<'_, str> = if message.is_empty() { "Unknown error".into() } else { message.into() };
        let reply = ErrorReply { status, kind, message: &message, code, param, request_id: self.id.as_str() };
        let mut response = http::json_bytes(status_code(status), errors::body(self.dialect, &reply));
        headers::request_id(self.dialect, self.id, response.headers_mut());
        response
    }
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY)
}
