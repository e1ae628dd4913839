//! A channel's counters, cooldown and trials.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};

use super::counter::Counter;
use super::{advance, stamp};
use crate::ids::{ChannelId, MemberId};
use crate::money::Usd;
use crate::routing::failure::SET_BACK;
use crate::sync::{DirtyFlag, NewlyDirty};
use crate::time::{MINUTE, Millis};

/// The owner of a set of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountersOf {
    Channel(ChannelId),
    /// A member of a route unit.
    Member(MemberId),
}

/// Counters and cooldown of one channel.
#[derive(Debug)]
pub struct ChannelLive {
    pub of: CountersOf,
    success: Counter,
    fail: Counter,
    latency_ms: Counter,
    cost_nano: AtomicU64,
    /// Below zero when less was spent than had been booked.
    unsaved_cost_nano: AtomicI64,
    cache_input: Counter,
    cache_read: Counter,
    consecutive_fail: AtomicU64,
    last_used: AtomicI64,
    last_selected: AtomicI64,
    last_fail: AtomicI64,
    cooldown_until: AtomicI64,
    /// Until when the provider asked to be left alone: after the cooldown the channel is half-open until then.
    provider_cooldown_until: AtomicI64,
    /// When the last cooldown began.
    cooled_at: AtomicI64,
    /// Cooldowns that began at or before this time are over, because a request of that time was answered or an operator ended
    /// them.
    cleared_at: AtomicI64,
    /// Whether the cooldown has changed since it was last written.
    cooldown_unsaved: AtomicBool,
    /// Whether a trial request is running on the cooling channel.
    on_trial: AtomicBool,
    /// When the last trial began; not persisted.
    last_trial: AtomicI64,
    /// The order of selections within one millisecond; not persisted.
    selection_number: AtomicU64,
    dirty: DirtyFlag,
}

/// A channel's counters and cooldown, as the store keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelTotals {
    pub success: u64,
    pub fail: u64,
    pub latency_ms: u64,
    /// The total cost, in billionths of a US dollar.
    pub cost_nano: u64,
    pub consecutive_fail: u64,
    pub last_used: Option<Millis>,
    pub last_selected: Option<Millis>,
    pub last_fail: Option<Millis>,
    pub cooldown_until: Option<Millis>,
    /// Set while the provider's refusal stands: until that time, or because its usage limit is reached.
    pub provider_cooldown_until: Option<Millis>,
    /// The input tokens of calls whose upstream reports its cache; `cache_read` is the part read from there.
    pub cache_input: u64,
    pub cache_read: u64,
}

/// Where a channel is in its cooldown, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CooldownPhase {
    Cooling {
        until: Millis,
    },
    /// The provider announced that it would refuse until then.
    HalfOpen {
        until: Millis,
    },
}

/// A guard for the one trial request on a cooling channel; dropping it allows the next trial.
#[derive(Debug)]
pub struct Trial(Arc<ChannelLive>);

/// The time between trials of a half-open channel while others can serve, in milliseconds.
const TRIAL_EVERY: Millis = 15 * MINUTE;

/// The unsaved changes of a channel: counts are added to the stored ones, the state of its cooldown replaces the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelDelta {
    pub of: CountersOf,
    pub success: u64,
    pub fail: u64,
    pub latency_ms: u64,
    /// May be below zero.
    pub cost_nano: i64,
    pub cache_input: u64,
    pub cache_read: u64,
    pub consecutive_fail: u64,
    pub last_used: Option<Millis>,
    pub last_selected: Option<Millis>,
    pub last_fail: Option<Millis>,
    pub cooldown_until: Option<Millis>,
    pub provider_cooldown_until: Option<Millis>,
    /// Whether the channel began to cool, or was answered or cleared, since the last write.
    pub is_cooldown_changed: bool,
    /// When the cooldown began, and up to when cooldowns are over; 0 where unknown.
    pub cooled_at: Millis,
    pub cleared_at: Millis,
}

