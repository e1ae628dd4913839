//! What a key has used, while it is being used.
//!
//! ```text
//!   database   used_requests = 128  ◀── reserved, a block at a time, before any of it is spent
//!   memory     reserved 128 = used 115 + block 13      one atomic step per request
//! ```
//!
//! A limited key spends only what the database already counts, so a crash can over-count by a block
//! but never forget a request. A key without a limit counts in memory and is written behind, like
//! costs and the time of last use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};

use tokio::sync::Mutex;

use crate::limits::IdentityWindows;
use crate::time::Millis;

const NANO_PER_USD: f64 = 1e9;
/// The most requests that are reserved ahead in the database, unless the key is in a hurry: a crash costs a
/// key no more than that many.
const BLOCK: i64 = 32;
/// The most for a key in a hurry. Each reservation is a commit of its own: thousands of requests a second
/// must not become hundreds of commits.
const MAX_BLOCK: i64 = 1024;
/// A block of which half was spent sooner than this is too small: the commit of the next one, which waits for the
/// disk behind what the writer is at, would take longer than the other half lasts.
const HURRY_MS: Millis = 25;
/// One of which half lasted this long need not be larger than the usual.
const EASE_MS: Millis = 200;

/// How many requests to hold reserved while `rest` are left of a limit: a hundredth of them, at
/// least one, at most `most`.
fn block_size(rest: i64, most: i64) -> i64 {
    (rest / 100).clamp(1, most).min(rest)
}

/// Usage of one key.
#[derive(Debug)]
pub struct KeyLive {
    pub id: i64,
    /// Held by whoever changes what is reserved, across the commit that makes it so.
    pub turn: Arc<Mutex<()>>,
    /// Counts its requests, for the rate limits.
    pub rates: Arc<IdentityWindows>,
    /// Reserved and not yet spent.
    block: AtomicI64,
    /// How large a block may be, by how long the last ones lasted.
    most: AtomicI64,
    granted_at: AtomicI64,
    /// What the database counts, or will once everything unsaved is written.
    reserved: AtomicI64,
    used_cost_nano: AtomicI64,
    /// 0 = never.
    last_used: AtomicI64,
    unsaved_requests: AtomicU64,
    unsaved_cost_nano: AtomicI64,
    dirty: AtomicBool,
}

/// What is to be added to the row of a key.
#[derive(Debug, PartialEq)]
pub struct KeyDelta {
    pub id: i64,
    pub requests: u64,
    /// USD.
    pub cost: f64,
    pub last_used: Option<Millis>,
}

// === impl KeyLive ===

impl KeyLive {
    /// As the row says.
    pub fn new(id: i64, used_requests: i64, used_cost: f64, last_used: Option<Millis>) -> Self {
        Self {
            id,
            turn: Arc::default(),
            rates: Arc::default(),
            block: AtomicI64::new(0),
            most: AtomicI64::new(BLOCK),
            granted_at: AtomicI64::new(0),
            reserved: AtomicI64::new(used_requests),
            used_cost_nano: AtomicI64::new(nano(used_cost)),
            last_used: AtomicI64::new(last_used.unwrap_or(0)),
            unsaved_requests: AtomicU64::new(0),
            unsaved_cost_nano: AtomicI64::new(0),
            dirty: AtomicBool::new(false),
        }
    }

    /// Spends one reserved request; false when none is left in the block.
    pub fn take(&self) -> bool {
        self.block.fetch_update(AcqRel, Acquire, |left| (left > 0).then_some(left - 1)).is_ok()
    }

    /// Counts one request of a key without a limit.
    pub fn count(&self) {
        self.reserved.fetch_add(1, AcqRel);
        self.unsaved_requests.fetch_add(1, AcqRel);
    }

