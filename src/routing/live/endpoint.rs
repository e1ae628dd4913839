//! The health of one address of a site.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use super::{StoredCooldown, advance, stamp};
use crate::ids::EndpointId;
use crate::sync::{DirtyFlag, NewlyDirty, lock};
use crate::time::Millis;

/// The health of one address in a site's endpoint pool.
#[derive(Debug)]
pub struct EndpointLive {
    /// `None` for the site's own address, which has no row and is not persisted.
    pub id: Option<EndpointId>,
    cooldown_until: AtomicI64,
    /// When the address last began to cool, and the latest such time that an answer has cleared.
    cooled_at: AtomicI64,
    cleared_at: AtomicI64,
    /// Whether `cooled_at` or `cleared_at` has changed since the writer last looked.
    cooldown_unsaved: AtomicBool,
    last_selected: AtomicI64,
    last_failed: AtomicI64,
    /// Whether a success has a cooldown or a failure reason to clear; spares healthy addresses the lock below.
    is_troubled: AtomicBool,
    /// Locked only by failures, clearing successes and the writer, never by the choice of an endpoint.
    last_failure_reason: Mutex<Option<String>>,
    dirty: DirtyFlag,
}

/// An endpoint's state as the store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    pub cooldown_until: Option<Millis>,
    pub last_selected: Option<Millis>,
    pub last_failed: Option<Millis>,
    pub last_failure_reason: Option<String>,
    /// When the address last began to cool, and up to when such cooldowns are cleared; 0 for never.
    pub cooled_at: Millis,
    pub cleared_at: Millis,
    /// Whether the stored cooldown is out of date.
    pub is_cooldown_changed: bool,
}

// === impl EndpointLive ===

impl EndpointLive {
    pub fn new(id: Option<EndpointId>, state: EndpointState) -> Self {
        Self {
            id,
            cooldown_until: AtomicI64::new(state.cooldown_until.unwrap_or(0)),
            cooled_at: AtomicI64::new(state.cooled_at),
            cleared_at: AtomicI64::new(state.cleared_at),
            cooldown_unsaved: AtomicBool::new(false),
            last_selected: AtomicI64::new(state.last_selected.unwrap_or(0)),
            last_failed: AtomicI64::new(state.last_failed.unwrap_or(0)),
            is_troubled: AtomicBool::new(
                state.cooldown_until.is_some() || state.last_failure_reason.is_some(),
            ),
            last_failure_reason: Mutex::new(state.last_failure_reason),
            dirty: DirtyFlag::default(),
        }
    }

    /// Records that the address is used for an attempt.
    pub fn record_selection(&self, now: Millis) -> NewlyDirty {
        advance(&self.last_selected, now);
        self.mark_dirty()
    }

    /// Records a failure that rotates (see [`pool::rotates`](crate::routing::pool::rotates)): the address cools.
    pub fn record_failure(&self, now: Millis, until: Millis, reason: &str) -> NewlyDirty {
        self.cooldown_until.fetch_max(until, Relaxed);
        self.cooled_at.fetch_max(now, Relaxed);
        self.cooldown_unsaved.store(true, Relaxed);
        self.last_failed.fetch_max(now, Relaxed);
        *self.reason() = Some(reason.to_owned());
        self.is_troubled.store(true, Relaxed);
        self.mark_dirty()
    }

    /// Records any other failure, and ends the cooldown: the address has answered.
    pub fn record_other_failure(&self, now: Millis, reason: &str) -> NewlyDirty {
        self.end_cooldown();
        self.last_failed.fetch_max(now, Relaxed);
        *self.reason() = Some(reason.to_owned());
        self.is_troubled.store(true, Relaxed);
        self.mark_dirty()
    }

    /// Records that the address has answered a request. `began` is the start of the request: a cooldown that began later
    /// goes on.
    pub fn record_success(&self, began: Millis) -> NewlyDirty {
        if !self.is_troubled.load(Relaxed) || self.last_failed.load(Relaxed) > began {
            return NewlyDirty(false);
        }
        self.is_troubled.store(false, Relaxed);
        self.end_cooldown();
        *self.reason() = None;
        self.mark_dirty()
    }

    /// Ends the cooldown known here; one that another instance begins meanwhile stays.
    fn end_cooldown(&self) {
        self.cooldown_until.store(0, Relaxed);
        self.cleared_at.fetch_max(self.cooled_at.load(Relaxed), Relaxed);
        self.cooldown_unsaved.store(true, Relaxed);
    }

    /// Takes over the cooldown as all instances that share the database know it.
    pub fn follow(&self, stored: &StoredCooldown) {
        let cleared_at = self.cleared_at.fetch_max(stored.cleared_at, Relaxed).max(stored.cleared_at);
        if self.cooled_at.load(Relaxed) <= cleared_at {
            self.cooldown_until.store(0, Relaxed);
        }
        if stored.cooled_at <= cleared_at {
            return;
        }
        self.cooldown_until.fetch_max(stored.cooldown_until, Relaxed);
        self.cooled_at.fetch_max(stored.cooled_at, Relaxed);
        self.last_failed.fetch_max(stored.last_fail, Relaxed);
        self.is_troubled.store(true, Relaxed);
    }

    /// Lowers the dirty flag and returns the state to write.
    pub fn take_state(&self) -> EndpointState {
        self.dirty.lower();
        let is_cooldown_changed = self.cooldown_unsaved.swap(false, Relaxed);
        EndpointState { is_cooldown_changed, ..self.state() }
    }

    pub fn state(&self) -> EndpointState {
        EndpointState {
            cooldown_until: stamp(&self.cooldown_until),
            last_selected: stamp(&self.last_selected),
            last_failed: stamp(&self.last_failed),
            last_failure_reason: self.reason().clone(),
            cooled_at: self.cooled_at.load(Relaxed),
            cleared_at: self.cleared_at.load(Relaxed),
            is_cooldown_changed: self.cooldown_unsaved.load(Relaxed),
        }
    }

    /// Raises the dirty flag. An address without a row is never written.
    fn mark_dirty(&self) -> NewlyDirty {
        if self.id.is_some() { self.dirty.raise() } else { NewlyDirty(false) }
    }

    pub fn cooldown_until(&self) -> Option<Millis> {
        stamp(&self.cooldown_until)
    }

    pub fn last_selected(&self) -> Option<Millis> {
        stamp(&self.last_selected)
    }

    /// Returns whether the address is cooling; at `cooldown_until` it is no longer.
    pub fn is_cooling(&self, now: Millis) -> bool {
        self.cooldown_until.load(Relaxed) > now
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.last_failure_reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_recovers_with_a_success() {
        let live = EndpointLive::new(Some(EndpointId::new(4)), EndpointState::default());
        assert!(!live.record_success(0).0, "nothing to write about a healthy address");
        assert!(live.record_failure(1_000, 301_000, "HTTP 502").0);
        assert!(live.is_cooling(300_999) && !live.is_cooling(301_000));
        assert_eq!(live.take_state().last_failure_reason.as_deref(), Some("HTTP 502"));
        assert!(live.record_success(i64::MAX).0);
        assert_eq!(live.state().last_failure_reason, None);
        assert_eq!(live.cooldown_until(), None);
    }
}
