//! Browser logins in progress, shared between the instances of one database.

use super::sql::{Statement, Value, placeholders};
use super::{Result, Secret, Store};
use crate::ids::{AccountId, SiteId};
use crate::time::{Millis, now_ms};

const TABLE: &str = "oauth_sessions";

/// The progress of a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginStatus {
    pub status: String,
    pub error: Option<String>,
    pub account_id: Option<AccountId>,
    pub site_id: Option<SiteId>,
}

/// A browser login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRow {
    pub state: String,
    pub provider: String,
    pub status: LoginStatus,
    /// Data needed to complete the login, as JSON; stored sealed.
    pub details: Secret,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub expires_at: Millis,
}

/// Stores a new login, and deletes those that have expired.
pub async fn insert(store: &Store, row: LoginRow) -> Result<()> {
    let details = store.sealer().seal(TABLE, "details", row.details.expose())?;
    let insert = Statement::insert(
        TABLE,
        [
            ("state", row.state.into()),
            ("provider", row.provider.into()),
            ("status", row.status.status.into()),
            ("details", details.into()),
            ("created_at", row.created_at.into()),
            ("updated_at", row.updated_at.into()),
            ("expires_at", row.expires_at.into()),
        ],
    );
    let over = format!("DELETE FROM {TABLE} WHERE expires_at <= ?");
    let batch = [Statement::new(over, vec![now_ms().into()]), insert];
    store.batch(batch.map(Statement::touching_nothing).into()).await.map(drop)
}

/// Returns the login with this state, unless it has expired.
pub async fn get(store: &Store, state: &str) -> Result<Option<LoginRow>> {
    let sql = format!(
        "SELECT provider, status, error, account_id, site_id, details, created_at, updated_at, expires_at \
         FROM {TABLE} WHERE state = ? AND expires_at > ? AND details IS NOT NULL"
    );
    let login = store.row(sql, vec![state.into(), now_ms().into()], |row| {
        Ok(LoginRow {
            state: state.to_owned(),
            provider: row.text()?,
            status: LoginStatus {
                status: row.text()?,
                error: row.opt_text()?,
                account_id: row.opt_id()?,
                site_id: row.opt_id()?,
            },
            details: store.sealer().open(TABLE, "details", row.str()?)?,
            created_at: row.int()?,
            updated_at: row.int()?,
            expires_at: row.int()?,
        })
    });
    login.await
}

/// Changes the status of a login whose status is one of `from`; returns false when it is none of them.
pub async fn advance(store: &Store, state: &str, from: &[&str], to: LoginStatus) -> Result<bool> {
    let sql = format!(
        "UPDATE {TABLE} SET status = ?, error = ?, account_id = ?, site_id = ?, updated_at = ? \
         WHERE state = ? AND status IN ({})",
        placeholders(from.len())
    );
    let mut args: Vec<Value> = vec![
        to.status.into(),
        to.error.into(),
        to.account_id.into(),
        to.site_id.into(),
        now_ms().into(),
        state.into(),
    ];
    args.extend(from.iter().map(|status| Value::from(*status)));
    let done = store.batch(vec![Statement::new(sql, args).touching_nothing()]).await?;
    Ok(done.first().is_some_and(|outcome| outcome.rows > 0))
}
