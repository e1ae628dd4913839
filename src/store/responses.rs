//! Answers of the responses dialect that an upstream stores: whose each is, and which upstream has it.
//!
//! Written with the log rows of their requests, a moment behind the answers. An upstream that repeats its ids leaves
//! several rows of one id.

use super::owner::Owner;
pub use super::telemetry::stored_response::StoredResponse;
use super::{Result, Store, prune};
use crate::time::Millis;

const TABLE: &str = "proxy_response_ids";
/// The longest id that is kept, in bytes: what an index takes everywhere.
pub const MAX_ID: usize = 191;

/// The owners of the answers of this id, each once.
pub async fn owners(store: &Store, response_id: &str) -> Result<Vec<Owner>> {
    let sql = "SELECT DISTINCT owner_type, owner_id FROM proxy_response_ids WHERE response_id = ?";
    let rows = store.query(sql, vec![response_id.into()]).await?;
    let read = rows.iter().map(|row| {
        let mut row = row.fields();
        Ok(Owner { kind: Owner::kind_of(&row.text()?), id: row.text()? })
    });
    read.collect()
}

/// Forgets answers that were given before the cutoff; returns how many.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, TABLE, cutoff).await
}
