//! Checks a change again when its body has arrived, which may have taken long: until then only the head was checked.

use hyper::StatusCode;

use super::auth::{self, Caller};
use super::errors::{AdminError, Result};
use crate::admin::Admin;
use crate::http::Request;

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