/// A channel's cooldown, as the instances that share a database know it; 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredCooldown {
    pub cooled_at: Millis,
    pub cleared_at: Millis,
    pub cooldown_until: Millis,
    pub provider_cooldown_until: Millis,
    pub last_fail: Millis,
    pub consecutive_fail: u64,
}

/// Numbers the selections of all channels, to order those within one millisecond.
static SELECTIONS: AtomicU64 = AtomicU64::new(0);

// === impl ChannelTotals ===

impl ChannelTotals {
    pub fn cost(&self) -> Usd {
        Usd::from_nano(i64::try_from(self.cost_nano).unwrap_or(i64::MAX))
    }

    /// Returns the share of the input that came from the upstream's cache; `None` if the upstream reports no cache.
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        (self.cache_input > 0).then(|| self.cache_read as f64 / self.cache_input as f64)
    }

    /// Returns until when the provider announced it would refuse, if that is after the cooldown.
    pub fn limited_until(&self) -> Option<Millis> {
        self.provider_cooldown_until
            .filter(|until| self.cooldown_until.is_none_or(|cooldown| *until > cooldown))
    }
}

// === impl ChannelLive ===

impl ChannelLive {
    pub fn new(id: ChannelId, totals: ChannelTotals) -> Self {
        Self::with(CountersOf::Channel(id), totals)
    }

    /// Creates the counters of a member of a route unit.
    pub fn of_member(id: MemberId, totals: ChannelTotals) -> Self {
        Self::with(CountersOf::Member(id), totals)
    }

    fn with(of: CountersOf, totals: ChannelTotals) -> Self {
        let live = Self {
            of,
            success: Counter::default(),
            fail: Counter::default(),
            latency_ms: Counter::default(),
            cost_nano: AtomicU64::default(),
            unsaved_cost_nano: AtomicI64::default(),
            cache_input: Counter::default(),
            cache_read: Counter::default(),
            consecutive_fail: AtomicU64::default(),
            last_used: AtomicI64::default(),
            last_selected: AtomicI64::default(),
            last_fail: AtomicI64::default(),
            cooldown_until: AtomicI64::default(),
            provider_cooldown_until: AtomicI64::default(),
            cooled_at: AtomicI64::default(),
            cleared_at: AtomicI64::default(),
            cooldown_unsaved: AtomicBool::default(),
            on_trial: AtomicBool::default(),
            last_trial: AtomicI64::default(),
            selection_number: AtomicU64::default(),
            dirty: DirtyFlag::default(),
        };
        live.restore(totals);
        live
    }

    /// Counts an answered request and ends the cooldown, unless that is newer than the request: a long answer that began before
    /// says nothing of what is refused since.
    pub fn record_success(&self, now: Millis, latency_ms: u64, cost: Usd) -> NewlyDirty {
        self.success.add(1);
        self.latency_ms.add(latency_ms);
        self.add_cost(cost);
        advance(&self.last_used, now);
        self.forget_cooldown(now.saturating_sub(Millis::try_from(latency_ms).unwrap_or(0)), now);
        self.mark_dirty()
    }

    /// Ends the cooldown, because a request that began at this time is being answered.
    pub fn end_cooldown(&self, began: Millis, now: Millis) -> NewlyDirty {
        if self.forget_cooldown(began, now) { self.mark_dirty() } else { NewlyDirty(false) }
    }

    /// Forgets the cooldown, unless it is newer than a request that began at this time. Returns whether it did.
    fn forget_cooldown(&self, began: Millis, now: Millis) -> bool {
        if self.has_cooled_since(began, now) {
            return false;
        }
        if self.consecutive_fail.load(Relaxed) == 0
            && self.last_fail.load(Relaxed) == 0
            && self.cooldown_until.load(Relaxed) == 0
            && !self.is_limited()
        {
            return true;
        }
        let ends = [&self.cooldown_until, &self.provider_cooldown_until];
        let ended = ends.map(|until| until.swap(0, SeqCst));
        if self.has_cooled_since(began, now) {
            // A failure was recorded meanwhile, and its cooldown may have been taken for the former one.
            for (until, was) in ends.into_iter().zip(ended) {
                until.fetch_max(was, SeqCst);
            }
            return false;
        }
        self.note_cleared(began);
        self.last_fail.store(0, Relaxed);
        self.consecutive_fail.store(0, Relaxed);
        true
    }

