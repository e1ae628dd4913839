//! A connection to SQLite. All changes go through the connection of the writer's thread, queries through those
//! of the readers.

use std::path::Path;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, TransactionBehavior};

use super::location::Location;
use super::wal_sync::WalSync;
use crate::config::Synchronous;
use crate::store::connection::{self, Applied, MigrateError, Script};
use crate::store::error::{Error, Result};
use crate::store::sql::{Arg, Outcome, Row, SqlDialect, Statement, Value};
use crate::store::telemetry::log_row::{self, ProxyLogRow};
use crate::store::versions::Scope;

// Page caches stay in the process's memory permanently, so they are small: the writer appends and touches few
// other pages, the readers scan, and the kernel's own cache is behind both.
const WRITER_CACHE_KIB: i64 = 1024;
const READER_CACHE_KIB: i64 = 256;
/// The length of the write-ahead log, in pages of 4 KiB, at which its pages are moved into the database. Every
/// group of log rows changes the same few pages again, which are then moved once for many groups.
const CHECKPOINT_PAGES: u32 = 4000;

/// A connection to SQLite.
pub(in crate::store) struct Sqlite {
    connection: Connection,
    durability: Durability,
}

/// Which commits survive a power cut.
enum Durability {
    /// As set when the connection was opened.
    AsOpened,
    /// Commits that a caller waits for, from the moment it is told; log rows a quarter of a second after they
    /// were written.
    Full {
        sync: WalSync,
        /// Whether commits currently wait for the disk.
        waits: bool,
    },
}

// === impl Sqlite ===

impl Sqlite {
    /// Opens the connection that makes every change, ready for use.
    pub(in crate::store) fn open_writer(
        location: &Location,
        synchronous: Synchronous,
    ) -> rusqlite::Result<Self> {
        let connection = location.connect()?;
        connection.set_prepared_statement_cache_capacity(64);
        // auto_vacuum only takes effect before the first table, and must come before WAL writes the header.
        connection.execute_batch(&format!(
            "PRAGMA busy_timeout = 5000;
             PRAGMA auto_vacuum = INCREMENTAL;
             PRAGMA journal_mode = WAL;
             PRAGMA foreign_keys = ON;
             PRAGMA cache_size = -{WRITER_CACHE_KIB};
             PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
             PRAGMA journal_size_limit = 67108864;"
        ))?;
        let opened = Self::from(connection);
        opened.set_synchronous(synchronous)?;
        Ok(opened)
    }

    /// Opens a connection that only reads.
    pub(in crate::store) fn open_reader(location: &Location) -> rusqlite::Result<Self> {
        let connection = location.connect()?;
        connection.execute_batch(&format!(
            "PRAGMA busy_timeout = 5000;
             PRAGMA query_only = ON;
             PRAGMA cache_size = -{READER_CACHE_KIB};"
        ))?;
        Ok(Self::from(connection))
    }

    /// Makes the commits of log rows no longer wait for the disk; a thread syncs them.
    pub(in crate::store) fn sync_behind(&mut self, location: &Location) -> std::io::Result<()> {
        let wal = location.clone();
        let sync = WalSync::start(move || super::location::sync_wal(&wal))?;
        self.durability = Durability::Full { sync, waits: true };
        Ok(())
    }

    pub(in crate::store) fn raw(&self) -> &Connection {
        &self.connection
    }

    /// Sets what commits wait for from now on.
    fn set_synchronous(&self, synchronous: Synchronous) -> rusqlite::Result<()> {
        self.connection.execute_batch(match synchronous {
            Synchronous::Full => "PRAGMA synchronous = FULL",
            Synchronous::Normal => "PRAGMA synchronous = NORMAL",
        })
    }

    /// Sets whether the next commit waits for the disk.
    fn wait_for_disk(&mut self, wait: bool) -> Result<()> {
        if matches!(self.durability, Durability::Full { waits, .. } if waits != wait) {
            self.set_synchronous(if wait { Synchronous::Full } else { Synchronous::Normal })?;
        }
        if let Durability::Full { waits, .. } = &mut self.durability {
            *waits = wait;
        }
        Ok(())
    }
}

impl From<Connection> for Sqlite {
    fn from(connection: Connection) -> Self {
        Self { connection, durability: Durability::AsOpened }
    }
}

impl connection::Connection for Sqlite {
    fn dialect(&self) -> SqlDialect {
        SqlDialect::Sqlite
    }

