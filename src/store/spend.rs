//! What each account cost since a moment, summed from the log.

use std::collections::HashMap;

use super::{Result, Store};
use crate::ids::AccountId;
use crate::money::Usd;
use crate::time::Millis;

/// The amount of each account since `from`, for "today's spend".
pub async fn by_account_since(store: &Store, from: Millis) -> Result<HashMap<AccountId, Usd>> {
    // PostgreSQL plans without knowing the moments, and reads the whole log for a range that has no end.
    let sql = "SELECT account_id, COALESCE(SUM(estimated_cost), 0) FROM proxy_logs \
               WHERE created_at >= ? AND created_at < ? AND account_id IS NOT NULL GROUP BY account_id";
    store.rows(sql, vec![from.into(), Millis::MAX.into()], |row| Ok((row.id()?, row.usd()?))).await
}
