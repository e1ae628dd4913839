//! Account tokens: the API keys of a session account.
//!
//! The rows of one account change together: [`save`] takes the former and the new rows, and updates the table,
//! and the account's `api_token` that mirrors the default token, in one transaction.

use std::collections::{HashMap, HashSet};

use super::seal::Hashing;
use super::sql::{Changes, Fields, Statement, Value};
use super::touches::TouchedKind;
use super::{Result, Secret, Store};
use crate::ids::{AccountId, TokenId};
use crate::key_mask::is_mask;
use crate::time::{Millis, now_ms};

/// A stored token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenRow {
    /// 0 in a row that is not stored yet.
    pub id: TokenId,
    pub account_id: AccountId,
    pub name: String,
    /// The value; for a `masked_pending` token only the mask that its site shows.
    pub token: Option<Secret>,
    pub token_group: Option<String>,
    pub value_status: ValueStatus,
    pub source: TokenSource,
    pub enabled: bool,
    pub is_default: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// Whether the value of a token is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueStatus {
    /// The complete value is stored.
    Ready,
    /// The site shows only a mask.
    MaskedPending,
}

/// The origin of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSource {
    /// An operator.
    Manual,
    /// The list of its site.
    Sync,
    /// The account itself, which had the key before tokens had rows.
    Legacy,
}

pub const READY: &str = "ready";
pub const MASKED_PENDING: &str = "masked_pending";

// === impl ValueStatus ===

impl ValueStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => READY,
            Self::MaskedPending => MASKED_PENDING,
        }
    }

    fn parse(text: &str) -> Self {
        if text == READY { Self::Ready } else { Self::MaskedPending }
    }
}

// === impl TokenSource ===

impl TokenSource {
    const ALL: [Self; 3] = [Self::Manual, Self::Sync, Self::Legacy];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Sync => "sync",
            Self::Legacy => "legacy",
        }
    }

    /// Parses a source in any letter case; `None` for another word.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|source| text.eq_ignore_ascii_case(source.as_str()))
    }
}

// === impl TokenRow ===

impl TokenRow {
    /// Whether a channel may use the token: it is enabled, and its value is known.
    pub fn is_usable(&self) -> bool {
        self.enabled && self.is_ready()
    }

    /// Whether the complete value is known.
    pub fn is_ready(&self) -> bool {
        self.value_status == ValueStatus::Ready && self.token.is_some()
    }

    /// Sets the value. A mask is kept, but the token is disabled and no longer the default.
    pub fn set_value(&mut self, value: &str) {
        let masked = is_mask(value);
        self.value_status = if masked { ValueStatus::MaskedPending } else { ValueStatus::Ready };
        self.token = Some(Secret::from(value));
        if masked {
            self.enabled = false;
            self.is_default = false;
        }
    }
}

const TABLE: &str = "account_tokens";

const COLUMNS: &str = "id, account_id, name, token_enc, token_group, value_status, source, enabled, is_default, \
     created_at, updated_at";

/// Returns all tokens, ordered by id.
pub async fn list(store: &Store) -> Result<Vec<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM account_tokens ORDER BY id");
    store.rows(sql, Vec::new(), |row| read(store, row)).await
}

/// Returns the tokens of one account, ordered by id.
pub async fn of_account(store: &Store, account_id: AccountId) -> Result<Vec<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM account_tokens WHERE account_id = ? ORDER BY id");
    store.rows(sql, vec![account_id.into()], |row| read(store, row)).await
}

/// Returns the tokens of these accounts, ordered by id.
pub async fn of_accounts(store: &Store, ids: &[AccountId]) -> Result<Vec<TokenRow>> {
    some_by(store, "account_id", ids).await
}

/// Returns those tokens with these ids that exist, ordered by id.
pub async fn some(store: &Store, ids: &[TokenId]) -> Result<Vec<TokenRow>> {
    some_by(store, "id", ids).await
}

async fn some_by(store: &Store, column: &str, ids: &[impl Copy + Into<Value>]) -> Result<Vec<TokenRow>> {
    let sql =
        |marks: &str| format!("SELECT {COLUMNS} FROM account_tokens WHERE {column} IN ({marks}) ORDER BY id");
    store.rows_of(ids, sql, |row| read(store, row)).await
}

pub async fn get(store: &Store, id: TokenId) -> Result<Option<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM account_tokens WHERE id = ?");
    store.row(sql, vec![id.into()], |row| read(store, row)).await
}

