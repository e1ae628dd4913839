//! What downstream keys did, summed from the log.

use std::collections::HashMap;
use std::ops::AddAssign;

use super::cached::CachedTokens;
use super::sql::Fields;
use super::{Result, Store};
use crate::time::Millis;

/// Sums over attempts; everything that is not a success has failed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KeyUsage {
    pub requests: i64,
    pub successes: i64,
    pub tokens: i64,
    /// USD.
    pub cost: f64,
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

const SUMS: &str = "COUNT(*), COALESCE(SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END), 0), \
     COALESCE(SUM(COALESCE(total_tokens, 0)), 0), COALESCE(SUM(estimated_cost), 0)";

const CACHED: &str = CachedTokens::OF_LOGS;

/// Every key that did anything since `from`.
pub async fn by_key_since(store: &Store, from: Millis) -> Result<HashMap<i64, KeyUsage>> {
    let sql = format!(
        "SELECT downstream_api_key_id, {SUMS}, {CACHED} FROM proxy_logs \
         WHERE created_at >= ? AND downstream_api_key_id IS NOT NULL GROUP BY downstream_api_key_id"
    );
    let rows = store.query(sql, vec![from.into()]).await?;
    rows.iter()
        .map(|row| {
            let mut row = row.fields();
            Ok((row.int()?, read(&mut row)?))
        })
        .collect()
}

/// What one key did since `from`.
pub async fn since(store: &Store, id: i64, from: Millis) -> Result<KeyUsage> {
    let sql = format!(
        "SELECT {SUMS}, {CACHED} FROM proxy_logs WHERE downstream_api_key_id = ? AND created_at >= ?"
    );
    let rows = store.query(sql, vec![id.into(), from.into()]).await?;
    rows.first().map_or(Ok(KeyUsage::default()), |row| read(&mut row.fields()))
}

/// What one key did since `from`, by quarters of an hour with their start, ascending. Every hour and day of
/// every time zone is made of whole quarters.
pub async fn by_quarter(store: &Store, id: i64, from: Millis) -> Result<Vec<(Millis, KeyUsage)>> {
    let sql = format!(
        "SELECT created_at - created_at % 900000 AS quarter, {SUMS}, {CACHED} FROM proxy_logs \
         WHERE downstream_api_key_id = ? AND created_at >= ? GROUP BY quarter ORDER BY quarter"
    );
    let rows = store.query(sql, vec![id.into(), from.into()]).await?;
    rows.iter()
        .map(|row| {
            let mut row = row.fields();
            Ok((row.int()?, read(&mut row)?))
        })
        .collect()
}

fn read(row: &mut Fields<'_>) -> Result<KeyUsage> {
    Ok(KeyUsage {
        requests: row.int()?,
        successes: row.int()?,
        tokens: row.int()?,
        cost: row.real()?,
        cached: CachedTokens::read(row)?,
    })
}
