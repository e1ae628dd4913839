//! Budgets of a key: limits for each window of a period, perhaps for some models only.
//!
//! ```text
//! none open ── open ──▶ window: start, end, what was used ── its end ──▶ none open
//!                         └ requests by a block ahead (Quota), cost and tokens when known
//! ```
//!
//! Request limits hold exactly: requests of a limited budget are counted in the database before they are made. Cost and
//! tokens are known when an answer ends, so the requests under way may exceed their limits. A charge belongs to the window
//! in which the request began: a window that has ended takes nothing more.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::money::Usd;
use crate::routing::{ModelPattern, bare_name, norm};
use crate::sync::lock;
use crate::time::{DAY, Millis};

use super::period::Period;
use super::quota::Quota;
use super::spend_checks::may_be_spent;

/// The difference by which sums of the database may vary from one read to the next, in billionths of a USD.
pub(super) const ROUNDING_NANO: i64 = 1_000;

/// A window that begins later than this from now was opened while the clock was ahead, and is not open: it would hold for
/// as long as the clock was wrong. Clocks of several instances may differ by less.
pub const MOST_AHEAD: Millis = DAY;

/// One budget as an operator set it, and its usage.
#[derive(Debug)]
pub struct Budget {
    pub period: Period,
    pub bounds: Bounds,
    /// The models that it counts; empty for every model.
    pub models: Vec<ModelPattern>,
    pub live: Arc<BudgetLive>,
}

/// The limits of a window; `None` without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bounds {
    pub cost: Option<Usd>,
    pub requests: Option<i64>,
    pub tokens: Option<i64>,
}

/// The limit that a window has reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reached {
    Cost(Usd),
    Requests(i64),
    Tokens(i64),
}

/// The usage of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    pub requests: i64,
    pub cost: Usd,
    pub tokens: i64,
}

/// Why a window has no room for a request.
#[derive(Debug, PartialEq)]
pub enum WindowRefusal {
    /// The window is used up until it ends.
    Over { reached: Reached, end: Millis },
    /// No window is open: [`BudgetLive::open`] one first.
    NoWindow,
    /// Requests are left, but none is reserved: reserve some first.
    NoneReserved,
}

/// The usage to add to the row of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetDelta {
    pub scope: String,
    pub window_start: Millis,
    pub used: Used,
}

/// The usage of one budget.
#[derive(Debug)]
pub struct BudgetLive {
    /// The models that it counts, as its row names them: two budgets of a key never share a scope.
    pub scope: String,
    window: Mutex<Window>,
}

/// A window from `start` to before `end`; if both are 0, none was ever open.
#[derive(Debug)]
pub(super) struct Window {
    start: Millis,
    end: Millis,
    requests: Arc<Quota>,
    cost_nano: i64,
    tokens: i64,
    unsaved: Unsaved,
    /// The spending of all instances between the last two reads of the database, plus that of this instance since then.
    recent: Recent,
    /// The usage that the database reported last, of all instances.
    stored: Used,
}

#[derive(Debug, Default)]
struct Recent {
    cost_nano: i64,
    tokens: i64,
}

#[derive(Debug, Default, PartialEq)]
struct Unsaved {
    requests: i64,
    cost_nano: i64,
    tokens: i64,
}

// === impl Budget ===

impl Budget {
    /// Whether it counts requests of this model, however the client spells it: with a provider before a `/`, or in capitals.
    pub fn counts(&self, model: &str) -> bool {
        if self.models.is_empty() {
            return true;
        }
        let spellings = [model, bare_name(model), &norm(model)];
        self.models.iter().any(|pattern| spellings.iter().any(|model| pattern.matches(model)))
    }
}

// === impl Bounds ===

impl Bounds {
    /// Returns a limit of 0, which has no room in any window.
    fn zero_limit(&self) -> Option<Reached> {
        let cost = self.cost.filter(|most| *most <= Usd::ZERO).map(Reached::Cost);
        let requests = self.requests.filter(|most| *most <= 0).map(Reached::Requests);
        let tokens = self.tokens.filter(|most| *most <= 0).map(Reached::Tokens);
        cost.or(requests).or(tokens)
    }
}

