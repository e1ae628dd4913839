//! Logins between their start and their end: a bounded number of them, in memory, for ten minutes.
//!
//! ```text
//! waiting ── a code ─▶ exchanging ─▶ connected | failed
//!    └────── denial ─────────────────────────────▶ failed
//! ```
//!
//! The first callback takes the session, with a code or a denial; later ones change nothing. A restart forgets all sessions,
//! and people log in again; where instances share a database, [`shared_logins`](super::shared_logins) keeps the sessions
//! there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::candidate::{Activated, ProxyChoice};
use crate::ids::AccountId;
use crate::make_room::make_room;
use crate::platform::OAuthProvider;
use crate::sync::lock;
use crate::time::{Millis, now_ms};
use crate::upstream::oauth::Verifier;

/// The time that a person has for a login.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// The most sessions at once; a further one replaces the oldest.
const MAX_SESSIONS: usize = 500;

/// One login in a browser.
#[derive(Clone)]
pub struct LoginSession {
    pub provider: OAuthProvider,
    pub stage: Stage,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// The account that gets the login, where one is named.
    pub rebind: Option<AccountId>,
    pub project_id: Option<String>,
    pub proxy: ProxyChoice,
    pub redirect_uri: String,
    /// The PKCE verifier, which leaves the service only to the provider.
    pub verifier: Verifier,
    /// The number of factory resets before the login started.
    pub resets: u64,
    ends: Instant,
}

/// The stage of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    Exchanging,
    Connected(Activated),
    /// The provider refused the login, or something went wrong, in these words.
    Failed(String),
}

/// Why a callback is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnacceptedCallback {
    /// No login has this state, or the login is forgotten.
    Unknown,
    /// A callback has taken the login before.
    Used,
}

/// The logins under way and just ended; [`Jobs`](crate::jobs::Jobs) holds one.
#[derive(Default)]
pub struct LoginSessions {
    by_state: Mutex<HashMap<String, LoginSession>>,
    changed: Notify,
}

/// A session whose code is being exchanged. It counts as failed when it is dropped before its end.
pub struct Exchange {
    pub session: LoginSession,
    pub state: String,
    sessions: Arc<LoginSessions>,
    has_ended: bool,
}

// === impl LoginSession ===

impl LoginSession {
    /// Creates a session that begins now.
    pub fn new(provider: OAuthProvider, redirect_uri: String, verifier: Verifier, resets: u64) -> Self {
        let now = now_ms();
        Self {
            provider,
            stage: Stage::Waiting,
            created_at: now,
            updated_at: now,
            rebind: None,
            project_id: None,
            proxy: ProxyChoice::default(),
            redirect_uri,
            verifier,
            resets,
            ends: Instant::now() + LIFETIME,
        }
    }

    /// Returns the session as it stands at another instance, with the time that it has left.
    pub(super) fn for_another(self, left: Duration) -> Self {
        Self { ends: Instant::now() + left, ..self }
    }

    fn move_to(&mut self, stage: Stage) {
        self.stage = stage;
        self.updated_at = now_ms();
    }
}

// === impl Stage ===

impl Stage {
    /// Returns the last stage of a login with this outcome.
    pub fn of(outcome: &Result<Activated, String>) -> Self {
        match outcome {
            Ok(activated) => Self::Connected(*activated),
            Err(message) => Self::Failed(message.clone()),
        }
    }
}

// === impl LoginSessions ===

impl LoginSessions {
    /// Stores a new session under its state.
    pub fn add(&self, state: String, session: LoginSession) {
        let mut sessions = self.living();
        make_room(&mut sessions, &state, MAX_SESSIONS, |session| session.ends);
        sessions.insert(state, session);
        drop(sessions);
        self.changed.notify_waiters();
    }

    /// Forgets a session that has ended at another instance.
    pub(super) fn forget(&self, state: &str) {
        self.living().remove(state);
        self.changed.notify_waiters();
    }

    /// Forgets all sessions.
    pub(super) fn clear(&self) {
        self.living().clear();
        self.changed.notify_waiters();
    }

    /// Returns the session with this state.
    pub fn get(&self, state: &str) -> Option<LoginSession> {
        self.living().get(state).cloned()
    }

    /// Takes a session for the exchange of its code.
    pub fn take(
        self: &Arc<Self>,
        state: &str,
        provider: OAuthProvider,
    ) -> Result<Exchange, UnacceptedCallback> {
        let mut sessions = self.living();
        let session = waiting(&mut sessions, state, provider)?;
        session.move_to(Stage::Exchanging);
        let session = session.clone();
        Ok(Exchange { session, state: state.to_owned(), sessions: self.clone(), has_ended: false })
    }