/// Changes the tokens of an account from `before` to `after`, and its API key to the default token's; returns
/// the ids of `after`. Fails with [`super::Error::Conflict`] when two tokens have the same value, and with
/// [`super::Error::Dangling`] or [`super::Error::NotFound`] when the account no longer exists.
pub async fn save(
    store: &Store,
    account_id: AccountId,
    before: &[TokenRow],
    after: &[TokenRow],
) -> Result<Vec<TokenId>> {
    let hashing = store.sealer().hashing().await;
    let mut batch = Vec::new();
    let kept: HashSet<TokenId> = after.iter().map(|row| row.id).collect();
    let known: HashMap<TokenId, &TokenRow> = before.iter().map(|row| (row.id, row)).collect();
    for row in before.iter().filter(|old| !kept.contains(&old.id)) {
        let delete = Statement::new("DELETE FROM account_tokens WHERE id = ?", vec![row.id.into()]);
        batch.push(delete.touching(TouchedKind::Account, [account_id.into()]));
    }
    // A value may move from one row to another, and no two rows may have it in between.
    let is_changed = |row: &&TokenRow| row.id != TokenId::ZERO && known.get(&row.id) != Some(row);
    let changed: Vec<&TokenRow> = after.iter().filter(is_changed).collect();
    for row in changed.iter().copied().chain(after.iter().filter(|row| row.id == TokenId::ZERO)) {
        batch.extend(bring_forward(&hashing, account_id, row));
    }
    for row in &changed {
        let sql = "UPDATE account_tokens SET token_hash = NULL WHERE id = ?";
        batch.push(Statement::new(sql, vec![row.id.into()]).touching_nothing());
    }
    for row in changed {
        batch.push(update(store, &hashing, row)?);
    }
    let mut inserted = Vec::new();
    for (index, row) in after.iter().enumerate().filter(|(_, row)| row.id == TokenId::ZERO) {
        inserted.push((index, batch.len()));
        batch.push(insert(store, &hashing, account_id, row)?);
    }
    let default = after.iter().find(|row| row.is_default).and_then(|row| row.token.as_ref());
    batch.push(
        Statement::new(
            "UPDATE accounts SET api_token = ?, updated_at = ? WHERE id = ?",
            vec![
                store.sealer().seal_opt("accounts", "api_token", default)?.into(),
                now_ms().into(),
                account_id.into(),
            ],
        )
        .must_change()
        .touching(TouchedKind::Account, [account_id.into()]),
    );
    let outcomes = store.batch(batch).await?;
    let mut ids: Vec<TokenId> = after.iter().map(|row| row.id).collect();
    for (index, statement) in inserted {
        ids[index] = outcomes[statement].id();
    }
    Ok(ids)
}

/// Builds the statements that give a row with this same value the new hash first, so that no two rows of the
/// account end up with one value: while the index key is being replaced, a row may still carry only the former
/// hash.
fn bring_forward(hashing: &Hashing<'_>, account_id: AccountId, row: &TokenRow) -> Vec<Statement> {
    let sql = "UPDATE account_tokens SET token_hash = ? WHERE account_id = ? AND token_hash = ?";
    let Some(token) = whole_value(row).map(Secret::expose) else { return Vec::new() };
    let forward = |former: String| {
        let args = vec![hashing.index(token).into(), account_id.into(), former.into()];
        Statement::new(sql, args).touching_nothing()
    };
    hashing.former(token).map(forward).collect()
}

fn insert(store: &Store, hashing: &Hashing<'_>, account_id: AccountId, row: &TokenRow) -> Result<Statement> {
    let now = now_ms();
    let born = [("account_id", account_id.into()), ("created_at", now.into()), ("updated_at", now.into())];
    let insert = Statement::insert(TABLE, columns(store, hashing, row)?.into_iter().chain(born));
    Ok(insert.touching(TouchedKind::Account, [account_id.into()]))
}

fn update(store: &Store, hashing: &Hashing<'_>, row: &TokenRow) -> Result<Statement> {
    let mut changes = Changes::default();
    changes.set_all(columns(store, hashing, row)?);
    changes.set("updated_at", now_ms());
    Ok(changes.update(TABLE, row.id).touching(TouchedKind::Account, [row.account_id.into()]))
}

/// Returns the columns of a token except for its account and its times.
fn columns(store: &Store, hashing: &Hashing<'_>, row: &TokenRow) -> Result<[(&'static str, Value); 8]> {
    Ok([
        ("name", row.name.as_str().into()),
        ("token_enc", store.sealer().seal_opt(TABLE, "token_enc", row.token.as_ref())?.into()),
        ("token_hash", whole_value(row).map(|token| hashing.index(token.expose())).into()),
        ("token_group", row.token_group.as_deref().into()),
        ("value_status", row.value_status.as_str().into()),
        ("source", row.source.as_str().into()),
        ("enabled", row.enabled.into()),
        ("is_default", row.is_default.into()),
    ])
}

/// Returns the value when it is completely known. A mask may stand for any number of keys, so it is not a value
/// that only one row may have.
fn whole_value(row: &TokenRow) -> Option<&Secret> {
    row.token.as_ref().filter(|_| row.value_status == ValueStatus::Ready)
}

fn read(store: &Store, row: &mut Fields<'_>) -> Result<TokenRow> {
    Ok(TokenRow {
        id: row.id()?,
        account_id: row.id()?,
        name: row.text()?,
        token: store.sealer().open_column(TABLE, "token_enc", row.opt_str()?),
        token_group: row.opt_text()?,
        value_status: ValueStatus::parse(row.str()?),
        source: TokenSource::parse(row.str()?).unwrap_or(TokenSource::Manual),
        enabled: row.bool()?,
        is_default: row.bool()?,
        created_at: row.int()?,
        updated_at: row.int()?,
    })
}