// === impl BudgetLive ===

impl BudgetLive {
    /// Starts without a window.
    pub fn new(scope: String) -> Self {
        Self { scope, window: Mutex::new(Window::new(0, 0, Used::default())) }
    }

    /// Gives back a request that was counted and not made, unless its window has ended since.
    pub fn put_back(&self, bounds: &Bounds, taken_at: Millis) {
        let mut window = self.window();
        if taken_at < window.start {
            return;
        }
        match bounds.requests {
            Some(_) => window.requests.put_back(),
            None => window.count(-1),
        }
    }

    /// Adds the cost and tokens of a request that began at `began`.
    pub fn charge(&self, cost: Usd, tokens: i64, began: Millis) {
        let mut window = self.window();
        if began >= window.start {
            window.spend(cost, tokens);
            window.unsaved.cost_nano = window.unsaved.cost_nano.saturating_add(cost.nano());
            window.unsaved.tokens = window.unsaved.tokens.saturating_add(tokens);
        }
    }

    /// Returns the row of the window to which such a charge belongs, with the charge.
    pub(super) fn charge_of_row(&self, cost: Usd, tokens: i64, began: Millis) -> Option<BudgetDelta> {
        let window_start = self.start();
        (began >= window_start).then(|| BudgetDelta {
            scope: self.scope.clone(),
            window_start,
            used: Used { requests: 0, cost, tokens },
        })
    }

    /// Adds a charge that is in the row of its window already.
    pub(super) fn add_stored(&self, stored: &BudgetDelta) {
        let mut window = self.window();
        if stored.window_start == window.start {
            window.spend(stored.used.cost, stored.used.tokens);
        }
    }

    /// Returns the usage of the open window, and its end.
    pub fn used(&self, now: Millis) -> Option<(Used, Millis)> {
        let window = self.window();
        window.is_open(now).then(|| (window.used(), window.end))
    }

    /// Whether little may be left of a cost or token limit, while this many other instances spend.
    pub fn is_near_limit(&self, bounds: &Bounds, others: i64) -> bool {
        let window = self.window();
        let cost = window.recent.cost_nano.max(window.unsaved.cost_nano);
        let tokens = window.recent.tokens.max(window.unsaved.tokens);
        bounds.cost.is_some_and(|most| may_be_spent(window.cost_nano, most.nano(), cost, others))
            || bounds.tokens.is_some_and(|most| may_be_spent(window.tokens, most, tokens, others))
    }

    /// Returns the request quota of the newest window, and its start.
    pub fn requests(&self) -> (Arc<Quota>, Millis) {
        let window = self.window();
        (window.requests.clone(), window.start)
    }

    /// Whether a window is open.
    pub fn is_open(&self, now: Millis) -> bool {
        self.window().is_open(now)
    }

    /// Takes the usage that is not written yet.
    pub fn take_delta(&self) -> Option<BudgetDelta> {
        let mut window = self.window();
        let unsaved = std::mem::take(&mut window.unsaved);
        (unsaved != Unsaved::default()).then(|| BudgetDelta {
            scope: self.scope.clone(),
            window_start: window.start,
            used: Used {
                requests: unsaved.requests,
                cost: Usd::from_nano(unsaved.cost_nano),
                tokens: unsaved.tokens,
            },
        })
    }

    /// Continues with a window of which the database counts `used`. For the holder of the key's turn.
    pub fn open(&self, start: Millis, end: Millis, used: Used) {
        *self.window() = Window::new(start, end, used);
    }

    /// Returns when the newest window began.
    pub fn start(&self) -> Millis {
        self.window().start
    }

