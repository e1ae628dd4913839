//! Deletion of old rows, a chunk per transaction, so that nobody waits long for it.

use super::sql::Statement;
use super::{Result, Store};
use crate::time::Millis;

/// The number of rows deleted per transaction.
const CHUNK: i64 = 1000;

/// Deletes the rows older than the cutoff from a table with an `id` and a `created_at`; returns the number
/// deleted.
pub async fn older_than(store: &Store, table: &'static str, cutoff: Millis) -> Result<u64> {
    older_than_with(store, table, cutoff, &[]).await
}

/// Deletes old rows like [`older_than`], with these statements in each transaction.
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