    /// Counts how much of an answer's input came from the upstream's cache. [`Self::record_success`] must follow, which
    /// hands the channel to the writer.
    pub fn record_cached(&self, input: u64, read: u64) {
        self.cache_input.add(input);
        self.cache_read.add(read);
    }

    /// Corrects the cost of a request that was already counted: it cost more, or less, than was booked.
    pub fn record_cost(&self, more: Usd) -> NewlyDirty {
        self.add_cost(more);
        self.mark_dirty()
    }

    fn add_cost(&self, more: Usd) {
        let nano = more.nano();
        if nano == 0 {
            return;
        }
        let sum = |cost: u64| Some(cost.saturating_add_signed(nano));
        // It always succeeds: the sum is never refused.
        let _ = self.cost_nano.fetch_update(Relaxed, Relaxed, sum);
        self.unsaved_cost_nano.fetch_add(nano, Relaxed);
    }

    /// Counts a failure and cools the channel until `until`, or longer if it already cools longer.
    pub fn record_failure(&self, now: Millis, until: Millis) -> NewlyDirty {
        self.fail.add(1);
        self.consecutive_fail.fetch_add(1, Relaxed);
        if self.last_fail.swap(now, Relaxed) > now + SET_BACK {
            self.cooldown_until.store(0, Relaxed);
            self.provider_cooldown_until.store(0, Relaxed);
        }
        self.record_cooldown(now, until)
    }

    /// Counts the failure of a member on the whole unit, which does not cool.
    pub fn record_failed_member(&self) -> NewlyDirty {
        self.fail.add(1);
        self.mark_dirty()
    }

    /// Records that the provider announced it would refuse until then.
    pub fn record_limit(&self, until: Millis) -> NewlyDirty {
        self.provider_cooldown_until.fetch_max(until, Relaxed);
        self.cooldown_unsaved.store(true, Relaxed);
        self.mark_dirty()
    }

    /// Cools the channel without counting a failure.
    pub fn record_cooldown(&self, now: Millis, until: Millis) -> NewlyDirty {
        self.cooled_at.store(now, SeqCst);
        self.cooldown_until.fetch_max(until, SeqCst);
        self.cooldown_unsaved.store(true, Relaxed);
        self.mark_dirty()
    }

    /// Returns whether the channel has begun to cool after this time.
    pub fn has_cooled_since(&self, began: Millis, now: Millis) -> bool {
        let cooled_at = self.cooled_at.load(SeqCst);
        cooled_at > began && cooled_at <= now + SET_BACK
    }

    /// Ends the provider's refusal, because another channel with the same credential was answered, by a request that began
    /// after it. A channel that failed itself keeps cooling.
    pub fn end_limit(&self, began: Millis, now: Millis) -> NewlyDirty {
        if self.has_cooled_since(began, now) || self.provider_cooldown_until.swap(0, Relaxed) == 0 {
            return NewlyDirty(false);
        }
        self.cooldown_unsaved.store(true, Relaxed);
        if self.consecutive_fail.load(Relaxed) == 0 {
            self.cooldown_until.store(0, Relaxed);
            self.note_cleared(self.cooled_at.load(Relaxed));
        }
        self.mark_dirty()
    }

    /// Returns whether the provider's refusal stands, for this channel or for its whole credential.
    pub fn is_limited(&self) -> bool {
        self.provider_cooldown_until.load(Relaxed) != 0
    }

    /// Records that the channel was selected: the next turn is another's.
    pub fn record_selection(&self, now: Millis) -> NewlyDirty {
        advance(&self.last_selected, now);
        self.selection_number.store(SELECTIONS.fetch_add(1, Relaxed) + 1, Relaxed);
        self.mark_dirty()
    }

