//! Account tokens: the API keys of a session account (admin-core.md 6).

use super::sql::Row;
use super::{Result, Secret, Store};
use crate::time::Millis;

/// A stored token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenRow {
    pub id: i64,
    pub account_id: i64,
    pub name: String,
    /// `None` while only a masked form of it is known.
    pub token: Option<Secret>,
    pub token_group: Option<String>,
    /// `ready` or `masked_pending`.
    pub value_status: String,
    /// `manual`, `sync` or `legacy`.
    pub source: String,
    pub enabled: bool,
    pub is_default: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl TokenRow {
    /// Whether a channel may use it: enabled, and its value known.
    pub fn is_usable(&self) -> bool {
        self.enabled && self.value_status == "ready" && self.token.is_some()
    }
}

const COLUMNS: &str = "id, account_id, name, token_enc, token_group, value_status, source, enabled, is_default, \
     created_at, updated_at";

/// All tokens by id.
pub async fn list(store: &Store) -> Result<Vec<TokenRow>> {
    let rows = store.query(format!("SELECT {COLUMNS} FROM account_tokens ORDER BY id"), Vec::new()).await?;
    rows.iter().map(|row| read(store, row)).collect()
}

/// The tokens of one account by id.
pub async fn of_account(store: &Store, account_id: i64) -> Result<Vec<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM account_tokens WHERE account_id = ? ORDER BY id");
    store.query(sql, vec![account_id.into()]).await?.iter().map(|row| read(store, row)).collect()
}

fn read(store: &Store, row: &Row) -> Result<TokenRow> {
    let mut row = row.fields();
    Ok(TokenRow {
        id: row.int()?,
        account_id: row.int()?,
        name: row.text()?,
        token: store.sealer().open_column("account_tokens", "token_enc", row.opt_str()?),
        token_group: row.opt_text()?,
        value_status: row.text()?,
        source: row.text()?,
        enabled: row.bool()?,
        is_default: row.bool()?,
        created_at: row.int()?,
        updated_at: row.int()?,
    })
}
