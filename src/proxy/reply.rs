//! Refusals and failures in the shape of the surface that was called.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ACCEPT_ENCODING, CONNECTION, HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::codings::{self, CodingError};
use crate::dialect::Dialect;
use crate::dialect::errors::{self, ErrorReply, UpstreamError};
use crate::http::{self, BodyError, Response};
use crate::keys::OverLimit;
use crate::one_line::first_chars;
use crate::request_id::RequestId;
use crate::store;
use crate::time::Millis;

use super::auth::AuthRefusal;
use super::headers;
use super::key::over_limit::refused_by;

/// The roots of Google's paths: those that are served here, then its other versions, its uploads and Vertex AI.
const GOOGLES: [&str; 7] =
    ["/v1beta", "/v1internal", "/gemini", "/v1alpha", "/v1beta1", "/upload", "/v1/projects"];

/// The shape of an error answer: its dialect, and the id of the request.
#[derive(Clone, Copy)]
pub struct ErrorShape {
    pub dialect: Dialect,
    /// The dialect of errors: a client may ask in one dialect and read the errors of another.
    errors: Dialect,
    pub id: RequestId,
}

impl ErrorShape {
    pub(super) fn new(dialect: Dialect, id: RequestId) -> Self {
        Self { dialect, errors: dialect, id }
    }

    /// Returns the shape for a path under `/v1`: by the request's headers where the path does not tell.
    pub fn of(headers: &HeaderMap, dialect: Option<Dialect>, id: RequestId) -> Self {
        let names_version = headers.contains_key("anthropic-version");
        let by_header = if names_version { Dialect::Messages } else { Dialect::Chat };
        Self::new(dialect.unwrap_or(by_header), id).to_client(names_version)
    }

    /// Switches to errors of the messages API for any client that sends `anthropic-version`.
    pub(super) fn to_client(self, names_version: bool) -> Self {
        let reads_messages = names_version && self.dialect != Dialect::Gemini;
        Self { errors: if reads_messages { Dialect::Messages } else { self.errors }, ..self }
    }

    /// Returns the dialect of errors.
    pub(super) fn errors(self) -> Dialect {
        self.errors
    }

    /// Returns the shape for a path without a handler; `None` where it is no path of the proxy interface.
    pub fn at(path: &str, headers: &HeaderMap, id: RequestId) -> Option<Self> {
        let path = percent_decode_str(path).decode_utf8_lossy();
        let under = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
        };
        let dialect = if GOOGLES.into_iter().any(under) {
            Some(Dialect::Gemini)
        } else if under("/v1/messages") || under("/anthropic") {
            Some(Dialect::Messages)
        } else if ["/v1", "/v2/rerank", "/chat", "/responses", "/openai", "/deployments", "/backend-api"]
            .into_iter()
            .any(under)
        {
            None
        } else {
            return None;
        };
        Some(Self::of(headers, dialect, id))
    }

    /// Builds a 404 for a path that nothing serves. Below the path of responses the type blames the request: there is nothing
    /// there that could be found.
    pub fn no_such_path(self, path: &str) -> Response {
        let is_below = path.strip_prefix("/v1").unwrap_or(path).starts_with("/responses/");
        let kind = is_below.then_some("invalid_request_error");
        self.write(404, kind, "Not found", None, None)
    }

    /// Builds an error of our own, with the type that fits the status.
    pub fn refuse(self, status: u16, message: &str, code: Option<&str>, param: Option<&str>) -> Response {
        // A 500 is our own fault; the type for upstream errors would blame an upstream.
        self.write(status, (status == 500).then_some("server_error"), message, code, param)
    }

    /// Builds the 404 for an id under which the caller has nothing. `what` is a noun, as in `video`.
    pub(super) fn no_such(self, what: &str, id: &str) -> Response {
        let id = first_chars(id, 100);
        self.refuse(404, &format!("No such {what}: {id}"), None, Some(&format!("{what}_id")))
    }

    /// Builds the error for a look-up or a change that failed in the database, and logs why. `what` is a plural, as in
    /// `Videos`.
    pub(super) fn database_failed(self, what: &str, error: &store::Error) -> Response {
        log::error!("{what} could not be looked up or changed in the database: {error}");
        if let store::Error::Full(_) = error {
            return self.storage_full();
        }
        self.refuse(503, &format!("{what} cannot be looked up or changed at the moment"), None, None)
    }

    /// Builds the error for what cannot be stored because the disk is full: another try would fail as well.
    pub(super) fn storage_full(self) -> Response {
        forbid_retry(self.refuse(507, store::FULL, Some("insufficient_storage"), None))
    }

    /// Builds the error for something that the upstream made but that is lost here: asking again would make another.
    pub(super) fn creation_lost(self, message: &str) -> Response {
        forbid_retry(self.refuse(503, message, None, None))
    }

    /// Builds the refusal of a caller that is not let in.
    pub(super) fn reject_caller(self, refused: &AuthRefusal) -> Response {
        self.refuse(refused.status(), &refused.message(), Some(refused.code()), None)
    }

    /// Builds a 429 for a limit of the caller's key, with the time to wait.
    pub(super) fn over_limit(self, limit: OverLimit, now: Millis) -> Response {
        let over = refused_by(limit, now);
        let mut response = self.refuse(429, &over.message, Some(over.code), None);
        http::set_retry_after(&mut response, over.retry_after_secs);
        response
    }

    /// Builds a 503 with a text that must not change: operators' monitoring searches for it.
    pub fn no_channels(self, retry_after_secs: Option<i64>) -> Response {
        let mut response =
            self.write(503, Some("server_error"), "No available channels for this model", None, None);
        if let Some(seconds) = retry_after_secs {
            http::set_retry_after(&mut response, seconds.max(1));
        }
        response
    }

    /// Builds a 503 because every site that could serve is at its limit.
    pub fn site_saturated(self, retry_after_secs: u64) -> Response {
        let kind = Some("site_concurrency_limit");
        let mut response = self.write(503, kind, "Site concurrency limit reached", None, None);
        http::set_retry_after(&mut response, retry_after_secs);
        response
    }

    /// Builds the answer to a request whose body could not be read.
    pub fn body_error(self, error: &BodyError) -> Response {
        let mut response = self.refuse(error.status().as_u16(), &error.to_string(), None, None);
        if matches!(error, BodyError::Coding(CodingError::Unknown(_))) {
            // The codings that would have been accepted (RFC 9110 §12.5.3).
            let known = HeaderValue::from_static(codings::KNOWN);
            response.headers_mut().insert(ACCEPT_ENCODING, known);
        }
        if let Some(seconds) = error.retry_after_secs() {
            http::set_retry_after(&mut response, seconds);
        }
        response
    }

    /// Builds the answer for an upstream's last failure, when no further attempt is made. The client's own key is fine, so an
    /// upstream's complaint about ours becomes 502 and loses its type: a client would take it for its own.
    pub fn upstream_failure(self, status: u16, error: &UpstreamError) -> Response {
        let shown = match status {
            _ if is_about_our_key(status, error) => 502,
            400..=599 => status,
            _ => 502,
        };
        let own = error.kind.as_deref().filter(|_| shown == status);
        let kind = own.unwrap_or("upstream_error");
        let code = errors::openai_code(error);
        self.write(shown, Some(kind), &error.message, code, error.param.as_deref())
    }

    /// Passes on an upstream's own error body unchanged.
    pub fn verbatim(self, status: u16, body: Bytes) -> Response {
        let mut response = http::json_bytes(status_code(status), body);
        headers::request_id(self.errors, self.id, response.headers_mut());
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
        let mut response = http::json_bytes(status_code(status), errors::body(self.errors, &reply));
        headers::request_id(self.errors, self.id, response.headers_mut());
        response
    }
}

