//! The cost of each account since a given time, summed from the log.

use std::collections::HashMap;

use super::{Result, Store};
use crate::ids::AccountId;
use crate::money::Usd;
use crate::time::Millis;

/// Returns the cost of each account since `from`, for "today's spend".
pub async fn by_account_since(store: &Store, from: Millis) -> Result<HashMap<AccountId, Usd>> {
    // The range has an end because PostgreSQL plans without knowing the values, and would read the whole log
    // for an open range.
    let sql = "SELECT account_id, COALESCE(SUM(estimated_cost), 0) FROM proxy_logs \
               WHERE created_at >= ? AND created_at < ? AND account_id IS NOT NULL GROUP BY account_id";
    store.rows(sql, vec![from.into(), Millis::MAX.into()], |row| Ok((row.id()?, row.usd()?))).await
}
