//! Responses of the responses dialect that an upstream stores, and their items: the owner of each, and the account that
//! holds it.
//!
//! Rows are written with the log rows of their requests; an answer in one piece waits for its row. An upstream that repeats
//! its ids leaves several rows with one id.

use super::owner::Owner;
use super::sql::{Fields, Statement};
pub use super::telemetry::stored_response::StoredResponse;
use super::{Result, Store, prune};
use crate::ids::{AccountId, TokenId};
use crate::time::Millis;

const TABLE: &str = "proxy_response_ids";
/// The longest id that is stored, in bytes: the longest that every database can index.
pub const MAX_ID: usize = 191;

/// Returns the owners of responses with this id, each once.
pub async fn owners(store: &Store, response_id: &str) -> Result<Vec<Owner>> {
    let sql = "SELECT DISTINCT owner_type, owner_id FROM proxy_response_ids WHERE response_id = ?";
    store.rows(sql, vec![response_id.into()], Owner::read).await
}

/// One owner of a response or an item, and the place of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedId {
    pub id: String,
    pub owner: Owner,
    pub place: ResponsePlace,
}

/// Returns the owners of responses and items with these ids, and the places; an id may have several.
pub async fn owned(store: &Store, ids: &[&str]) -> Result<Vec<OwnedId>> {
    let sql = |marks: &str| {
        format!(
            "SELECT response_id, owner_type, owner_id, account_id, token_id, model_requested \
             FROM proxy_response_ids WHERE response_id IN ({marks}) ORDER BY id"
        )
    };
    let read = |row: &mut Fields<'_>| {
        Ok(OwnedId {
            id: row.text()?,
            owner: Owner::read(row)?,
            place: ResponsePlace {
                account_id: row.id()?,
                token_id: row.opt_id()?,
                model_requested: row.opt_text()?,
            },
        })
    };
    store.rows_of(ids, sql, read).await
}

/// The account and token that hold a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsePlace {
    pub account_id: AccountId,
    /// `None` when the account's own key was used.
    pub token_id: Option<TokenId>,
    /// The model name that the client requested; `None` for responses from before this was stored.
    pub model_requested: Option<String>,
}

/// Returns the place of the owner's latest response with this id.
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

/// Deletes the record of an owner's response.
pub async fn delete(store: &Store, owner: &Owner, response_id: &str) -> Result<()> {
    let [owner_kind, owner_id] = owner.args();
    let sql = "DELETE FROM proxy_response_ids WHERE response_id = ? AND owner_type = ? AND owner_id = ?";
    let delete = Statement::new(sql, vec![response_id.into(), owner_kind, owner_id]);
    store.batch(vec![delete]).await.map(drop)
}

/// Deletes records of responses older than the cutoff; returns their number.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, TABLE, cutoff).await
}
