//! An account at its site, with a session that is renewed when it has run out.
//!
//! ```text
//! let mut session = Session::open(app, site, account).await?;
//! let mut answer = session.visitor().balance(&app.client).await;
//! if session.is_renewed_after(app, &answer).await {
//!     answer = session.visitor().balance(&app.client).await;
//! }
//! ```
//!
//! One renewal for each failed operation, at most (upstreams-jobs.md 13.4).

use std::sync::Arc;

use super::renewal::{can_renew, is_due, renew, renew_when_due};
use super::visit::visitor_of;
use crate::app::App;
use crate::store::accounts::{self, AccountRow};
use crate::store::sites::SiteRow;
use crate::time::now_ms;
use crate::upstream::platforms::{VisitError, VisitKind, Visitor};

/// A visit that may outlive the session it began with.
pub struct Session {
    pub site: SiteRow,
    /// As it is now: a renewal reads it again.
    pub account: AccountRow,
    visitor: Visitor,
    has_renewed: bool,
}

// === impl Session ===

impl Session {
    /// Begins a visit; a session that ends soon is renewed first, as far as that works.
    ///
    /// # Errors
    /// When the site's address or the proxy to take cannot be used.
    pub async fn open(app: &Arc<App>, site: SiteRow, account: AccountRow) -> Result<Self, VisitError> {
        let visitor = visitor_of(app, &site, &account)?;
        let mut session = Self { site, account, visitor, has_renewed: false };
        if is_due(&session.account, session.visitor.platform, now_ms()) {
            match renew_when_due(app, session.account.id).await {
                Ok(()) => session.reload(app).await?,
                Err(refusal) => log::warn!("{}: {refusal}", session.described()),
            }
        }
        Ok(session)
    }

    pub fn visitor(&self) -> &Visitor {
        &self.visitor
    }

    /// Whether to ask once more: the answer says that the session has run out, and there is a new one.
    pub async fn is_renewed_after<T>(&mut self, app: &Arc<App>, answer: &Result<T, VisitError>) -> bool {
        let Err(error) = answer else { return false };
        let may_help = error.wants_login() && can_renew(&self.account, self.visitor.platform);
        if self.has_renewed || !may_help {
            return false;
        }
        self.has_renewed = true;
        if let Err(refusal) = renew(app, self.account.id, self.account.access_token.as_ref()).await {
            log::warn!("{}: {refusal}", self.described());
            return false;
        }
        self.reload(app).await.is_ok()
    }

    async fn reload(&mut self, app: &Arc<App>) -> Result<(), VisitError> {
        let read = accounts::get(&app.store, self.account.id).await;
        let read = read.map_err(|error| VisitError::new(VisitKind::Failed, error.to_string()))?;
        self.account = read.ok_or_else(|| VisitError::new(VisitKind::Failed, "the account is gone"))?;
        self.visitor = visitor_of(app, &self.site, &self.account)?;
        Ok(())
    }

    fn described(&self) -> String {
        format!("the session of account {} on site \"{}\" was not renewed", self.account.id, self.site.name)
    }
}
