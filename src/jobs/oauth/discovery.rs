//! The models that a connected account reaches, as its provider lists them, and what is noted of that.

use tokio::time::Instant;

use crate::core::Core;
use crate::jobs::models::discovery::Found;
use crate::platform::OAuthProvider;
use crate::routing::{Secret, Site, pool};
use crate::store::accounts::AccountRow;
use crate::store::connections::Notes;
use crate::time::{iso, measured_ms, now_ms};
use crate::upstream::oauth::{ProviderClient, Reach, list_models};
use crate::upstream::platforms::{DiscoveryError, DiscoveryKind};

/// How many names are noted with the account; all of them are stored as its models.
const MOST_NOTED: usize = 100;

/// With what models are asked for.
pub(super) struct Credential<'a> {
    pub access_token: &'a Secret,
    pub account_key: Option<&'a str>,
    pub project_id: Option<&'a str>,
}

/// Asks for the models of a stored account. `site` has the way that the account takes.
///
/// # Errors
/// When none is listed, with what was in the way.
pub async fn discover(
    core: &Core,
    site: &Site,
    account: &AccountRow,
    provider: OAuthProvider,
) -> Result<Found, DiscoveryError> {
    let missing = || DiscoveryError::new(DiscoveryKind::Unauthorized, "the account has no access token");
    let credential = Credential {
        access_token: account.access_token.as_ref().ok_or_else(missing)?,
        account_key: account.oauth_account_key.as_deref(),
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
) -> Result<Found, DiscoveryError> {
    if let Some(reason) = &site.misconfigured {
        return Err(DiscoveryError::new(DiscoveryKind::Unknown, reason.clone()));
    }
    let endpoints: Vec<_> = pool::order(&site.endpoints, now_ms()).collect();
    let client = ProviderClient {
        client: &core.client,
        provider,
        settings: core.config.oauth.of(provider),
        proxy: endpoints.first().and_then(|endpoint| endpoint.base.origin.proxy.clone()),
    };
    let reach = Reach {
        access_token: credential.access_token,
        account_key: credential.account_key,
        project_id: credential.project_id,
        addresses: endpoints
            .iter()
            .map(|endpoint| format!("{}{}", endpoint.base.origin, endpoint.base.path))
            .collect(),
        custom_headers: site.custom_headers.clone(),
    };
    let began = Instant::now();
    let names = list_models(&client, &reach).await?;
    Ok(Found::of_names(&names, measured_ms(began.elapsed())))
}

/// What is noted of an account whose models were asked for: the names, or what was in the way.
pub fn noted(extra: Option<&str>, outcome: Result<&Found, &str>) -> Notes {
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
