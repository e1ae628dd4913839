//! An answer of the responses dialect that its upstream stores: whose it is, and which upstream has it.

use crate::store::owner::Owner;
use crate::store::sql::{Statement, Value};
use crate::time::Millis;

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
    pub(in crate::store) fn insert(self) -> Statement {
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