    fn select(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
        select(&self.connection, sql, args)
    }

    fn apply(&mut self, statements: &[Statement], _: &[Scope]) -> Result<Applied> {
        self.wait_for_disk(true)?;
        apply(&mut self.connection, statements)
    }

    fn write(
        &mut self,
        _group: u64,
        rows: &[ProxyLogRow],
        statements: &[Statement],
        is_awaited: bool,
    ) -> Result<()> {
        self.wait_for_disk(is_awaited)?;
        write(&mut self.connection, rows, statements)?;
        if let Durability::Full { sync, waits: false } = &self.durability {
            sync.committed();
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.wait_for_disk(true)?;
        Ok(self.connection.execute_batch("BEGIN IMMEDIATE")?)
    }

    fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        run(&self.connection, statements)
    }

    fn commit(&mut self) -> Result<()> {
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn roll_back(&mut self) -> Result<()> {
        Ok(self.connection.execute_batch("ROLLBACK")?)
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        let rows = self.select("SELECT name FROM pragma_table_info(?)", &[table.into()])?;
        rows.iter().map(|row| row.fields().text()).collect()
    }

    fn tables(&mut self) -> Result<Vec<String>> {
        let mut query = self.connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
        let names = query.query_map([], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    fn migrate(&mut self, scripts: &[Script]) -> Result<(), MigrateError> {
        let failed =
            |step: &'static str| move |error: rusqlite::Error| MigrateError { step, error: error.into() };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Exclusive);
        let transaction = transaction.map_err(failed("lock"))?;
        for Script { name, sql, note } in scripts {
            transaction.execute_batch(sql).map_err(failed(name))?;
            run(&transaction, note.as_slice()).map_err(|error| MigrateError { step: name, error })?;
        }
        transaction.commit().map_err(failed("commit"))
    }

    fn begin_snapshot(&mut self) -> Result<()> {
        // SQLite fixes the visible state with the first read.
        Ok(self.connection.execute_batch("BEGIN; SELECT count(*) FROM settings;")?)
    }

    fn highest_id(&mut self, table: &str) -> Result<i64> {
        let rows = self.select("SELECT seq FROM sqlite_sequence WHERE name = ?", &[table.into()])?;
        rows.first().map_or(Ok(0), |row| row.fields().int())
    }

    /// The file must not be open anywhere else.
    fn apply_staged(&mut self, file: &Path, statements: &[Statement]) -> Result<Applied> {
        self.wait_for_disk(true)?;
        self.connection.execute("ATTACH DATABASE ? AS staged", [file.to_string_lossy()])?;
        let applied = apply(&mut self.connection, statements);
        // Cached statements that refer to it would keep it attached.
        self.connection.flush_prepared_statement_cache();
        if let Err(error) = self.connection.execute_batch("DETACH DATABASE staged") {
            log::error!("the temporary database of an import could not be detached: {error}");
        }
        applied
    }

    fn wipe(&mut self) -> Result<()> {
        empty_wal(&self.connection)?;
        // VACUUM rewrites the file without its free pages, through the log.
        self.connection.execute_batch("VACUUM")?;
        empty_wal(&self.connection)
    }

    fn reclaim(&mut self, pages: u32) -> Result<()> {
        Ok(self.connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages});"))?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

/// Moves the write-ahead log into the file and truncates it. Fails with `Error::Busy` while it is being read.
fn empty_wal(connection: &Connection) -> Result<()> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy == 0 { Ok(()) } else { Err(Error::Busy) }
}

/// Runs the statements in one transaction: all of them, or none.
fn apply(connection: &mut Connection, statements: &[Statement]) -> Result<Applied> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let outcomes = run(&transaction, statements)?;
    transaction.commit()?;
    Ok(Applied { outcomes, versions: Vec::new() })
}

/// Writes log rows, and the statements that go with them, in one transaction.
fn write(connection: &mut Connection, rows: &[ProxyLogRow], statements: &[Statement]) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (together, alone) = rows.split_at(rows.len() - rows.len() % log_row::TOGETHER);
    insert(&transaction, together, log_row::TOGETHER)?;
    insert(&transaction, alone, 1)?;
    run(&transaction, statements)?;
    transaction.commit()?;
    Ok(())
}

/// Inserts log rows, `at_once` with each statement.
fn insert(connection: &Connection, rows: &[ProxyLogRow], at_once: usize) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    // OR FAIL, because otherwise a statement of many rows copies every page before changing it, to be undone
    // alone; a group that fails is undone as a whole anyway.
    let mut insert = connection.prepare_cached(&format!("INSERT OR FAIL {}", log_row::into(at_once)))?;
    // Consecutive rows differ in few places only: equal arguments stay bound.
    let mut bound: Vec<Option<(&ProxyLogRow, [Arg<'_>; log_row::ARGS])>> = vec![None; at_once];
    for rows in rows.chunks(at_once) {
        for ((row, bound), place) in rows.iter().zip(&mut bound).zip((0..).step_by(log_row::ARGS + 1)) {
            let args = row.args();
            for (index, arg) in args.into_iter().enumerate() {
                if bound.as_ref().is_none_or(|(_, before)| before[index] != arg) {
                    insert.raw_bind_parameter(place + index + 1, arg)?;
                }
            }
            if bound.as_ref().is_none_or(|(before, _)| before.decision != row.decision) {
                let words = row.decision.map(|why| why.to_string());
                insert.raw_bind_parameter(place + log_row::ARGS + 1, words)?;
            }
            *bound = Some((row, args));
        }
        insert.raw_execute()?;
    }
    Ok(())
}

fn run(connection: &Connection, statements: &[Statement]) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(statements.len());
    let mut prepared: Option<(&str, CachedStatement<'_>)> = None;
    for statement in statements {
        // Rows of one kind come as runs with the same text, which is looked up once.
        if prepared.as_ref().is_none_or(|(sql, _)| *sql != statement.sql) {
            prepared = Some((&statement.sql, connection.prepare_cached(&statement.sql)?));
        }
        let Some((_, query)) = prepared.as_mut() else { continue };
        bind(query, &statement.args, &outcomes)?;
        let rows = query.raw_execute()? as u64;
        if rows == 0 && statement.must_change {
            return Err(Error::NotFound);
        }
        outcomes.push(Outcome { rows, last_id: connection.last_insert_rowid() });
    }
    Ok(outcomes)
}

/// Runs one query.
fn select(connection: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
    let mut query = connection.prepare_cached(sql)?;
    bind(&mut query, args, &[])?;
    let width = query.column_count();
    let mut rows = query.raw_query();
    let mut answer = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..width).map(|column| row.get_ref(column).map(owned));
        answer.push(Row(values.collect::<rusqlite::Result<_>>()?));
    }
    Ok(answer)
}

