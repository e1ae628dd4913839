//! The client of a stored account at its site: its credentials, its user id there, its outbound proxy.

use std::sync::Arc;

use crate::core::Core;
use crate::jobs::sessions::sendable::sendable_secrets;
use crate::routing::{BaseUrl, Secret, Site};
use crate::store::accounts::AccountRow;
use crate::store::sites::SiteRow;
use crate::store::snapshot::{management_of_account, management_of_site};
use crate::upstream::platforms::{SiteClient, SiteError, SiteErrorKind};

/// Builds the client of a stored account.
///
/// # Errors
/// When the site's address or the configured proxy cannot be used: nothing goes out another way.
pub fn site_client_of(core: &Core, site: &SiteRow, account: &AccountRow) -> Result<SiteClient, SiteError> {
    let settings = core.settings.load();
    let way = management_of_account(site, account, &core.live, settings.system_proxy_url.as_deref());
    let session = sendable_secrets([&account.access_token]).first().copied().map(Secret::from);
    Ok(SiteClient {
        keys: sendable_secrets([&account.api_token]).into_iter().map(Secret::from).collect(),
        username: account.username.clone(),
        ..with_credential(core, way, session, account.platform_user_id)?
    })
}

/// Builds a client with a credential that no account has yet, through the site's own outbound proxy. `credential` is
/// the one that [`SiteClient::identify`] examines; `None` to log in.
///
/// # Errors
/// As [`site_client_of`].
pub fn site_client_at(
    core: &Core,
    site: &SiteRow,
    credential: Option<Secret>,
    user_id: Option<i64>,
) -> Result<SiteClient, SiteError> {
    let settings = core.settings.load();
    let way = management_of_site(site, &core.live, settings.system_proxy_url.as_deref());
    with_credential(core, way, credential, user_id)
}

fn with_credential(
    core: &Core,
    way: Result<(Site, BaseUrl), String>,
    credential: Option<Secret>,
    user_id: Option<i64>,
) -> Result<SiteClient, SiteError> {
    let (address, base) = way.map_err(|problem| SiteError::new(SiteErrorKind::Unreachable, problem))?;
    Ok(SiteClient {
        user_id: user_id.filter(|id| *id > 0),
        custom_headers: address.custom_headers,
        memory: Arc::clone(&core.site_memory),
        ..SiteClient::new(address.platform, base, credential)
    })
}
