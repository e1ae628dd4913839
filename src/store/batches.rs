//! Batches that upstreams process for clients: the public id of each, the account that holds it, and its state
//! when last seen.
//!
//! Until a batch has ended and its usage is booked, any instance that finds it due asks its upstream for it.
//! Booking takes the batch's claim in the same transaction ([`claim`]), so that it is booked only once,
//! whichever instance learns of its end.

use super::amend::{Claim, RowName};
use super::owner::Owner;
use super::sql::{Fields, Statement};
use super::{Error, Result, Store, prune};
use crate::ids::{AccountId, BatchId, ChannelId, TokenId};
use crate::request_id::RequestId;
use crate::time::Millis;

const TABLE: &str = "proxy_batches";
/// The number of batches kept for each owner and API; beyond it the oldest booked ones are deleted.
const MOST_OF_OWNER: i64 = 10_000;

/// Where a batch is held, and the request that created it.
#[derive(Clone, Debug)]
pub struct BatchPlace {
    /// The id that clients use.
    pub public_id: String,
    /// The stored name of the API that the batch belongs to.
    pub api: String,
    pub upstream_id: String,
    pub account_id: AccountId,
    /// `None` when the account's own key was used.
    pub token_id: Option<TokenId>,
    pub channel_id: ChannelId,
    pub model_requested: String,
    /// The client's file from which the batch's requests were read.
    pub input_file_id: Option<String>,
    /// Names the log row of the request that created the batch, with the upstream's model name and the
    /// downstream key that pays.
    pub row: RowName,
}

/// A stored batch.
#[derive(Clone, Debug)]
pub struct BatchRow {
    pub id: BatchId,
    pub place: BatchPlace,
    /// The batch object as its upstream last returned it.
    pub object: String,
    pub is_booked: bool,
    pub next_look_at: Millis,
    pub created_at: Millis,
}

/// A page of a batch list.
pub struct Page<'a> {
    pub api: &'a str,
    /// Only batches older than this row.
    pub after: Option<BatchId>,
    /// Only batches newer than this row.
    pub before: Option<BatchId>,
    pub limit: i64,
}

/// Stores a batch; once this returns, its id survives the process.
pub async fn insert(
    store: &Store,
    place: BatchPlace,
    object: String,
    next_look_at: Millis,
    now: Millis,
) -> Result<()> {
    let owner = Owner::of_key(place.row.key_id);
    let [owner_kind, owner_id] = owner.args();
    let insert = Statement::insert(
        TABLE,
        [
            ("public_id", place.public_id.into()),
            ("owner_type", owner_kind),
            ("owner_id", owner_id),
            ("api", place.api.as_str().into()),
            ("upstream_batch_id", place.upstream_id.into()),
            ("site_id", place.row.site_id.into()),
            ("account_id", place.account_id.into()),
            ("token_id", place.token_id.into()),
            ("channel_id", place.channel_id.into()),
            ("model_requested", place.model_requested.into()),
            ("model_actual", place.row.model.into()),
            ("input_file_id", place.input_file_id.into()),
            ("object", object.into()),
            ("request_id", place.row.request_id.as_str().into()),
            ("retry_count", i64::from(place.row.retry_count).into()),
            ("logged_at", place.row.created_at.into()),
            ("is_booked", false.into()),
            ("next_look_at", next_look_at.into()),
            ("created_at", now.into()),
        ],
    );
    let [kind, id] = owner.args();
    let oldest = Statement::new(
        "DELETE FROM proxy_batches WHERE owner_type = ? AND owner_id = ? AND api = ? AND is_booked = ? AND id <= \
         (SELECT id FROM (SELECT id FROM proxy_batches WHERE owner_type = ? AND owner_id = ? AND api = ? \
         ORDER BY id DESC LIMIT 1 OFFSET ?) AS kept)",
        vec![
            kind.clone(),
            id.clone(),
            place.api.as_str().into(),
            true.into(),
            kind,
            id,
            place.api.into(),
            MOST_OF_OWNER.into(),
        ],
    );
    store.batch(vec![insert, oldest]).await.map(drop)
}

const COLUMNS: &str = "id, public_id, owner_type, owner_id, api, upstream_batch_id, site_id, account_id, token_id, \
     channel_id, model_requested, model_actual, input_file_id, object, request_id, retry_count, logged_at, is_booked, \
     next_look_at, created_at";

