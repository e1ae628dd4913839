//! The client of a connected account at its provider: with the account's outbound proxy.

use crate::core::Core;
use crate::platform::OAuthProvider;
use crate::store::accounts::AccountRow;
use crate::store::sites::SiteRow;
use crate::store::snapshot::management_of_account;
use crate::upstream::oauth::ProviderClient;

/// Builds the client of a stored account at its provider.
///
/// # Errors
/// When the configured proxy cannot be used: nothing goes out another way.
pub fn client_of<'a>(
    core: &'a Core,
    site: &SiteRow,
    account: &AccountRow,
    provider: OAuthProvider,
) -> Result<ProviderClient<'a>, String> {
    let settings = core.settings.load_full();
    let (_, base) = management_of_account(site, account, &core.live, settings.system_proxy_url.as_deref())?;
    let proxy = base.origin.proxy.clone();
    Ok(ProviderClient { client: &core.client, provider, settings: core.config.oauth.of(provider), proxy })
}
