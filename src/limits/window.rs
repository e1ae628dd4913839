//! Counts requests per identity: a maximum in a window that begins with the first of them.
//!
//! A token bucket that is refilled in one step: the first request opens a window, and when the maximum number has come,
//! further requests are refused until the window ends and the next request opens a new one. Refused requests neither
//! count nor extend it. A bucket refilled little by little would let almost twice the maximum through in one window.
//!
//! A [`RateWindow`] is one atomic word. A frequent caller keeps hold of its own and counts without a lock; a caller known
//! by its address only is looked up in [`Windows`], whose memory is bounded. A [`UsageWindow`] counts larger numbers.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::sync::lock;
use crate::time::Millis;

/// The number of bits of a window's word that count; the rest, eight years of milliseconds, say when it opened.
const COUNT_BITS: u32 = 26;
/// The maximum that means no limit: a million requests a second would not reach it in a minute.
const UNLIMITED: u64 = (1 << COUNT_BITS) - 1;

/// The whole seconds until the window of a refused identity ends; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfterSeconds(pub u64);

/// The window of one identity: when it opened, and how many requests it has counted. No window is open at first.
#[derive(Debug, Default)]
pub struct RateWindow(AtomicU64);

/// The window of one identity for usage that is known only afterwards: when it opened, and the count, which may be larger than
/// a [`RateWindow`] holds.
#[derive(Debug, Default)]
pub struct UsageWindow(Mutex<(Millis, u64)>);

/// The windows of many identities, all of the same length.
#[derive(Debug)]
pub(super) struct Windows<K> {
    length: Millis,
    /// The maximum number of windows. Forgetting a window early only helps its own identity.
    capacity: usize,
    by_identity: HashMap<K, Arc<RateWindow>>,
    /// Every identity once, ordered by when its window was last found open, oldest first.
    seen: VecDeque<(Millis, K)>,
}

// === impl RateWindow ===

impl RateWindow {
    /// Counts a request, or returns how long to wait. `now` comes from a clock that never steps back.
    pub fn count(&self, max: u32, length: Millis, now: Millis) -> Result<(), RetryAfterSeconds> {
        let counted = self.0.fetch_update(Relaxed, Relaxed, |word| {
            let (opened, count) = unpack(word);
            match count {
                _ if !is_open(word, length, now) => Some(pack(now, 1)),
                UNLIMITED => Some(word),
                count if count < u64::from(max) => Some(pack(opened, count + 1)),
                _ => None,
            }
        });
        counted.map(drop).map_err(|word| time_left(unpack(word).0, length, now))
    }

    /// Checks whether one more would be counted; else returns how long to wait.
    pub fn check(&self, max: u32, length: Millis, now: Millis) -> Result<(), RetryAfterSeconds> {
        let word = self.0.load(Relaxed);
        let (_, count) = unpack(word);
        if is_open(word, length, now) && count != UNLIMITED && count >= u64::from(max) {
            Err(time_left(unpack(word).0, length, now))
        } else {
            Ok(())
        }
    }

    fn is_open(&self, length: Millis, now: Millis) -> bool {
        is_open(self.0.load(Relaxed), length, now)
    }

    /// Resets the count.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

fn pack(opened: Millis, count: u64) -> u64 {
    opened.cast_unsigned() << COUNT_BITS | count
}

fn unpack(word: u64) -> (Millis, u64) {
    ((word >> COUNT_BITS).cast_signed(), word & UNLIMITED)
}

fn is_open(word: u64, length: Millis, now: Millis) -> bool {
    let (opened, count) = unpack(word);
    count > 0 && now < opened + length
}

/// Returns how long until a window ends.
fn time_left(opened: Millis, length: Millis, now: Millis) -> RetryAfterSeconds {
    let left = opened + length - now;
    RetryAfterSeconds(u64::try_from(left).unwrap_or(0).div_ceil(1000).max(1))
}

// === impl UsageWindow ===

impl UsageWindow {
    /// Checks whether the maximum is not reached; else returns how long to wait. `now` comes from a clock that never steps
    /// back.
    pub fn check(&self, max: u64, length: Millis, now: Millis) -> Result<(), RetryAfterSeconds> {
        let (opened, count) = *lock(&self.0);
        if count > 0 && now < opened + length && count >= max {
            Err(time_left(opened, length, now))
        } else {
            Ok(())
        }
    }

    /// Adds a number whatever the maximum.
    pub fn add(&self, more: u64, length: Millis, now: Millis) {
        let mut window = lock(&self.0);
        let (opened, count) = *window;
        let is_open = count > 0 && now < opened + length;
        *window = if is_open { (opened, count.saturating_add(more)) } else { (now, more) };
    }
}

// === impl Windows ===

impl<K: Copy + Eq + Hash> Windows<K> {
    pub(super) fn new(length: Millis, capacity: usize) -> Self {
        Self { length, capacity, by_identity: HashMap::new(), seen: VecDeque::new() }
    }

