//! Rebuilds routes after a change that decides which models exist. The change itself is committed and answered even if
//! this fails; the next rebuild makes up for it.

use std::sync::Arc;

use crate::jobs::Jobs;
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;

/// Rebuilds the routes in `scope` and publishes them; a failure is only logged.
pub async fn rebuild_best_effort(jobs: &Arc<Jobs>, scope: Scope) {
    if let Err(error) = rebuild_in(jobs, scope).await {
        log::warn!("routes could not be rebuilt after an admin change: {error}");
    }
}
