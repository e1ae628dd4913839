//! What handlers check first: the row id in the path, and the rate limit of the client's address.

use super::errors::{AdminError, Result};
use crate::admin::Admin;
use crate::http::Request;
use crate::ids::Id;
use crate::limits::{Bucket, RetryAfterSeconds};
use crate::time::monotonic_ms;

/// Reads the path's `id`, a strict positive integer.
pub fn require_id<I: Id>(request: &Request) -> Result<I> {
    request.params.id("id").map_err(AdminError::bad_request)
}

/// Counts a request against the route guard of its client's address; fails with 429 when that is exhausted.
pub fn guard(admin: &Admin, request: &Request, bucket: &Bucket) -> Result<()> {
    let checked = admin.guards.check(bucket, request.client_ip, monotonic_ms());
    checked.map_err(|RetryAfterSeconds(seconds)| AdminError::too_many_requests(seconds))
}
