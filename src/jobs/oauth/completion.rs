//! Ends a login in a browser: exchanges the code for a grant, and turns the grant into an account.

use std::sync::Arc;

use super::activation::activate;
use super::callback::{Callback, Outcome};
use super::candidate::{Activated, ActivationError, Candidate};
use super::login_sessions::{LoginSession, UnacceptedCallback};
use super::site::site_of;
use crate::core::Core;
use crate::jobs::Jobs;
use crate::platform::OAuthProvider;
use crate::routing::Secret;
use crate::store::snapshot::site_through;
use crate::store::{self, accounts};
use crate::upstream::oauth::{Code, ProviderClient, exchange, settle_project};

/// Why a callback has not connected an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackError {
    UnacceptedCallback(UnacceptedCallback),
    /// The cause, in words for people.
    Failed(String),
}

/// Ends a login with the callback of its browser. The work goes on when the caller goes away.
///
/// # Errors
/// As [`CallbackError`] says; the session records the same.
pub async fn complete(
    jobs: &Arc<Jobs>,
    provider: OAuthProvider,
    callback: Callback,
) -> Result<Activated, CallbackError> {
    let unreadable = |error: store::Error| {
        log::error!("a login could not be looked up: {error}");
        CallbackError::Failed("the login could not be looked up".to_owned())
    };
    let code = match callback.outcome {
        Outcome::Code(code) => code,
        Outcome::Denied(words) => {
            let denied = jobs.logins.deny(&jobs.core, &callback.state, provider, &words).await;
            denied.map_err(unreadable)?.map_err(CallbackError::UnacceptedCallback)?;
            log::warn!("the provider refused a login of {}: {words}", provider.id());
            return Err(CallbackError::Failed(words));
        }
    };
    let taken = jobs.logins.take(&jobs.core, &callback.state, provider).await;
    let exchange = taken.map_err(unreadable)?.map_err(CallbackError::UnacceptedCallback)?;
    let work = {
        let jobs = jobs.clone();
        async move {
            let outcome = log_in(&jobs, &exchange.session, &exchange.state, code).await;
            match &outcome {
                Ok(activated) => {
                    log::info!("a login of {} has connected account {}", provider.id(), activated.account_id);
                }
                Err(message) => log::warn!("a login of {} failed: {message}", provider.id()),
            }
            jobs.logins.end(&jobs.core, exchange, &outcome).await;
            outcome
        }
    };
    let outcome = jobs.core.background.run_to_completion("a login", Box::pin(work)).await;
    outcome.unwrap_or_else(|_| Err("the login was interrupted".to_owned())).map_err(CallbackError::Failed)
}

async fn log_in(
    jobs: &Arc<Jobs>,
    session: &LoginSession,
    state: &str,
    code: Secret,
) -> Result<Activated, String> {
    let core = &jobs.core;
    let client = client_of(core, session).await?;
    let code = Code {
        code,
        state: state.to_owned(),
        verifier: session.verifier.clone(),
        redirect_uri: session.redirect_uri.clone(),
    };
    let mut grant = exchange(&client, &code).await.map_err(|error| error.message)?;
    let wanted = session.project_id.as_deref();
    settle_project(&client, &mut grant, wanted).await.map_err(|error| error.message)?;
    if core.resets() != session.resets {
        return Err("everything was reset during the login".to_owned());
    }
    let candidate = Candidate {
        provider: session.provider,
        grant,
        rebind: session.rebind,
        proxy: session.proxy.clone(),
        is_disabled: false,
        resets: session.resets,
    };
    activate(jobs, candidate).await.map_err(|error| {
        if let ActivationError::Store(cause) = &error {
            log::error!("the account of a login could not be stored: {cause}");
        }
        error.to_string()
    })
}

/// Builds the client of the provider with the proxy that was chosen for the login, or else that of its site.
async fn client_of<'a>(core: &'a Core, session: &LoginSession) -> Result<ProviderClient<'a>, String> {
    let unreadable = |error: store::Error| {
        log::error!("the site of a login could not be read: {error}");
        "the site could not be read".to_owned()
    };
    let account = match session.rebind {
        Some(id) => accounts::get(&core.store, id).await.map_err(unreadable)?,
        None => None,
    };
    let site = site_of(core, session.provider, account.as_ref()).await.map_err(unreadable)?;
    let settings = core.settings.load_full();
    let way = session.proxy.account_proxy(None);
    let site = site_through(&site, &way, &core.live, settings.system_proxy_url.as_deref());
    if let Some(reason) = site.misconfigured {
        return Err(reason.to_string());
    }
    Ok(ProviderClient {
        client: &core.client,
        provider: session.provider,
        settings: core.config.oauth.of(session.provider),
        proxy: site.endpoints.first().and_then(|endpoint| endpoint.base.origin.proxy.clone()),
    })
}
