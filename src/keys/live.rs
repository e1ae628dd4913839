//! The usage of a key, while the key is in use.
//!
//! A limited key spends only requests that the database already counts ([`Quota`]). A key without a limit is counted in
//! memory and written later, like costs and the time of last use.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Mutex as TurnLock;

use crate::ids::KeyId;
use crate::limits::{Gate, IdentityWindows, Lease, LeaseRules, RateWindow, UsageWindow};
use crate::money::Usd;
use crate::sync::{DirtyFlag, NewlyDirty, lock};
use crate::time::Millis;

use super::budget::{BudgetDelta, BudgetLive, ROUNDING_NANO};
use super::quota::Quota;
use super::spend_checks::{SpendChecks, may_be_spent};

/// The rules for the slots of a key: calls do not wait for one, and a long call keeps its slot to its end.
const CALL_SLOT_RULES: LeaseRules = LeaseRules {
    queue_limit: 0,
    queue_wait: Duration::ZERO,
    ttl: Duration::from_secs(10 * 365 * 86_400),
    keepalive: Duration::from_secs(365 * 86_400),
};

/// The usage of one key.
#[derive(Debug)]
pub struct KeyLive {
    pub id: KeyId,
    /// Held while reserved requests are changed, until the change is committed.
    pub turn: Arc<TurnLock<()>>,
    /// Counts the key's requests, for the rate limits of the service.
    pub rates: Arc<IdentityWindows>,
    /// Count the key's requests and tokens, for its own limits.
    pub minute_requests: RateWindow,
    pub minute_tokens: UsageWindow,
    /// The key's requests over all time.
    pub requests: Quota,
    /// When the database was asked what other instances have spent.
    pub spend_checks: SpendChecks,
    /// The gate of the key's concurrent calls, once these were limited.
    gate: OnceLock<Arc<Gate>>,
    /// The budgets in force. Locked when a key is changed and when it is written, never by requests.
    budgets: Mutex<Vec<Arc<BudgetLive>>>,
    used_cost_nano: AtomicI64,
    /// The usage that the database reported last, of all instances.
    stored_cost_nano: AtomicI64,
    stored_requests: AtomicI64,
    /// The spending of all instances between the last two reads of the database, plus that of this instance since then.
    recent_cost_nano: AtomicI64,
    /// The time of last use; 0 for never.
    last_used: AtomicI64,
    unsaved_requests: AtomicU64,
    unsaved_cost_nano: AtomicI64,
    /// How often the usage was reset.
    resets: AtomicU64,
    dirty: DirtyFlag,
}

/// The usage to add to the row of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyDelta {
    pub id: KeyId,
    pub requests: u64,
    /// The cost in USD.
    pub cost: Usd,
    pub last_used: Option<Millis>,
    /// The usage to add to the rows of its budgets.
    pub budgets: Vec<BudgetDelta>,
}

// === impl KeyLive ===

impl KeyLive {
    /// Starts from the usage in the key's row.
    pub fn new(id: KeyId, used_requests: i64, used_cost: Usd, last_used: Option<Millis>) -> Self {
        Self {
            id,
            turn: Arc::default(),
            rates: Arc::default(),
            minute_requests: RateWindow::default(),
            minute_tokens: UsageWindow::default(),
            requests: Quota::new(used_requests),
            spend_checks: SpendChecks::default(),
            gate: OnceLock::new(),
            budgets: Mutex::default(),
            used_cost_nano: AtomicI64::new(used_cost.nano()),
            stored_cost_nano: AtomicI64::new(used_cost.nano()),
            stored_requests: AtomicI64::new(used_requests),
            recent_cost_nano: AtomicI64::new(0),
            last_used: AtomicI64::new(last_used.unwrap_or(0)),
            unsaved_requests: AtomicU64::new(0),
            unsaved_cost_nano: AtomicI64::new(0),
            resets: AtomicU64::new(0),
            dirty: DirtyFlag::default(),
        }
    }

