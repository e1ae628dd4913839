//! Counting per identity: so many requests in a window anchored at the first of them (routing.md 15.1).
//!
//! A token bucket that is refilled in one step: the first request opens a window, and when as many as the
//! maximum have come, the rest are refused until the window ends and the next request opens a new one.
//! Refused requests neither count nor extend it. A bucket refilled little by little would let almost twice
//! the maximum through in one window.
//!
//! Memory is bounded: windows are kept in the order they opened, which is the order they end, so expired
//! ones are dropped from the front, and at capacity the oldest goes first.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::time::Millis;

/// Whole seconds until the window of a refused identity ends; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfterSeconds(pub u64);

/// The open windows of many identities, all of one length.
#[derive(Debug)]
pub(super) struct Windows<K> {
    length: Millis,
    /// Forgetting the oldest window early only helps its own identity.
    capacity: usize,
    by_identity: HashMap<K, Window>,
    /// When each window opened, oldest first.
    opened: VecDeque<(Millis, K)>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    opened: Millis,
    count: u32,
}

// === impl Windows ===

impl<K: Copy + Eq + Hash> Windows<K> {
    pub(super) fn new(length: Millis, capacity: usize) -> Self {
        Self { length, capacity, by_identity: HashMap::new(), opened: VecDeque::new() }
    }

    /// Forgets every window.
    pub(super) fn clear(&mut self) {
        self.by_identity.clear();
        self.opened.clear();
    }

    /// Counts a request, or says when to come again. `now` comes from a clock that never steps back.
    pub(super) fn count(&mut self, max: u32, identity: K, now: Millis) -> Result<(), RetryAfterSeconds> {
        self.drop_expired(now);
        if let Some(window) = self.by_identity.get_mut(&identity) {
            if window.count < max {
                window.count += 1;
                return Ok(());
            }
            let left = window.opened + self.length - now;
            return Err(RetryAfterSeconds(u64::try_from(left).unwrap_or(0).div_ceil(1000).max(1)));
        }
        if self.by_identity.len() >= self.capacity {
            self.drop_oldest();
        }
        self.by_identity.insert(identity, Window { opened: now, count: 1 });
        self.opened.push_back((now, identity));
        Ok(())
    }

    fn drop_expired(&mut self, now: Millis) {
        while self.opened.front().is_some_and(|(opened, _)| now >= opened + self.length) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, identity)) = self.opened.pop_front() {
            self.by_identity.remove(&identity);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_identity.len()
    }
}
