//! Turns a grant into an account that serves, or changes nothing.
//!
//! ```text
//! candidate ─▶ its models, asked for in memory ─▶ account, models and health in one transaction ─▶ routes
//!                      └ none: nothing was stored              └ no routes: what was before is stored again
//! ```
//!
//! An account that is connected anew serves with its former token until the switch. Several grants for one account are
//! each stored whole, one after the other.

use std::sync::Arc;

use super::candidate::is_of;
pub use super::candidate::{Activated, ActivationError, Candidate, ProxyChoice};
use super::discovery::{Credential, discover_with, noted, provider_client};
use super::renewal;
use super::site::{ensure_site, site_of};
use crate::core::Core;
use crate::jobs::Jobs;
use crate::jobs::accounts::cooldowns::clear_cooldowns;
use crate::jobs::models::discovery::DiscoveredModels;
use crate::jobs::prices;
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;
use crate::platform::OAuthProvider;
use crate::store::accounts::{self, AccountPatch, AccountRow, Health, HealthSource, HealthState};
use crate::store::availability::{self, ModelRow};
use crate::store::connections::{self, Notes, ProviderIdentity};
use crate::store::sites::{self, SiteRow};
use crate::store::snapshot::site_through;
use crate::store::{self, Store, Value};
use crate::upstream::oauth::{Grant, ProviderClient, refresh};
use crate::upstream::platforms::DiscoveryKind;

/// How often storing is tried for an account that somebody changes meanwhile.
const ATTEMPTS: usize = 3;

/// An account that was stored and has no routes yet, with its former state.
pub struct StoredAccount {
    pub activated: Activated,
    former: Option<Box<(AccountRow, Vec<ModelRow>)>>,
}

/// Stores the account with its models, and rebuilds its routes.
///
/// # Errors
/// As [`ActivationError`] says; everything is then as it was before.
pub async fn activate(jobs: &Arc<Jobs>, candidate: Candidate) -> Result<Activated, ActivationError> {
    let stored = store_candidate(jobs, candidate).await?;
    let activated = stored.activated;
    match rebuild_in(jobs, Scope::of_accounts([activated.account_id])).await {
        Ok(_) => {
            begin_serving(jobs, &stored).await;
            Ok(activated)
        }
        Err(error) => {
            log::error!("the routes of account {} could not be built: {error}", activated.account_id);
            undo(jobs, stored).await;
            Err(ActivationError::Failed("the routes could not be rebuilt".to_owned()))
        }
    }
}

/// Stores the account with its models. A caller that stores several rebuilds the routes once for all of them.
///
/// # Errors
/// As [`ActivationError`] says; nothing is stored then.
pub async fn store_candidate(
    jobs: &Arc<Jobs>,
    mut candidate: Candidate,
) -> Result<StoredAccount, ActivationError> {
    let core = &jobs.core;
    let former = former(&core.store, &candidate).await?;
    let site = site_of(core, candidate.provider, former.as_ref()).await?;
    let found = if candidate.is_disabled {
        None
    } else {
        Some(models_of(jobs, &mut candidate, &site, former.as_ref()).await?)
    };
    let _turn = jobs.logins.activations.lock().await;
    let mut attempt = 1;
    let stored = loop {
        if core.resets() != candidate.resets {
            return Err(was_reset());
        }
        match store_once(core, &candidate, found.as_ref()).await {
            Err(ActivationError::Store(store::Error::NotFound)) if attempt < ATTEMPTS => attempt += 1,
            outcome => break outcome?,
        }
    };
    // A reset that is counted only after this check deletes the account with everything else.
    if core.resets() != candidate.resets {
        let Activated { account_id, site_id } = stored.activated;
        accounts::delete(&core.store, account_id).await?;
        if accounts::of_site(&core.store, site_id).await?.is_empty() {
            sites::delete(&core.store, site_id).await?;
        }
        return Err(was_reset());
    }
    Ok(stored)
}

fn was_reset() -> ActivationError {
    ActivationError::Failed("everything was reset meanwhile: the account was not stored".to_owned())
}

