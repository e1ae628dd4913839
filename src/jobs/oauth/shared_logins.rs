//! Logins that any of several instances can continue: the instance that a browser or a person comes back to need not be
//! the one where the login began. On a shared database every step is made in the login's row, too; a single instance
//! has its logins in memory only.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::candidate::{Activated, ProxyChoice};
use super::login_sessions::{Exchange, LIFETIME, LoginSession, Stage, UnacceptedCallback};
use super::logins::Logins;
use crate::core::Core;
use crate::ids::AccountId;
use crate::platform::OAuthProvider;
use crate::store::logins::{self as rows, LoginRow, LoginStatus};
use crate::store::{Result, Secret};
use crate::time::now_ms;
use crate::upstream::oauth::Verifier;

const WAITING: &str = "waiting";
const EXCHANGING: &str = "exchanging";
const CONNECTED: &str = "connected";
const FAILED: &str = "failed";

// === impl Logins ===

impl Logins {
    /// Stores a new login under its state.
    pub async fn add(&self, core: &Core, state: String, session: LoginSession) -> Result<()> {
        if core.store.database().is_shared() {
            rows::insert(&core.store, row(&state, &session)).await?;
        }
        self.sessions.add(state, session);
        Ok(())
    }

    /// Returns the login with this state, at the stage that it has reached at any instance.
    pub async fn get(&self, core: &Core, state: &str) -> Result<Option<LoginSession>> {
        if core.store.database().is_shared() {
            let row = rows::get(&core.store, state).await?;
            match row.and_then(|row| session(&row, core.resets())) {
                Some(session) => self.sessions.add(state.to_owned(), session),
                None => self.sessions.forget(state),
            }
        }
        Ok(self.sessions.get(state))
    }

    /// Takes a login for the exchange of its code. Only one of two callbacks succeeds, whichever instances they come
    /// to.
    pub async fn take(
        &self,
        core: &Core,
        state: &str,
        provider: OAuthProvider,
    ) -> Result<std::result::Result<Exchange, UnacceptedCallback>> {
        self.get(core, state).await?;
        let taken = self.sessions.take(state, provider);
        if taken.is_ok() && !self.advance(core, state, &[WAITING], &Stage::Exchanging).await? {
            return Ok(Err(UnacceptedCallback::Used));
        }
        Ok(taken)
    }

    /// Records that the provider refused the login, and its words.
    pub async fn deny(
        &self,
        core: &Core,
        state: &str,
        provider: OAuthProvider,
        words: &str,
    ) -> Result<std::result::Result<(), UnacceptedCallback>> {
        self.get(core, state).await?;
        let denied = self.sessions.deny(state, provider, words);
        let stage = Stage::Failed(words.to_owned());
        if denied.is_ok() && !self.advance(core, state, &[WAITING], &stage).await? {
            return Ok(Err(UnacceptedCallback::Used));
        }
        Ok(denied)
    }

    /// Forgets all logins, because everything is reset.
    pub fn clear(&self) {
        self.sessions.clear();
    }

    /// Records for all instances how an exchange has ended.
    pub async fn end(
        &self,
        core: &Core,
        exchange: Exchange,
        outcome: &std::result::Result<Activated, String>,
    ) {
        let stage = Stage::of(outcome);
        if let Err(error) = self.advance(core, &exchange.state, &[EXCHANGING], &stage).await {
            log::warn!("the other instances could not be told the result of a login: {error}");
        }
        exchange.end(stage);
    }

    /// Moves the row of a login to another stage; returns false when it has left the stages in `from`.
    async fn advance(&self, core: &Core, state: &str, from: &[&str], to: &Stage) -> Result<bool> {
        if core.store.database().is_shared() {
            rows::advance(&core.store, state, from, status(to)).await
        } else {
            Ok(true)
        }
    }
}

fn status(stage: &Stage) -> LoginStatus {
    let is = |status: &str| LoginStatus { status: status.to_owned(), ..LoginStatus::default() };
    match stage {
        Stage::Waiting => is(WAITING),
        Stage::Exchanging => is(EXCHANGING),
        Stage::Failed(words) => LoginStatus { error: Some(words.clone()), ..is(FAILED) },
        Stage::Connected(Activated { account_id, site_id }) => {
            LoginStatus { account_id: Some(*account_id), site_id: Some(*site_id), ..is(CONNECTED) }
        }
    }
}

