//! The pass over sealed columns at start: it seals plain text from older rows and imports and, after the loss
//! of the secret, empties what can no longer be opened.

use super::columns::{COLUMNS, Column, SETTINGS};
use super::sealer::Sealer;
use crate::store::connection::Connection;
use crate::store::error::Result;
use crate::store::new_event::{EventLevel, NewEvent};
use crate::store::sql::{Row, Statement, Value};
use crate::time::{Millis, now_ms};

/// Builds the statements that seal every value of a sealed column that is not yet in our format. A value in the
/// `v1:` form that no secret opens is left as it is.
pub(in crate::store) fn seal_plain(
    connection: &mut dyn Connection,
    sealer: &Sealer,
) -> Result<Vec<Statement>> {
    let mut changes = Vec::new();
    for Column { table, name, hash } in COLUMNS {
        for (id, stored) in texts(connection, table, "id", name, "NOT LIKE 'enc:2:%'")? {
            let Ok(plain) = sealer.open(table, name, &stored) else {
                log::warn!(
                    "{table}.{name} of row {} cannot be decrypted: it is sealed under an unknown secret",
                    label(&id)
                );
                continue;
            };
            let sealed = sealer.seal(table, name, plain.expose())?;
            let sql = format!("UPDATE {table} SET {name} = ? WHERE id = ?");
            changes.push(Statement::new(sql, vec![sealed.into(), id.clone()]));
            if let Some(hash) = hash {
                let index = sealer.index(plain.expose());
                let sql = format!("UPDATE {table} SET {hash} = ? WHERE id = ?");
                changes.push(Statement::new(sql, vec![index.into(), id]));
            }
        }
    }
    for (name, stored) in texts(connection, "settings", "name", "value", "NOT LIKE 'enc:2:%'")? {
        let Value::Text(setting) = &name else { continue };
        if SETTINGS.contains(&setting.as_str()) {
            let sealed = sealer.seal("settings", setting, &stored)?;
            let sql = "UPDATE settings SET value = ? WHERE name = ?";
            changes.push(Statement::new(sql, vec![sealed.into(), name]));
        }
    }
    Ok(changes)
}

/// Whether any value in the database is sealed in our format.
pub(in crate::store) fn is_any_sealed(connection: &mut dyn Connection) -> Result<bool> {
    let columns = COLUMNS.iter().map(|column| (column.table, column.name)).chain([("settings", "value")]);
    for (table, column) in columns {
        let sql = format!("SELECT 1 FROM {table} WHERE {column} LIKE 'enc:2:%' LIMIT 1");
        if !connection.select(&sql, &[])?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Builds the statements that empty what the new keys cannot open, mark the affected accounts, and add one
/// event.
pub(in crate::store) fn forget_unreadable(
    connection: &mut dyn Connection,
    sealer: &Sealer,
) -> Result<Vec<Statement>> {
    let now = now_ms();
    let mut changes = Vec::new();
    let mut count = 0;
    for Column { table, name, .. } in COLUMNS {
        for (id, stored) in texts(connection, table, "id", name, "LIKE 'enc:2:%'")? {
            if sealer.open(table, name, &stored).is_ok() {
                continue;
            }
            count += 1;
            let sql = format!("UPDATE {table} SET {name} = NULL WHERE id = ?");
            changes.push(Statement::new(sql, vec![id.clone()]));
            changes.extend(mark_owner(table, id, now));
        }
    }
    for (name, stored) in texts(connection, "settings", "name", "value", "LIKE 'enc:2:%'")? {
        if sealer.open("settings", &label(&name), &stored).is_err() {
            changes.push(Statement::new("DELETE FROM settings WHERE name = ?", vec![name]));
            count += 1;
        }
    }
    log::error!(
        "CREDENTIAL_SECRET_LOST: {count} stored credentials could not be decrypted and are now empty"
    );
    let event = NewEvent {
        kind: "status",
        title: "Stored credentials were lost".to_owned(),
        message: Some(format!(
            "{count} values could not be decrypted without the former secret and are now empty: enter them \
             again."
        )),
        level: EventLevel::Error,
        related_id: None,
        related_type: None,
    };
    changes.push(event.insert(now));
    Ok(changes)
}

/// Builds the statements that mark what a lost credential leaves unusable: the downstream key, the token, or
/// the account it belongs to.
fn mark_owner(table: &str, id: Value, now: Millis) -> Vec<Statement> {
    let mut changes = Vec::new();
    let account = match table {
        "accounts" => "?",
        "account_tokens" => {
            let sql =
                "UPDATE account_tokens SET token_hash = NULL, value_status = 'masked_pending' WHERE id = ?";
            changes.push(Statement::new(sql, vec![id.clone()]));
            "(SELECT account_id FROM account_tokens WHERE id = ?)"
        }
        "downstream_api_keys" => {
            let sql = "UPDATE downstream_api_keys SET enabled = ? WHERE id = ?";
            return vec![Statement::new(sql, vec![false.into(), id])];
        }
        _ => return changes,
    };
    let sql = format!(
        "UPDATE accounts SET health_state = 'unhealthy', health_source = 'system', \
         health_reason = 'the stored credential was lost with its secret', health_checked_at = ? WHERE id = {account}"
    );
    changes.push(Statement::new(sql, vec![now.into(), id]));
    changes
}

/// Returns the non-empty texts of a column that match, with the key of their row.
fn texts(
    connection: &mut dyn Connection,
    table: &str,
    key: &str,
    column: &str,
    matching: &str,
) -> Result<Vec<(Value, String)>> {
    let sql = format!("SELECT {key}, {column} FROM {table} WHERE {column} <> '' AND {column} {matching}");
    let text = |row: &Row| {
        let mut row = row.fields();
        Ok((row.value()?.clone(), row.text()?))
    };
    connection.select(&sql, &[])?.iter().map(text).collect()
}

fn label(key: &Value) -> String {
    match key {
        Value::Int(id) => id.to_string(),
        Value::Text(name) => name.clone(),
        _ => String::new(),
    }
}
