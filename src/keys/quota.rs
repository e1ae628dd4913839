//! Requests counted against a limit, reserved in blocks ahead of their use.
//!
//! ```text
//!   database   used_requests = 128  ◀── reserved, a block at a time, before any of it is spent
//!   memory     reserved 128 = used 115 + block 13      one atomic step per request
//! ```
//!
//! Only requests that the database already counts are spent, so a crash can over-count by a block but never lose a request.

use std::sync::atomic::{AtomicI64, Ordering::*};

use crate::time::Millis;

/// The maximum number of requests reserved ahead in the database, unless the key is in a hurry: a crash costs a
/// key no more than that many.
const BLOCK: i64 = 32;
/// The maximum for a key in a hurry. Each reservation is a commit of its own: thousands of requests a second
/// must not become hundreds of commits.
const MAX_BLOCK: i64 = 1024;
/// The time in milliseconds in which half of a block must last: if it is spent sooner, the block is too small, because the
/// commit of the next one, queued on the disk behind the writer, would take longer than the other half lasts.
const HURRY_MS: Millis = 25;
/// The time in milliseconds for which a block must last to need no more than the usual size.
const EASE_MS: Millis = 200;

/// The outage of the database that a block must cover, and the time that a newly reserved block covers, in milliseconds.
/// A minute is promised; the recent pace may be half of the coming one, and reconnecting takes some seconds.
const OUTAGE_MS: i64 = 120_000;
const AHEAD_MS: i64 = 150_000;
/// The minimum time over which the pace is measured, in milliseconds.
const PACE_MS: Millis = 5_000;
/// The rest of a limit must be this many times what is reserved for an outage: several instances reserve from one rest.
const FAR: i64 = 8;

/// How far ahead requests are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationHorizon {
    /// The database is a file on this machine, which does not become unavailable.
    Near,
    /// The database is a server: far from its limit, a key has enough reserved for a minute without it. A crash costs
    /// that much.
    Outage,
}

/// Returns how many requests to hold reserved while `rest` are left of a limit: a hundredth of them, at
/// least one, at most `most`.
fn block_size(rest: i64, most: i64) -> i64 {
    (rest / 100).clamp(1, most).min(rest)
}

/// Requests counted against one limit.
#[derive(Debug)]
pub struct Quota {
    /// The number of requests reserved and not yet spent.
    block: AtomicI64,
    /// The maximum block size, adapted to how long the last blocks lasted.
    most: AtomicI64,
    granted_at: AtomicI64,
    /// The number that the database counts, or will count once everything unsaved is written.
    reserved: AtomicI64,
    /// The recent pace: requests per [`AHEAD_MS`].
    pace: AtomicI64,
    /// The number granted and not withdrawn since the start: minus the block it is the number spent.
    granted: AtomicI64,
    /// When the pace was last measured, and how many requests were spent by then.
    measured_at: AtomicI64,
    measured: AtomicI64,
}

// === impl Quota ===

impl Quota {
    /// Starts from the count in the database row.
    pub fn new(used: i64) -> Self {
        Self {
            block: AtomicI64::new(0),
            most: AtomicI64::new(BLOCK),
            granted_at: AtomicI64::new(0),
            reserved: AtomicI64::new(used),
            pace: AtomicI64::new(0),
            granted: AtomicI64::new(0),
            measured_at: AtomicI64::new(0),
            measured: AtomicI64::new(0),
        }
    }

    /// Spends one reserved request; returns false when none is left in the block.
    pub fn take(&self) -> bool {
        self.block.fetch_update(AcqRel, Acquire, |left| (left > 0).then_some(left - 1)).is_ok()
    }

    /// Gives back a request that was taken and not made.
    pub fn put_back(&self) {
        self.block.fetch_add(1, AcqRel);
    }

    /// Counts this many requests of a quota without a limit; a negative number takes some back.
    pub fn count(&self, requests: i64) {
        self.reserved.fetch_add(requests, AcqRel);
    }

