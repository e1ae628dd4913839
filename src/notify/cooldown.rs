//! Decides which repeated notices are held back. Pure: signatures and times come from outside.

use std::collections::HashMap;
use std::time::Duration;

use crate::make_room::make_room;
use crate::time::{MINUTE, Millis, millis};

/// Minimum time that a sent notice is remembered, in milliseconds; six cool-downs if that is longer.
const REMEMBERED_AT_LEAST: Millis = 10 * MINUTE;
/// Maximum number of signatures remembered; beyond it the oldest is removed.
const MAX_SIGNATURES: usize = 1024;

/// The notices sent recently, by signature.
#[derive(Default)]
pub(super) struct Cooldowns {
    sent: HashMap<u64, Sent>,
}

/// The record of a sent notice, as it is stored across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentRecord {
    pub signature: u64,
    pub at: Millis,
    /// The number of repeats held back since.
    pub held_back: u64,
}

struct Sent {
    at: Millis,
    /// The number of repeats held back since.
    held_back: u64,
    /// Whether it reached nobody, so that the next one is sent at once.
    failed: bool,
}

impl Cooldowns {
    /// Returns how long a sent notice is remembered, in milliseconds.
    pub(super) fn memory(cooldown: Duration) -> Millis {
        let cooldown = millis(cooldown);
        cooldown.saturating_mul(6).max(REMEMBERED_AT_LEAST)
    }

    /// Restores the record of a notice that was sent before a restart.
    pub(super) fn restore(&mut self, record: SentRecord) {
        let SentRecord { signature, at, held_back } = record;
        if self.sent.len() < MAX_SIGNATURES {
            self.sent.entry(signature).or_insert(Sent { at, held_back, failed: false });
        }
    }

    /// Returns the record of a notice that was sent.
    pub(super) fn record(&self, signature: u64) -> Option<SentRecord> {
        let sent = self.sent.get(&signature).filter(|sent| !sent.failed)?;
        Some(SentRecord { signature, at: sent.at, held_back: sent.held_back })
    }

    /// Returns the records of notices with repeats that were held back.
    pub(super) fn held_back(&self) -> impl Iterator<Item = SentRecord> {
        self.sent.keys().filter_map(|signature| self.record(*signature)).filter(|record| record.held_back > 0)
    }

    /// Decides whether a notice may be sent now; if so, returns how many repeats were held back since the last one.
    pub(super) fn pass(&mut self, signature: u64, cooldown: Duration, now: Millis) -> Option<u64> {
        let remembered = Self::memory(cooldown);
        let cooldown = millis(cooldown);
        if cooldown == 0 {
            return Some(0);
        }
        if let Some(sent) = self.sent.get_mut(&signature)
            && !sent.failed
            && now.saturating_sub(sent.at) < cooldown
        {
            sent.held_back += 1;
            return None;
        }
        self.sent.retain(|_, sent| now.saturating_sub(sent.at) <= remembered);
        make_room(&mut self.sent, &signature, MAX_SIGNATURES, |sent| sent.at);
        let sent = Sent { at: now, held_back: 0, failed: false };
        let before = self.sent.insert(signature, sent);
        Some(before.map_or(0, |before| before.held_back))
    }

    /// Marks a notice that passed as not sent, because it reached nobody. `merged` is the value that
    /// [`Cooldowns::pass`] returned for it.
    pub(super) fn take_back(&mut self, signature: u64, merged: u64) {
        if let Some(sent) = self.sent.get_mut(&signature) {
            sent.failed = true;
            sent.held_back += merged;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(300);

    fn at(cooldowns: &mut Cooldowns, seconds: Millis) -> Option<u64> {
        cooldowns.pass(1, COOLDOWN, seconds * 1000)
    }

    /// One alert sent repeatedly; the cool-down is 300 seconds.
    #[test]
    fn repeats_within_the_cool_down_are_counted_and_noted_on_the_next_one() {
        let mut cooldowns = Cooldowns::default();
        let seen = [0, 10, 299, 301, 302, 601].map(|second| at(&mut cooldowns, second));
        assert_eq!(seen, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn the_window_is_open_again_exactly_at_its_end() {
        let mut cooldowns = Cooldowns::default();
        assert_eq!([0, 300].map(|second| at(&mut cooldowns, second)), [Some(0), Some(0)]);
    }

    #[test]
    fn other_signatures_have_windows_of_their_own() {
        let mut cooldowns = Cooldowns::default();
        assert_eq!(cooldowns.pass(1, COOLDOWN, 0), Some(0));
        assert_eq!(cooldowns.pass(2, COOLDOWN, 0), Some(0));
        assert_eq!(cooldowns.pass(1, COOLDOWN, 0), None);
    }

    #[test]
    fn a_cool_down_of_zero_holds_nothing_back() {
        let mut cooldowns = Cooldowns::default();
        assert_eq!([0, 0, 0].map(|now| cooldowns.pass(1, Duration::ZERO, now)), [Some(0); 3]);
    }

    #[test]
    fn counts_are_forgotten_after_six_cool_downs_and_at_least_ten_minutes() {
        for (cooldown, remembered) in [(300, 1800), (10, 600)] {
            let cooldown = Duration::from_secs(cooldown);
            for (after, expected) in [(remembered, Some(1)), (remembered + 1, Some(0))] {
                let mut cooldowns = Cooldowns::default();
                cooldowns.pass(1, cooldown, 0);
                cooldowns.pass(1, cooldown, 0);
                assert_eq!(cooldowns.pass(1, cooldown, after * 1000), expected, "{cooldown:?} {after}");
            }
        }
    }

    #[test]
    fn what_reached_nobody_was_not_sent() {
        let mut cooldowns = Cooldowns::default();
        assert_eq!([0, 1, 400].map(|second| at(&mut cooldowns, second)), [Some(0), None, Some(1)]);
        assert_eq!(at(&mut cooldowns, 401), None);
        cooldowns.take_back(1, 1);
        assert_eq!(at(&mut cooldowns, 402), Some(2), "what was held back is still noted");
        assert_eq!(at(&mut cooldowns, 403), None);
        cooldowns.take_back(99, 1);
    }

    #[test]
    fn what_was_sent_before_a_restart_is_known_again() {
        let mut before = Cooldowns::default();
        assert_eq!([0, 1, 2].map(|second| at(&mut before, second)), [Some(0), None, None]);
        let records: Vec<SentRecord> = before.held_back().collect();
        assert_eq!(records, [SentRecord { signature: 1, at: 0, held_back: 2 }]);
        let mut after = Cooldowns::default();
        for record in records {
            after.restore(record);
        }
        assert_eq!([299, 301].map(|second| at(&mut after, second)), [None, Some(3)]);
        after.take_back(1, 3);
        assert_eq!(after.record(1), None, "it reached nobody");
    }

    #[test]
    fn memory_is_bounded_whatever_the_cool_down() {
        let mut cooldowns = Cooldowns::default();
        for signature in 0..2 * MAX_SIGNATURES as u64 {
            assert_eq!(cooldowns.pass(signature, Duration::MAX, signature as Millis), Some(0));
        }
        assert_eq!(cooldowns.sent.len(), MAX_SIGNATURES);
        assert_eq!(
            cooldowns.pass(2 * MAX_SIGNATURES as u64 - 1, Duration::MAX, 1 << 40),
            None,
            "the newest stay"
        );
    }
}
