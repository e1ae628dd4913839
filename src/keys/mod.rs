//! Managed downstream keys as requests meet them: one immutable [`KeyTable`], replaced as a whole with every
//! change, and beside it one [`KeyLive`] per key that outlives tables.
//!
//! A presented token is found by its HMAC, here under a key of this process and in the database under
//! the index key, so neither holds anything that would open a door. Without a managed key nothing is
//! computed.
//!
//! Pure: reserving, charging and resetting in the database is `store::quota`'s.

mod live;

use std::sync::Arc;

use crate::fast_map::FastMap;
use crate::routing::Policy;
use crate::time::Millis;

pub use live::{KeyDelta, KeyLive};

/// HMAC-SHA256 of a token under a key that the process has made for itself.
pub type Digest = [u8; 32];

/// One managed key.
#[derive(Debug)]
pub struct Key {
    pub id: i64,
    pub enabled: bool,
    pub expires_at: Option<Millis>,
    /// USD; `None` without a limit.
    pub max_cost: Option<f64>,
    pub max_requests: Option<i64>,
    pub policy: Policy,
    pub live: Arc<KeyLive>,
}

/// Why a known key is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRejection {
    Disabled,
    Expired,
    OverCost,
    OverRequests,
}

/// All managed keys.
#[derive(Debug, Default)]
pub struct KeyTable {
    by_digest: FastMap<Digest, Arc<Key>>,
    by_id: FastMap<i64, Arc<Key>>,
}

// === impl Key ===

impl Key {
    /// Whether the key may be used now. Clients see the first reason that applies, in this order.
    pub fn check(&self, now: Millis) -> Result<(), KeyRejection> {
        if !self.enabled {
            return Err(KeyRejection::Disabled);
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(KeyRejection::Expired);
        }
        if self.max_cost.is_some_and(|most| self.live.used_cost() >= most) {
            return Err(KeyRejection::OverCost);
        }
        if self.max_requests.is_some_and(|most| self.live.is_exhausted(most)) {
            return Err(KeyRejection::OverRequests);
        }
        Ok(())
    }

    /// Less than a twentieth of the cost limit is left: what is spent should be on disk at once.
    pub fn is_near_cost_limit(&self) -> bool {
        self.max_cost.is_some_and(|most| self.live.used_cost() >= most * 0.95)
    }
}

// === impl KeyTable ===

impl KeyTable {
    pub fn new(keys: impl IntoIterator<Item = (Digest, Key)>) -> Self {
        let mut table = Self::default();
        for (digest, key) in keys {
            let key = Arc::new(key);
            table.by_id.insert(key.id, key.clone());
            table.by_digest.insert(digest, key);
        }
        table
    }

    /// Asked before anything is computed for a look-up.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// The key whose token has this digest.
    pub fn find(&self, digest: &Digest) -> Option<&Arc<Key>> {
        self.by_digest.get(digest)
    }

    pub fn get(&self, id: i64) -> Option<&Arc<Key>> {
        self.by_id.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.by_id.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            id: 1,
            enabled: true,
            expires_at: None,
            max_cost: None,
            max_requests: None,
            policy: Policy::default(),
            live: Arc::new(KeyLive::new(1, 10, 2.5, None)),
        }
    }

    #[test]
    fn refusals_come_in_the_documented_order() {
        let barred = |change: fn(&mut Key)| {
            let mut key = key();
            change(&mut key);
            key.check(1000).err()
        };
        assert_eq!(barred(|_| ()), None);
        assert_eq!(barred(|key| key.expires_at = Some(1001)), None);
        assert_eq!(barred(|key| key.max_cost = Some(2.6)), None);
        assert_eq!(barred(|key| key.max_requests = Some(11)), None);
        assert_eq!(barred(|key| key.max_requests = Some(10)), Some(KeyRejection::OverRequests));
        assert_eq!(barred(|key| key.max_requests = Some(0)), Some(KeyRejection::OverRequests));
        let over_both = |key: &mut Key| (key.max_requests, key.max_cost) = (Some(10), Some(2.5));
        assert_eq!(barred(over_both), Some(KeyRejection::OverCost));
        let expired = |key: &mut Key| (key.expires_at, key.max_cost) = (Some(1000), Some(0.0));
        assert_eq!(barred(expired), Some(KeyRejection::Expired));
        let disabled = |key: &mut Key| (key.enabled, key.expires_at) = (false, Some(0));
        assert_eq!(barred(disabled), Some(KeyRejection::Disabled));
    }
}
