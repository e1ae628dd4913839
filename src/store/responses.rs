//! Answers of the responses dialect that an upstream stores: whose each is, and which upstream has it.
//!
//! Written with the log rows of their requests, a moment behind the answers. An upstream that repeats its ids leaves
//! several rows of one id.

use super::owner::Owner;
use super::sql::Statement;
pub use super::telemetry::stored_response::StoredResponse;
use super::{Result, Store, prune};
use crate::ids::{AccountId, TokenId};
use crate::time::Millis;

const TABLE: &str = "proxy_response_ids";
/// The longest id that is kept, in bytes: what an index takes everywhere.
pub const MAX_ID: usize = 191;

/// The owners of the answers of this id, each once.
pub async fn owners(store: &Store, response_id: &str) -> Result<Vec<Owner>> {
    let sql = "SELECT DISTINCT owner_type, owner_id FROM proxy_response_ids WHERE response_id = ?";
    store
        .rows(sql, vec![response_id.into()], |row| {
            Ok(Owner { kind: Owner::kind_of(&row.text()?), id: row.text()? })
        })
        .await
}

/// Where an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsePlace {
    pub account_id: AccountId,
    /// `None` where the account's own key was used.
    pub token_id: Option<TokenId>,
    /// As the client called it; `None` of one that was given before this was kept.
    pub model_requested: Option<String>,
}

/// Where the latest answer of this id is that the owner was given.
pub async fn find(store: &Store, owner: &Owner, response_id: &str) -> Result<Option<ResponsePlace>> {
    let [owner_kind, owner_id] = owner.args();
    let sql = "SELECT account_id, token_id, model_requested FROM proxy_response_ids \
               WHERE response_id = ? AND owner_type = ? AND owner_id = ? ORDER BY id DESC LIMIT 1";
    let args = vec![response_id.into(), owner_kind, owner_id];
    let place = store.row(sql, args, |row| {
        Ok(ResponsePlace { account_id: row.id()?, token_id: row.opt_id()?, model_requested: row.opt_text()? })
    });
    place.await
}

/// Forgets an answer that an owner was given.
pub async fn delete(store: &Store, owner: &Owner, response_id: &str) -> Result<()> {
    let [owner_kind, owner_id] = owner.args();
    let sql = "DELETE FROM proxy_response_ids WHERE response_id = ? AND owner_type = ? AND owner_id = ?";
    let delete = Statement::new(sql, vec![response_id.into(), owner_kind, owner_id]);
    store.batch(vec![delete]).await.map(drop)
}

/// Forgets answers that were given before the cutoff; returns how many.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, TABLE, cutoff).await
}
