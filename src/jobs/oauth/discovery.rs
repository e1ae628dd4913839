//! Lists the models that a connected account reaches at its provider, and notes the result with the account.

use std::sync::Arc;

use tokio::time::Instant;

use crate::core::Core;
use crate::jobs::models::discovery::DiscoveredModels;
use crate::platform::OAuthProvider;
use crate::routing::{Endpoint, Secret, Site, pool};
use crate::store::accounts::AccountRow;
use crate::store::connections::{self, Notes};
use crate::time::{iso, measured_ms, now_ms};
use crate::upstream::oauth::{Grant, ModelsAccess, ProviderClient, list_models};
use crate::upstream::platforms::{DiscoveryError, DiscoveryKind};

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
    let endpoints: Vec<_> = pool::order(&site.endpoints, now_ms()).collect();
    let reach = ModelsAccess {
        access_token: credential.access_token,
        account_id: credential.account_id,
        project_id: credential.project_id,
        addresses: addresses(site, &endpoints),
        custom_headers: site.custom_headers.clone(),
    };
    let began = Instant::now();
    let names = list_models(&client, &reach).await?;
    Ok(DiscoveredModels::of_names(&names, measured_ms(began.elapsed())))
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

/// Returns the addresses where models are asked for. For a vendor that wants requests sent to other addresses than its
/// own, the site has those addresses; models are listed at its own.
fn addresses(site: &Site, endpoints: &[&Arc<Endpoint>]) -> Vec<String> {
    match endpoints {
        [_, _, ..] if endpoints.iter().all(|endpoint| endpoint.id.is_none()) => vec![site.url.clone()],
        _ => endpoints
            .iter()
            .map(|endpoint| format!("{}{}", endpoint.base.origin, endpoint.base.path))
            .collect(),
    }
}

/// Builds the notes of an account whose models were asked for: the names, or the error.
pub fn noted(extra: Option<&str>, outcome: Result<&DiscoveredModels, &str>) -> Notes {
    let before = Notes { last_model_sync_at: Some(iso(now_ms())), ..Notes::of(extra) };
    match outcome {
        Ok(found) => {
            let names = found.models.models().iter().take(MOST_NOTED);
            Notes {
                model_discovery_status: Some("healthy".to_owned()),
                last_model_sync_error: None,
                last_discovered_models: names.map(|model| model.model_name.clone()).collect(),
                ..before
            }
        }
        Err(message) => Notes {
            model_discovery_status: Some("abnormal".to_owned()),
            last_model_sync_error: Some(message.chars().take(500).collect()),
            ..before
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EndpointId;
    use crate::routing::{BaseUrl, EndpointLive, EndpointState, fixture};

    #[test]
    fn models_are_listed_at_the_vendors_own_address_or_at_those_of_a_pool() {
        let site = fixture::site(1);
        let endpoint = |id, url: &str| {
            let base = BaseUrl::parse(url, None).expect("an address");
            let live = Arc::new(EndpointLive::new(id, EndpointState::default()));
            Arc::new(Endpoint { id, base, sort_order: 0, live })
        };
        for (ids, expected) in [
            ([None, None], vec!["https://example.com"]),
            ([1, 2].map(|id| Some(EndpointId::new(id))), vec!["https://a.example", "https://b.example/x"]),
        ] {
            let pool = [endpoint(ids[0], "https://a.example"), endpoint(ids[1], "https://b.example/x")];
            assert_eq!(addresses(&site, &pool.iter().collect::<Vec<_>>()), expected);
        }
        let own = endpoint(None, "https://example.com");
        assert_eq!(addresses(&site, &[&own]), ["https://example.com"]);
    }
}
