//! Usage of downstream keys, summed from the log.

use std::collections::HashMap;
use std::ops::AddAssign;

use super::cached_tokens::CachedTokens;
use super::log_sums::{MODEL_SUMS, OF_ROWS, Parts, QUARTER};
use super::sql::{Fields, Row, Value};
use super::{Result, Store};
use crate::ids::KeyId;
use crate::money::Usd;
use crate::time::Millis;

/// Sums over attempts; an attempt that is not a success counts as failed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KeyUsage {
    pub requests: i64,
    pub successes: i64,
    pub tokens: i64,
    /// In USD.
    pub cost: Usd,
    pub cached: CachedTokens,
}

impl AddAssign for KeyUsage {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.successes += other.successes;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost += other.cost;
        self.cached.add(&other.cached);
    }
}

const CACHED: &str = CachedTokens::OF_LOGS;

/// Returns the usage since `from` of every key that was used.
pub async fn by_key_since(store: &Store, from: Millis) -> Result<HashMap<KeyId, KeyUsage>> {
    let key = "l.downstream_api_key_id IS NOT NULL";
    let mut used: HashMap<KeyId, KeyUsage> = HashMap::new();
    for row in summed(store, from, key, Vec::new()).await? {
        let mut row = row.fields();
        *used.entry(row.id()?).or_default() += read(&mut row)?;
    }
    Ok(used)
}

/// Returns the usage of one key since `from`.
pub async fn since(store: &Store, id: KeyId, from: Millis) -> Result<KeyUsage> {
    let mut used = KeyUsage::default();
    for row in summed(store, from, "l.downstream_api_key_id = ?", vec![id.into()]).await? {
        let mut row = row.fields();
        row.int()?;
        used += read(&mut row)?;
    }
    Ok(used)
}

/// Returns rows of key and usage, which the caller adds up: one row per key from the sums, and one per key from
/// each part of the log that is not summed.
async fn summed(store: &Store, from: Millis, of_key: &str, args: Vec<Value>) -> Result<Vec<Row>> {
    const BY_KEY: &str = "GROUP BY l.downstream_api_key_id";
    let parts = Parts::of(store, Some(from), None).await?;
    let mut rows = Vec::new();
    if let Some((range, mut of_range)) = parts.of_sums() {
        let sql = format!(
            "SELECT l.downstream_api_key_id, SUM(l.calls), SUM(l.ok), SUM(l.tokens), SUM(l.cost), \
             SUM(l.cache_input_tokens), SUM(l.cache_read_tokens), SUM(l.cache_creation_tokens) \
             FROM {} l WHERE {range} AND {of_key} {BY_KEY}",
            MODEL_SUMS.name
        );
        of_range.extend(args.iter().cloned());
        rows = store.query(sql, of_range).await?;
    }
    for (from, to) in &parts.counted {
        let sql = format!(
            "SELECT l.downstream_api_key_id, {OF_ROWS}, {CACHED} FROM proxy_logs l \
             WHERE l.created_at >= ? AND l.created_at < ? AND {of_key} {BY_KEY}"
        );
        let mut of_range = vec![(*from).into(), (*to).into()];
        of_range.extend(args.iter().cloned());
        rows.extend(store.query(sql, of_range).await?);
    }
    Ok(rows)
}

/// Returns the usage of one key since `from` by quarters of an hour, each with its start, ascending.
pub async fn by_quarter(store: &Store, id: KeyId, from: Millis) -> Result<Vec<(Millis, KeyUsage)>> {
    let parts = Parts::of(store, Some(from), None).await?;
    let mut rows = Vec::new();
    if let Some((range, mut args)) = parts.of_sums() {
        let sql = format!(
            "SELECT l.quarter_at, l.calls, l.ok, l.tokens, l.cost, l.cache_input_tokens, l.cache_read_tokens, \
             l.cache_creation_tokens FROM proxy_log_key_quarters l WHERE {range} AND l.downstream_api_key_id = ?"
        );
        args.push(id.into());
        rows = store.query(sql, args).await?;
    }
    for (from, to) in &parts.counted {
        let sql = format!(
            "SELECT {QUARTER} AS quarter, {OF_ROWS}, {CACHED} FROM proxy_logs l \
             WHERE l.downstream_api_key_id = ? AND l.created_at >= ? AND l.created_at < ? GROUP BY quarter"
        );
        rows.extend(store.query(sql, vec![id.into(), (*from).into(), (*to).into()]).await?);
    }
    let read = |row: &Row| {
        let mut row = row.fields();
        Ok((row.int()?, read(&mut row)?))
    };
    let mut quarters: Vec<(Millis, KeyUsage)> = rows.iter().map(read).collect::<Result<_>>()?;
    quarters.sort_unstable_by_key(|(quarter, _)| *quarter);
    Ok(quarters)
}

fn read(row: &mut Fields<'_>) -> Result<KeyUsage> {
    Ok(KeyUsage {
        requests: row.int()?,
        successes: row.int()?,
        tokens: row.int()?,
        cost: row.usd()?,
        cached: CachedTokens::read(row)?,
    })
}
