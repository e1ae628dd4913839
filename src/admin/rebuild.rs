//! After a change that decides which models exist: the routes follow. The change itself is committed
//! and answered whatever becomes of this; the next rebuild makes up for one that failed.

use std::sync::Arc;

use crate::app::App;
use crate::jobs::model_refresh;

/// Rebuilds the routes and publishes them; a failure is a log line.
pub async fn rebuild_best_effort(app: &Arc<App>) {
    if let Err(error) = model_refresh::rebuild(app).await {
        log::warn!("routes could not be rebuilt after an admin change: {error}");
    }
}