    /// Ends the cooldown on an operator's command, and resets the failure counts with it. The caller writes the same to the
    /// store; unsaved failures are dropped here so that they do not come back.
    pub fn clear_cooldown(&self) {
        self.fail.restore(0);
        self.consecutive_fail.store(0, Relaxed);
        self.last_fail.store(0, Relaxed);
        self.cooldown_until.store(0, Relaxed);
        self.provider_cooldown_until.store(0, Relaxed);
        self.last_trial.store(0, Relaxed);
        self.cleared_at.fetch_max(self.cooled_at.load(Relaxed), Relaxed);
        self.cooldown_unsaved.store(false, Relaxed);
    }

    fn note_cleared(&self, at: Millis) {
        self.cleared_at.fetch_max(at, Relaxed);
        self.cooldown_unsaved.store(true, Relaxed);
    }

    /// Takes over the channel's cooldown as all instances that share the database know it.
    pub fn follow(&self, stored: &StoredCooldown) {
        let cleared_at = self.cleared_at.fetch_max(stored.cleared_at, Relaxed).max(stored.cleared_at);
        if self.cooled_at.load(Relaxed) <= cleared_at {
            for value in [&self.last_fail, &self.cooldown_until, &self.provider_cooldown_until] {
                value.store(0, Relaxed);
            }
            self.consecutive_fail.store(0, Relaxed);
        }
        if stored.cooled_at <= cleared_at {
            return;
        }
        self.cooldown_until.fetch_max(stored.cooldown_until, Relaxed);
        if self.cooled_at.fetch_max(stored.cooled_at, Relaxed) < stored.cooled_at {
            self.provider_cooldown_until.store(stored.provider_cooldown_until, Relaxed);
            self.last_fail.fetch_max(stored.last_fail, Relaxed);
            self.consecutive_fail.fetch_max(stored.consecutive_fail, Relaxed);
        }
    }

    /// Takes over the stored totals and drops unsaved changes.
    pub fn restore(&self, totals: ChannelTotals) {
        self.success.restore(totals.success);
        self.fail.restore(totals.fail);
        self.latency_ms.restore(totals.latency_ms);
        self.cost_nano.store(totals.cost_nano, Relaxed);
        self.unsaved_cost_nano.store(0, Relaxed);
        self.cache_input.restore(totals.cache_input);
        self.cache_read.restore(totals.cache_read);
        self.consecutive_fail.store(totals.consecutive_fail, Relaxed);
        self.last_used.store(totals.last_used.unwrap_or(0), Relaxed);
        self.last_selected.store(totals.last_selected.unwrap_or(0), Relaxed);
        self.last_fail.store(totals.last_fail.unwrap_or(0), Relaxed);
        self.cooldown_until.store(totals.cooldown_until.unwrap_or(0), Relaxed);
        self.provider_cooldown_until.store(totals.provider_cooldown_until.unwrap_or(0), Relaxed);
    }

    /// Returns what has to be written now, and marks it as saved.
    pub fn take_delta(&self) -> ChannelDelta {
        self.dirty.lower();
        let is_cooldown_changed = self.cooldown_unsaved.swap(false, SeqCst);
        let totals = self.totals();
        ChannelDelta {
            of: self.of,
            success: self.success.take(),
            fail: self.fail.take(),
            latency_ms: self.latency_ms.take(),
            cost_nano: self.unsaved_cost_nano.swap(0, Relaxed),
            cache_input: self.cache_input.take(),
            cache_read: self.cache_read.take(),
            consecutive_fail: totals.consecutive_fail,
            last_used: totals.last_used,
            last_selected: totals.last_selected,
            last_fail: totals.last_fail,
            cooldown_until: totals.cooldown_until,
            provider_cooldown_until: totals.provider_cooldown_until,
            is_cooldown_changed,
            cooled_at: self.cooled_at.load(Relaxed),
            cleared_at: self.cleared_at.load(Relaxed),
        }
    }

