//! Tokens in which an upstream's cache of prompts had part, summed over calls.

use super::Result;
use super::sql::Fields;

/// Only calls count whose upstream tells of its cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachedTokens {
    /// All input of these calls, with what came from the cache.
    pub input: i64,
    pub read: i64,
    pub creation: i64,
}

impl CachedTokens {
    /// Sums over rows of the log.
    pub(in crate::store) const OF_LOGS: &'static str = "COALESCE(SUM(CASE WHEN cache_read_tokens IS NOT NULL OR \
         cache_creation_tokens IS NOT NULL THEN input_tokens END), 0), \
         COALESCE(SUM(cache_read_tokens), 0), COALESCE(SUM(cache_creation_tokens), 0)";

    /// Takes the sums of a row, which come next in it.
    pub(in crate::store) fn read(row: &mut Fields<'_>) -> Result<Self> {
        Ok(Self { input: row.int()?, read: row.int()?, creation: row.int()? })
    }

    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.read = self.read.saturating_add(other.read);
        self.creation = self.creation.saturating_add(other.creation);
    }

    /// The share of the input that came from the cache; `None` where no upstream told of one.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.input > 0).then(|| self.read as f64 / self.input as f64)
    }
}
