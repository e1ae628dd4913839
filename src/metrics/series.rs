//! Counts by channel and model, without a lock.
//!
//! ```text
//! (channel, model) ── hash ──▶ slots: [ – | Series | Series | – | … ]   open addressing, filled once, never emptied
//!                                       └ atomics                       full: everything else counts in `other`
//! ```
//!
//! The first request of a pair fills a slot; later requests find it with a few loads. Models may be names that clients
//! made up, so the number of pairs is bounded. The reader of the counts first removes the pairs of deleted channels
//! ([`SeriesTable::retain`]), which makes room for others.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use super::histogram::Histogram;
use crate::ids::ChannelId;
use crate::money::Usd;
use crate::one_line::first_chars;

/// Maximum length of a model name, in characters; longer ones are cut.
const MAX_MODEL_CHARS: usize = 191;
/// The index in `STATUSES` for an attempt without an HTTP response.
const NO_ANSWER: usize = 0;
const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The kinds of tokens; `input` includes those of caches.
pub const TOKEN_KINDS: [&str; 4] = ["input", "output", "cache_read", "cache_creation"];

/// All series: at most `most`, and one that counts the rest.
#[derive(Debug)]
pub struct SeriesTable {
    slots: ArcSwap<Slots>,
    most: usize,
    hasher: RandomState,
    other: Arc<Series>,
}

#[derive(Debug)]
struct Slots {
    /// The number of slots is a power of two and at least twice the maximum of taken ones, so that a search soon meets
    /// an empty slot.
    slots: Box<[OnceLock<Arc<Series>>]>,
    taken: AtomicUsize,
}

/// The counts of one channel with one model.
#[derive(Debug, Default)]
pub struct Series {
    /// The channel and model; `None` for the series that counts the rest.
    pair: Option<(ChannelId, Box<str>)>,
    statuses: [AtomicU64; STATUSES.len()],
    failures: AtomicU64,
    tokens: [AtomicU64; TOKEN_KINDS.len()],
    cost_nano: AtomicI64,
    in_flight: AtomicI64,
    first_byte: Histogram,
    duration: Histogram,
}

/// A request in progress, counted in its series until it is dropped.
#[derive(Debug)]
pub struct InFlightRequest(Arc<Series>);

/// The result of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptResult {
    /// The HTTP status; 0 if there was no response.
    pub status: u16,
    pub is_failure: bool,
    pub first_byte_ms: Option<u64>,
    pub duration_ms: u64,
    pub cost: Usd,
    /// Counts in the order of [`TOKEN_KINDS`].
    pub tokens: [u64; TOKEN_KINDS.len()],
}

// === impl SeriesTable ===

impl SeriesTable {
    pub fn new(most: usize) -> Self {
        Self {
            slots: ArcSwap::from_pointee(Slots::new(most)),
            most,
            hasher: RandomState::new(),
            other: Arc::default(),
        }
    }

    /// Counts a request that begins.
    pub fn begin(&self, channel: ChannelId, model: &str) -> InFlightRequest {
        let series = self.find(channel, first_chars(model, MAX_MODEL_CHARS));
        series.in_flight.fetch_add(1, Relaxed);
        InFlightRequest(series)
    }

    /// Adds cost and tokens that became known only after the request ended.
    pub fn spend(&self, channel: ChannelId, model: &str, cost: Usd, tokens: [u64; TOKEN_KINDS.len()]) {
        self.find(channel, first_chars(model, MAX_MODEL_CHARS)).spend(cost, tokens);
    }

    /// Returns all series by channel and model, then the series of the rest if it has counted anything.
    pub fn all(&self) -> Vec<Arc<Series>> {
        let slots = self.slots.load();
        let mut all: Vec<_> = slots.slots.iter().filter_map(OnceLock::get).cloned().collect();
        all.sort_unstable_by(|one, other| one.pair.cmp(&other.pair));
        all.extend(self.other.has_counted().then(|| self.other.clone()));
        all
    }