    /// Returns the current totals, saved or not.
    pub fn totals(&self) -> ChannelTotals {
        ChannelTotals {
            success: self.success.total(),
            fail: self.fail.total(),
            latency_ms: self.latency_ms.total(),
            cost_nano: self.cost_nano.load(Relaxed),
            consecutive_fail: self.consecutive_fail.load(Relaxed),
            last_used: stamp(&self.last_used),
            last_selected: stamp(&self.last_selected),
            last_fail: stamp(&self.last_fail),
            cooldown_until: stamp(&self.cooldown_until),
            provider_cooldown_until: stamp(&self.provider_cooldown_until),
            cache_input: self.cache_input.total(),
            cache_read: self.cache_read.total(),
        }
    }

    /// Returns when the cooldown ends, which may be in the past.
    pub fn cooldown_until(&self) -> Option<Millis> {
        stamp(&self.cooldown_until)
    }

    /// Returns [`ChannelTotals::limited_until`], which may be in the past.
    pub fn limited_until(&self) -> Option<Millis> {
        self.totals().limited_until()
    }

    /// Returns where the channel is in its cooldown; `None` while it does not cool. If the clock was set back to before the
    /// failure, the remaining time is unknown and the channel may be tried.
    pub fn cooldown_phase(&self, now: Millis) -> Option<CooldownPhase> {
        let cooldown = self.cooldown_until.load(Relaxed);
        let limit = self.provider_cooldown_until.load(Relaxed);
        if cooldown.max(limit) <= now || self.last_fail.load(Relaxed) > now + SET_BACK {
            return None;
        }
        Some(if cooldown > now {
            CooldownPhase::Cooling { until: cooldown }
        } else {
            CooldownPhase::HalfOpen { until: limit }
        })
    }

    /// Returns whether the channel is cooling. At `cooldown_until` it is no longer, though it may be half-open.
    pub fn is_cooling(&self, now: Millis) -> bool {
        matches!(self.cooldown_phase(now), Some(CooldownPhase::Cooling { .. }))
    }

    pub fn is_half_open(&self, now: Millis) -> bool {
        matches!(self.cooldown_phase(now), Some(CooldownPhase::HalfOpen { .. }))
    }

    /// Returns whether a trial request is running now.
    pub fn is_on_trial(&self) -> bool {
        self.on_trial.load(SeqCst)
    }

    /// Returns when the last trial began; 0 before the first.
    pub fn last_trial(&self) -> Millis {
        self.last_trial.load(Relaxed)
    }

    /// Returns whether a half-open channel is due for a trial although others can serve.
    pub fn is_due_for_trial(&self, now: Millis) -> bool {
        let last = self.last_trial();
        self.is_half_open(now) && (last == 0 || has_passed(TRIAL_EVERY, last, now))
    }

    /// Returns whether a cooling channel may be tried when there is no other: once `pause` has passed since it was last
    /// tried, failed or began to cool.
    pub fn may_be_last_resort(&self, now: Millis, pause: Millis) -> bool {
        let asked = self.last_fail.load(Relaxed).max(self.cooled_at.load(Relaxed)).max(self.last_trial());
        self.is_cooling(now) && has_passed(pause, asked, now)
    }

    /// Begins a trial, unless one is running or `may_be` no longer holds for the channel.
    pub fn begin_trial(self: &Arc<Self>, now: Millis, may_be: impl FnOnce(&Self) -> bool) -> Option<Trial> {
        self.on_trial.compare_exchange(false, true, SeqCst, SeqCst).ok()?;
        let trial = Trial(self.clone());
        if !may_be(self) {
            return None;
        }
        self.last_trial.store(now, Relaxed);
        Some(trial)
    }

    /// Returns the number of the channel's last selection, counted over all channels of this process; 0 before the first.
    pub fn selection_number(&self) -> u64 {
        self.selection_number.load(Relaxed)
    }

    fn mark_dirty(&self) -> NewlyDirty {
        self.dirty.raise()
    }
}

// === impl Trial ===

impl Drop for Trial {
    fn drop(&mut self) {
        self.0.on_trial.store(false, SeqCst);
    }
}

/// Returns whether `pause` has passed since `since`, or `since` is so far in the future that the clock must have been set
/// back.
fn has_passed(pause: Millis, since: Millis, now: Millis) -> bool {
    !(-SET_BACK..pause).contains(&now.saturating_sub(since))
}

#[cfg(test)]
mod tests;
