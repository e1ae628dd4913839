//! Deleting what is old, a chunk per transaction, so that nobody waits long behind it.

use super::sql::Statement;
use super::{Result, Store};
use crate::time::Millis;

/// Rows per transaction.
const CHUNK: i64 = 1000;

/// Deletes the rows of a table with an `id` and a `created_at` that are older than the cutoff; returns how
/// many went.
pub async fn older_than(store: &Store, table: &'static str, cutoff: Millis) -> Result<u64> {
    older_than_with(store, table, cutoff, &[]).await
}

/// As [`older_than`], with these statements in each transaction.
pub async fn older_than_with(
    store: &Store,
    table: &'static str,
    cutoff: Millis,
    with: &[Statement],
) -> Result<u64> {
    let mut deleted = 0;
    loop {
        let sql = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT id FROM {table} WHERE created_at < ? \
             ORDER BY created_at, id LIMIT ?) AS oldest)"
        );
        let mut batch = vec![Statement::new(sql, vec![cutoff.into(), CHUNK.into()])];
        batch.extend(with.iter().cloned());
        let rows = store.batch(batch).await?[0].rows;
        deleted += rows;
        if rows > 0 {
            store.database().reclaim(200).await?;
        }
        if rows < CHUNK.unsigned_abs() {
            return Ok(deleted);
        }
    }
}
