//! Takes over the changes of other instances on the same database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::schedule::Pass;
use super::state::Jobs;
use crate::store;
use crate::store::instance_changes::Extent;

/// The interval at which this instance looks for changes of others.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which this instance reports its presence.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// The number of looks from one reading of everything to the next, which finds changes that nobody has announced.
const LOOKS: u32 = 300;

/// Reports the presence of this instance, and learns which others there are.
pub async fn report_alive(jobs: Arc<Jobs>) -> Pass {
    match jobs.core.report_alive().await {
        Ok(()) | Err(store::Error::Unreachable(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The shortest time between two announcements of the database that are acted on; later changes are taken over
/// together.
const REST: Duration = Duration::from_millis(100);

/// Waits until the database announces a change.
pub async fn signalled(jobs: Arc<Jobs>) {
    sleep(REST).await;
    jobs.core.store.database().changes_signalled().await;
}

/// Takes over what others have changed as soon as the database announces it.
pub async fn follow_signals(jobs: Arc<Jobs>) -> Pass {
    match jobs.core.follow_others(Extent::Recent).await {
        Ok(_) | Err(store::Error::Unreachable(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes over what others have changed; once in many looks, reads everything.
pub async fn follow(jobs: Arc<Jobs>) -> Pass {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let is_due = COUNT.fetch_add(1, Ordering::Relaxed) % LOOKS == LOOKS - 1;
    let extent = if is_due { Extent::Everything } else { Extent::Recent };
    let changed = match jobs.core.follow_others(extent).await {
        Ok(changed) => changed,
        // The store has reported it already.
        Err(store::Error::Unreachable(_)) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match jobs.core.follow_use(extent).await {
        Ok(()) | Err(store::Error::Unreachable(_)) => {}
        Err(error) => return Err(error.to_string()),
    }
    if !changed.is_empty() {
        log::debug!("loaded changes of another instance: {changed:?}");
    }
    Ok(None)
}
