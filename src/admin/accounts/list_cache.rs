//! The cache of the account list.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::routing::Snapshot;
use crate::sync::lock;

pub(super) const STALE: Duration = Duration::from_secs(90);

/// The last account list.
#[derive(Default)]
pub struct ListCache {
    pub(super) cached: Mutex<Option<CachedList>>,
    /// Whether a reload runs behind a stale list; only one does at a time.
    pub(super) reloading: AtomicBool,
}

pub(super) struct CachedList {
    pub(super) body: Bytes,
    pub(super) at: Instant,
    /// The routing snapshot that was published when the list was made.
    pub(super) snapshot: Weak<Snapshot>,
    /// The state of the accounts' limits at that time: any response of an upstream may change it, and limit windows end
    /// by themselves.
    pub(super) limits: LimitsState,
}

/// The state that [`LiveTable::limits_state`](crate::routing::live::LiveTable::limits_state) returns.
pub(super) type LimitsState = (u64, usize);

impl ListCache {
    /// Returns the cached list and its age, unless something was published since, a limit changed, or it is too old.
    pub(super) fn get(&self, published: &Arc<Snapshot>, limits: LimitsState) -> Option<(Bytes, Duration)> {
        let mut cached = lock(&self.cached);
        let is_served = |cached: &CachedList| {
            std::ptr::eq(cached.snapshot.as_ptr(), Arc::as_ptr(published))
                && cached.limits == limits
                && cached.at.elapsed() < STALE
        };
        // A list that will not be served again only takes memory.
        cached.take_if(|cached| !is_served(cached));
        cached.as_ref().map(|cached| (cached.body.clone(), cached.at.elapsed()))
    }

    pub(super) fn keep(&self, cached: CachedList) {
        *lock(&self.cached) = Some(cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kept_list_is_served_until_it_is_old_or_something_is_another() {
        let cache = ListCache::default();
        let published = Arc::new(Snapshot::default());
        assert!(cache.get(&published, (1, 1)).is_none());
        let list = || CachedList {
            body: Bytes::from_static(b"1"),
            at: Instant::now(),
            snapshot: Arc::downgrade(&published),
            limits: (1, 1),
        };
        cache.keep(list());
        assert_eq!(cache.get(&published, (1, 1)), Some((Bytes::from_static(b"1"), Duration::ZERO)));
        tokio::time::advance(STALE - Duration::from_millis(1)).await;
        assert!(cache.get(&published, (1, 1)).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(cache.get(&published, (1, 1)).is_none());
        cache.keep(list());
        assert!(cache.get(&Arc::new(Snapshot::default()), (1, 1)).is_none());
        for limits in [(2, 1), (1, 0)] {
            cache.keep(list());
            assert!(cache.get(&published, limits).is_none());
        }
    }
}