fn bind(query: &mut CachedStatement<'_>, args: &[Value], outcomes: &[Outcome]) -> Result<()> {
    if query.parameter_count() != args.len() {
        return Err(Error::Database(format!(
            "{} arguments for {} placeholders",
            args.len(),
            query.parameter_count()
        )));
    }
    for (index, value) in args.iter().enumerate() {
        let arg = value.bound(outcomes)?;
        query.raw_bind_parameter(index + 1, arg)?;
    }
    Ok(())
}

impl ToSql for Arg<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Integer(i64::from(value)),
            Self::Int(value) => ValueRef::Integer(value),
            Self::Real(value) => ValueRef::Real(value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

pub(in crate::store) fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(value) => Value::Text(String::from_utf8_lossy(value).into_owned()),
        ValueRef::Blob(value) => Value::Blob(value.to_vec()),
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let Some(failure) = error.sqlite_error() else { return Self::Database(error.to_string()) };
        match failure.extended_code {
            rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY => {
                let text = error.to_string();
                let columns = text.rsplit("failed: ").next().unwrap_or(&text).to_owned();
                Self::Conflict(columns)
            }
            rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Self::Dangling(error.to_string()),
            _ if failure.code == ErrorCode::DatabaseBusy => Self::Busy,
            // The second error is returned when a limit or quota is reached.
            _ if failure.code == ErrorCode::DiskFull => Self::Full(error.to_string()),
            rusqlite::ffi::SQLITE_IOERR_WRITE | rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
                Self::Full(error.to_string())
            }
            _ if failure.code == ErrorCode::TooBig => Self::Refused(error.to_string()),
            rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL | rusqlite::ffi::SQLITE_CONSTRAINT_CHECK => {
                Self::Refused(error.to_string())
            }
            _ => Self::Database(error.to_string()),
        }
    }
}
