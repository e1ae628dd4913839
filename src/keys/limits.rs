//! The limits of a key beside its totals: concurrent calls, requests and tokens per minute, and budgets.
//!
//! A key without any has no [`KeyLimits`], and needs only one check per request. The counters are in [`KeyLive`], or in
//! the budgets themselves, so that they outlive a change of the key.

use std::sync::MutexGuard;

use crate::limits::RetryAfterSeconds;
use crate::money::Usd;
use crate::time::{MINUTE, Millis};

use super::budget::{Budget, Reached, Window, WindowRefusal};
use super::live::KeyLive;
use super::period::Period;

/// The length of the windows of requests and tokens, in milliseconds.
const WINDOW: Millis = MINUTE;

/// The limits of one key, which has at least one.
#[derive(Debug, Default)]
pub struct KeyLimits {
    pub max_concurrency: Option<u32>,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
    /// At most as many as a [`BudgetMask`] has bits.
    pub budgets: Vec<Budget>,
}

/// The budgets that count a request, by their place in the list.
pub type BudgetMask = u8;

/// The maximum number of budgets of a key.
pub const MAX_BUDGETS: usize = 8;

/// The limit that refuses a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OverLimit {
    Concurrency(u32),
    RequestsPerMinute(u32, RetryAfterSeconds),
    TokensPerMinute(u32, RetryAfterSeconds),
    /// A budget; `end` is when the key can be used again, [`Millis::MAX`] for never.
    Budget {
        period: &'static str,
        reached: Reached,
        end: Millis,
    },
}

/// The charge for a request, or a correction of it.
#[derive(Debug, Clone, Copy)]
pub struct Charge {
    pub cost: Usd,
    pub tokens: i64,
    /// When the request began, and when the charge became known.
    pub began: Millis,
    pub now: Millis,
    /// When the charge became known, on the clock that never steps back.
    pub ticks: Millis,
}

/// Why the budgets do not take a request, yet or at all.
#[derive(Debug)]
pub enum BudgetRefusal {
    Over(OverLimit),
    /// The budget at this place has no window open, or no request reserved.
    NotReady(usize),
}

impl KeyLimits {
    /// Whether there is any limit at all.
    pub fn is_any(&self) -> bool {
        self.max_concurrency.is_some()
            || self.requests_per_minute.is_some()
            || self.tokens_per_minute.is_some()
            || !self.budgets.is_empty()
    }

    /// Checks whether the minute has room for one more request; counts nothing. `now` comes from a clock that never steps back.
    pub fn check_minute(&self, live: &KeyLive, now: Millis) -> Result<(), OverLimit> {
        if let Some(most) = self.requests_per_minute {
            let checked = live.minute_requests.check(most, WINDOW, now);
            checked.map_err(|wait| OverLimit::RequestsPerMinute(most, wait))?;
        }
        if let Some(most) = self.tokens_per_minute {
            let checked = live.minute_tokens.check(most.into(), WINDOW, now);
            checked.map_err(|wait| OverLimit::TokensPerMinute(most, wait))?;
        }
        Ok(())
    }

    /// Counts a request in the minute.
    pub fn count_in_minute(&self, live: &KeyLive, now: Millis) -> Result<(), OverLimit> {
        let Some(most) = self.requests_per_minute else { return Ok(()) };
        let counted = live.minute_requests.count(most, WINDOW, now);
        counted.map_err(|wait| OverLimit::RequestsPerMinute(most, wait))
    }

    /// Counts a request of this model in every budget that is for it, or in none.
    pub fn take(&self, model: &str, now: Millis) -> Result<BudgetMask, BudgetRefusal> {
        // All are checked before one counts: a request that another budget refuses never seems to use up this one.
        let mut windows: [Option<MutexGuard<'_, Window>>; MAX_BUDGETS] = Default::default();
        let (mut over, mut not_ready) = (None, None);
        for (place, budget) in self.budgets.iter().enumerate().filter(|(_, budget)| budget.counts(model)) {
            let window = windows[place].insert(budget.live.window());
            match window.check(&budget.bounds, now) {
                Ok(()) => {}
                // The latest end is reported, so that a client that waits until then is not refused by another budget.
                Err(WindowRefusal::Over { reached, end }) if over.is_none_or(|(last, _)| end > last) => {
                    over = Some((end, OverLimit::Budget { period: budget.period.name(), reached, end }));
                }
                Err(WindowRefusal::Over { .. }) => {}
                // The window of five hours is opened last: it begins with a request that no other budget refuses.
                Err(WindowRefusal::NoWindow | WindowRefusal::NoneReserved)
                    if not_ready
                        .is_none_or(|first: usize| self.budgets[first].period == Period::FiveHours) =>
                {
                    not_ready = Some(place);
                }
                Err(WindowRefusal::NoWindow | WindowRefusal::NoneReserved) => {}
            }
        }
        match (over, not_ready) {
            (Some((_, over)), _) => return Err(BudgetRefusal::Over(over)),
            (None, Some(place)) => return Err(BudgetRefusal::NotReady(place)),
            (None, None) => {}
        }
        let mut mask = 0;
        let mut spent = None;
        for (place, budget) in self.budgets.iter().enumerate() {
            let Some(mut window) = windows[place].take() else { continue };
            if window.take(&budget.bounds) { mask |= 1 << place } else { spent = Some(place) }
        }
        match spent {
            Some(place) => {
                self.put_back(mask, now);
                Err(BudgetRefusal::NotReady(place))
            }
            None => Ok(mask),
        }
    }

    /// Returns the budgets that count requests of this model.
    pub fn counting(&self, model: &str) -> BudgetMask {
        let counting = self.budgets.iter().enumerate().filter(|(_, budget)| budget.counts(model));
        counting.fold(0, |mask, (place, _)| mask | 1 << place)
    }

    /// Gives back a request that was taken at `taken_at` and not made.
    pub fn put_back(&self, mask: BudgetMask, taken_at: Millis) {
        self.in_mask(mask).for_each(|budget| budget.live.put_back(&budget.bounds, taken_at));
    }

    /// Adds the charge for a request that is counted in these budgets.
    pub fn charge(&self, live: &KeyLive, mask: BudgetMask, charge: &Charge) {
        self.add_to_minute(live, charge);
        self.in_mask(mask).for_each(|budget| budget.live.charge(charge.cost, charge.tokens, charge.began));
    }

    /// Adds the tokens of a charge to those of the minute, where these are limited.
    pub(super) fn add_to_minute(&self, live: &KeyLive, charge: &Charge) {
        if self.tokens_per_minute.is_some() {
            live.minute_tokens.add(u64::try_from(charge.tokens).unwrap_or(0), WINDOW, charge.ticks);
        }
    }

    pub fn in_mask(&self, mask: BudgetMask) -> impl Iterator<Item = &Budget> {
        self.budgets
            .iter()
            .enumerate()
            .filter(move |(place, _)| mask & (1 << place) != 0)
            .map(|(_, budget)| budget)
    }
}
