//! The lines of sites' logs that were booked for a request, in memory: no line is booked for two.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Mutex;

use foldhash::quality::RandomState;

use crate::ids::AccountId;
use crate::routing::pricing::usage_record::UsageRecord;
use crate::sync::lock;
use crate::time::{MINUTE, Millis};

/// How long a line is remembered, in milliseconds: longer than it may be looked for after its request.
const KEPT_MS: Millis = 10 * MINUTE;
/// The most lines that are remembered of an account.
const MAX_LINES: usize = 1024;

/// The lines booked lately, and the lookups under way, by account.
#[derive(Default)]
pub(super) struct BookedLines {
    keys: RandomState,
    accounts: Mutex<HashMap<AccountId, AccountLines>>,
}

#[derive(Default)]
struct AccountLines {
    /// The number of lookups under way.
    looking: usize,
    /// When each line was booked, and its hash; the oldest first. Equal lines stand in it as often as they were booked.
    booked: VecDeque<(Millis, u64)>,
}

/// A lookup under way.
pub(super) struct Looking<'a> {
    lines: &'a BookedLines,
    account: AccountId,
}

impl BookedLines {
    pub(super) fn begin(&self, account: AccountId) -> Looking<'_> {
        lock(&self.accounts).entry(account).or_default().looking += 1;
        Looking { lines: self, account }
    }
}

impl Looking<'_> {
    /// Whether this is the only lookup of its account.
    pub(super) fn is_alone(&self) -> bool {
        lock(&self.lines.accounts).get(&self.account).is_none_or(|lines| lines.looking <= 1)
    }

    /// Books the line that `choose` finds among those that were not booked for another request.
    pub(super) fn book(
        &self,
        read: Vec<UsageRecord>,
        now: Millis,
        choose: impl FnOnce(&[UsageRecord]) -> Option<UsageRecord>,
    ) -> Option<UsageRecord> {
        let mut accounts = lock(&self.lines.accounts);
        let booked = &mut accounts.entry(self.account).or_default().booked;
        booked.retain(|(at, _)| now - at <= KEPT_MS);
        let hash = |line: &UsageRecord| self.lines.keys.hash_one(line.identity());
        let mut taken: Vec<u64> = booked.iter().map(|(_, hash)| *hash).collect();
        let is_free = |line: &UsageRecord| match taken.iter().position(|taken| *taken == hash(line)) {
            Some(place) => {
                taken.swap_remove(place);
                false
            }
            None => true,
        };
        let free: Vec<UsageRecord> = read.into_iter().filter(is_free).collect();
        let chosen = choose(&free)?;
        if booked.len() >= MAX_LINES {
            booked.pop_front();
        }
        booked.push_back((now, hash(&chosen)));
        Some(chosen)
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let mut accounts = lock(&self.lines.accounts);
        let Some(lines) = accounts.get_mut(&self.account) else { return };
        lines.looking -= 1;
        if lines.looking == 0 && lines.booked.is_empty() {
            accounts.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str) -> UsageRecord {
        UsageRecord { id: Some(id.to_owned()), ..UsageRecord::default() }
    }

    #[test]
    fn a_line_is_booked_once_and_equal_lines_as_often_as_they_stand_there() {
        let lines = BookedLines::default();
        let looking = lines.begin(AccountId::new(1));
        let first = |read: &[UsageRecord]| read.first().cloned();
        let read = || vec![line("a"), line("b"), line("b")];
        assert_eq!(looking.book(read(), 0, first), Some(line("a")));
        assert_eq!(looking.book(read(), 1, first), Some(line("b")));
        assert_eq!(looking.book(read(), 2, first), Some(line("b")));
        assert_eq!(looking.book(read(), KEPT_MS, first), None);
        assert_eq!(looking.book(read(), KEPT_MS + 1, first), Some(line("a")), "it was long ago");
        let other = lines.begin(AccountId::new(2));
        assert_eq!(other.book(read(), 0, first), Some(line("a")), "of another account");
        assert!(looking.is_alone());
        let beside = lines.begin(AccountId::new(1));
        assert!(!looking.is_alone() && !beside.is_alone());
        drop((looking, beside, other));
        assert_eq!(lock(&lines.accounts).values().map(|lines| lines.looking).sum::<usize>(), 0);
    }
}
