//! The key of the cached account list: the state that the list shows. A list of another state is not served.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use crate::core::Core;
use crate::routing::Snapshot;
use crate::routing::limit_windows::LimitsVersion;
use crate::time::now_ms;

/// The state that an account list was made of.
#[derive(Clone)]
pub struct ListKey {
    /// The routing snapshot that was published; its address stays taken while this exists.
    snapshot: Weak<Snapshot>,
    /// The version of the accounts' limits: any response of an upstream may change it, and limit windows end by themselves.
    limits: LimitsVersion,
}

impl ListKey {
    /// Returns the key of a list that is made now.
    pub fn of(core: &Core) -> Self {
        let snapshot = Arc::downgrade(&core.snapshot.load_full());
        Self { snapshot, limits: core.live.limits_version(now_ms()) }
    }
}

impl PartialEq for ListKey {
    fn eq(&self, other: &Self) -> bool {
        self.snapshot.ptr_eq(&other.snapshot) && self.limits == other.limits
    }
}

impl Eq for ListKey {}

impl Hash for ListKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.snapshot.as_ptr().addr(), self.limits).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_other_snapshots_and_limits_are_others() {
        let [one, other] = [(); 2].map(|()| Arc::new(Snapshot::default()));
        let key = |snapshot, in_force| {
            let limits = LimitsVersion { notes: 1, in_force };
            ListKey { snapshot: Arc::downgrade(snapshot), limits }
        };
        assert!(key(&one, 1) == key(&one, 1));
        assert!(key(&one, 1) != key(&other, 1));
        assert!(key(&one, 1) != key(&one, 0));
    }
}
