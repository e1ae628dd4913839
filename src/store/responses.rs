//! Answers of the responses dialect that an upstream stores: whose each is, and which upstream has it.
//!
//! Written with the log rows of their requests, a moment behind the answers. An upstream that repeats its ids leaves
//! several rows of one id.

use super::owner::Owner;
use super::sql::{Statement, Value};
use super::{Result, Store, prune};
use crate::time::Millis;

const TABLE: &str = "proxy_response_ids";
/// The longest id that is kept, in bytes: what an index takes everywhere.
pub const MAX_ID: usize = 191;

/// An answer that its upstream has stored.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    pub response_id: String,
    /// The managed key that asked for it; `None` for the proxy token.
    pub key_id: Option<i64>,
    pub site_id: i64,
    pub account_id: i64,
    /// `None` where the account's own key was used.
    pub token_id: Option<i64>,
    pub channel_id: i64,
    pub created_at: Millis,
}

impl StoredResponse {
    pub(super) fn insert(self) -> Statement {
        let [owner_kind, owner_id] = Owner::of_key(self.key_id).args();
        let args: Vec<Value> = vec![
            self.response_id.into(),
            owner_kind,
            owner_id,
            self.site_id.into(),
            self.account_id.into(),
            self.token_id.into(),
            self.channel_id.into(),
            self.created_at.into(),
        ];
        let sql = "INSERT INTO proxy_response_ids (response_id, owner_type, owner_id, site_id, account_id, token_id, \
                   channel_id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        Statement::new(sql, args)
    }
}

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
