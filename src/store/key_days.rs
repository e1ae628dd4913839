//! Usage of downstream keys by local day, as shown to their holders.

use std::collections::HashMap;

use super::sql::Value;
use super::{Result, Store};
use crate::ids::KeyId;
use crate::money::Usd;

/// The usage of one local day.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DayUsage {
    pub requests: i64,
    /// In USD.
    pub cost: Usd,
    pub tokens: i64,
}

/// The usage over all days.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TotalUsage {
    pub requests: i64,
    /// In USD.
    pub cost: Usd,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cache_read_tokens: i64,
}

/// Returns the usage of a key, or of all callers together if `key` is `None`.
pub async fn total(store: &Store, key: Option<KeyId>) -> Result<TotalUsage> {
    let (of_key, args) = of_key(key);
    let sql = format!(
        "SELECT COALESCE(SUM(requests), 0), COALESCE(SUM(cost), 0), COALESCE(SUM(input_tokens), 0), \
         COALESCE(SUM(output_tokens), 0), COALESCE(SUM(cache_read_tokens), 0) FROM downstream_key_days WHERE {of_key}"
    );
    let total = store.row(sql, args, |row| {
        Ok(TotalUsage {
            requests: row.int()?,
            cost: row.usd()?,
            input_tokens: row.int()?,
            output_tokens: row.int()?,
            cache_read_tokens: row.int()?,
        })
    });
    Ok(total.await?.unwrap_or_default())
}

/// Returns the usage of a key, or of all callers together if `key` is `None`, on each local day since `first`.
pub async fn since(store: &Store, key: Option<KeyId>, first: &str) -> Result<HashMap<String, DayUsage>> {
    let (of_key, mut args) = of_key(key);
    args.push(first.into());
    let sql = format!(
        "SELECT local_day, SUM(requests), SUM(cost), SUM(tokens) FROM downstream_key_days \
         WHERE {of_key} AND local_day >= ? GROUP BY local_day"
    );
    store
        .rows(sql, args, |row| {
            Ok((row.text()?, DayUsage { requests: row.int()?, cost: row.usd()?, tokens: row.int()? }))
        })
        .await
}

fn of_key(key: Option<KeyId>) -> (&'static str, Vec<Value>) {
    match key {
        Some(key) => ("key_id = ?", vec![key.into()]),
        None => ("1 = 1", Vec::new()),
    }
}
