//! What is checked before a handler does its work: whether the request is still admitted when its body has arrived, the row
//! id in the path, and the rate limit of the client's address.

use hyper::StatusCode;

use super::auth::{self, Caller};
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

/// Checks once more what was checked when the head of a change arrived: its body may have taken
/// long. `resets` is the number of factory resets at that time.
pub fn admit_late(admin: &Admin, request: &Request, resets: u64) -> Result<()> {
    let caller = Caller { peer: request.peer.ip(), client: request.client_ip, headers: &request.headers };
    auth::authorize(&admin.core, &caller)?;
    admin.copying.admit(&request.method)?;
    if admin.core.resets() != resets {
        let message = "A factory reset took place while the request arrived; nothing was changed";
        return Err(AdminError::new(StatusCode::SERVICE_UNAVAILABLE, message));
    }
    Ok(())
}
