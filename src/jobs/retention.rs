//! Forgetting old proxy log rows (routing-accounting.md 18.2).
//!
//! At start and at each PROXY_LOG_RETENTION_PRUNE_INTERVAL_MINUTES, rows older than
//! PROXY_LOG_RETENTION_DAYS go, a chunk per transaction, so that the writer is never held up.

use crate::store::{self, Store, proxy_logs};
use crate::time::Millis;

const DAY_MS: Millis = 86_400_000;

/// Deletes the rows that are older than `days` days of 24 hours before `now`; 0 days keeps all.
/// Gives how many went.
pub async fn prune_proxy_logs(store: &Store, days: u32, now: Millis) -> store::Result<u64> {
    match cutoff(days, now) {
        Some(cutoff) => proxy_logs::prune(store, cutoff).await,
        None => Ok(0),
    }
}

/// Rows strictly older than this go.
fn cutoff(days: u32, now: Millis) -> Option<Millis> {
    (days > 0).then(|| now - Millis::from(days) * DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_days_keep_everything() {
        assert_eq!(cutoff(0, 10 * DAY_MS), None);
        assert_eq!(cutoff(3, 10 * DAY_MS), Some(7 * DAY_MS));
    }
}
