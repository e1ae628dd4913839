//! Staging of rows for an import: they are collected in a separate file, compared there with the stored rows,
//! and applied from there in one transaction.
//!
//! ```text
//! rows ─▶ staged tables ─▶ references, doubles ─▶ matched with stored rows ─▶ one batch of the writer
//!         (a database      refused rows           by natural keys: the row    INSERT … SELECT FROM staged
//!          beside ours)                           keeps its stored id
//! ```
//!
//! So an import takes as little memory as its longest row, the writer is busy only while rows are copied, and
//! nothing enters the database before all of it is known to fit. Secrets are sealed before they are staged.
//!
//! A row that matches a stored one takes the stored id. Any other row takes its id from the document if no row has it,
//! or else a new id: work still running for a deleted row must not meet another row under its id. An id that this
//! database gave to a row that is deleted is only used for a document of this installation, where it means the same
//! row: the log, usage and stored responses still name it.

mod apply;
mod matching;
pub mod tables;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::error::{Error, Result};
use super::migrate::expand;
use super::sql::{SqlDialect, Value};
use super::sqlite::location::{give_way_within, keep_temporary_files_in};
use super::{Hashing, Store};
use crate::unfinished::{IMPORT, WorkDirectory};
pub use matching::{Action, Conflict, LocalRow, Policy};
use tables::{Column, Kind, TABLES, Table};

/// The number of rows staged in one transaction.
const AT_ONCE: usize = 5000;
/// The size of the page cache, and of sorts in memory, in KiB; the rest is kept in files.
const CACHE_KIB: u32 = 2048;

/// A row of a document, to be staged.
#[derive(Debug)]
pub struct NewRow {
    /// The row's id in the document; for tables without ids in documents, any number unique in the table.
    pub id: i64,
    /// The text that identifies the row within its scope; `None` where columns do.
    pub who: Option<String>,
    /// The name by which people know the row. Never a secret.
    pub label: String,
    /// A value for each column of the table; secrets are open, hashes are [`Value::Null`].
    pub values: Vec<Value>,
    /// Whether the secret is complete, so that the row can be looked up by it.
    pub is_found_by_hash: bool,
    /// A bit for each column that the document gives a value for.
    pub present: u64,
}

/// What happens to one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    pub array: &'static str,
    pub id: Option<i64>,
    pub label: String,
    pub action: Action,
    pub reason: String,
}

/// The number of rows of an array by what happens to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub created: u64,
    pub updated: u64,
    pub skipped: u64,
    pub refused: u64,
    /// Stored rows that are not in the document and are deleted.
    pub deleted: u64,
}

/// The staged rows of one import. Dropping it deletes them.
pub struct Staging {
    store: Store,
    connection: Connection,
    path: PathBuf,
    /// Removed after the connection is closed.
    _directory: WorkDirectory,
    /// Whether the document has each array.
    given: [bool; TABLES.len()],
    in_transaction: usize,
}

// === impl Staging ===

