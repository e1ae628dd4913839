//! An account at its site, with a session that is renewed when it has run out.
//!
//! ```text
//! let mut session = Session::open(jobs, site, account).await?;
//! let mut answer = session.site_client().balance(&jobs.core.client).await;
//! if session.is_renewed_after(jobs, &mut answer).await {
//!     answer = session.site_client().balance(&jobs.core.client).await;
//! }
//! ```
//!
//! One renewal for each failed operation, at most.

use std::sync::Arc;

use super::renewal::{can_renew, has_refresh_token, is_due, renew, renew_when_due};
use super::site_client::site_client_of;
use crate::core::Core;
use crate::jobs::Jobs;
use crate::store::accounts::{self, AccountRow};
use crate::store::sites::SiteRow;
use crate::time::now_ms;
use crate::upstream::platforms::{SiteClient, SiteError, SiteErrorKind};

/// A site client that may outlive the session it began with.
pub struct Session {
    pub site: SiteRow,
    /// The account as it is now: a renewal reads it again.
    pub account: AccountRow,
    site_client: SiteClient,
    has_renewed: bool,
}

// === impl Session ===

impl Session {
    /// Opens the client. A session that ends soon is renewed first; where that fails, it is used as it is.
    ///
    /// # Errors
    /// When the site's address or the configured proxy cannot be used, or the account is gone after a renewal.
    pub async fn open(jobs: &Arc<Jobs>, site: SiteRow, account: AccountRow) -> Result<Self, SiteError> {
        let site_client = site_client_of(&jobs.core, &site, &account)?;
        let mut session = Self { site, account, site_client, has_renewed: false };
        if is_due(&session.account, session.site_client.platform, now_ms()) {
            match renew_when_due(jobs, session.account.id).await {
                Ok(()) => session.reload(&jobs.core).await?,
                Err(refusal) => log::warn!("{}: {refusal}", session.described()),
            }
        }
        Ok(session)
    }

    pub fn site_client(&self) -> &SiteClient {
        &self.site_client
    }

    /// Returns whether to ask once more: the answer says that the session has run out, and it has been renewed. Where
    /// that failed for an account with a refresh token, the answer says so, too.
    pub async fn is_renewed_after<T>(&mut self, jobs: &Arc<Jobs>, answer: &mut Result<T, SiteError>) -> bool {
        let Err(error) = answer else { return false };
        let may_help = error.wants_login() && can_renew(&self.account, self.site_client.platform);
        if self.has_renewed || !may_help {
            return false;
        }
        self.has_renewed = true;
        if let Err(refusal) = renew(jobs, self.account.id, self.account.access_token.as_ref()).await {
            log::warn!("{}: {refusal}", self.described());
            // The message of a login page could be taken for the site's answer to what was asked.
            if has_refresh_token(&self.account, self.site_client.platform) {
                error.message = format!("{}; {refusal}", error.message);
            }
            // The session is over, but the account is not: an expired account would not be tried again.
            if refusal.is_transient && error.kind == SiteErrorKind::Expired {
                error.kind = SiteErrorKind::Refused;
            }
            return false;
        }
        self.reload(&jobs.core).await.is_ok()
    }

    async fn reload(&mut self, core: &Arc<Core>) -> Result<(), SiteError> {
        let read = accounts::get(&core.store, self.account.id).await;
        let read = read.map_err(|error| SiteError::new(SiteErrorKind::Failed, error.to_string()))?;
        self.account =
            read.ok_or_else(|| SiteError::new(SiteErrorKind::Failed, "the account does not exist any more"))?;
        self.site_client = site_client_of(core, &self.site, &self.account)?;
        Ok(())
    }

    fn described(&self) -> String {
        format!("the session of account {} on site \"{}\" was not renewed", self.account.id, self.site.name)
    }
}
