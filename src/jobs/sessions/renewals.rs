//! The renewals under way, and the passwords and refresh tokens that sites refused.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::core::Core;
use crate::fence;
use crate::flight::{Interrupted, KeyedFlight};
use crate::ids::AccountId;
use crate::jobs::leadership;
use crate::store::accounts::AccountRow;
use crate::sync::lock;
use crate::upstream::platforms::{SiteError, SiteErrorKind};

/// The most flights at once; more wait.
const MAX_IN_FLIGHT: u32 = 32;

/// The longest time that the stop of the service waits for flights: a little longer than one call may take.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(31);

/// The pause after a refused password or refresh token; it doubles up to [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(300);

pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// Why an account has got no new session.
#[derive(Clone, Debug)]
pub struct RenewalRefusal {
    /// The message for people, without a credential.
    pub(in crate::jobs) message: String,
    /// Whether nobody refused the means to a new session, so that they are as good as before.
    pub is_transient: bool,
}

/// The renewals under way and what sites refused; [`Jobs`](crate::jobs::Jobs) holds one.
pub struct Renewals {
    flights: KeyedFlight<AccountId, Result<(), RenewalRefusal>>,
    in_flight: Arc<Semaphore>,
    pub(super) refused: Mutex<HashMap<(AccountId, Means), Refused>>,
}

/// The credential with which an account gets a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Means {
    Password,
    RefreshToken,
}

/// A password or refresh token that its site refused.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    /// The version of the refused credential; another version is a newer one, which is tried at once.
    pub(super) version: Option<i64>,
    pub(super) until: Instant,
    pub(super) pause: Duration,
}

impl From<SiteError> for RenewalRefusal {
    fn from(error: SiteError) -> Self {
        // Only an answer of the site itself says something about a token or a password. That includes the answer that
        // there is no such route, as older versions of sub2api give.
        let is_refused =
            matches!(error.kind, SiteErrorKind::Refused | SiteErrorKind::Expired | SiteErrorKind::Missing);
        Self { is_transient: !is_refused, message: error.message }
    }
}

impl RenewalRefusal {
    /// Builds the refusal for a problem of our own.
    pub(in crate::jobs) fn of_ours(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: true }
    }
}

impl From<&str> for RenewalRefusal {
    fn from(message: &str) -> Self {
        Self { message: message.to_owned(), is_transient: false }
    }
}

impl fmt::Display for RenewalRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Default for Renewals {
    fn default() -> Self {
        Self {
            flights: KeyedFlight::default(),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT as usize)),
            refused: Mutex::default(),
        }
    }
}

impl Renewals {
    /// Runs `attempt` as the one flight of this account, also among the instances that share a database; callers that
    /// come while it is under way share it. It goes on when the job that began it is taken over, because others wait
    /// for its end.
    pub(in crate::jobs) async fn run_single<F>(
        &self,
        id: AccountId,
        core: &Arc<Core>,
        name: &'static str,
        attempt: impl FnOnce() -> F,
    ) -> Result<(), RenewalRefusal>
    where
        F: Future<Output = Result<(), RenewalRefusal>> + Send + 'static,
    {
        let work = || {
            let (in_flight, attempt, core) = (self.in_flight.clone(), attempt(), core.clone());
            async move {
                // Held until the new credential is committed: the stop of the service waits for it.
                let Ok(_permit) = in_flight.acquire_owned().await else {
                    return Err(RenewalRefusal::of_ours("the service is stopping"));
                };
                let alone = leadership::with_account_lease(&core, id, attempt).await;
                alone.unwrap_or_else(|error| Err(RenewalRefusal::of_ours(error.to_string())))
            }
        };
        let outcome = fence::outside(self.flights.run(id, &core.background, name, work)).await;
        outcome.unwrap_or_else(|Interrupted| Err(RenewalRefusal::of_ours("the renewal was interrupted")))
    }

    /// Lets no further flight begin, and returns when those under way have ended, or after a time limit.
    pub async fn drain(&self) {
        if timeout(DRAIN_TIMEOUT, self.in_flight.acquire_many(MAX_IN_FLIGHT)).await.is_err() {
            let left = MAX_IN_FLIGHT as usize - self.in_flight.available_permits();
            log::warn!("{left} session(s) were still being renewed when the service stopped");
        }
        self.in_flight.close();
    }

    /// Forgets what was refused, because the account has a new password, or a session from elsewhere.
    pub fn forget(&self, id: AccountId) {
        lock(&self.refused).retain(|(account, _), _| *account != id);
    }

    /// Returns for how many minutes a refused password or refresh token is still left alone.
    pub(super) fn pause(&self, account: &AccountRow, means: Means) -> Option<u64> {
        let refused = lock(&self.refused);
        let refused = refused.get(&(account.id, means))?;
        let is_same = refused.version == means.version(account);
        let left = refused.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        is_same.then(|| left.as_secs().div_ceil(60))
    }

    pub(super) fn note_refusal(&self, account: &AccountRow, means: Means) {
        let mut refused = lock(&self.refused);
        let (key, version) = ((account.id, means), means.version(account));
        let before = refused.get(&key).filter(|before| before.version == version);
        let pause = before.map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
        refused.insert(key, Refused { version, until: Instant::now() + pause, pause });
    }
}

impl Means {
    fn version(self, account: &AccountRow) -> Option<i64> {
        match self {
            Self::Password => account.login_updated_at,
            Self::RefreshToken => Some(account.credential_version),
        }
    }
}
