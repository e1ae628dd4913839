//! A response of the responses dialect that its upstream stores: its owner, and the account that holds it.

use std::sync::Arc;

use crate::ids::{AccountId, ChannelId, KeyId, SiteId, TokenId};
use crate::request_id::RequestId;
use crate::store::owner::Owner;
use crate::store::sql::Statement;
use crate::time::Millis;

/// A response that its upstream has stored.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    pub response_id: String,
    /// The managed key that asked for it; `None` for the proxy token.
    pub key_id: Option<KeyId>,
    pub site_id: SiteId,
    pub account_id: AccountId,
    /// `None` when the account's own key was used.
    pub token_id: Option<TokenId>,
    pub channel_id: ChannelId,
    /// The model name that the client requested.
    pub model_requested: Arc<str>,
    pub created_at: Millis,
    /// Set for a background response, whose usage is booked later.
    pub in_background: Option<InBackground>,
}

/// The log row of the request that started a background response.
#[derive(Clone, Debug)]
pub struct InBackground {
    pub created_at: Millis,
    pub request_id: RequestId,
    pub retry_count: u32,
    /// The upstream's name of the model.
    pub model_actual: Arc<str>,
}

impl StoredResponse {
    pub(in crate::store) fn insert(self) -> Vec<Statement> {
        let unbooked = self.in_background.as_ref().map(|row| self.unbooked(row));
        let [owner_kind, owner_id] = Owner::of_key(self.key_id).args();
        let insert = Statement::insert(
            "proxy_response_ids",
            [
                ("response_id", self.response_id.into()),
                ("owner_type", owner_kind),
                ("owner_id", owner_id),
                ("site_id", self.site_id.into()),
                ("account_id", self.account_id.into()),
                ("token_id", self.token_id.into()),
                ("channel_id", self.channel_id.into()),
                ("model_requested", self.model_requested.to_string().into()),
                ("created_at", self.created_at.into()),
            ],
        );
        std::iter::once(insert).chain(unbooked).collect()
    }

    fn unbooked(&self, row: &InBackground) -> Statement {
        Statement::insert(
            "proxy_background_responses",
            [
                ("response_id", self.response_id.as_str().into()),
                ("key_id", self.key_id.into()),
                ("site_id", self.site_id.into()),
                ("account_id", self.account_id.into()),
                ("token_id", self.token_id.into()),
                ("channel_id", self.channel_id.into()),
                ("model_requested", self.model_requested.to_string().into()),
                ("model_actual", row.model_actual.to_string().into()),
                ("request_id", row.request_id.as_str().into()),
                ("retry_count", i64::from(row.retry_count).into()),
                ("created_at", row.created_at.into()),
            ],
        )
    }
}