    /// Resets all counts. The windows themselves stay, since callers may hold them.
    pub(super) fn clear(&mut self) {
        self.by_identity.values().for_each(|window| window.clear());
    }

    /// Returns the window of an identity: the same for all callers while anyone holds it.
    pub(super) fn of(&mut self, identity: K, now: Millis) -> Arc<RateWindow> {
        self.drop_ended(now);
        if let Some(window) = self.by_identity.get(&identity) {
            return window.clone();
        }
        if self.by_identity.len() >= self.capacity {
            self.make_room(now);
        }
        let window = Arc::new(RateWindow::default());
        self.by_identity.insert(identity, window.clone());
        self.seen.push_back((now, identity));
        window
    }

    /// Drops windows that have ended and that nobody holds, among those not checked for the length of a window.
    fn drop_ended(&mut self, now: Millis) {
        while let Some((seen, identity)) = self.seen.front().copied()
            && now >= seen + self.length
        {
            self.seen.pop_front();
            let window = self.by_identity.get(&identity);
            if window.is_some_and(|window| is_held(window) || window.is_open(self.length, now)) {
                self.seen.push_back((now, identity))
            } else {
                drop(self.by_identity.remove(&identity))
            }
        }
    }

    /// Drops the oldest window that nobody holds; if all are held, the oldest one.
    fn make_room(&mut self, now: Millis) {
        for _ in 1..self.seen.len() {
            let Some((_, identity)) = self.seen.pop_front() else { return };
            if !self.by_identity.get(&identity).is_some_and(is_held) {
                self.by_identity.remove(&identity);
                return;
            }
            self.seen.push_back((now, identity));
        }
        if let Some((_, identity)) = self.seen.pop_front() {
            self.by_identity.remove(&identity);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_identity.len()
    }
}

/// Whether anyone but the table holds it. Nobody can get hold of it meanwhile, because that takes the table.
fn is_held(window: &Arc<RateWindow>) -> bool {
    Arc::strong_count(window) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Millis = 60_000;

    #[test]
    fn a_maximum_beyond_what_a_window_can_count_is_no_limit() {
        let window = RateWindow(AtomicU64::new(pack(0, UNLIMITED - 1)));
        for _ in 0..3 {
            assert_eq!(window.count(u32::MAX, LENGTH, 1), Ok(()));
        }
        assert_eq!(unpack(window.0.into_inner()), (0, UNLIMITED));
    }

    #[test]
    fn a_window_opens_years_after_the_start() {
        let (window, now) = (RateWindow::default(), 8 * 365 * 86_400_000);
        assert_eq!(window.count(1, LENGTH, now), Ok(()));
        assert_eq!(window.count(1, LENGTH, now + 1_000), Err(RetryAfterSeconds(59)));
        assert_eq!(window.count(1, LENGTH, now + LENGTH), Ok(()));
    }

    #[test]
    fn what_is_known_afterwards_refuses_the_next_until_the_window_ends() {
        let window = UsageWindow::default();
        assert_eq!(window.check(100, LENGTH, 0), Ok(()));
        window.add(0, LENGTH, 0);
        window.add(99, LENGTH, 1_000);
        assert_eq!(window.check(100, LENGTH, 1_000), Ok(()));
        window.add(5_000, LENGTH, 2_000);
        assert_eq!(window.check(100, LENGTH, 2_000), Err(RetryAfterSeconds(59)));
        assert_eq!(window.check(100, LENGTH, 1_000 + LENGTH), Ok(()));
        let (later, most) = (2_000 + LENGTH, u32::MAX.into());
        window.add(most - 1, LENGTH, later);
        assert_eq!(window.check(most, LENGTH, later), Ok(()));
        window.add(1, LENGTH, later);
        assert_eq!(window.check(most, LENGTH, later), Err(RetryAfterSeconds(60)));
        window.add(u64::MAX, LENGTH, later);
        assert_eq!(window.check(u64::MAX, LENGTH, later), Err(RetryAfterSeconds(60)));
    }

    #[test]
    fn a_window_in_somebodys_hands_stays_the_one_of_its_identity() {
        let mut windows = Windows::new(LENGTH, 2);
        let held = windows.of(1, 0);
        assert_eq!(held.count(1, LENGTH, 0), Ok(()));
        for other in 2..50 {
            windows.of(other, 1);
            assert_eq!(windows.len(), 2);
        }
        assert!(Arc::ptr_eq(&held, &windows.of(1, 1)), "others make room first");
        assert!(Arc::ptr_eq(&held, &windows.of(1, 3 * LENGTH)), "although it has ended");
        assert_eq!(windows.len(), 1);
        drop(held);
        windows.of(2, 5 * LENGTH);
        assert_eq!(windows.len(), 1, "it goes once nobody holds it");
    }

    #[test]
    fn memory_is_bounded_although_all_windows_are_held() {
        let mut windows = Windows::new(LENGTH, 8);
        let held: Vec<_> = (0..50).map(|identity| windows.of(identity, 0)).collect();
        assert_eq!((held.len(), windows.len(), windows.seen.len()), (50, 8, 8));
    }
}