    /// Returns the number of requests made.
    pub fn used(&self) -> i64 {
        (self.reserved.load(Acquire) - self.block.load(Acquire)).max(0)
    }

    /// Returns the number that the database counts.
    pub fn reserved(&self) -> i64 {
        self.reserved.load(Acquire)
    }

    /// Returns the number reserved and not yet spent.
    pub fn block(&self) -> i64 {
        self.block.load(Acquire)
    }

    /// Whether all of a limit is reserved, and all that was reserved is spent.
    pub fn is_exhausted(&self, max: i64) -> bool {
        self.reserved() >= max && self.block() <= 0
    }

    /// Whether the next block should be reserved now rather than when a request waits: half of the block is spent, or less
    /// is left than an outage needs, and more can be reserved.
    pub fn runs_low(&self, max: i64, reach: ReservationHorizon) -> bool {
        let rest = (max - self.reserved()).max(0);
        let size = block_size(rest, self.most.load(Acquire));
        let enough = self.for_an_outage(rest, reach) * OUTAGE_MS / AHEAD_MS;
        size > 1 && self.block() <= (size / 2).max(enough)
    }

    /// Returns how many to hold for an outage; none where that would be a large part of the rest.
    fn for_an_outage(&self, rest: i64, reach: ReservationHorizon) -> i64 {
        let pace = self.pace.load(Acquire);
        if reach == ReservationHorizon::Outage && pace <= rest / FAR { pace } else { 0 }
    }

    /// Measures the pace of requests. A higher pace counts at once, a lower one by half.
    fn measure(&self, now: Millis) {
        let spent = self.granted.load(Acquire) - self.block();
        let since = now - self.measured_at.load(Acquire);
        let recent = (spent - self.measured.load(Acquire)).max(0) * AHEAD_MS / since.max(PACE_MS);
        let pace = self.pace.load(Acquire);
        if !(0..PACE_MS).contains(&since) {
            self.measured_at.store(now, Release);
            self.measured.store(spent, Release);
            self.pace.store(recent.max((pace + recent) / 2), Release);
        } else if recent > pace {
            self.pace.store(recent, Release);
        }
    }

    // The methods below are for the holder of the key's turn.

    /// Returns how many more to reserve while `rest` are left of the limit; none when the block is full.
    pub fn wants(&self, rest: i64, now: Millis, reach: ReservationHorizon) -> i64 {
        self.measure(now);
        let lasted = now - self.granted_at.load(Acquire);
        let most = self.most.load(Acquire);
        let most = match lasted {
            ..HURRY_MS => (most * 2).min(MAX_BLOCK),
            HURRY_MS..EASE_MS => most,
            EASE_MS.. => BLOCK,
        };
        self.most.store(most, Release);
        block_size(rest.max(0), most).max(self.for_an_outage(rest, reach)) - self.block()
    }

    /// Adds `count` requests that the database now counts, so that they may be spent.
    pub fn grant(&self, count: i64, now: Millis) {
        self.granted_at.store(now, Release);
        // In this order, so that a key never looks exhausted in between.
        self.block.fetch_add(count, AcqRel);
        self.reserved.fetch_add(count, AcqRel);
        self.granted.fetch_add(count, AcqRel);
    }

    /// Withdraws the unspent requests and returns their number, by which the database must then count fewer.
    pub fn withdraw(&self) -> i64 {
        loop {
            let left = self.block();
            self.reserved.fetch_sub(left, AcqRel);
            if self.block.compare_exchange(left, 0, AcqRel, Acquire).is_ok() {
                self.granted.fetch_sub(left, AcqRel);
                return left;
            }
            self.reserved.fetch_add(left, AcqRel);
        }
    }

    /// Sets the number that the database counts, whichever instance used them.
    pub fn set_reserved(&self, used: i64) {
        self.reserved.store(used, Release);
    }

