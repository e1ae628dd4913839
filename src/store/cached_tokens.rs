//! Token counts of upstream prompt caches, summed over calls.

use super::Result;
use super::sql::Fields;

/// Token sums over the calls whose upstream reports cache use; other calls are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachedTokens {
    /// All input tokens of these calls, including those read from the cache.
    pub input: i64,
    pub read: i64,
    pub creation: i64,
}

impl CachedTokens {
    /// The SQL expressions that sum these counts over log rows.
    pub(in crate::store) const OF_LOGS: &'static str = "COALESCE(SUM(CASE WHEN cache_read_tokens IS NOT NULL OR \
         cache_creation_tokens IS NOT NULL THEN input_tokens END), 0), \
         COALESCE(SUM(cache_read_tokens), 0), COALESCE(SUM(cache_creation_tokens), 0)";

    /// Reads the sums from the next fields of a row.
    pub(in crate::store) fn read(row: &mut Fields<'_>) -> Result<Self> {
        Ok(Self { input: row.int()?, read: row.int()?, creation: row.int()? })
    }

    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.read = self.read.saturating_add(other.read);
        self.creation = self.creation.saturating_add(other.creation);
    }

    /// Returns the share of the input that was read from the cache; `None` when no counted call had input.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.input > 0).then(|| self.read as f64 / self.input as f64)
    }
}
