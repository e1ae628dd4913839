//! Histograms of durations, in buckets as Prometheus expects them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds in milliseconds: from a cached response to a model that thinks for minutes.
const BOUNDS_MS: [u64; 12] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000];
/// [`BOUNDS_MS`] in seconds, as the text form has them.
const BOUNDS: [&str; 12] = ["0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30", "60", "120", "300"];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The counts between the previous bound and each bucket's own; the last bucket has no bound.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_ms: AtomicU64,
}

/// The values of a histogram at one moment.
#[derive(Debug, PartialEq)]
pub struct HistogramValues {
    /// Upper bounds with the number of durations not above them; the last bound is `+Inf`.
    pub buckets: Vec<(&'static str, u64)>,
    pub sum_seconds: f64,
    pub count: u64,
}

impl Histogram {
    pub fn record(&self, ms: u64) {
        let bucket = BOUNDS_MS.iter().position(|bound| ms <= *bound).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ms.fetch_add(ms, Relaxed);
    }

    pub fn read(&self) -> HistogramValues {
        let mut count = 0;
        let bounds = BOUNDS.iter().copied().chain(["+Inf"]);
        let cumulated = bounds.zip(&self.buckets).map(|(bound, bucket)| {
            count += bucket.load(Relaxed);
            (bound, count)
        });
        let buckets = cumulated.collect();
        HistogramValues { buckets, sum_seconds: self.sum_ms.load(Relaxed) as f64 / 1000.0, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_the_same_in_both_units() {
        for (ms, seconds) in BOUNDS_MS.into_iter().zip(BOUNDS) {
            assert_eq!(seconds.parse::<f64>().ok(), Some(ms as f64 / 1000.0));
        }
    }

    #[test]
    fn a_bucket_has_all_that_is_not_above_its_bound() {
        let histogram = Histogram::default();
        for ms in [0, 50, 51, 250, 300_000, 300_001] {
            histogram.record(ms);
        }
        let HistogramValues { buckets, sum_seconds, count } = histogram.read();
        assert_eq!((count, sum_seconds), (6, 600.352));
        assert_eq!(buckets[..3], [("0.05", 2), ("0.1", 3), ("0.25", 4)]);
        assert_eq!(buckets[11..], [("300", 5), ("+Inf", 6)]);
    }
}
