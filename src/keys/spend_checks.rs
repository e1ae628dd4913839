//! When to ask the database what other instances have spent of a key.
//!
//! Far from a limit a figure may be [`FRESH_MS`] old. Where the others' unreported spending may use up the rest
//! ([`may_be_spent`]), each request is preceded by a look that begins after it came. One look serves all requests that wait
//! for it. While the database does not answer, the known figures count.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};

use crate::time::Millis;

/// How old the figures of other instances may be, in milliseconds.
const FRESH_MS: Millis = 50;
/// How long no look is made after one without an answer, in milliseconds.
const BLIND_MS: Millis = 5_000;
/// The part of a cost or token limit from which spending should be written to disk at once.
const NEARLY_ALL: f64 = 0.95;
/// How many times as fast as this instance another may spend.
const FASTER: i64 = 3;

/// Whether little may be left of a limit of `most`. This instance knows of `used`, of which `recent` since it last
/// read the figures of the others, or shortly before: each of the `others` may have spent `FASTER` times as much meanwhile.
pub(super) fn may_be_spent(used: i64, most: i64, recent: i64, others: i64) -> bool {
    let untold = recent.max(0).saturating_mul(FASTER).saturating_mul(others);
    used as f64 >= most as f64 * NEARLY_ALL || used.saturating_add(untold) >= most
}

/// The looks at the spending of one key.
#[derive(Debug, Default)]
pub struct SpendChecks {
    begun: AtomicU64,
    fresh_until: AtomicI64,
    blind_until: AtomicI64,
}

// === impl SpendChecks ===

impl SpendChecks {
    /// Whether a request must be preceded by a look. `now` comes from a clock that never steps back.
    pub fn is_due(&self, now: Millis, is_near_limit: bool) -> bool {
        now >= self.blind_until.load(Acquire) && (now >= self.fresh_until.load(Acquire) || is_near_limit)
    }

    /// Returns how many looks have begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Acquire)
    }

    /// Whether a look has been answered since `then`; an earlier one says less.
    pub fn looked_since(&self, then: Millis) -> bool {
        self.fresh_until.load(Acquire) >= then + FRESH_MS
    }

    /// Begins a look. For the holder of the key's turn, who keeps it to the end of the look.
    pub fn begin(&self) {
        self.begun.fetch_add(1, AcqRel);
    }

    /// Records that a look was answered. For the holder of the turn.
    pub fn answered(&self, now: Millis) {
        self.fresh_until.store(now + FRESH_MS, Release);
    }

    /// Records that a look was not answered.
    pub fn unanswered(&self, now: Millis) {
        self.blind_until.store(now + BLIND_MS, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_left_from_a_twentieth_on_and_where_others_may_have_spent_the_rest() {
        for (used, recent, others, is_little) in [
            (94, 0, 2, false),
            (95, 0, 0, true),
            (50, 8, 2, false),
            (50, 9, 2, true),
            (50, 9, 0, false),
            (50, 16, 1, false),
            (50, 17, 1, true),
            (50, -9, 2, false),
            (0, i64::MAX, 9, true),
        ] {
            assert_eq!(may_be_spent(used, 100, recent, others), is_little, "{used} {recent} {others}");
        }
    }

    #[test]
    fn a_look_holds_for_a_while_near_a_limit_for_nobody_and_one_without_an_answer_for_five_seconds() {
        let looks = SpendChecks::default();
        assert!(looks.is_due(1_000, false));
        looks.begin();
        looks.answered(1_000);
        assert_eq!((looks.is_due(1_049, false), looks.is_due(1_049, true)), (false, true));
        assert!(looks.is_due(1_050, false));
        assert!(looks.looked_since(1_000) && !looks.looked_since(1_001));
        looks.unanswered(1_050);
        assert!(!looks.is_due(6_049, true) && looks.is_due(6_050, false));
    }
}
