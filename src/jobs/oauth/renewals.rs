//! Failed renewals and how long their providers are left alone, and the last renewals that were made on a doubt.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::ids::AccountId;
use crate::jobs::sessions::renewals::RenewalRefusal;
use crate::store::accounts::AccountRow;
use crate::sync::lock;
use crate::upstream::oauth::TokenError;

/// The pause after a failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// The pause between two renewals of one account for answers that may have another reason than its token.
const BEYOND_DOUBT: Duration = Duration::from_secs(60);

/// The last failure and the last renewal on a doubt of each account; [`Jobs`](crate::jobs::Jobs) holds one.
#[derive(Default)]
pub struct FailedRenewals {
    by_account: Mutex<HashMap<AccountId, FailedRenewal>>,
    doubted: Mutex<HashMap<AccountId, Instant>>,
}

struct FailedRenewal {
    /// The version of the credential that failed; another one is tried at once.
    version: i64,
    message: String,
    pause: Duration,
    /// `None` where the provider has revoked its grant: only another login helps.
    until: Option<Instant>,
}

// === impl FailedRenewals ===

impl FailedRenewals {
    /// Returns why the account's provider is not asked now; `None` when it may be asked.
    pub(super) fn refusal(&self, account: &AccountRow) -> Option<RenewalRefusal> {
        let failed = lock(&self.by_account);
        let failed = failed.get(&account.id).filter(|failed| failed.version == account.credential_version)?;
        let Some(until) = failed.until else {
            return Some(RenewalRefusal { message: failed.message.clone(), is_transient: false });
        };
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let message = format!("{}; it is tried again in {} s", failed.message, left.as_secs() + 1);
        Some(RenewalRefusal::of_ours(message))
    }

    pub(super) fn note(&self, account: &AccountRow, error: &TokenError) {
        let mut failed = lock(&self.by_account);
        let version = account.credential_version;
        let before = failed.get(&account.id).filter(|before| before.version == version);
        let pause = before.map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
        let until = (!error.is_revoked).then(|| Instant::now() + pause);
        failed.insert(account.id, FailedRenewal { version, message: error.message.clone(), pause, until });
    }

    /// Takes the account's turn for a renewal on a doubt, one a minute; returns false when the turn is taken.
    pub(super) fn take_doubt(&self, id: AccountId) -> bool {
        let (now, mut doubted) = (Instant::now(), lock(&self.doubted));
        doubted.retain(|_, at| now.duration_since(*at) < BEYOND_DOUBT);
        !doubted.contains_key(&id) && doubted.insert(id, now).is_none()
    }

    pub(super) fn forget(&self, id: AccountId) {
        lock(&self.by_account).remove(&id);
    }
}