fn stage(status: &LoginStatus) -> Option<Stage> {
    let words = || status.error.clone().unwrap_or_default();
    Some(match status.status.as_str() {
        WAITING => Stage::Waiting,
        EXCHANGING => Stage::Exchanging,
        FAILED => Stage::Failed(words()),
        CONNECTED => Stage::Connected(Activated { account_id: status.account_id?, site_id: status.site_id? }),
        _ => return None,
    })
}

fn row(state: &str, session: &LoginSession) -> LoginRow {
    let mut details = json!({
        "verifier": session.verifier.expose(),
        "redirectUri": session.redirect_uri,
        "rebind": session.rebind,
        "projectId": session.project_id,
        "useSystemProxy": session.proxy.use_system_proxy,
    });
    // An absent member leaves the account's own proxy, null removes it.
    if let Some(proxy_url) = &session.proxy.proxy_url {
        details["proxyUrl"] = proxy_url.as_ref().map(Secret::expose).into();
    }
    LoginRow {
        state: state.to_owned(),
        provider: session.provider.id().to_owned(),
        status: status(&session.stage),
        details: details.to_string().into(),
        created_at: session.created_at,
        updated_at: session.updated_at,
        expires_at: session.created_at + LIFETIME.as_millis() as i64,
    }
}

/// Reads a login from its row; `None` when it has expired or another release wrote it.
fn session(row: &LoginRow, resets: u64) -> Option<LoginSession> {
    let details: Map<String, Value> = serde_json::from_str(row.details.expose()).ok()?;
    let text = |name: &str| details.get(name).and_then(Value::as_str);
    let provider = OAuthProvider::parse(&row.provider)?;
    let left = Duration::from_millis(u64::try_from(row.expires_at - now_ms()).ok()?);
    let verifier = Verifier::of(text("verifier")?.into());
    let mut session = LoginSession::new(provider, text("redirectUri")?.to_owned(), verifier, resets);
    session.stage = stage(&row.status)?;
    (session.created_at, session.updated_at) = (row.created_at, row.updated_at);
    session.rebind = details.get("rebind").and_then(Value::as_i64).map(AccountId::new);
    session.project_id = text("projectId").map(str::to_owned);
    session.proxy = ProxyChoice {
        proxy_url: details.get("proxyUrl").map(|url| url.as_str().map(Secret::from)),
        use_system_proxy: details.get("useSystemProxy").and_then(Value::as_bool),
    };
    Some(session.for_another(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SiteId;

    #[test]
    fn a_login_is_the_same_at_the_instance_that_reads_it() {
        let proxies = [None, Some(None), Some(Some(Secret::from("http://proxy.test:1")))];
        let stages = [
            Stage::Waiting,
            Stage::Exchanging,
            Stage::Failed("why".into()),
            Stage::Connected(Activated { account_id: AccountId::new(7), site_id: SiteId::new(3) }),
        ];
        for (stage, proxy_url) in stages.into_iter().zip(proxies.into_iter().cycle()) {
            let verifier = Verifier::random().expect("randomness");
            let mut login =
                LoginSession::new(OAuthProvider::Claude, "http://localhost:1/cb".into(), verifier, 4);
            login.rebind = Some(AccountId::new(5));
            login.project_id = Some("project".into());
            login.stage = stage;
            login.proxy = ProxyChoice { proxy_url, use_system_proxy: Some(false) };
            let read = session(&row("s", &login), 4).expect("a login");
            assert_eq!(
                (read.provider, &read.stage, read.rebind),
                (login.provider, &login.stage, login.rebind)
            );
            assert_eq!((&read.proxy, &read.project_id), (&login.proxy, &login.project_id));
            assert_eq!((read.created_at, read.updated_at), (login.created_at, login.updated_at));
            assert_eq!((&read.redirect_uri, read.resets), (&login.redirect_uri, login.resets));
            assert_eq!(read.verifier.expose(), login.verifier.expose());
        }
    }
}
