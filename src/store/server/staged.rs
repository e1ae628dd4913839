//! Copies the rows of an import from the file that they are staged in into temporary tables, which the server's
//! statements can read and only this connection sees. It copies a few rows at a time, so that an import takes
//! as little memory here as on SQLite, where the file itself is read.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::client::Client;
use crate::store::error::Result;
use crate::store::migrate::expand;
use crate::store::sql::{Arg, Value, placeholders};
use crate::store::sqlite::connection::owned;
use crate::store::staging::tables::{TABLES, Table};

/// The number of rows that one statement inserts.
const TOGETHER: usize = 20;

/// A column of a staged table: its name, and the type token.
type Column = (&'static str, &'static str);

/// Columns for what was determined about a staged row, before the columns of the document.
const FOUND: &[Column] = &[
    ("line", "{{int}}"),
    ("present", "{{int}}"),
    ("local_id", "{{int}}"),
    ("final_id", "{{int}}"),
    ("action", "{{key}}"),
];
/// The columns of the table with stored rows that are not in the document.
const LOCAL: &[Column] = &[("tbl", "{{int}}"), ("id", "{{int}}"), ("taken", "{{int}}")];

/// Creates the tables `staged_…` and fills them.
pub(super) async fn fill<C: Client>(client: &mut C, file: &Path) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let staged = Connection::open_with_flags(file, flags)?;
    // Tables of a failed import may still be there.
    clear(client).await?;
    for table in TABLES {
        let columns: Vec<Column> = FOUND
            .iter()
            .copied()
            .chain(table.columns.iter().map(|column| (column.sql, column.kind.token())))
            .collect();
        let mut keys = vec!["local_id".to_owned(), "final_id".to_owned()];
        if !table.unique.is_empty() {
            keys.push(table.unique.join(", "));
        }
        make(client, table.name, &columns, &keys).await?;
        copy(client, &staged, table.name, &columns, "").await?;
    }
    make(client, "local", LOCAL, &["tbl, id".to_owned()]).await?;
    copy(client, &staged, "local", LOCAL, "WHERE taken = 0").await
}

/// Drops the tables.
pub(super) async fn clear<C: Client>(client: &mut C) -> Result<()> {
    for name in TABLES.iter().map(|table: &Table| table.name).chain(["local"]) {
        client.script(&format!("{} staged_{name}", C::WORDS.drop_temporary)).await?;
    }
    Ok(())
}

async fn make<C: Client>(client: &mut C, name: &str, columns: &[Column], keys: &[String]) -> Result<()> {
    let columns: Vec<String> = columns.iter().map(|(name, token)| format!("{name} {token} NULL")).collect();
    // Where schema changes cannot be rolled back, a separate statement that creates an index would end the
    // transaction. Some servers require a primary key on every table.
    let inline: String = if C::WORDS.undoes_schema {
        String::new()
    } else {
        keys.iter()
            .fold(", staged_row BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY".to_owned(), |inline, columns| {
                inline + &format!(", KEY ({columns})")
            })
    };
    let sql = format!("CREATE TEMPORARY TABLE staged_{name} ({}{inline})", columns.join(", "));
    client.script(&expand(&sql, C::WORDS.dialect)).await?;
    if C::WORDS.undoes_schema {
        for columns in keys {
            client.script(&format!("CREATE INDEX ON staged_{name} ({columns})")).await?;
        }
    }
    Ok(())
}

/// Copies the rows of a table that match the condition.
async fn copy<C: Client>(
    client: &mut C,
    staged: &Connection,
    name: &str,
    columns: &[Column],
    condition: &str,
) -> Result<()> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let mut query = staged.prepare(&format!("SELECT {names} FROM {name} {condition}"))?;
    let mut rows = query.query([])?;
    let into = |rows: usize| {
        let row = format!("({})", placeholders(columns.len()));
        format!("INSERT INTO staged_{name} ({names}) VALUES {}", vec![row; rows].join(", "))
    };
    let (many, one) = (into(TOGETHER), into(1));
    let mut values: Vec<Value> = Vec::with_capacity(TOGETHER * columns.len());
    loop {
        let row = rows.next()?;
        if let Some(row) = row {
            for index in 0..columns.len() {
                values.push(owned(row.get_ref(index)?));
            }
        }
        let is_over = row.is_none();
        if values.len() < TOGETHER * columns.len() && !is_over {
            continue;
        }
        let args: Vec<Arg<'_>> = values.iter().map(|value| value.bound(&[])).collect::<Result<_>>()?;
        let (together, alone) = args.split_at(if is_over { 0 } else { args.len() });
        if !together.is_empty() {
            client.execute(&many, together).await?;
        }
        for row in alone.chunks(columns.len()) {
            client.execute(&one, row).await?;
        }
        values.clear();
        if is_over {
            return Ok(());
        }
    }
}