    /// Takes over the usage by all instances, from the database, of the window that began at `start`; `None` where another
    /// instance has reset the key. This instance's unsaved usage is never lost.
    pub fn follow(&self, bounds: &Bounds, start: Millis, stored: Option<Used>) {
        let mut window = self.window();
        if window.start != start {
            return;
        }
        let Some(stored) = stored else {
            *window = Window::new(0, 0, Used::default());
            return;
        };
        let before = std::mem::replace(&mut window.stored, stored);
        window.recent = Recent {
            cost_nano: stored.cost.nano() - before.cost.nano(),
            tokens: stored.tokens - before.tokens,
        };
        let cost = stored.cost.nano().saturating_add(window.unsaved.cost_nano);
        let tokens = stored.tokens.saturating_add(window.unsaved.tokens);
        if stored.cost.nano() < before.cost.nano() - ROUNDING_NANO || stored.tokens < before.tokens {
            (window.cost_nano, window.tokens) = (cost, tokens);
        } else {
            (window.cost_nano, window.tokens) = (window.cost_nano.max(cost), window.tokens.max(tokens));
        }
        match bounds.requests {
            // They are written to the database before they are used.
            Some(_) => window.requests.set_reserved(stored.requests),
            None => {
                let known = stored.requests + window.unsaved.requests;
                window.requests.follow(known, stored.requests < before.requests);
            }
        }
    }

    /// Resets the budget: nothing is used, and no window is open.
    pub fn reset(&self) {
        self.open(0, 0, Used::default());
    }

    /// Locks the window, for a caller that checks several before counting in any. Those of a key are locked in list order.
    pub(super) fn window(&self) -> MutexGuard<'_, Window> {
        lock(&self.window)
    }
}

// === impl Window ===

impl Window {
    fn new(start: Millis, end: Millis, used: Used) -> Self {
        Self {
            start,
            end,
            requests: Arc::new(Quota::new(used.requests)),
            cost_nano: used.cost.nano(),
            tokens: used.tokens,
            unsaved: Unsaved::default(),
            recent: Recent::default(),
            stored: used,
        }
    }

    fn is_open(&self, now: Millis) -> bool {
        now < self.end && self.start <= now.saturating_add(MOST_AHEAD)
    }

    /// Checks whether there is room for a request.
    pub(super) fn check(&self, bounds: &Bounds, now: Millis) -> Result<(), WindowRefusal> {
        // Without a window, too: a request that is refused in every window begins none.
        if let Some(reached) = bounds.zero_limit() {
            return Err(WindowRefusal::Over { reached, end: Millis::MAX });
        }
        if !self.is_open(now) {
            return Err(WindowRefusal::NoWindow);
        }
        match self.reached(bounds) {
            Some(reached) => Err(WindowRefusal::Over { reached, end: self.end }),
            None if bounds.requests.is_some() && self.requests.block() <= 0 => {
                Err(WindowRefusal::NoneReserved)
            }
            None => Ok(()),
        }
    }

    /// Counts a request for which there was room; returns false when the reserved requests have been withdrawn since.
    pub(super) fn take(&mut self, bounds: &Bounds) -> bool {
        if bounds.requests.is_some() {
            return self.requests.take();
        }
        self.count(1);
        true
    }

    fn reached(&self, bounds: &Bounds) -> Option<Reached> {
        let used = Usd::from_nano(self.cost_nano);
        let cost = bounds.cost.filter(|most| used >= *most).map(Reached::Cost);
        let requests =
            || bounds.requests.filter(|most| self.requests.is_exhausted(*most)).map(Reached::Requests);
        let tokens = || bounds.tokens.filter(|most| self.tokens >= *most).map(Reached::Tokens);
        cost.or_else(requests).or_else(tokens)
    }

    fn count(&mut self, requests: i64) {
        self.requests.count(requests);
        self.unsaved.requests += requests;
    }

    fn spend(&mut self, cost: Usd, tokens: i64) {
        let nano = cost.nano();
        self.cost_nano = self.cost_nano.saturating_add(nano);
        self.tokens = self.tokens.saturating_add(tokens);
        self.recent.cost_nano = self.recent.cost_nano.saturating_add(nano);
        self.recent.tokens = self.recent.tokens.saturating_add(tokens);
    }

