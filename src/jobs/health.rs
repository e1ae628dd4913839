//! Saves the health of sites so that it outlasts a restart. A failure, or a usage limit that has moved, is saved half a
//! second later, together with all that happened meanwhile; successes alone are saved within a minute.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::sleep;

use super::schedule::Pass;
use crate::jobs::Jobs;
use crate::routing::health::saved;
use crate::store::{self, settings};
use crate::time::now_ms;

/// The delay from a change to its transaction; changes in between are saved along with it.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// The longest delay of successes alone.
pub const INTERVAL: Duration = Duration::from_secs(60);

/// Waits for a change that is saved soon.
pub async fn changed(jobs: Arc<Jobs>) {
    jobs.health_saver.changed.notified().await;
}

/// Saves the health of all sites soon after a change.
pub async fn save_soon(jobs: Arc<Jobs>) -> Pass {
    sleep(DEBOUNCE).await;
    save(&jobs).await?;
    Ok(None)
}

/// Saves the health of all sites if there is anything new.
pub async fn save_successes(jobs: Arc<Jobs>) -> Pass {
    if jobs.core.live.last_health_event() > jobs.health_saver.saved_at.load(Relaxed) {
        save(&jobs).await?;
    }
    Ok(None)
}

/// Saves the health of all sites.
pub async fn save(jobs: &Jobs) -> store::Result<()> {
    let now = now_ms();
    let text = jobs.core.live.saved_health(now);
    settings::put(&jobs.core.store, vec![(saved::SETTING.to_owned(), text)]).await?;
    jobs.health_saver.saved_at.store(now, Relaxed);
    Ok(())
}
