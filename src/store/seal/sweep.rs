//! The pass over sealed columns at start: plain text from older rows and imports is sealed, and
//! after the loss of the secret what cannot be opened any more is emptied.

use rusqlite::Transaction;

use super::columns::{COLUMNS, Column, SETTINGS};
use super::sealer::Sealer;
use crate::store::error::Result;
use crate::time::{Millis, now_ms};

/// Seals every value of a sealed column that is not yet in our form; returns how many. A value in
/// the `v1:` form that no secret opens is left as it is.
pub(in crate::store) fn seal_plain(transaction: &Transaction<'_>, sealer: &Sealer) -> Result<usize> {
    let mut count = 0;
    for Column { table, name, hash } in COLUMNS {
        for (id, stored) in texts(transaction, table, "id", name, "NOT LIKE 'enc:2:%'")? {
            let Ok(plain) = sealer.open(table, name, &stored) else {
                log::warn!("{table}.{name} of row {id} is sealed under an unknown secret");
                continue;
            };
            let sealed = sealer.seal(table, name, plain.expose())?;
            transaction
                .execute(&format!("UPDATE {table} SET {name} = ? WHERE id = ?"), (sealed.as_str(), &id))?;
            if let Some(hash) = hash {
                let index = sealer.index(plain.expose());
                transaction.execute(&format!("UPDATE {table} SET {hash} = ? WHERE id = ?"), (index, &id))?;
            }
            count += 1;
        }
    }
    for (name, stored) in texts(transaction, "settings", "name", "value", "NOT LIKE 'enc:2:%'")? {
        if SETTINGS.contains(&name.as_str()) {
            let sealed = sealer.seal("settings", &name, &stored)?;
            transaction.execute("UPDATE settings SET value = ? WHERE name = ?", (sealed.as_str(), name))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Empties what the new keys cannot open, marks the accounts it belonged to, and leaves one event.
pub(in crate::store) fn forget_unreadable(transaction: &Transaction<'_>, sealer: &Sealer) -> Result<()> {
    let now = now_ms();
    let mut count = 0;
    for Column { table, name, .. } in COLUMNS {
        for (id, stored) in texts(transaction, table, "id", name, "LIKE 'enc:2:%'")? {
            if sealer.open(table, name, &stored).is_ok() {
                continue;
            }
            count += 1;
            transaction.execute(&format!("UPDATE {table} SET {name} = NULL WHERE id = ?"), [&id])?;
            mark_owner(transaction, table, &id, now)?;
        }
    }
    for (name, stored) in texts(transaction, "settings", "name", "value", "LIKE 'enc:2:%'")? {
        if sealer.open("settings", &name, &stored).is_err() {
            transaction.execute("DELETE FROM settings WHERE name = ?", [name])?;
            count += 1;
        }
    }
    log::error!("CREDENTIAL_SECRET_LOST: {count} stored credentials could not be opened and are empty now");
    transaction.execute(
        "INSERT INTO events (type, title, message, level, is_read, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            "status",
            "Stored credentials were lost",
            format!("{count} values could not be opened without the former secret and are empty now."),
            "error",
            0,
            now,
        ),
    )?;
    Ok(())
}

/// Marks what a lost credential leaves unusable: the key, the token, and the account it belongs to.
fn mark_owner(transaction: &Transaction<'_>, table: &str, id: &str, now: Millis) -> Result<()> {
    let account = match table {
        "accounts" => "?",
        "account_tokens" => {
            transaction.execute(
                "UPDATE account_tokens SET token_hash = NULL, value_status = 'masked_pending' WHERE id = ?",
                [id],
            )?;
            "(SELECT account_id FROM account_tokens WHERE id = ?)"
        }
        "downstream_api_keys" => {
            transaction.execute("UPDATE downstream_api_keys SET enabled = 0 WHERE id = ?", [id])?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    transaction.execute(
        &format!(
            "UPDATE accounts SET health_state = 'unhealthy', health_source = 'system', \
             health_reason = 'the stored credential was lost with its secret', \
             health_checked_at = ? WHERE id = {account}"
        ),
        (now, id),
    )?;
    Ok(())
}

/// The non-empty texts of a column that match, with the key of their row.
fn texts(
    transaction: &Transaction<'_>,
    table: &str,
    key: &str,
    column: &str,
    matching: &str,
) -> Result<Vec<(String, String)>> {
    let sql = format!(
        "SELECT CAST({key} AS TEXT), {column} FROM {table} WHERE {column} <> '' AND {column} {matching}"
    );
    let mut query = transaction.prepare(&sql)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