    fn used(&self) -> Used {
        Used { requests: self.requests.used(), cost: Usd::from_nano(self.cost_nano), tokens: self.tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: Bounds = Bounds { cost: None, requests: Some(2), tokens: None };

    fn take(live: &BudgetLive, bounds: &Bounds, now: Millis) -> Result<bool, WindowRefusal> {
        let mut window = live.window();
        window.check(bounds, now).map(|()| window.take(bounds))
    }

    fn open(used: Used) -> BudgetLive {
        let live = BudgetLive::new("day".to_owned());
        live.open(1_000, 2_000, used);
        live
    }

    #[test]
    fn a_model_counts_however_it_is_spelled() {
        let models = ["gpt-5*", "openai/o3"].map(ModelPattern::stored).to_vec();
        let budget =
            Budget { period: Period::Day, bounds: REQUESTS, models, live: Arc::new(open(Used::default())) };
        for (model, counts) in [
            ("gpt-5-pro", true),
            ("GPT-5-pro", true),
            ("any/gpt-5-pro", true),
            ("openai/o3", true),
            ("o3", false),
            ("gpt-4o", false),
        ] {
            assert_eq!(budget.counts(model), counts, "{model}");
        }
    }

    #[test]
    fn a_window_counts_until_a_bound_is_reached_and_until_it_ends() {
        let used = Used { requests: 1, cost: Usd::new(0.5), tokens: 70 };
        for (bounds, reached) in [
            (Bounds { cost: Some(Usd::new(0.5)), ..Bounds::default() }, Some(Reached::Cost(Usd::new(0.5)))),
            (Bounds { cost: Some(Usd::new(0.6)), ..Bounds::default() }, None),
            (Bounds { requests: Some(1), ..Bounds::default() }, Some(Reached::Requests(1))),
            (Bounds { requests: Some(2), ..Bounds::default() }, None),
            (Bounds { tokens: Some(70), ..Bounds::default() }, Some(Reached::Tokens(70))),
            (Bounds { tokens: Some(71), ..Bounds::default() }, None),
            (Bounds::default(), None),
        ] {
            let live = open(used);
            // All its requests are spent, and none is reserved.
            let room = match (reached, bounds.requests) {
                (Some(reached), _) => Err(WindowRefusal::Over { reached, end: 2_000 }),
                (None, Some(_)) => Err(WindowRefusal::NoneReserved),
                (None, None) => Ok(true),
            };
            assert_eq!(take(&live, &bounds, 1_999), room, "{bounds:?}");
            assert_eq!(take(&live, &bounds, 2_000), Err(WindowRefusal::NoWindow), "{bounds:?}");
        }
    }

    #[test]
    fn a_limit_of_0_refuses_in_every_window_and_without_one() {
        for (bounds, reached) in [
            (Bounds { cost: Some(Usd::ZERO), ..Bounds::default() }, Reached::Cost(Usd::ZERO)),
            (Bounds { requests: Some(0), ..Bounds::default() }, Reached::Requests(0)),
            (Bounds { tokens: Some(0), ..Bounds::default() }, Reached::Tokens(0)),
        ] {
            let live = open(Used::default());
            for now in [1_999, 2_000] {
                let over = WindowRefusal::Over { reached, end: Millis::MAX };
                assert_eq!(take(&live, &bounds, now), Err(over), "{bounds:?} {now}");
            }
        }
    }

    #[test]
    fn limited_requests_are_spent_only_when_they_are_reserved() {
        let live = open(Used::default());
        assert_eq!(take(&live, &REQUESTS, 1_000), Err(WindowRefusal::NoneReserved));
        live.requests().0.grant(2, 0);
        for _ in 0..2 {
            assert_eq!(take(&live, &REQUESTS, 1_000), Ok(true));
        }
        let over = WindowRefusal::Over { reached: Reached::Requests(2), end: 2_000 };
        assert_eq!(take(&live, &REQUESTS, 1_000), Err(over));
        live.put_back(&REQUESTS, 1_000);
        assert_eq!(take(&live, &REQUESTS, 1_000), Ok(true));
        assert_eq!(live.take_delta(), None, "the database counts them already");
    }

    #[test]
    fn a_window_of_a_clock_that_was_ahead_is_not_open() {
        let live = BudgetLive::new("day".to_owned());
        live.open(MOST_AHEAD + 1_000, MOST_AHEAD + 2_000, Used::default());
        assert!(live.is_open(1_000) && !live.is_open(999));
        assert_eq!(take(&live, &Bounds::default(), 999), Err(WindowRefusal::NoWindow));
    }

    #[test]
    fn what_began_in_a_window_that_has_ended_is_not_charged_to_the_next() {
        let live = open(Used::default());
        live.open(2_000, 3_000, Used::default());
        live.charge(Usd::new(1.0), 10, 1_999);
        live.put_back(&Bounds::default(), 1_999);
        assert_eq!(live.used(2_500), Some((Used::default(), 3_000)));
        live.charge(Usd::new(0.25), 10, 2_000);
        assert_eq!(live.used(2_500), Some((Used { requests: 0, cost: Usd::new(0.25), tokens: 10 }, 3_000)));
        assert_eq!(live.used(3_000), None);
    }

    #[test]
    fn a_delta_is_of_one_window_and_handed_over_once() {
        let live = open(Used::default());
        assert_eq!(take(&live, &Bounds::default(), 1_000), Ok(true));
        live.charge(Usd::new(0.5), 7, 1_000);
        let used = Used { requests: 1, cost: Usd::new(0.5), tokens: 7 };
        let delta = BudgetDelta { scope: "day".to_owned(), window_start: 1_000, used };
        assert_eq!((live.take_delta(), live.take_delta()), (Some(delta), None));
        live.charge(Usd::new(0.5), 7, 1_000);
        live.open(2_000, 3_000, Used::default());
        assert_eq!(live.take_delta(), None, "a window that has ended needs no more counting");
    }

    #[test]
    fn what_was_spent_of_late_others_may_have_spent_again() {
        let bounds = Bounds { cost: Some(Usd::new(1.0)), requests: None, tokens: Some(100) };
        let live = open(Used::default());
        let hear = |cost, tokens| {
            live.follow(&bounds, 1_000, Some(Used { requests: 0, cost: Usd::new(cost), tokens }));
            [0, 1].map(|others| live.is_near_limit(&bounds, others))
        };
        assert_eq!(hear(0.3, 0), [false, true], "three tenths, and as many times three");
        assert_eq!(hear(0.3, 0), [false, false]);
        assert_eq!(hear(0.3, 30), [false, true]);
        assert_eq!(hear(0.3, 30), [false, false]);
        live.charge(Usd::new(0.2), 1, 1_000);
        assert!(live.is_near_limit(&bounds, 1), "it has spent two tenths itself");
    }

    #[test]
    fn requests_without_a_limit_are_counted_while_they_are_being_written() {
        let bounds = Bounds { cost: Some(Usd::new(1.0)), ..Bounds::default() };
        let live = open(Used::default());
        let hear = |requests| {
            live.follow(&bounds, 1_000, Some(Used { requests, ..Used::default() }));
            live.used(1_500).map(|(used, _)| used.requests)
        };
        assert_eq!(take(&live, &bounds, 1_000), Ok(true));
        assert!(live.take_delta().is_some());
        assert_eq!(hear(0), Some(1), "the database does not have it yet");
        assert_eq!(hear(3), Some(3), "others have made two");
        assert_eq!(take(&live, &bounds, 1_000), Ok(true));
        assert_eq!(hear(0), Some(1), "another instance has reset the key");
    }

    #[test]
    fn little_is_left_from_a_twentieth_on() {
        let bounds = Bounds { cost: Some(Usd::new(10.0)), requests: Some(1), tokens: Some(100) };
        for (cost, tokens, near) in [(9.4, 94, false), (9.5, 0, true), (0.0, 95, true)] {
            assert_eq!(
                open(Used { requests: 1, cost: Usd::new(cost), tokens }).is_near_limit(&bounds, 0),
                near,
                "{cost} {tokens}"
            );
        }
    }
}
