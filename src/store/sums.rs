//! Sums over calls.

use super::Result;
use super::cached_tokens::CachedTokens;
use super::sql::Fields;
use crate::money::Usd;

/// Sums over calls; a call that is not a success counts as failed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    pub calls: i64,
    pub ok: i64,
    pub tokens: i64,
    /// In USD.
    pub cost: Usd,
    pub latency_ms: i64,
    /// The number of calls in the latency sum.
    pub latency_n: i64,
    pub cached: CachedTokens,
}

impl Sums {
    /// Reads the sums from the next fields of a row.
    pub(in crate::store) fn read(row: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            calls: row.int()?,
            ok: row.int()?,
            tokens: row.int()?,
            cost: row.usd()?,
            latency_ms: row.int()?,
            latency_n: row.int()?,
            cached: CachedTokens::read(row)?,
        })
    }

    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.ok += other.ok;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost += other.cost;
        self.latency_ms += other.latency_ms;
        self.latency_n += other.latency_n;
        self.cached.add(&other.cached);
    }

    /// Returns the average latency in milliseconds, rounded; `None` without any.
    pub fn latency(&self) -> Option<i64> {
        (self.latency_n > 0).then(|| (self.latency_ms as f64 / self.latency_n as f64).round() as i64)
    }
}