impl Staging {
    /// Creates an empty staging area in this directory.
    pub fn create(store: &Store, dir: &Path) -> Result<Self> {
        let directory = WorkDirectory::create(dir, IMPORT).map_err(|error| match error.kind() {
            ErrorKind::StorageFull => Error::Full(error.to_string()),
            _ => Error::Database(format!("cannot create a directory in {}: {error}", dir.display())),
        })?;
        // The store only sets this for SQLite, not for a database on a server.
        keep_temporary_files_in(dir);
        let path = directory.path().join("rows.db");
        let mut connection = Connection::open(&path)?;
        give_way_within(&mut connection)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Nothing has to survive a power cut: leftovers are deleted.
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB};
             CREATE TABLE refused (tbl INTEGER NOT NULL, id INTEGER, label TEXT NOT NULL, reason TEXT NOT NULL);
             CREATE TABLE local (tbl INTEGER NOT NULL, id INTEGER NOT NULL, scope INTEGER NOT NULL, who TEXT NOT NULL,
               taken INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tbl, id)) WITHOUT ROWID;
             CREATE INDEX local_who ON local (tbl, scope, who, taken);"
        ))?;
        for table in TABLES {
            connection.execute_batch(&definition(table))?;
        }
        Ok(Self {
            store: store.clone(),
            connection,
            path,
            _directory: directory,
            given: [false; TABLES.len()],
            in_transaction: 0,
        })
    }

    /// Records that the document has this array, even without rows.
    pub fn give(&mut self, table: usize) {
        self.given[table] = true;
    }

    pub fn is_given(&self, table: usize) -> bool {
        self.given[table]
    }

    /// Stages a row, or records why it is refused: another row has its id or the same unique values.
    pub fn add(&mut self, hashing: &Hashing<'_>, table: usize, row: NewRow) -> Result<()> {
        self.step()?;
        let definition = &TABLES[table];
        let values = self.sealed(hashing, definition, &row)?;
        let names: Vec<&str> = definition.columns.iter().map(|column| column.sql).collect();
        let sql = format!(
            "INSERT OR IGNORE INTO {} (file_id, who, label, present, {}) VALUES (?, ?, ?, ?{})",
            definition.name,
            names.join(", "),
            ", ?".repeat(names.len())
        );
        let head = [
            Value::Int(row.id),
            row.who.clone().into(),
            row.label.as_str().into(),
            Value::Int(row.present.cast_signed()),
        ];
        let added = {
            let mut insert = self.connection.prepare_cached(&sql)?;
            insert.execute(params_from_iter(head.iter().chain(&values).map(Bound)))?
        };
        if added > 0 {
            return Ok(());
        }
        let sql = format!("SELECT count(*) FROM {} WHERE file_id = ?", definition.name);
        let same: i64 = self.connection.prepare_cached(&sql)?.query_row([row.id], |row| row.get(0))?;
        let reason = if same > 0 && definition.shows_id {
            format!("id {} occurs twice", row.id)
        } else {
            format!("another row has the same {}", document_names(definition, definition.unique))
        };
        self.refuse(table, definition.shows_id.then_some(row.id), &row.label, &reason)
    }

    /// Returns the values as they are stored: secrets sealed, each followed by its hash where the table has
    /// one.
    fn sealed(&self, hashing: &Hashing<'_>, table: &Table, row: &NewRow) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(row.values.len());
        let mut plain: Option<&str> = None;
        for (column, value) in table.columns.iter().zip(&row.values) {
            values.push(match (column.kind, value) {
                (Kind::Secret, Value::Text(secret)) => {
                    plain = Some(secret);
                    self.store.sealer().seal(table.name, column.sql, secret)?.into()
                }
                (Kind::Secret, _) => {
                    plain = None;
                    Value::Null
                }
                (Kind::Hash, _) => {
                    plain.filter(|_| row.is_found_by_hash).map(|plain| hashing.index(plain)).into()
                }
                _ => value.clone(),
            });
        }
        Ok(values)
    }

    /// Records a row that cannot be imported.
    pub fn refuse(&mut self, table: usize, id: Option<i64>, label: &str, reason: &str) -> Result<()> {
        self.step()?;
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO refused (tbl, id, label, reason) VALUES (?, ?, ?, ?)")?;
        insert.execute((table as i64, id, label, reason))?;
        Ok(())
    }

    /// Returns the number of refused rows, and at most `most` of them.
    pub fn refused(&self, most: usize) -> Result<(u64, Vec<Fate>)> {
        let count: i64 = self.connection.query_row("SELECT count(*) FROM refused", [], |row| row.get(0))?;
        let sql = format!("SELECT tbl, id, label, reason FROM refused ORDER BY rowid LIMIT {most}");
        Ok((count.unsigned_abs(), self.fates_of(&sql, None)?))
    }

    /// Returns what happens to each row, at most `most`, refused ones first.
    pub fn fates(&self, most: usize) -> Result<Vec<Fate>> {
        let (_, mut fates) = self.refused(most)?;
        for (index, table) in TABLES.iter().enumerate() {
            for action in [Action::Created, Action::Updated, Action::Skipped] {
                let left = most.saturating_sub(fates.len());
                let id = if table.shows_id { "file_id" } else { "NULL" };
                let sql = format!(
                    "SELECT {index}, {id}, label, COALESCE(reason, '') FROM {} WHERE action = '{}' ORDER BY line \
                     LIMIT {left}",
                    table.name,
                    action.as_str()
                );
                fates.extend(self.fates_of(&sql, Some(action))?);
            }
        }
        Ok(fates)
    }

    fn fates_of(&self, sql: &str, action: Option<Action>) -> Result<Vec<Fate>> {
        let mut query = self.connection.prepare(sql)?;
        let rows = query.query_map([], |row| {
            let table: i64 = row.get(0)?;
            Ok(Fate {
                array: usize::try_from(table)
                    .ok()
                    .and_then(|table| TABLES.get(table))
                    .map_or("", |t| t.array),
                id: row.get(1)?,
                label: row.get(2)?,
                action: action.unwrap_or(Action::Refused),
                reason: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Counts the rows of each array by what happens to them; arrays that the document lacks are left out.
    pub fn counts(&self, policy: Policy) -> Result<BTreeMap<&'static str, Counts>> {
        let mut all = BTreeMap::new();
        for (index, table) in TABLES.iter().enumerate().filter(|(index, _)| self.given[*index]) {
            let count = |sql: String| -> Result<u64> {
                let count: i64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
                Ok(count.unsigned_abs())
            };
            let of = |action: Action| {
                count(format!("SELECT count(*) FROM {} WHERE action = '{}'", table.name, action.as_str()))
            };
            let deleted = format!("SELECT count(*) FROM local WHERE tbl = {index} AND taken = 0");
            let counts = Counts {
                created: of(Action::Created)?,
                updated: of(Action::Updated)?,
                skipped: of(Action::Skipped)?,
                refused: count(format!("SELECT count(*) FROM refused WHERE tbl = {index}"))?,
                deleted: if policy.replaces && table.is_exported() { count(deleted)? } else { 0 },
            };
            all.insert(table.array, counts);
        }
        Ok(all)
    }

    /// Commits the transaction in which rows are being staged.
    fn settle(&mut self) -> Result<()> {
        if std::mem::take(&mut self.in_transaction) > 0 {
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        if self.in_transaction == 0 {
            self.connection.execute_batch("BEGIN")?;
        }
        self.in_transaction += 1;
        if self.in_transaction > AT_ONCE {
            self.settle()?;
            self.connection.execute_batch("BEGIN")?;
            self.in_transaction = 1;
        }
        Ok(())
    }
}

/// Returns the definition of a staged table: the columns of the document, and those determined by matching. The columns
/// have the types of the stored ones: with another type, a comparison of both would use no index.
fn definition(table: &Table) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|column| format!("{} {}", column.sql, column.kind.token())).collect();
    let name = table.name;
    let unique = match table.unique {
        [] => String::new(),
        columns => format!("CREATE UNIQUE INDEX {name}_only ON {name} ({});", columns.join(", ")),
    };
    let tables = format!(
        "CREATE TABLE {name} (line INTEGER PRIMARY KEY, file_id INTEGER NOT NULL UNIQUE, who TEXT, scope INTEGER, \
         label TEXT NOT NULL, present INTEGER NOT NULL, local_id INTEGER, final_id INTEGER, action TEXT, reason TEXT, \
         {}); {unique} CREATE INDEX {name}_local ON {name} (local_id); CREATE INDEX {name}_final ON {name} (final_id); \
         CREATE INDEX {name}_who ON {name} (scope, who);",
        columns.join(", ")
    );
    expand(&tables, SqlDialect::Sqlite)
}

/// Returns the names of columns in documents.
fn document_names(table: &Table, columns: &[&str]) -> String {
    let name = |sql: &&str| -> &str {
        let column: Option<&Column> = table.columns.iter().find(|column| column.sql == *sql);
        column.map(|column| column.json).filter(|json| !json.is_empty()).unwrap_or("key")
    };
    columns.iter().map(name).collect::<Vec<_>>().join(" and ")
}

struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null | Value::IdOf(_) => ValueRef::Null,
            Value::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Sealed(value) => ValueRef::Text(value.as_str().as_bytes()),
            Value::Blob(value) => ValueRef::Blob(value),
        }))
    }
}