/// Returns a batch of this owner.
pub async fn find(store: &Store, owner: &Owner, public_id: &str) -> Result<Option<BatchRow>> {
    let [kind, id] = owner.args();
    let sql = format!(
        "SELECT {COLUMNS} FROM proxy_batches WHERE public_id = ? AND owner_type = ? AND owner_id = ?"
    );
    store.row(sql, vec![public_id.into(), kind, id], read).await
}

/// Returns the batches of this owner, newest first.
pub async fn list(store: &Store, owner: &Owner, page: &Page<'_>) -> Result<Vec<BatchRow>> {
    let [kind, id] = owner.args();
    let mut args = vec![kind, id, page.api.into()];
    let mut sql =
        format!("SELECT {COLUMNS} FROM proxy_batches WHERE owner_type = ? AND owner_id = ? AND api = ?");
    for (bound, clause) in [(page.after, " AND id < ?"), (page.before, " AND id > ?")] {
        if let Some(bound) = bound {
            sql.push_str(clause);
            args.push(bound.into());
        }
    }
    // The batches just before a row are the oldest of all that are newer than it.
    let is_backwards = page.before.is_some() && page.after.is_none();
    sql.push_str(if is_backwards { " ORDER BY id LIMIT ?" } else { " ORDER BY id DESC LIMIT ?" });
    args.push(page.limit.into());
    store.rows(sql, args, read).await
}

/// Returns at most `most` batches whose usage is not booked and whose next look is due by `now`.
pub async fn due(store: &Store, now: Millis, most: usize) -> Result<Vec<BatchRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM proxy_batches WHERE is_booked = ? AND next_look_at <= ? \
         ORDER BY next_look_at, id LIMIT {most}"
    );
    store.rows(sql, vec![false.into(), now.into()], read).await
}

/// Claims the next look at a batch; returns false when another instance has claimed it.
pub async fn take_look(store: &Store, batch: &BatchRow, next: Millis) -> Result<bool> {
    let update = Statement::new(
        "UPDATE proxy_batches SET next_look_at = ? WHERE id = ? AND next_look_at = ? AND is_booked = ?",
        vec![next.into(), batch.id.into(), batch.next_look_at.into(), false.into()],
    );
    Claim::new(update).take(store).await
}

/// Stores the batch object as its upstream returned it.
pub async fn record(store: &Store, id: BatchId, object: &str) -> Result<()> {
    let sql = "UPDATE proxy_batches SET object = ? WHERE id = ?";
    store.batch(vec![Statement::new(sql, vec![object.into(), id.into()])]).await.map(drop)
}

/// Builds the claim that goes with the booking of a batch: the whole transaction is undone when the batch was
/// already booked.
pub fn claim(id: BatchId) -> Claim {
    let sql = "UPDATE proxy_batches SET is_booked = ? WHERE id = ? AND is_booked = ?";
    Claim::new(Statement::new(sql, vec![true.into(), id.into(), false.into()]))
}

/// Marks a batch that has nothing to book as booked; returns false when it already is.
pub async fn close(store: &Store, id: BatchId) -> Result<bool> {
    claim(id).take(store).await
}

/// Deletes a batch. Fails with [`Error::NotFound`] when it is already deleted.
pub async fn delete(store: &Store, id: BatchId) -> Result<()> {
    let delete = Statement::new("DELETE FROM proxy_batches WHERE id = ?", vec![id.into()]);
    store.batch(vec![delete.must_change()]).await.map(drop)
}

/// Deletes batches created before the cutoff; returns their number.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, TABLE, cutoff).await
}

fn read(row: &mut Fields<'_>) -> Result<BatchRow> {
    let (id, public_id) = (row.id()?, row.text()?);
    let key_id = Owner::read(row)?.key_id();
    let (api, upstream_id, site_id) = (row.text()?, row.text()?, row.id()?);
    let (account_id, token_id, channel_id) = (row.id()?, row.opt_id()?, row.id()?);
    let (model_requested, model) = (row.text()?, row.text()?);
    let (input_file_id, object) = (row.opt_text()?, row.text()?);
    let request_id = RequestId::parse(&row.text()?)
        .ok_or_else(|| Error::Database("proxy_batches.request_id is none".to_owned()))?;
    let retry_count = u32::try_from(row.int()?).unwrap_or_default();
    let logged_at = row.int()?;
    let row_name = RowName { created_at: logged_at, request_id, retry_count, site_id, model, key_id };
    Ok(BatchRow {
        id,
        place: BatchPlace {
            public_id,
            api,
            upstream_id,
            account_id,
            token_id,
            channel_id,
            model_requested,
            input_file_id,
            row: row_name,
        },
        object,
        is_booked: row.bool()?,
        next_look_at: row.int()?,
        created_at: row.int()?,
    })
}
