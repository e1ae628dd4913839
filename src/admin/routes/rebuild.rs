//! After a change that decides which models exist: the routes follow. The change itself is committed
//! and answered whatever becomes of this; the next rebuild makes up for one that failed.

use std::sync::Arc;

use crate::jobs::Jobs;
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;

/// Rebuilds the routes of what changed and publishes them; a failure is a log line.
pub async fn rebuild_best_effort(jobs: &Arc<Jobs>, scope: Scope) {
    if let Err(error) = rebuild_in(jobs, scope).await {
        log::warn!("routes could not be rebuilt after an admin change: {error}");
    }
}
