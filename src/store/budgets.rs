//! Usage counted against the budgets of downstream keys: one row per budget, for its newest window.
//!
//! The row exists before anything is counted in it, and is reset when its window has ended. When several
//! instances share a database, the first one opens the window and the others continue it.

use std::collections::HashMap;

use super::sql::{Fields, OnConflict, Statement, Value, placeholders, upsert};
use super::{Result, Store};
use crate::ids::KeyId;
use crate::keys::{BudgetLive, MOST_AHEAD, Period, Used};
use crate::time::Millis;

const TABLE: &str = "downstream_key_budgets";

/// Returns the windows of all budgets, by key and scope: the start of each window and the usage in it.
pub async fn all(store: &Store) -> Result<HashMap<(KeyId, String), (Millis, Used)>> {
    let sql =
        format!("SELECT key_id, scope, window_start, used_requests, used_cost, used_tokens FROM {TABLE}");
    store.rows(sql, Vec::new(), |row| Ok(((row.id()?, row.text()?), read(row)?))).await
}

/// Returns the windows of one key, by scope.
pub async fn of_key(store: &Store, key: KeyId) -> Result<HashMap<String, (Millis, Used)>> {
    let sql = format!(
        "SELECT scope, window_start, used_requests, used_cost, used_tokens FROM {TABLE} WHERE key_id = ?"
    );
    store.rows(sql, vec![key.into()], |row| Ok((row.text()?, read(row)?))).await
}

/// Opens a window for a request at `now`, unless one is open. Only the holder of the key's turn may call this.
pub async fn open(
    store: &Store,
    key: KeyId,
    (budget, period): (&BudgetLive, Period),
    now: Millis,
) -> Result<()> {
    if budget.is_open(now) {
        return Ok(());
    }
    let zone = store.time_zone();
    let start = period.start(now, zone);
    let (over_before, not_yet) = (period.over_before(start), now.saturating_add(MOST_AHEAD));
    let of_row =
        |args: Vec<Value>| args.into_iter().chain([key.into(), budget.scope.as_str().into()]).collect();
    let insert = upsert(
        store.database().dialect(),
        TABLE,
        &["key_id", "scope"],
        &[("window_start", OnConflict::Keep)],
    );
    let begin_anew = format!(
        "UPDATE {TABLE} SET window_start = ?, used_requests = 0, used_cost = 0, used_tokens = 0 \
         WHERE (window_start < ? OR window_start > ?) AND key_id = ? AND scope = ?"
    );
    store
        .batch(vec![
            Statement::new(insert, vec![key.into(), budget.scope.as_str().into(), start.into()]),
            Statement::new(begin_anew, of_row(vec![start.into(), over_before.into(), not_yet.into()])),
        ])
        .await?;
    let sql = format!(
        "SELECT window_start, used_requests, used_cost, used_tokens FROM {TABLE} WHERE key_id = ? AND scope = ?"
    );
    if let Some((start, used)) = store.row(sql, of_row(Vec::new()), read).await? {
        budget.open(start, period.end(start, zone), used);
    }
    Ok(())
}

/// Deletes the budgets of a key except those with these scopes.
pub(super) fn keep_only(key: KeyId, scopes: &[String]) -> Statement {
    let mut args: Vec<Value> = vec![key.into()];
    args.extend(scopes.iter().map(|scope| Value::from(scope.as_str())));
    let others = match scopes.len() {
        0 => String::new(),
        count => format!(" AND scope NOT IN ({})", placeholders(count)),
    };
    Statement::new(format!("DELETE FROM {TABLE} WHERE key_id = ?{others}"), args)
}

fn read(row: &mut Fields<'_>) -> Result<(Millis, Used)> {
    Ok((row.int()?, Used { requests: row.int()?, cost: row.usd()?, tokens: row.int()? }))
}
