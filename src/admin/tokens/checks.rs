//! Checks whether an account has tokens, and whether its site can make them.

use hyper::StatusCode;

use crate::admin::errors::{AdminError, Result};
use crate::jobs::accounts::health::advised;
use crate::jobs::tokens::sync::owns_tokens;
use crate::platform::Platform;
use crate::store::accounts::AccountRow;
use crate::store::sites::SiteRow;

/// Refuses an account that is an API key itself and has no tokens.
pub fn require_tokens(account: &AccountRow) -> Result<()> {
    if owns_tokens(account) {
        return Ok(());
    }
    Err(AdminError::bad_request("API key accounts have no account tokens"))
}

/// Refuses a site whose platform manages no keys.
pub fn require_keys(site: &SiteRow) -> Result<Platform> {
    let platform = Platform::parse(&site.platform).filter(|platform| platform.abilities().keys);
    platform.ok_or_else(|| {
        AdminError::bad_request(format!(
            "Sites of platform {} do not let the gateway manage an account's keys",
            site.platform
        ))
    })
}

/// Builds the refusal for a site's failure.
pub fn bad_gateway(error: crate::upstream::platforms::SiteError) -> AdminError {
    AdminError::new(StatusCode::BAD_GATEWAY, advised(&error.message))
}
