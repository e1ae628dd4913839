//! The error of a playground request.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::http::{self, Response};

pub(super) const SERVER_ERROR: &str = "server_error";

/// A playground request that was not sent, or that failed.
#[derive(Debug, PartialEq)]
pub(super) struct PlaygroundError {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl PlaygroundError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind: "validation_error", message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, kind: "not_found", message: message.into() }
    }

    pub(super) fn failed(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, kind: SERVER_ERROR, message: message.into() }
    }

    pub(super) fn error(&self) -> Value {
        json!({ "message": self.message, "type": self.kind })
    }

    pub(super) fn into_response(self) -> Response {
        http::json(self.status, &json!({ "error": self.error() }))
    }
}