    /// Removes the series of channels that are not kept, unless a request is in progress there.
    pub fn retain(&self, is_kept: impl Fn(ChannelId) -> bool) {
        let before = self.slots.load_full();
        let is_gone = |series: &Series| {
            series.in_flight.load(Relaxed) == 0
                && series.pair.as_ref().is_some_and(|(channel, _)| !is_kept(*channel))
        };
        if !before.slots.iter().filter_map(OnceLock::get).any(|series| is_gone(series)) {
            return;
        }
        let after = Arc::new(Slots::new(self.most));
        let copy = || {
            for series in before.slots.iter().filter_map(OnceLock::get).filter(|series| !is_gone(series)) {
                let (channel, model) =
                    series.pair.as_ref().map_or((ChannelId::ZERO, ""), |(id, model)| (*id, &**model));
                drop(after.find(self.hash(channel, model), channel, model, || series.clone(), self.most));
            }
        };
        copy();
        self.slots.store(after.clone());
        // Copy again the series that began in the meantime.
        copy();
    }

    fn find(&self, channel: ChannelId, model: &str) -> Arc<Series> {
        let make = || Arc::new(Series { pair: Some((channel, model.into())), ..Series::default() });
        let slots = self.slots.load();
        let found = slots.find(self.hash(channel, model), channel, model, make, self.most);
        found.unwrap_or_else(|| self.other.clone())
    }

    fn hash(&self, channel: ChannelId, model: &str) -> usize {
        self.hasher.hash_one((channel, model)) as usize
    }
}

// === impl Slots ===

impl Slots {
    fn new(most: usize) -> Self {
        let count = (most.saturating_mul(2)).next_power_of_two();
        Self {
            slots: std::iter::repeat_with(OnceLock::new).take(count).collect(),
            taken: AtomicUsize::new(0),
        }
    }

    /// Finds the series of a pair; creates it if there is room.
    fn find(
        &self,
        hash: usize,
        channel: ChannelId,
        model: &str,
        make: impl Fn() -> Arc<Series>,
        most: usize,
    ) -> Option<Arc<Series>> {
        let last = self.slots.len() - 1;
        for step in 0..=last {
            let slot = &self.slots[hash.wrapping_add(step) & last];
            if let Some(series) = slot.get() {
                if series.is_of(channel, model) {
                    return Some(series.clone());
                }
                continue;
            }
            let room = |taken: usize| (taken < most).then_some(taken + 1);
            self.taken.fetch_update(Relaxed, Relaxed, room).ok()?;
            let mut is_made = false;
            let series = slot.get_or_init(|| {
                is_made = true;
                make()
            });
            if !is_made {
                self.taken.fetch_sub(1, Relaxed);
            }
            if series.is_of(channel, model) {
                return Some(series.clone());
            }
        }
        None
    }
}

// === impl Series ===

impl Series {
    /// Returns the channel and the model; `None` for the series that counts the rest.
    pub fn pair(&self) -> Option<(ChannelId, &str)> {
        self.pair.as_ref().map(|(channel, model)| (*channel, &**model))
    }

    /// Returns the number of ended requests by status class.
    pub fn statuses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        STATUSES.iter().zip(&self.statuses).map(|(name, count)| (*name, count.load(Relaxed)))
    }

    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    pub fn tokens(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        TOKEN_KINDS.iter().zip(&self.tokens).map(|(name, count)| (*name, count.load(Relaxed)))
    }

    pub fn cost(&self) -> Usd {
        Usd::from_nano(self.cost_nano.load(Relaxed))
    }

    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Relaxed)
    }

    pub fn first_byte(&self) -> &Histogram {
        &self.first_byte
    }

    pub fn duration(&self) -> &Histogram {
        &self.duration
    }

    fn spend(&self, cost: Usd, tokens: [u64; TOKEN_KINDS.len()]) {
        for (sum, tokens) in self.tokens.iter().zip(tokens).filter(|(_, tokens)| *tokens > 0) {
            sum.fetch_add(tokens, Relaxed);
        }
        if cost > Usd::ZERO {
            self.cost_nano.fetch_add(cost.nano(), Relaxed);
        }
    }

    fn is_of(&self, channel: ChannelId, model: &str) -> bool {
        self.pair() == Some((channel, model))
    }

    fn has_counted(&self) -> bool {
        self.in_flight() != 0 || self.statuses().any(|(_, count)| count > 0)
    }
}

