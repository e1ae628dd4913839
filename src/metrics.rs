//! The counters of the service: atomics only, cheap enough for every request.
//!
//! [`Counter`]s grow, [`Gauge`]s go up while a [`GaugeGuard`] lives and down when it drops; [`series`] has the counts
//! of each channel and model. The handler of `/metrics` reads them; this module does not know the text form.

pub mod histogram;
pub mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use series::SeriesTable;

/// All counters of the process.
#[derive(Debug)]
pub struct Metrics {
    /// Counts by channel and model.
    pub series: SeriesTable,
    requests: [[Counter; CLASSES]; Surface::ALL.len()],
    /// Attempts sent to an upstream.
    pub attempts: Counter,
    /// Attempts that failed, including those that led to a fail-over.
    pub attempt_failures: Counter,
    /// Requests being served, streams included.
    pub in_flight: Gauge,
    /// Responses being streamed to clients.
    pub streams: Gauge,
    /// WebSockets that clients hold open.
    pub sockets: Gauge,
    /// Tokens of prompts, as upstreams report them.
    pub prompt_tokens: Counter,
    /// Tokens of completions, as upstreams report them.
    pub completion_tokens: Counter,
    /// Bytes of request bodies read from clients.
    pub received_bytes: Counter,
    /// Bytes of response bodies sent to clients.
    pub sent_bytes: Counter,
}

/// Status classes: 1xx to 5xx.
const CLASSES: usize = 5;

impl Metrics {
    /// Creates the counters, with at most this many series of channels and models.
    pub fn new(most_series: usize) -> Self {
        Self {
            series: SeriesTable::new(most_series),
            requests: Default::default(),
            attempts: Counter::default(),
            attempt_failures: Counter::default(),
            in_flight: Gauge::default(),
            streams: Gauge::default(),
            sockets: Gauge::default(),
            prompt_tokens: Counter::default(),
            completion_tokens: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
        }
    }

    /// Counts one request that was answered.
    pub fn answered(&self, surface: Surface, status: u16) {
        let class = usize::from((status / 100).clamp(1, 5)) - 1;
        self.requests[surface as usize][class].add(1);
    }

    /// Returns the non-zero request counts: surface, status class (`"2xx"`), count.
    pub fn requests(&self) -> impl Iterator<Item = (Surface, &'static str, u64)> + '_ {
        const NAMES: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        Surface::ALL
            .iter()
            .flat_map(move |&surface| {
                let counts = self.requests[surface as usize].iter().map(Counter::get);
                NAMES.iter().zip(counts).map(move |(&class, count)| (surface, class, count))
            })
            .filter(|&(.., count)| count > 0)
    }
}

/// The API surface of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    Chat,
    Responses,
    Messages,
    Gemini,
    Completions,
    Embeddings,
    Images,
    Audio,
    Models,
    Files,
    Videos,
    Admin,
    /// Everything else: the console, unknown paths, refused requests.
    Other,
}

impl Surface {
    pub const ALL: [Self; 13] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Completions,
        Self::Embeddings,
        Self::Images,
        Self::Audio,
        Self::Models,
        Self::Files,
        Self::Videos,
        Self::Admin,
        Self::Other,
    ];

    /// Returns the label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Images => "images",
            Self::Audio => "audio",
            Self::Models => "models",
            Self::Files => "files",
            Self::Videos => "videos",
            Self::Admin => "admin",
            Self::Other => "other",
        }
    }
}

/// A number that only grows.
///
/// It is the sum of a few shards, each on cache lines of its own; every thread adds to one of them, so that threads
/// that count the same thing at the same time do not wait for each other's memory.
#[derive(Debug, Default)]
pub struct Counter([CounterShard; SHARDS]);

const SHARDS: usize = 4;

#[derive(Debug, Default)]
#[repr(align(64))]
struct CounterShard(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static SHARD: usize = THREADS.fetch_add(1, Relaxed) % SHARDS);
        // A thread that is ending has lost its shard number.
        let shard = SHARD.try_with(|shard| *shard).unwrap_or(0);
        self.0[shard].0.fetch_add(count, Relaxed);
    }

    /// Returns the count so far.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|shard| shard.0.load(Relaxed)).sum()
    }
}

/// The current number of something.
#[derive(Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Counts one more until the returned value drops.
    pub fn enter(&self) -> GaugeGuard {
        self.0.fetch_add(1, Relaxed);
        GaugeGuard(self.0.clone())
    }

    /// Returns the current number.
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// One unit of a [`Gauge`].
#[derive(Debug)]
pub struct GaugeGuard(Arc<AtomicI64>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_surface_and_class() {
        let metrics = Metrics::new(0);
        for status in [200, 204, 404, 599, 0, 999] {
            metrics.answered(Surface::Chat, status);
        }
        metrics.answered(Surface::Other, 101);
        let counts: Vec<_> = metrics.requests().collect();
        assert_eq!(
            counts,
            [
                (Surface::Chat, "1xx", 1),
                (Surface::Chat, "2xx", 2),
                (Surface::Chat, "4xx", 1),
                (Surface::Chat, "5xx", 2),
                (Surface::Other, "1xx", 1),
            ]
        );
    }

    #[test]
    fn every_surface_has_its_own_row() {
        for (index, surface) in Surface::ALL.into_iter().enumerate() {
            assert_eq!(surface as usize, index);
        }
    }

    #[test]
    fn a_gauge_falls_when_what_it_counts_is_dropped() {
        let gauge = Gauge::default();
        let first = gauge.enter();
        let second = gauge.enter();
        assert_eq!(gauge.get(), 2);
        drop(first);
        assert_eq!(gauge.get(), 1);
        drop(second);
        assert_eq!(gauge.get(), 0);
    }
}