    /// Notes the use of the key; true when it is to be handed to the writer.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn record_use(&self, now: Millis) -> bool {
        self.last_used.fetch_max(now, AcqRel);
        self.raise()
    }

    /// Adds what a request cost; true when the key is to be handed to the writer.
    #[must_use = "true says that the writer is to be told: hand it to `Telemetry`"]
    pub fn charge(&self, usd: f64, now: Millis) -> bool {
        let nano = nano(usd);
        self.used_cost_nano.fetch_add(nano, AcqRel);
        self.unsaved_cost_nano.fetch_add(nano, AcqRel);
        self.record_use(now)
    }

    /// What is not written yet; lowers the flag first, so that later changes raise it again.
    pub fn take_delta(&self) -> KeyDelta {
        self.dirty.store(false, Release);
        KeyDelta {
            id: self.id,
            requests: self.unsaved_requests.swap(0, AcqRel),
            cost: usd(self.unsaved_cost_nano.swap(0, AcqRel)),
            last_used: self.last_used(),
        }
    }

    /// Requests made.
    pub fn used_requests(&self) -> i64 {
        (self.reserved.load(Acquire) - self.block.load(Acquire)).max(0)
    }

    /// USD spent.
    pub fn used_cost(&self) -> f64 {
        usd(self.used_cost_nano.load(Acquire))
    }

    pub fn last_used(&self) -> Option<Millis> {
        Some(self.last_used.load(Acquire)).filter(|at| *at > 0)
    }

    /// What the database counts.
    pub fn reserved(&self) -> i64 {
        self.reserved.load(Acquire)
    }

    /// Reserved and not yet spent.
    pub fn block(&self) -> i64 {
        self.block.load(Acquire)
    }

    /// All of a limit is reserved, and all that was reserved is spent.
    pub fn is_exhausted(&self, max: i64) -> bool {
        self.reserved() >= max && self.block() <= 0
    }

    /// Half of the block is spent and more can be reserved: better now than when a request waits.
    pub fn runs_low(&self, max: i64) -> bool {
        let size = block_size((max - self.reserved()).max(0), self.most.load(Acquire));
        size > 1 && self.block() <= size / 2
    }

    // What follows is for the holder of `turn`.

    /// How many more to reserve while `rest` are left of the limit; none when the block is full.
    pub fn wants(&self, rest: i64, now: Millis) -> i64 {
        let lasted = now - self.granted_at.load(Acquire);
        let most = self.most.load(Acquire);
        let most = match lasted {
            ..HURRY_MS => (most * 2).min(MAX_BLOCK),
            HURRY_MS..EASE_MS => most,
            EASE_MS.. => BLOCK,
        };
        self.most.store(most, Release);
        block_size(rest.max(0), most) - self.block()
    }

    /// The database counts `count` more, and they may be spent.
    pub fn grant(&self, count: i64, now: Millis) {
        self.granted_at.store(now, Release);
        // In this order, so that a key is never taken for exhausted in between.
        self.block.fetch_add(count, AcqRel);
        self.reserved.fetch_add(count, AcqRel);
    }

    /// Takes back what is not spent and gives how much; the database must then count as many less.
    pub fn withdraw(&self) -> i64 {
        loop {
            let left = self.block();
            self.reserved.fetch_sub(left, AcqRel);
            if self.block.compare_exchange(left, 0, AcqRel, Acquire).is_ok() {
                return left;
            }
            self.reserved.fetch_add(left, AcqRel);
        }
    }

    /// The database counts this many, whoever used them.
    pub fn set_reserved(&self, used: i64) {
        self.reserved.store(used, Release);
    }

    /// Nothing is used.
    pub fn reset(&self) {
        self.block.store(0, Release);
        self.reserved.store(0, Release);
        self.used_cost_nano.store(0, Release);
        self.unsaved_requests.store(0, Release);
        self.unsaved_cost_nano.store(0, Release);
    }

    fn raise(&self) -> bool {
        !self.dirty.load(Acquire) && !self.dirty.swap(true, AcqRel)
    }
}

fn nano(usd: f64) -> i64 {
    (usd * NANO_PER_USD).round() as i64 // saturates
}

fn usd(nano: i64) -> f64 {
    nano as f64 / NANO_PER_USD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_hundredth_of_the_rest_between_1_and_32() {
        for (rest, size) in [(-1, 0), (0, 0), (1, 1), (99, 1), (500, 5), (3200, 32), (1_000_000, 32)] {
            assert_eq!(KeyLive::new(1, 0, 0.0, None).wants(rest, 1_000), size, "{rest}");
        }
    }

    #[test]
    fn a_key_in_a_hurry_reserves_more_at_once_until_it_has_time_again() {
        let live = KeyLive::new(1, 0, 0.0, None);
        let mut now = 1_000;
        for (lasted, size) in
            [(60_000, 32), (25, 32), (24, 64), (1, 128), (199, 128), (0, 256), (200, 32), (24, 64)]
        {
            now += lasted;
            assert_eq!(live.wants(1_000_000, now), size, "after {lasted} ms");
            live.grant(size, now);
            assert_eq!(live.withdraw(), size);
        }
        for _ in 0..10 {
            live.grant(1, now);
            live.withdraw();
            assert!(live.wants(1_000_000, now) <= 1024);
        }
        assert_eq!(live.wants(500, now), 5, "a hundredth of the rest is the most all the same");
    }

    #[test]
    fn only_what_is_granted_can_be_taken() {
        let live = KeyLive::new(1, 7, 0.0, None);
        assert!(!live.take());
        live.grant(2, 0);
        assert!(live.take() && live.take() && !live.take());
        assert_eq!((live.used_requests(), live.reserved()), (9, 9));
        assert!(live.is_exhausted(9) && !live.is_exhausted(10));
    }

    #[test]
    fn what_is_withdrawn_was_never_used() {
        let live = KeyLive::new(1, 0, 0.0, None);
        live.grant(5, 0);
        assert!(live.take());
        assert_eq!(live.withdraw(), 4);
        assert_eq!((live.used_requests(), live.reserved(), live.block()), (1, 1, 0));
    }

    #[test]
    fn a_delta_is_handed_over_once() {
        let live = KeyLive::new(3, 0, 1.0, None);
        live.count();
        assert!(live.charge(0.25, 50) && !live.charge(0.25, 40));
        assert_eq!(live.take_delta(), KeyDelta { id: 3, requests: 1, cost: 0.5, last_used: Some(50) });
        assert_eq!((live.used_requests(), live.used_cost()), (1, 1.5));
        assert!(live.record_use(60));
        assert_eq!(live.take_delta(), KeyDelta { id: 3, requests: 0, cost: 0.0, last_used: Some(60) });
    }
}