    /// Follows the number used by all instances, of a quota without a limit. It never decreases, except after a reset.
    pub fn follow(&self, used: i64, is_reset: bool) {
        if is_reset {
            self.reserved.store(used, Release);
        } else {
            self.reserved.fetch_max(used, AcqRel);
        }
    }

    /// Resets the quota: nothing is used.
    pub fn reset(&self) {
        self.granted.fetch_sub(self.block.swap(0, AcqRel), AcqRel);
        self.reserved.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_hundredth_of_the_rest_between_1_and_32() {
        for (rest, size) in [(-1, 0), (0, 0), (1, 1), (99, 1), (500, 5), (3200, 32), (1_000_000, 32)] {
            assert_eq!(Quota::new(0).wants(rest, 1_000, ReservationHorizon::Near), size, "{rest}");
        }
    }

    #[test]
    fn a_key_in_a_hurry_reserves_more_at_once_until_it_has_time_again() {
        let quota = Quota::new(0);
        let mut now = 1_000;
        for (lasted, size) in
            [(60_000, 32), (25, 32), (24, 64), (1, 128), (199, 128), (0, 256), (200, 32), (24, 64)]
        {
            now += lasted;
            assert_eq!(quota.wants(1_000_000, now, ReservationHorizon::Near), size, "after {lasted} ms");
            quota.grant(size, now);
            assert_eq!(quota.withdraw(), size);
        }
        for _ in 0..10 {
            quota.grant(1, now);
            quota.withdraw();
            assert!(quota.wants(1_000_000, now, ReservationHorizon::Near) <= 1024);
        }
        assert_eq!(
            quota.wants(500, now, ReservationHorizon::Near),
            5,
            "a hundredth of the rest is the most all the same"
        );
    }

    #[test]
    fn far_from_its_limit_a_key_has_enough_reserved_for_a_minute_without_the_database() {
        const PER_SECOND: i64 = 20;
        let (quota, mut now, max) = (Quota::new(0), 1_000, 1_000_000);
        let top_up = |now| {
            if quota.runs_low(max, ReservationHorizon::Outage) || quota.block() == 0 {
                let count = quota.wants(max - quota.reserved(), now, ReservationHorizon::Outage);
                quota.grant(count.max(0), now);
            }
        };
        for second in 0..120 {
            for _ in 0..PER_SECOND {
                top_up(now);
                assert!(quota.take());
                now += 1_000 / PER_SECOND;
            }
            let held = quota.block();
            assert!(second < 60 || held >= 59 * PER_SECOND, "{held} after {second} s");
            assert!(held <= 4 * 60 * PER_SECOND, "{held} after {second} s");
        }
        for _ in 0..59 * PER_SECOND {
            assert!(quota.take(), "the database is away");
        }
        // Near the limit nothing is held back from the other instances.
        let count = quota.wants(FAR * 20 * PER_SECOND, now, ReservationHorizon::Outage);
        assert!(quota.block() + count <= BLOCK, "{count}");
    }

    #[test]
    fn only_what_is_granted_can_be_taken() {
        let quota = Quota::new(7);
        assert!(!quota.take());
        quota.grant(2, 0);
        assert!(quota.take() && quota.take() && !quota.take());
        assert_eq!((quota.used(), quota.reserved()), (9, 9));
        assert!(quota.is_exhausted(9) && !quota.is_exhausted(10));
        quota.put_back();
        assert_eq!((quota.used(), quota.reserved()), (8, 9));
        assert!(quota.take() && !quota.take());
    }

    #[test]
    fn what_is_withdrawn_was_never_used() {
        let quota = Quota::new(0);
        quota.grant(5, 0);
        assert!(quota.take());
        assert_eq!(quota.withdraw(), 4);
        assert_eq!((quota.used(), quota.reserved(), quota.block()), (1, 1, 0));
    }
}
