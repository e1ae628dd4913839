//! Sites that have refused a feature that others accept, a `prompt_cache_key` or a WebSocket. Kept in memory only.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ids::SiteId;
use crate::make_room::make_room;
use crate::sync::lock;
use crate::time::{HOUR, Millis};

/// How long a site that has refused the feature is not asked for it, in milliseconds.
const REFUSED_MS: Millis = 6 * HOUR;
const MAX_SITES: usize = 512;

/// The sites that have refused one feature.
#[derive(Default)]
pub struct SiteRefusals {
    /// The time at which each refusal expires.
    refused: Mutex<HashMap<SiteId, Millis>>,
    /// The number of entries; mostly zero, and then a request takes no lock.
    count: AtomicUsize,
}

impl SiteRefusals {
    pub(in crate::proxy) fn refused(&self, site: SiteId, now: Millis) {
        let mut refused = lock(&self.refused);
        make_room(&mut refused, &site, MAX_SITES, |until| *until);
        refused.insert(site, now + REFUSED_MS);
        self.count.store(refused.len(), Ordering::Relaxed);
    }

    pub(in crate::proxy) fn refuses(&self, site: SiteId, now: Millis) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && lock(&self.refused).get(&site).is_some_and(|until| *until > now)
    }

    /// Forgets every refusal.
    pub fn clear(&self) {
        lock(&self.refused).clear();
        self.count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_for_six_hours() {
        let memory = SiteRefusals::default();
        assert!(!memory.refuses(SiteId::new(1), 0));
        memory.refused(SiteId::new(1), 0);
        assert!(
            memory.refuses(SiteId::new(1), REFUSED_MS - 1)
                && !memory.refuses(SiteId::new(1), REFUSED_MS)
                && !memory.refuses(SiteId::new(2), 1)
        );
        for site in 2..MAX_SITES as i64 + 10 {
            memory.refused(SiteId::new(site), site);
        }
        assert_eq!(lock(&memory.refused).len(), MAX_SITES);
        assert!(!memory.refuses(SiteId::new(1), 1) && memory.refuses(SiteId::new(500), 501));
        memory.clear();
        assert!(!memory.refuses(SiteId::new(500), 501));
    }
}
