//! When the database is asked what other instances have spent of a key.
//!
//! Far from a limit a figure may be [`FRESH_MS`] old; where what others have not told yet may be all that is left
//! ([`may_be_spent`]) each request is preceded by a look that begins after it came. A look serves all who wait for it. While
//! the database does not answer, what is known counts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};

use crate::time::Millis;

/// How old what others have spent may be.
const FRESH_MS: Millis = 50;
/// How long nobody looks after a look without an answer.
const BLIND_MS: Millis = 5_000;
/// The part of a limit of cost or tokens that is used when what is spent should be on disk at once.
const NEARLY_ALL: f64 = 0.95;
/// Another instance may spend so many times as fast as this one.
const FASTER: i64 = 3;

/// Whether little may be left of a limit, of which this instance knows so much to be used, `recent` of it since it heard of
/// the others last or shortly before: each of these may have spent as much meanwhile.
pub(super) fn may_be_spent(used: i64, most: i64, recent: i64, others: i64) -> bool {
    let untold = recent.max(0).saturating_mul(FASTER).saturating_mul(others);
    used as f64 >= most as f64 * NEARLY_ALL || used.saturating_add(untold) >= most
}

/// The looks at one key.
#[derive(Debug, Default)]
pub struct Looks {
    begun: AtomicU64,
    fresh_until: AtomicI64,
    blind_until: AtomicI64,
}

// === impl Looks ===

impl Looks {
    /// Whether a request is to be preceded by one. `now` comes from a clock that never steps back.
    pub fn is_due(&self, now: Millis, is_near_limit: bool) -> bool {
        now >= self.blind_until.load(Acquire) && (now >= self.fresh_until.load(Acquire) || is_near_limit)
    }

    /// How many have begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Acquire)
    }

    /// Whether one has been answered since then: what was read before says less.
    pub fn looked_since(&self, then: Millis) -> bool {
        self.fresh_until.load(Acquire) >= then + FRESH_MS
    }

    /// Begins one. For the holder of the key's turn, who keeps it to the end of the look.
    pub fn begin(&self) {
        self.begun.fetch_add(1, AcqRel);
    }

    /// Notes that what others have spent is known. For the holder of the turn.
    pub fn answered(&self, now: Millis) {
        self.fresh_until.store(now + FRESH_MS, Release);
    }

    /// Notes that it could not be heard.
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
        let looks = Looks::default();
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
