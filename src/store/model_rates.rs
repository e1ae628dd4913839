//! How often each model was called, and how often it succeeded.

use std::collections::HashMap;

use super::{Result, Store};

/// The calls of a model; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub calls: i64,
    pub ok: i64,
}

/// Returns the call counts of each model over the local days since `day` (`YYYY-MM-DD`).
pub async fn since(store: &Store, day: &str) -> Result<HashMap<String, Rate>> {
    let sql = "SELECT model, SUM(calls), SUM(ok) FROM usage_day WHERE local_day >= ? \
               GROUP BY model HAVING SUM(calls) > 0";
    store
        .rows(sql, vec![day.into()], |row| Ok((row.text()?, Rate { calls: row.int()?, ok: row.int()? })))
        .await
}
