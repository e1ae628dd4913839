//! Responses that upstreams generate in the background, kept until their usage is booked.
//!
//! A row is written with the log row of the request that started the response, a moment after its answer.
//! Booking the usage deletes the row in the same transaction ([`claim`]), so that it is booked only once, even
//! when several instances try or the process is killed in between.

use super::amend::{Claim, RowName};
use super::sql::{Fields, Statement};
pub use super::telemetry::stored_response::InBackground;
use super::{Error, Result, Store};
use crate::ids::{AccountId, BackgroundResponseId, ChannelId, KeyId, TokenId};
use crate::request_id::RequestId;

/// A background response whose usage is not booked yet.
#[derive(Clone, Debug)]
pub struct UnbookedResponse {
    pub id: BackgroundResponseId,
    pub response_id: String,
    /// Names the log row of the request, with the upstream's model name and the downstream key that pays.
    pub row: RowName,
    pub account_id: AccountId,
    /// `None` when the account's own key was used.
    pub token_id: Option<TokenId>,
    pub channel_id: ChannelId,
    pub model_requested: String,
}

const COLUMNS: &str = "id, response_id, key_id, site_id, account_id, token_id, channel_id, model_requested, \
     model_actual, request_id, retry_count, created_at";

/// Returns at most `most` unbooked responses, the oldest first.
pub async fn oldest(store: &Store, most: usize) -> Result<Vec<UnbookedResponse>> {
    let sql = format!("SELECT {COLUMNS} FROM proxy_background_responses ORDER BY id LIMIT {most}");
    store.rows(sql, Vec::new(), read).await
}

/// Returns the unbooked responses with this response id that were given to this key; `None` means the proxy
/// token.
pub async fn find(store: &Store, key_id: Option<KeyId>, response_id: &str) -> Result<Vec<UnbookedResponse>> {
    let sql = format!("SELECT {COLUMNS} FROM proxy_background_responses WHERE response_id = ?");
    let found: Vec<UnbookedResponse> = store.rows(sql, vec![response_id.into()], read).await?;
    Ok(found.into_iter().filter(|unbooked| unbooked.row.key_id == key_id).collect())
}

/// Builds the claim that goes with the booking of a response: the whole transaction is undone when the response
/// was already booked.
pub fn claim(id: BackgroundResponseId) -> Claim {
    Claim::new(Statement::new("DELETE FROM proxy_background_responses WHERE id = ?", vec![id.into()]))
}

/// Deletes a response that has nothing to book.
pub async fn close(store: &Store, id: BackgroundResponseId) -> Result<()> {
    // False means that another instance was faster.
    claim(id).take(store).await.map(drop)
}

fn read(row: &mut Fields<'_>) -> Result<UnbookedResponse> {
    let (id, response_id, key_id, site_id) = (row.id()?, row.text()?, row.opt_id()?, row.id()?);
    let (account_id, token_id, channel_id) = (row.id()?, row.opt_id()?, row.id()?);
    let (model_requested, model) = (row.text()?, row.text()?);
    let request_id = RequestId::parse(&row.text()?)
        .ok_or_else(|| Error::Database("proxy_background_responses.request_id is none".to_owned()))?;
    let retry_count = u32::try_from(row.int()?).unwrap_or_default();
    let row = RowName { created_at: row.int()?, request_id, retry_count, site_id, model, key_id };
    Ok(UnbookedResponse { id, response_id, row, account_id, token_id, channel_id, model_requested })
}