/// Begins to serve by an account that is stored and has its routes: failures of its former credential no longer count.
pub async fn begin_serving(jobs: &Arc<Jobs>, stored: &StoredAccount) {
    let id = stored.activated.account_id;
    if stored.former.is_some() {
        clear_cooldowns(&jobs.core, id).await;
    }
    prices::refresh_soon(jobs, id);
}

/// Restores the state from before a candidate, as far as the store allows, and rebuilds the routes.
pub async fn undo(jobs: &Arc<Jobs>, stored: StoredAccount) {
    let id = stored.activated.account_id;
    if let Err(error) = try_undo(jobs, stored).await {
        log::error!("account {id} could not be restored to its former state: {error}");
    }
}

async fn try_undo(jobs: &Arc<Jobs>, stored: StoredAccount) -> store::Result<()> {
    let (store, id) = (&jobs.core.store, stored.activated.account_id);
    let scope = match stored.former {
        None => {
            let scope = Scope::of_accounts_to_delete(store, &[id]).await?;
            accounts::delete(store, id).await?;
            scope
        }
        Some(former) => {
            let (account, models) = *former;
            let mut batch = vec![accounts::update_statement(store, id, patch_to(&account))?];
            batch.extend(account.health.as_ref().map(|health| accounts::health_statement(id, health)));
            batch.extend(availability::restore_statements(id, &models));
            store.batch(batch).await?;
            Scope::of_accounts([id])
        }
    };
    jobs.core.publish().await?;
    rebuild_in(jobs, scope).await.map(drop)
}

/// Returns the existing account that a candidate is for, if there is one.
async fn former(store: &Store, candidate: &Candidate) -> Result<Option<AccountRow>, ActivationError> {
    let provider = candidate.provider;
    let identity = &candidate.grant.identity;
    let owner = ProviderIdentity {
        provider: provider.id(),
        account_key: identity.account_key.as_deref(),
        project_id: identity.project_id.as_deref(),
        // Workspaces of Codex share the address of their user.
        email: identity.email.as_deref().filter(|_| provider != OAuthProvider::Codex),
    };
    let known = connections::find(store, owner).await?;
    let Some(id) = candidate.rebind else { return Ok(known) };
    let account = accounts::get(store, id).await?.filter(|account| is_of(account, provider));
    let account = account.ok_or(ActivationError::NoSuchAccount)?;
    match known.filter(|known| known.id != id) {
        // Two accounts would renew one login's tokens, each of which works once.
        Some(other) => Err(ActivationError::Failed(format!(
            "this login belongs to account {}, which is connected already: log in as another user, or connect that account anew",
            other.id
        ))),
        None => Ok(Some(account)),
    }
}

