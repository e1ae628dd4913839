//! Whether an account has tokens, and a site can make them.

use hyper::StatusCode;

use crate::admin::errors::{AdminError, Result};
use crate::jobs::accounts::health::advised;
use crate::jobs::tokens::sync::owns_tokens;
use crate::platform::Platform;
use crate::store::accounts::AccountRow;
use crate::store::sites::SiteRow;

/// Refuses what makes no sense for an account that is a key itself.
pub fn require_tokens(account: &AccountRow) -> Result<()> {
    if owns_tokens(account) {
        return Ok(());
    }
    Err(AdminError::bad_request("API key accounts have no account tokens"))
}

/// Refuses what the platform of a site does not know.
pub fn require_keys(site: &SiteRow) -> Result<Platform> {
    let platform = Platform::parse(&site.platform).filter(|platform| platform.abilities().keys);
    platform.ok_or_else(|| {
        AdminError::bad_request(format!("Sites of platform {} manage no keys of an account", site.platform))
    })
}

/// The site did not do what it was asked to.
pub fn bad_gateway(error: crate::upstream::platforms::SiteError) -> AdminError {
    AdminError::new(StatusCode::BAD_GATEWAY, advised(&error.message))
}
