//! The health of one address of a site.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use super::{advance, stamp};
use crate::sync::lock;
use crate::time::Millis;

/// Health of one address in a site's endpoint pool.
#[derive(Debug)]
pub struct EndpointLive {
    /// None: the site's own address, which has no row and is not persisted.
    pub id: Option<i64>,
    cooldown_until: AtomicI64,
    last_selected: AtomicI64,
    last_failed: AtomicI64,
    /// There is a cooldown or a reason for a success to clear: spares the healthy the lock below.
    is_troubled: AtomicBool,
    /// Only a failure and the writer look at it, never the choice of an endpoint.
    last_failure_reason: Mutex<Option<String>>,
    dirty: AtomicBool,
}

/// An endpoint's state as the store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    pub cooldown_until: Option<Millis>,
    pub last_selected: Option<Millis>,
    pub last_failed: Option<Millis>,
    pub last_failure_reason: Option<String>,
}

// === impl EndpointLive ===

impl EndpointLive {
    pub fn new(id: Option<i64>, state: EndpointState) -> Self {
        Self {
            id,
            cooldown_until: AtomicI64::new(state.cooldown_until.unwrap_or(0)),
            last_selected: AtomicI64::new(state.last_selected.unwrap_or(0)),
            last_failed: AtomicI64::new(state.last_failed.unwrap_or(0)),
            is_troubled: AtomicBool::new(
                state.cooldown_until.is_some() || state.last_failure_reason.is_some(),
            ),
            last_failure_reason: Mutex::new(state.last_failure_reason),
            dirty: AtomicBool::new(false),
        }
    }

    /// The address is used for an attempt. Gives true when the caller is to hand it to the writer, as do
    /// the other `record_*`; never for an address without a row.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn record_selection(&self, now: Millis) -> bool {
        advance(&self.last_selected, now);
        self.mark_dirty()
    }

    /// A failure that rotates (see [`pool::rotates`](crate::routing::pool::rotates)): the address cools.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn record_failure(&self, now: Millis, until: Millis, reason: &str) -> bool {
        self.cooldown_until.fetch_max(until, Relaxed);
        self.last_failed.fetch_max(now, Relaxed);
        *self.reason() = Some(reason.to_owned());
        self.is_troubled.store(true, Relaxed);
        self.mark_dirty()
    }

    /// Any other failure: noted, and the address is evidently alive.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn record_other_failure(&self, now: Millis, reason: &str) -> bool {
        self.cooldown_until.store(0, Relaxed);
        self.last_failed.fetch_max(now, Relaxed);
        *self.reason() = Some(reason.to_owned());
        self.is_troubled.store(true, Relaxed);
        self.mark_dirty()
    }

    /// The address has answered: its cooldown ends.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn record_success(&self) -> bool {
        if !self.is_troubled.load(Relaxed) {
            return false;
        }
        self.is_troubled.store(false, Relaxed);
        self.cooldown_until.store(0, Relaxed);
        *self.reason() = None;
        self.mark_dirty()
    }

    /// Lowers the dirty flag and gives what is to be written.
    pub fn take_state(&self) -> EndpointState {
        self.dirty.store(false, SeqCst);
        self.state()
    }

    pub fn state(&self) -> EndpointState {
        EndpointState {
            cooldown_until: stamp(&self.cooldown_until),
            last_selected: stamp(&self.last_selected),
            last_failed: stamp(&self.last_failed),
            last_failure_reason: self.reason().clone(),
        }
    }

    /// Taken again by a writer whose batch failed.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn mark_dirty(&self) -> bool {
        self.id.is_some() && !self.dirty.swap(true, SeqCst)
    }

    pub fn cooldown_until(&self) -> Option<Millis> {
        stamp(&self.cooldown_until)
    }

    pub fn last_selected(&self) -> Option<Millis> {
        stamp(&self.last_selected)
    }

    /// Available again when `now >= cooldown_until`.
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
        let live = EndpointLive::new(Some(4), EndpointState::default());
        assert!(!live.record_success(), "nothing to write about a healthy address");
        assert!(live.record_failure(1_000, 301_000, "HTTP 502"));
        assert!(live.is_cooling(300_999) && !live.is_cooling(301_000));
        assert_eq!(live.take_state().last_failure_reason.as_deref(), Some("HTTP 502"));
        assert!(live.record_success());
        assert_eq!(live.state().last_failure_reason, None);
        assert_eq!(live.cooldown_until(), None);
    }
}