// === impl InFlightRequest ===

impl InFlightRequest {
    /// Counts the result.
    pub fn end(&self, ended: &AttemptResult) {
        let series = &self.0;
        let class = match ended.status {
            0 => NO_ANSWER,
            status => usize::from((status / 100).clamp(1, 5)),
        };
        series.statuses[class].fetch_add(1, Relaxed);
        if ended.is_failure {
            series.failures.fetch_add(1, Relaxed);
        }
        if let Some(first_byte) = ended.first_byte_ms {
            series.first_byte.record(first_byte);
        }
        series.duration.record(ended.duration_ms);
        series.spend(ended.cost, ended.tokens);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(table: &SeriesTable) -> Vec<Option<(i64, String)>> {
        let pair = |series: &Arc<Series>| series.pair().map(|(id, model)| (id.get(), model.to_owned()));
        table.all().iter().map(pair).collect()
    }

    #[test]
    fn a_pair_counts_in_one_series_and_what_has_no_room_in_the_rest() {
        let table = SeriesTable::new(2);
        for (channel, model) in [(1, "a"), (2, "a"), (1, "a"), (1, "b"), (3, "c"), (2, "a")] {
            table
                .begin(ChannelId::new(channel), model)
                .end(&AttemptResult { status: 200, ..AttemptResult::default() });
        }
        assert_eq!(pairs(&table), [Some((1, "a".into())), Some((2, "a".into())), None]);
        let answered: Vec<u64> = table.all().iter().map(|series| series.statuses[2].load(Relaxed)).collect();
        assert_eq!(answered, [2, 2, 2]);
    }

    #[test]
    fn without_room_for_any_everything_is_the_rest() {
        let table = SeriesTable::new(0);
        assert!(table.all().is_empty());
        let _work = table.begin(ChannelId::new(1), "a");
        assert_eq!((pairs(&table), table.all()[0].in_flight()), (vec![None], 1));
    }

    #[test]
    fn channels_that_are_gone_make_room_once_nothing_is_at_work_there() {
        let table = SeriesTable::new(3);
        let at_work = table.begin(ChannelId::new(1), "a");
        table.begin(ChannelId::new(2), "a").end(&AttemptResult {
            status: 502,
            is_failure: true,
            ..AttemptResult::default()
        });
        drop(table.begin(ChannelId::new(3), "a"));
        table.retain(|channel| channel == ChannelId::new(2));
        assert_eq!(pairs(&table), [Some((1, "a".into())), Some((2, "a".into()))]);
        assert_eq!(table.all()[1].failures(), 1);
        drop(at_work);
        table.retain(|channel| channel == ChannelId::new(2));
        assert_eq!(pairs(&table), [Some((2, "a".into()))]);
        drop((table.begin(ChannelId::new(4), "a"), table.begin(ChannelId::new(5), "a")));
        assert_eq!(pairs(&table).len(), 3);
    }

    #[test]
    fn threads_that_meet_at_an_empty_slot_share_it() {
        // With room to spare: two threads that want one slot both reserve a place for a moment.
        let table = SeriesTable::new(64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..4_000 {
                        let ended = AttemptResult { duration_ms: 1, ..AttemptResult::default() };
                        table.begin(ChannelId::new(number % 16), "a").end(&ended);
                    }
                });
            }
        });
        let all = table.all();
        assert_eq!((all.len(), table.slots.load().taken.load(Relaxed)), (16, 16));
        for series in all {
            assert_eq!((series.statuses[NO_ANSWER].load(Relaxed), series.in_flight()), (1_000, 0));
        }
    }

    #[test]
    fn a_model_name_of_any_length_is_cut() {
        let table = SeriesTable::new(2);
        drop(table.begin(ChannelId::new(1), &"é".repeat(10_000)));
        assert_eq!(table.all()[0].pair().map(|(_, model)| model.chars().count()), Some(MAX_MODEL_CHARS));
    }
}