    /// Records that the provider refused the login, and its words.
    pub fn deny(&self, state: &str, provider: OAuthProvider, words: &str) -> Result<(), UnacceptedCallback> {
        let mut sessions = self.living();
        waiting(&mut sessions, state, provider)?.move_to(Stage::Failed(words.to_owned()));
        drop(sessions);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Whether a browser may still come back for a login of this provider, even for a second time.
    pub fn remembers(&self, provider: OAuthProvider) -> bool {
        self.living().values().any(|session| session.provider == provider)
    }

    /// Returns when every login of this provider is forgotten.
    pub async fn until_forgotten(&self, provider: OAuthProvider) {
        loop {
            let changed = self.changed.notified();
            let last = {
                let sessions = self.living();
                let its_own = sessions.values().filter(|session| session.provider == provider);
                its_own.map(|session| session.ends).max()
            };
            let Some(last) = last else { return };
            tokio::select! {
                () = changed => {}
                () = sleep_until(last) => {}
            }
        }
    }

    fn living(&self) -> std::sync::MutexGuard<'_, HashMap<String, LoginSession>> {
        let mut sessions = lock(&self.by_state);
        let now = Instant::now();
        sessions.retain(|_, session| session.ends > now);
        sessions
    }

    fn end(&self, state: &str, stage: Stage) {
        if let Some(session) = self.living().get_mut(state) {
            session.move_to(stage);
        }
        self.changed.notify_waiters();
    }
}

/// Returns the session with this state if a callback may still take it.
fn waiting<'s>(
    sessions: &'s mut HashMap<String, LoginSession>,
    state: &str,
    provider: OAuthProvider,
) -> Result<&'s mut LoginSession, UnacceptedCallback> {
    let session = sessions.get_mut(state).filter(|session| session.provider == provider);
    let session = session.ok_or(UnacceptedCallback::Unknown)?;
    match session.stage {
        Stage::Waiting => Ok(session),
        _ => Err(UnacceptedCallback::Used),
    }
}

// === impl Exchange ===

impl Exchange {
    /// Records how the login ended.
    pub fn end(mut self, stage: Stage) {
        self.has_ended = true;
        self.sessions.end(&self.state, stage);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.has_ended {
            self.sessions.end(&self.state, Stage::Failed("the login was interrupted".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SiteId;

    const CODEX: OAuthProvider = OAuthProvider::Codex;

    fn session() -> LoginSession {
        LoginSession::new(CODEX, String::new(), Verifier::random().expect("randomness"), 0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_forgotten_after_ten_minutes_and_the_oldest_when_there_are_too_many() {
        let sessions = Arc::new(LoginSessions::default());
        sessions.add("first".to_owned(), session());
        tokio::time::advance(Duration::from_secs(1)).await;
        for number in 0..MAX_SESSIONS {
            sessions.add(number.to_string(), session());
        }
        assert!(sessions.get("first").is_none() && sessions.get("0").is_some());
        assert_eq!(lock(&sessions.by_state).len(), MAX_SESSIONS);
        tokio::time::advance(LIFETIME - Duration::from_millis(1)).await;
        assert!(sessions.get("0").is_some() && sessions.remembers(CODEX));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(sessions.get("0").is_none() && !sessions.remembers(CODEX));
        assert_eq!(sessions.take("0", CODEX).err(), Some(UnacceptedCallback::Unknown));
        assert_eq!(lock(&sessions.by_state).len(), 0);
    }

    #[tokio::test]
    async fn one_of_two_callbacks_takes_the_session_and_one_of_another_provider_does_not() {
        let sessions = Arc::new(LoginSessions::default());
        sessions.add("s".to_owned(), session());
        assert_eq!(sessions.take("s", OAuthProvider::Claude).err(), Some(UnacceptedCallback::Unknown));
        let Ok(exchange) = sessions.take("s", CODEX) else { panic!("nobody was before") };
        assert_eq!(sessions.take("s", CODEX).err(), Some(UnacceptedCallback::Used));
        assert_eq!(sessions.deny("s", CODEX, "no"), Err(UnacceptedCallback::Used));
        exchange.end(Stage::of(&Ok(Activated { account_id: AccountId::new(7), site_id: SiteId::new(3) })));
        let stage = sessions.get("s").expect("it is kept").stage;
        assert_eq!(
            stage,
            Stage::Connected(Activated { account_id: AccountId::new(7), site_id: SiteId::new(3) })
        );
        assert_eq!(sessions.take("s", CODEX).err(), Some(UnacceptedCallback::Used));
    }

    #[tokio::test]
    async fn a_denied_login_and_an_interrupted_one_have_failed() {
        let sessions = Arc::new(LoginSessions::default());
        for state in ["denied", "interrupted"] {
            sessions.add(state.to_owned(), session());
        }
        assert_eq!(sessions.deny("denied", CODEX, "access_denied"), Ok(()));
        drop(sessions.take("interrupted", CODEX));
        for (state, words) in [("denied", "access_denied"), ("interrupted", "the login was interrupted")] {
            assert_eq!(sessions.take(state, CODEX).err(), Some(UnacceptedCallback::Used));
            assert_eq!(sessions.deny(state, CODEX, "again"), Err(UnacceptedCallback::Used));
            let stage = sessions.get(state).expect("it is kept").stage;
            assert_eq!(stage, Stage::Failed(words.to_owned()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_browsers_hears_when_none_can_come() {
        let sessions = Arc::new(LoginSessions::default());
        sessions.until_forgotten(CODEX).await;
        sessions.add("s".to_owned(), session());
        assert_eq!(sessions.deny("s", CODEX, "access_denied"), Ok(()));
        let begun = Instant::now();
        sessions.until_forgotten(CODEX).await;
        assert!(begun.elapsed() >= LIFETIME);
    }
}