    /// Sets how many calls may be at work at once; `None` is any number. Calls at work go on.
    pub fn limit_concurrency(&self, most: Option<u32>) {
        let most = most.unwrap_or(0) as usize;
        match self.gate.get() {
            Some(gate) => gate.set_limit(most),
            None if most > 0 => drop(self.gate.set(Arc::new(Gate::new(
                "downstream key",
                self.id.get(),
                most,
                CALL_SLOT_RULES,
            )))),
            None => {}
        }
    }

    /// Takes the slot of one call at work, which is given back when dropped; `None` when all are taken.
    pub fn enter(&self) -> Option<Lease> {
        self.gate.get().map_or_else(|| Some(Lease::default()), Gate::try_enter)
    }

    /// Returns the budgets in force.
    pub fn budgets(&self) -> Vec<Arc<BudgetLive>> {
        lock(&self.budgets).clone()
    }

    /// Replaces the budgets in force.
    pub fn set_budgets(&self, budgets: Vec<Arc<BudgetLive>>) {
        *lock(&self.budgets) = budgets;
    }

    /// Counts one request of a key without a limit.
    pub fn count(&self) {
        self.requests.count(1);
        self.unsaved_requests.fetch_add(1, AcqRel);
    }

    /// Records a use of the key.
    pub fn record_use(&self, now: Millis) -> NewlyDirty {
        self.last_used.fetch_max(now, AcqRel);
        self.dirty.raise()
    }

    /// Adds the cost of a request.
    pub fn charge(&self, cost: Usd, now: Millis) -> NewlyDirty {
        self.add_stored(cost, now);
        self.unsaved_cost_nano.fetch_add(cost.nano(), AcqRel);
        self.dirty.raise()
    }

    /// Adds a cost that is in the key's row already.
    pub(super) fn add_stored(&self, cost: Usd, now: Millis) {
        self.used_cost_nano.fetch_add(cost.nano(), AcqRel);
        self.recent_cost_nano.fetch_add(cost.nano(), AcqRel);
        self.last_used.fetch_max(now, AcqRel);
    }

    /// Takes over the cost of all instances from the database. This instance's unsaved cost is never lost;
    /// a lower sum than before means a reset by another instance.
    pub fn follow_cost(&self, cost: Usd) {
        let stored = cost.nano();
        let before = self.stored_cost_nano.swap(stored, AcqRel);
        self.recent_cost_nano.store(stored - before, Release);
        let known = stored.saturating_add(self.unsaved_cost_nano.load(Acquire));
        if stored < before - ROUNDING_NANO {
            self.used_cost_nano.store(known, Release);
        } else {
            self.used_cost_nano.fetch_max(known, AcqRel);
        }
    }

    /// Whether little may be left of the total cost limit, while this many other instances spend.
    pub(super) fn is_near_limit(&self, most: Usd, others: i64) -> bool {
        let recent = self.recent_cost_nano.load(Acquire).max(self.unsaved_cost_nano.load(Acquire));
        may_be_spent(self.used_cost_nano.load(Acquire), most.nano(), recent, others)
    }

    /// Does the same as [`Self::follow_cost`] for the requests of a key without a limit.
    pub fn follow_requests(&self, stored: i64) {
        let before = self.stored_requests.swap(stored, AcqRel);
        let unsaved = i64::try_from(self.unsaved_requests.load(Acquire)).unwrap_or(i64::MAX);
        self.requests.follow(stored.saturating_add(unsaved), stored < before);
    }

    /// Takes the usage that is not written yet; lowers the flag first, so that later changes raise it again.
    pub fn take_delta(&self) -> KeyDelta {
        self.dirty.lower();
        KeyDelta {
            id: self.id,
            requests: self.unsaved_requests.swap(0, AcqRel),
            cost: Usd::from_nano(self.unsaved_cost_nano.swap(0, AcqRel)),
            last_used: self.last_used(),
            budgets: lock(&self.budgets).iter().filter_map(|budget| budget.take_delta()).collect(),
        }
    }

