//! The account list as last made.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::routing::Snapshot;
use crate::sync::lock;

pub(super) const STALE: Duration = Duration::from_secs(90);

/// The last list made.
#[derive(Default)]
pub struct ListCache {
    pub(super) cached: Mutex<Option<CachedList>>,
    /// One reload behind a stale list at a time.
    pub(super) reloading: AtomicBool,
}

pub(super) struct CachedList {
    pub(super) body: Bytes,
    pub(super) at: Instant,
    /// What was published when it was made.
    pub(super) snapshot: Weak<Snapshot>,
    /// What was known of the limits of accounts then: every answer may tell of them, and a window ends by itself.
    pub(super) limits: LimitsState,
}

/// As [`LiveTable::limits_state`](crate::routing::live::LiveTable::limits_state) gives it.
pub(super) type LimitsState = (u64, usize);

impl ListCache {
    /// The kept list and its age, when nothing was published since, no limit is another, and it may still be served.
    pub(super) fn get(&self, published: &Arc<Snapshot>, limits: LimitsState) -> Option<(Bytes, Duration)> {
        let mut cached = lock(&self.cached);
        let is_served = |cached: &CachedList| {
            std::ptr::eq(cached.snapshot.as_ptr(), Arc::as_ptr(published))
                && cached.limits == limits
                && cached.at.elapsed() < STALE
        };
        // One that is not served again only takes room.
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