/// Asks for the models of a candidate. If the access token is refused, it is renewed once: an imported file may be a day
/// old.
async fn models_of(
    jobs: &Arc<Jobs>,
    candidate: &mut Candidate,
    site: &SiteRow,
    former: Option<&AccountRow>,
) -> Result<DiscoveredModels, ActivationError> {
    let core = &jobs.core;
    let settings = core.settings.load_full();
    let way = candidate.proxy.account_proxy(former);
    let site = site_through(site, &way, &core.live, settings.system_proxy_url.as_deref());
    let provider = candidate.provider;
    let failed = |why: &str| {
        let label = provider.profile().label;
        ActivationError::Failed(format!("{label} model discovery failed ({why})"))
    };
    let refused = match discover_with(core, &site, &Credential::of(&candidate.grant), provider).await {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    if refused.kind != DiscoveryKind::Unauthorized || candidate.grant.refresh_token.is_none() {
        return Err(failed(&refused.to_string()));
    }
    let client = provider_client(core, &site, provider);
    let renewed = renew_grant(jobs, &client, &mut candidate.grant, former).await;
    renewed.map_err(|error| failed(&format!("{refused}; {error}")))?;
    let found = discover_with(core, &site, &Credential::of(&candidate.grant), provider).await;
    found.map_err(|error| failed(&error.to_string()))
}

/// Renews the tokens of a grant that is not stored yet. Where an account has the same refresh token, which may work
/// only once, that account is renewed, which stores the new tokens.
async fn renew_grant(
    jobs: &Arc<Jobs>,
    client: &ProviderClient<'_>,
    grant: &mut Grant,
    former: Option<&AccountRow>,
) -> Result<(), String> {
    let Some(token) = grant.refresh_token.clone() else { return Err("there is no refresh token".to_owned()) };
    let Some(account) = former.filter(|account| account.refresh_token.as_ref() == Some(&token)) else {
        grant.renew(refresh(client, &token).await.map_err(|error| error.message)?);
        return Ok(());
    };
    let renewed = renewal::renew(jobs, account.id, account.access_token.as_ref()).await;
    renewed.map_err(|refusal| refusal.to_string())?;
    let account = accounts::get(&jobs.core.store, account.id).await.map_err(|error| error.to_string())?;
    let account = account.ok_or("the account does not exist any more")?;
    grant.access_token = account.access_token.ok_or("the account has no access token")?;
    grant.refresh_token = account.refresh_token;
    grant.id_token = account.id_token.or(grant.id_token.take());
    grant.expires_at = account.token_expires_at;
    Ok(())
}

/// Stores the candidate. Fails with [`store::Error::NotFound`] when somebody has changed the account meanwhile.
async fn store_once(
    core: &Core,
    candidate: &Candidate,
    found: Option<&DiscoveredModels>,
) -> Result<StoredAccount, ActivationError> {
    let store = &core.store;
    let former = former(store, candidate).await?;
    let site_id = match &former {
        Some(account) => account.site_id,
        None => ensure_site(core, candidate.provider).await?,
    };
    let extra = former.as_ref().and_then(|account| account.extra.as_deref());
    let mut notes = match found {
        Some(found) => noted(extra, Ok(found)),
        None => Notes::of(extra),
    };
    let identity = &candidate.grant.identity;
    notes.email = identity.email.clone().or(notes.email);
    notes.account_id = identity.account_id.clone();
    notes.plan_type = identity.plan_type.clone().or(notes.plan_type);
    let known = match &former {
        Some(account) => availability::of_account(store, account.id).await?,
        None => Vec::new(),
    };
    let (id, mut batch) = match &former {
        Some(account) => {
            let changed = accounts::update_statement(store, account.id, candidate.patch())?;
            (Value::from(account.id), vec![changed, connections::note_statement(account, &notes)])
        }
        None => {
            let account = candidate.account(site_id, notes.written_into(None));
            (Value::IdOf(0), vec![accounts::insert_statement(store, account)?])
        }
    };
    if let Some(found) = found {
        let dialect = store.database().dialect();
        let models = found.models.models();
        batch.extend(availability::replace_discovered_statements(dialect, id.clone(), &known, models));
        let health = Health::now(HealthState::Healthy, "models discovered", HealthSource::ModelDiscovery);
        batch.push(accounts::health_statement(id, &health));
    }
    let outcomes = store.batch(batch).await?;
    let account_id = former.as_ref().map_or_else(|| outcomes[0].id(), |account| account.id);
    let former = former.map(|account| Box::new((account, known)));
    Ok(StoredAccount { activated: Activated { account_id, site_id }, former })
}

/// Builds the patch that restores every column of the account that an activation changes.
fn patch_to(account: &AccountRow) -> AccountPatch {
    AccountPatch {
        username: Some(account.username.clone()),
        access_token: Some(account.access_token.clone()),
        api_token: Some(account.api_token.clone()),
        status: Some(account.status),
        checkin_enabled: Some(account.checkin_enabled),
        oauth_provider: Some(account.oauth_provider.clone()),
        oauth_account_key: Some(account.oauth_account_key.clone()),
        oauth_project_id: Some(account.oauth_project_id.clone()),
        credential_mode: Some(account.credential_mode),
        proxy_url: Some(account.proxy_url.clone()),
        use_system_proxy: Some(account.use_system_proxy),
        refresh_token: Some(account.refresh_token.clone()),
        id_token: Some(account.id_token.clone()),
        provider_data: Some(account.provider_data.clone()),
        token_expires_at: Some(account.token_expires_at),
        extra: Some(account.extra.clone()),
        ..AccountPatch::default()
    }
}
