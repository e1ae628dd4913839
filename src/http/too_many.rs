//! Builds the refusals of rate limits, alike on every surface.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::Response;
use crate::limits::RetryAfterSeconds;

/// Builds the refusal of a peer that sends too many requests, whatever its identity.
pub fn too_many_of_peer(wait: RetryAfterSeconds) -> Response {
    too_many(wait, &json!({ "statusCode": 429, "error": "Too many requests", "retryAfter": wait.0 }))
}

/// Builds the refusal of an authenticated identity, on `/api` and `/v1` alike.
pub fn too_many_of_identity(wait: RetryAfterSeconds) -> Response {
    too_many(wait, &json!({ "success": false, "message": "Too many requests, please try again later" }))
}

fn too_many(wait: RetryAfterSeconds, body: &Value) -> Response {
    let mut response = super::json(StatusCode::TOO_MANY_REQUESTS, body);
    super::set_retry_after(&mut response, wait.0);
    response
}