    /// Whether requests are reserved and not spent, of the key's own limit or of a budget.
    pub fn holds_reserved(&self) -> bool {
        self.requests.block() > 0 || lock(&self.budgets).iter().any(|budget| budget.requests().0.block() > 0)
    }

    /// Returns the cost spent, in USD.
    pub fn used_cost(&self) -> Usd {
        Usd::from_nano(self.used_cost_nano.load(Acquire))
    }

    pub fn last_used(&self) -> Option<Millis> {
        Some(self.last_used.load(Acquire)).filter(|at| *at > 0)
    }

    /// Returns how often the usage was reset: what was spent before a reset is no longer corrected.
    pub fn resets(&self) -> u64 {
        self.resets.load(Acquire)
    }

    /// Resets the usage to nothing. For the holder of the turn.
    pub fn reset(&self) {
        self.resets.fetch_add(1, AcqRel);
        self.requests.reset();
        self.used_cost_nano.store(0, Release);
        self.stored_cost_nano.store(0, Release);
        self.stored_requests.store(0, Release);
        self.unsaved_requests.store(0, Release);
        self.unsaved_cost_nano.store(0, Release);
        self.recent_cost_nano.store(0, Release);
        lock(&self.budgets).iter().for_each(|budget| budget.reset());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_is_handed_over_once() {
        let live = KeyLive::new(KeyId::new(3), 0, Usd::new(1.0), None);
        live.count();
        assert!(live.charge(Usd::new(0.25), 50).0 && !live.charge(Usd::new(0.25), 40).0);
        let delta = |requests, cost, at| KeyDelta {
            id: KeyId::new(3),
            requests,
            cost,
            last_used: Some(at),
            budgets: Vec::new(),
        };
        assert_eq!(live.take_delta(), delta(1, Usd::new(0.5), 50));
        assert_eq!((live.requests.used(), live.used_cost()), (1, Usd::new(1.5)));
        assert!(live.record_use(60).0);
        assert_eq!(live.take_delta(), delta(0, Usd::new(0.0), 60));
    }

    #[test]
    fn what_other_instances_spend_and_reset_is_taken_over_and_what_is_on_its_way_is_kept() {
        let live = KeyLive::new(KeyId::new(3), 0, Usd::new(1.0), None);
        let _ = live.charge(Usd::new(0.5), 40);
        live.follow_cost(Usd::new(3.0));
        assert_eq!(live.used_cost(), Usd::new(3.5), "another has spent two");
        live.take_delta();
        live.follow_cost(Usd::new(3.0));
        assert_eq!(live.used_cost(), Usd::new(3.5), "half a dollar is being written");
        live.follow_cost(Usd::new(3.5));
        assert_eq!(live.used_cost(), Usd::new(3.5));
        let _ = live.charge(Usd::new(0.25), 40);
        live.follow_cost(Usd::new(0.0));
        assert_eq!(live.used_cost(), Usd::new(0.25), "another has reset the key");
    }

    #[test]
    fn calls_at_work_are_counted_while_they_are_limited() {
        let live = KeyLive::new(KeyId::new(3), 0, Usd::new(0.0), None);
        let unlimited = live.enter();
        live.limit_concurrency(Some(1));
        let first = live.enter();
        assert!(unlimited.is_some() && first.is_some() && live.enter().is_none());
        live.limit_concurrency(Some(2));
        let second = live.enter();
        assert!(second.is_some() && live.enter().is_none());
        live.limit_concurrency(Some(1));
        drop(second);
        assert!(live.enter().is_none(), "the first is still at work");
        drop(first);
        assert!(live.enter().is_some());
        live.limit_concurrency(None);
        assert!((0..5).map(|_| live.enter()).all(|slot| slot.is_some()));
    }
}
