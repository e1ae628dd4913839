//! An answer of the responses dialect that its upstream stores: whose it is, and which upstream has it.

use std::sync::Arc;

use crate::ids::{AccountId, ChannelId, KeyId, SiteId, TokenId};
use crate::request_id::RequestId;
use crate::store::owner::Owner;
use crate::store::sql::{Statement, Value};
use crate::time::Millis;

/// An answer that its upstream has stored.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    pub response_id: String,
    /// The managed key that asked for it; `None` for the proxy token.
    pub key_id: Option<KeyId>,
    pub site_id: SiteId,
    pub account_id: AccountId,
    /// `None` where the account's own key was used.
    pub token_id: Option<TokenId>,
    pub channel_id: ChannelId,
    /// As the client called it.
    pub model_requested: Arc<str>,
    pub created_at: Millis,
    /// Set when it is made in the background: what it uses is booked later.
    pub in_background: Option<InBackground>,
}

/// The log row of the request that an answer in the background belongs to.
#[derive(Clone, Debug)]
pub struct InBackground {
    pub created_at: Millis,
    pub request_id: RequestId,
    pub retry_count: u32,
    /// As the upstream calls it.
    pub model_actual: Arc<str>,
}

impl StoredResponse {
    pub(in crate::store) fn insert(self) -> Vec<Statement> {
        let unbooked = self.in_background.as_ref().map(|row| self.unbooked(row));
        let [owner_kind, owner_id] = Owner::of_key(self.key_id).args();
        let args: Vec<Value> = vec![
            self.response_id.into(),
            owner_kind,
            owner_id,
            self.site_id.into(),
            self.account_id.into(),
            self.token_id.into(),
            self.channel_id.into(),
            self.model_requested.to_string().into(),
            self.created_at.into(),
        ];
        let sql = "INSERT INTO proxy_response_ids (response_id, owner_type, owner_id, site_id, account_id, token_id, \
                   channel_id, model_requested, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        std::iter::once(Statement::new(sql, args)).chain(unbooked).collect()
    }

    fn unbooked(&self, row: &InBackground) -> Statement {
        let args: Vec<Value> = vec![
            self.response_id.as_str().into(),
            self.key_id.into(),
            self.site_id.into(),
            self.account_id.into(),
            self.token_id.into(),
            self.channel_id.into(),
            self.model_requested.to_string().into(),
            row.model_actual.to_string().into(),
            row.request_id.as_str().into(),
            i64::from(row.retry_count).into(),
            row.created_at.into(),
        ];
        let sql = "INSERT INTO proxy_background_responses (response_id, key_id, site_id, account_id, token_id, channel_id, \
                   model_requested, model_actual, request_id, retry_count, created_at) \
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        Statement::new(sql, args)
    }
}