/// Whether an upstream's answer is about our key, not about the request: by its status, or, with Google,
/// in a 400 (`google.api.ErrorReason`).
pub(super) fn is_about_our_key(status: u16, error: &UpstreamError) -> bool {
    matches!(status, 401..=403) || status == 400 && error.is_about_our_key
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY)
}

/// Tells the client's SDK not to send the request again: those of OpenAI and Anthropic heed this header.
pub(super) fn forbid_retry(mut response: Response) -> Response {
    response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    response
}

/// Returns the response of a handler that ends early where it refuses.
pub(super) fn response_of(answer: Result<Response, Response>) -> Response {
    answer.unwrap_or_else(|refusal| refusal)
}

/// Closes the connection of a refused socket request, for which it is of no use.
pub(super) fn closing(mut refusal: Response) -> Response {
    refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_handler_still_has_a_shape() {
        for (path, anthropic, expected) in [
            ("/v1/messages", false, Some(Dialect::Messages)),
            ("/anthropic/v1/nothing", false, Some(Dialect::Messages)),
            ("/v1/messages/batches", false, Some(Dialect::Messages)),
            ("/v1/messagesx", false, Some(Dialect::Chat)),
            ("/v1/models/x", true, Some(Dialect::Messages)),
            ("/v1", false, Some(Dialect::Chat)),
            ("/%76%31/files", false, Some(Dialect::Chat)),
            ("/v1beta/models/m:generateContent", false, Some(Dialect::Gemini)),
            ("/v1internal:countTokens", false, Some(Dialect::Gemini)),
            ("/gemini/v1/models", false, Some(Dialect::Gemini)),
            ("/upload/v1beta/files", false, Some(Dialect::Gemini)),
            ("/v1alpha/models/m:generateContent", false, Some(Dialect::Gemini)),
            ("/v1/projects/p/locations/l/publishers/google/models/m:predict", false, Some(Dialect::Gemini)),
            ("/v1/projectsx", false, Some(Dialect::Chat)),
            ("/openai/deployments/gpt-4o/chat/completions", false, Some(Dialect::Chat)),
            ("/chat/completions", false, Some(Dialect::Chat)),
            ("/responses/x", false, Some(Dialect::Chat)),
            ("/api/sites", true, None),
            ("/v1x", false, None),
            ("/", false, None),
        ] {
            let mut headers = HeaderMap::new();
            if anthropic {
                headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
            }
            let shape = ErrorShape::at(path, &headers, RequestId::next());
            assert_eq!(shape.map(|shape| shape.dialect), expected, "{path}");
        }
    }
}
