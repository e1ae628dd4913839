//! Lists the models that a connected account reaches at its provider, and notes the result with the account.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::{AddressWalk, Core};
use crate::jobs::models::discovery::{DiscoveredModels, ends_walk};
use crate::platform::OAuthProvider;
use crate::routing::{Endpoint, Secret, Site, pool};
use crate::store::accounts::AccountRow;
use crate::store::connections::{self, ModelDiscovery, Notes};
use crate::time::{measured_ms, now_ms};
use crate::upstream::oauth::{Grant, ModelsAccess, ProviderClient, list_models, vendor_addresses};
use crate::upstream::platforms::{DiscoveryError, DiscoveryKind};

/// The time limit for all calls of one discovery.
const TIMEOUT: Duration = Duration::from_secs(12);
/// The most model names that are noted with the account; all of them are stored as its models.
const MOST_NOTED: usize = 100;

/// The credential that models are asked for with.
pub(super) struct Credential<'a> {
    pub access_token: &'a Secret,
    pub account_id: Option<&'a str>,
    pub project_id: Option<&'a str>,
}

impl<'a> Credential<'a> {
    /// Borrows the credential of a grant that is not stored yet.
    pub fn of(grant: &'a Grant) -> Self {
        let identity = &grant.identity;
        Self {
            access_token: &grant.access_token,
            account_id: identity.account_id.as_deref().or(identity.account_key.as_deref()),
            project_id: identity.project_id.as_deref(),
        }
    }
}

/// Asks for the models of a stored account. `site` uses the outbound proxy of the account.
///
/// # Errors
/// When no model is listed, with the cause.
pub async fn discover(
    core: &Core,
    site: &Site,
    account: &AccountRow,
    provider: OAuthProvider,
) -> Result<DiscoveredModels, DiscoveryError> {
    let missing = || DiscoveryError::new(DiscoveryKind::Unauthorized, "the account has no access token");
    let account_id = connections::account_id(account);
    let credential = Credential {
        access_token: account.access_token.as_ref().ok_or_else(missing)?,
        account_id: account_id.as_deref(),
        project_id: account.oauth_project_id.as_deref().filter(|project| !project.is_empty()),
    };
    discover_with(core, site, &credential, provider).await
}

/// Asks for the models that a credential reaches at a site.
pub(super) async fn discover_with(
    core: &Core,
    site: &Site,
    credential: &Credential<'_>,
    provider: OAuthProvider,
) -> Result<DiscoveredModels, DiscoveryError> {
    if let Some(reason) = &site.misconfigured {
        return Err(DiscoveryError::new(DiscoveryKind::Unknown, reason.to_string()));
    }
    let client = provider_client(core, site, provider);
    let access = ModelsAccess {
        access_token: credential.access_token,
        account_id: credential.account_id,
        project_id: credential.project_id,
        custom_headers: site.custom_headers.clone(),
    };
    let began = Instant::now();
    let has_pool = site.endpoints.iter().any(|endpoint| endpoint.id.is_some());
    // The models of Gemini CLI are not asked for at its site.
    let names = if has_pool && provider != OAuthProvider::GeminiCli {
        list_at_pool(core, site, &client, &access).await?
    } else {
        list_models(&client, &access, &own_addresses(site, provider), TIMEOUT).await?
    };
    Ok(DiscoveredModels::of_names(&names, measured_ms(began.elapsed())))
}

/// Asks the addresses of the site in the pool's order until one lists models. A refusal is an answer.
async fn list_at_pool(
    core: &Core,
    site: &Site,
    client: &ProviderClient<'_>,
    access: &ModelsAccess<'_>,
) -> Result<Vec<String>, DiscoveryError> {
    let deadline = Instant::now() + TIMEOUT;
    let mut addresses = AddressWalk::new(&core.store, &site.endpoints, now_ms());
    let mut listed = Err(DiscoveryError::new(DiscoveryKind::Unknown, "no available endpoint"));
    while let Some(endpoint) = addresses.next_address() {
        let limit = addresses.share(deadline.saturating_duration_since(Instant::now()));
        listed = list_models(client, access, &[address_of(endpoint)], limit).await;
        let is_empty = listed.as_ref().is_err_and(|error| error.kind == DiscoveryKind::EmptyModels);
        // An address without models is not at fault, but the next one may have some.
        if !is_empty && ends_walk(&mut addresses, &listed) {
            break;
        }
    }
    listed
}

/// Builds the client of a provider, with the outbound proxy of the site.
pub(super) fn provider_client<'a>(
    core: &'a Core,
    site: &Site,
    provider: OAuthProvider,
) -> ProviderClient<'a> {
    let endpoint = pool::order(&site.endpoints, now_ms()).next();
    ProviderClient {
        client: &core.client,
        provider,
        settings: core.config.oauth.of(provider),
        proxy: endpoint.and_then(|endpoint| endpoint.base.origin.proxy.clone()),
    }
}

/// Returns the addresses where models are asked for at a site without a pool. For a vendor that wants requests sent to
/// other addresses than its own, the site has those addresses; models are listed at its own.
fn own_addresses(site: &Site, provider: OAuthProvider) -> Vec<String> {
    match &site.endpoints[..] {
        [] => Vec::new(),
        [only] => vendor_addresses(provider, &address_of(only)),
        _ => vendor_addresses(provider, &site.url),
    }
}

fn address_of(endpoint: &Endpoint) -> String {
    format!("{}{}", endpoint.base.origin, endpoint.base.path)
}

/// Builds the notes of an account whose models were asked for: the names, or the error.
pub fn noted(extra: Option<&str>, outcome: Result<&DiscoveredModels, &str>) -> Notes {
    let before = Notes { last_model_sync_at: Some(now_ms()), ..Notes::of(extra) };
    match outcome {
        Ok(found) => {
            let names = found.models.models().iter().take(MOST_NOTED);
            Notes {
                model_discovery: Some(ModelDiscovery::Healthy),
                last_model_sync_error: None,
                last_discovered_models: names.map(|model| model.model_name.clone()).collect(),
                ..before
            }
        }
        Err(message) => Notes {
            model_discovery: Some(ModelDiscovery::Abnormal),
            last_model_sync_error: Some(message.chars().take(500).collect()),
            ..before
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::routing::{BaseUrl, EndpointLive, EndpointState, fixture};

    #[test]
    fn models_are_listed_at_the_vendors_own_address() {
        let endpoint = |url: &str| {
            let base = BaseUrl::parse(url, None).expect("an address");
            let live = Arc::new(EndpointLive::new(None, EndpointState::default()));
            Arc::new(Endpoint { id: None, base, sort_order: 0, live })
        };
        for (urls, expected) in [
            (&["https://a.example", "https://b.example/x"][..], &["https://example.com"][..]),
            (&["https://b.example/x"], &["https://b.example/x"]),
            (&[], &[]),
        ] {
            let endpoints = urls.iter().map(|url| endpoint(url)).collect();
            let site = Site { endpoints, ..fixture::site(1) };
            assert_eq!(own_addresses(&site, OAuthProvider::Codex), expected);
        }
    }
}
