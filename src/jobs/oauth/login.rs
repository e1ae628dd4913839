//! The start of a login in a browser.

use std::sync::Arc;

use super::candidate::{ProxyChoice, is_of};
use super::listener;
use super::login_sessions::LoginSession;
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::platform::OAuthProvider;
use crate::store::{self, accounts};
use crate::upstream::oauth::{Verifier, authorization_url, random_state};

/// A request for a login.
pub struct LoginRequest {
    pub provider: OAuthProvider,
    /// The account that is to get the login; what is absent below is taken from that account.
    pub rebind: Option<AccountId>,
    pub project_id: Option<String>,
    pub proxy: ProxyChoice,
}

/// A login that waits for its browser.
pub struct StartedLogin {
    pub state: String,
    pub authorization_url: String,
    pub redirect_uri: String,
    pub callback_port: u16,
}

/// Why a login cannot begin.
#[derive(Debug)]
pub enum StartError {
    /// The names of the variables that are not set.
    MissingSettings(Vec<String>),
    /// The account is gone, or belongs to another provider.
    NoSuchAccount,
    NoRandomness,
    Store(store::Error),
}

/// Begins a login.
///
/// # Errors
/// As [`StartError`] says.
pub async fn start(jobs: &Arc<Jobs>, mut request: LoginRequest) -> Result<StartedLogin, StartError> {
    let provider = request.provider;
    let settings = jobs.core.config.oauth.of(provider);
    if !settings.missing.is_empty() {
        return Err(StartError::MissingSettings(settings.missing.clone()));
    }
    if let Some(id) = request.rebind {
        let account = accounts::get(&jobs.core.store, id).await.map_err(StartError::Store)?;
        let account = account.filter(|account| is_of(account, provider)).ok_or(StartError::NoSuchAccount)?;
        request.project_id = request.project_id.or(account.oauth_project_id);
        request.proxy.proxy_url = request.proxy.proxy_url.or(Some(account.proxy_url));
        request.proxy.use_system_proxy = request.proxy.use_system_proxy.or(Some(account.use_system_proxy));
    }
    let (state, verifier) = random_state().zip(Verifier::random()).ok_or(StartError::NoRandomness)?;
    let port = listener::open(jobs, provider).await;
    let redirect_uri = format!("http://localhost:{}{}", port.port, provider.profile().callback_path);
    let authorization_url = authorization_url(provider, settings, &redirect_uri, &state, &verifier);
    let mut session = LoginSession::new(provider, redirect_uri.clone(), verifier, jobs.core.resets());
    (session.rebind, session.project_id, session.proxy) = (request.rebind, request.project_id, request.proxy);
    // The port is held until then, so that its listener sees the session before it would close.
    jobs.logins.add(&jobs.core, state.clone(), session).await.map_err(StartError::Store)?;
    Ok(StartedLogin { state, authorization_url, redirect_uri, callback_port: port.port })
}
