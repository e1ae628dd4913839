//! The site that a provider's accounts belong to. It is created with the first account and belongs to its operator from
//! then on: one that was disabled stays disabled.

use crate::core::Core;
use crate::ids::SiteId;
use crate::platform::OAuthProvider;
use crate::store::accounts::AccountRow;
use crate::store::sites::{self, NewSite, ProbedModels, SiteRow, SiteStatus};
use crate::store::{self, Store};
use crate::time::now_ms;

/// Returns the site of the account that is connected anew, or else the provider's; where that is not stored yet, the
/// site as it will be.
pub(super) async fn site_of(
    core: &Core,
    provider: OAuthProvider,
    account: Option<&AccountRow>,
) -> store::Result<SiteRow> {
    let site = match account {
        Some(account) => sites::get(&core.store, account.site_id).await?,
        None => find(&core.store, provider.profile().platform.id(), &url(core, provider)).await?,
    };
    Ok(site.unwrap_or_else(|| unstored(core, provider)))
}

/// Returns the ID of the provider's site, and creates the site if there is none.
pub(super) async fn ensure_site(core: &Core, provider: OAuthProvider) -> store::Result<SiteId> {
    let site = unstored(core, provider);
    if let Some(id) = sites::find(&core.store, &site.platform, &site.url).await? {
        return Ok(id);
    }
    let new = NewSite::named(&*site.name, &*site.url, &*site.platform);
    match sites::insert(&core.store, new).await {
        Ok(id) => {
            log::info!("the site \"{}\" was created for logins of {}", site.name, provider.id());
            Ok(id)
        }
        // Another login has created it first.
        Err(store::Error::Conflict(_)) => {
            sites::find(&core.store, &site.platform, &site.url).await?.ok_or(store::Error::NotFound)
        }
        Err(error) => Err(error),
    }
}

fn url(core: &Core, provider: OAuthProvider) -> String {
    core.config.oauth.of(provider).site_url.trim_end_matches('/').to_owned()
}

/// Builds the site as it is before it is stored.
fn unstored(core: &Core, provider: OAuthProvider) -> SiteRow {
    let (profile, now) = (provider.profile(), now_ms());
    SiteRow {
        id: SiteId::ZERO,
        name: profile.site_name.to_owned(),
        url: url(core, provider),
        platform: profile.platform.id().to_owned(),
        status: SiteStatus::Active,
        proxy_url: None,
        use_system_proxy: false,
        custom_headers: None,
        external_checkin_url: None,
        is_pinned: false,
        sort_order: 0,
        global_weight: 1.0,
        max_concurrency: None,
        initialization_preset_id: None,
        post_refresh_probe_enabled: false,
        post_refresh_probe_model: String::new(),
        post_refresh_probe_scope: ProbedModels::Single,
        post_refresh_probe_latency_threshold_ms: 0,
        created_at: now,
        updated_at: now,
        endpoints: Vec::new(),
    }
}

async fn find(store: &Store, platform: &str, url: &str) -> store::Result<Option<SiteRow>> {
    match sites::find(store, platform, url).await? {
        Some(id) => sites::get(store, id).await,
        None => Ok(None),
    }
}
