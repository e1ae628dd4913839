//! Other instances on the same database: their changes are taken over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::schedule::Pass;
use super::state::Jobs;
use crate::store;

/// How often it looks whether others have changed something.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// How often it says that it is there.
pub const SHOW_UP_INTERVAL: Duration = Duration::from_secs(5);
/// How many looks there are from one reading of everything to the next: for changes that nobody has told.
const LOOKS: u32 = 300;

/// Says that this instance is there, and hears who else is.
pub async fn show_up(jobs: Arc<Jobs>) -> Pass {
    match jobs.core.show_up().await {
        Ok(()) | Err(store::Error::Unreachable(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The shortest time from one word of the database to the next that is heeded: what is told meanwhile is taken over with it.
pub const REST: Duration = Duration::from_millis(100);

/// Takes over what others have changed as soon as the database tells of it.
pub async fn hear(jobs: Arc<Jobs>) -> Pass {
    jobs.core.store.database().news().await;
    match jobs.core.follow_others(false).await {
        Ok(_) | Err(store::Error::Unreachable(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes over what others have changed.
pub async fn follow(jobs: Arc<Jobs>) -> Pass {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let everything = COUNT.fetch_add(1, Ordering::Relaxed) % LOOKS == LOOKS - 1;
    let changed = match jobs.core.follow_others(everything).await {
        Ok(changed) => changed,
        // The store has told it once.
        Err(store::Error::Unreachable(_)) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match jobs.core.follow_use(everything).await {
        Ok(()) | Err(store::Error::Unreachable(_)) => {}
        Err(error) => return Err(error.to_string()),
    }
    if !changed.is_empty() {
        log::debug!("taken over from another instance: {changed:?}");
    }
    Ok(None)
}
