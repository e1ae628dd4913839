//! Other instances on the same database: their changes are taken over, and a job is left to the one that has its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::schedule::Pass;
use super::state::Jobs;
use crate::store::{self, leases};
use crate::time::Millis;

/// How often it looks whether others have changed something.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// How many looks there are from one reading of everything to the next: for changes that nobody has told.
const LOOKS: u32 = 300;
/// The shortest time of a lease. A job that runs seldom holds its own until well after the next pass.
const SHORTEST_MS: Millis = 30_000;

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
    if !changed.is_empty() {
        log::debug!("taken over from another instance: {changed:?}");
    }
    Ok(None)
}

/// Whether a pass of this job is ours; alone on a database, always.
pub async fn leads(jobs: &Jobs, job: &str, interval: Duration) -> Result<bool, String> {
    let core = &jobs.core;
    let for_ms = Millis::try_from(interval.as_millis()).unwrap_or(Millis::MAX / 4).saturating_mul(3) / 2;
    let held = leases::hold(&core.store, job, &core.instance, for_ms.max(SHORTEST_MS)).await;
    held.map_err(|error| error.to_string())
}
