//! SQLite: one file, one process. All changes go through the connection of the writer thread
//! (`writer.rs`); questions go to up to four read-only connections on threads of their own, opened when
//! questions wait and closed again when idle, so that a quiet gateway holds one connection.
//!
//! A lock file beside the database keeps a second process away: two writers with their own
//! snapshots in memory would serve stale routes without noticing.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tokio::sync::oneshot;

use super::error::{Error, OpenError, Result};
use super::proxy_logs::{self, ProxyLogRow};
use super::sql::{Arg, Outcome, Row, Statement, Value};
use crate::config::Synchronous;

const READERS: usize = 4;
const READER_IDLE: Duration = Duration::from_secs(30);
const MAX_WAITING_READS: usize = 1024;
// What a page cache holds counts as memory of the process for good: the writer appends and touches few pages
// besides, the readers scan, and the kernel's own cache is behind both.
const WRITER_CACHE_KIB: i64 = 1024;
const READER_CACHE_KIB: i64 = 256;
/// How long the write-ahead log gets before its pages move into the database, in pages of 4 KiB. Every group of log rows
/// changes the same few pages again, which then move once for many groups.
const CHECKPOINT_PAGES: u32 = 4000;

/// Where the database lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    File(PathBuf),
    /// Gone when the process ends; reads go to the writer, which holds the only connection.
    Memory,
}

impl Location {
    /// Reads DB_URL: empty for the file in the data directory, `:memory:`, a path, or a path behind
    /// `sqlite://` or `file://`.
    pub(super) fn parse(url: &str, data_dir: &Path) -> Self {
        let url = url.trim();
        let is_scheme = |scheme: &str| ["sqlite", "file"].iter().any(|own| own.eq_ignore_ascii_case(scheme));
        let path =
            url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).map_or(url, |(_, path)| path);
        match path {
            "" => Self::File(data_dir.join("switchyard.db")),
            ":memory:" => Self::Memory,
            path => Self::File(PathBuf::from(path)),
        }
    }

    /// True while there is nothing in the database, not even its header.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Memory => true,
            Self::File(path) => path.metadata().is_ok_and(|file| file.len() == 0),
        }
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        match self {
            Self::Memory => Connection::open_in_memory(),
            Self::File(path) => Connection::open_with_flags(
                path,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            ),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Memory => f.write_str("in memory"),
        }
    }
}

/// Creates the directory (0700) and waits for nobody: a database that another process holds is an error.
pub(super) fn lock(location: &Location) -> Result<Option<File>, OpenError> {
    let Location::File(path) = location else { return Ok(None) };
    let unusable = |what: &Path, error: std::io::Error| {
        OpenError::Unusable(format!("cannot use {}: {error}", what.display()))
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| unusable(dir, error))?;
    }
    let mut lock_path = path.clone().into_os_string();
    lock_path.push(".lock");
    let lock_path = PathBuf::from(lock_path);
    let private = |path: &Path| {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    };
    let lock = private(&lock_path).map_err(|error| unusable(&lock_path, error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(OpenError::Locked(format!(
                "another Switchyard process has {} open; an SQLite database serves one process. \
                 Stop that process, or give this one a DATA_DIR of its own",
                path.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(unusable(&lock_path, error)),
    }
    private(path).map_err(|error| unusable(path, error))?;
    Ok(Some(lock))
}

/// The connection that makes every change, ready for use.
pub(super) fn open_writer(location: &Location, synchronous: Synchronous) -> rusqlite::Result<Connection> {
    let connection = location.connect()?;
    connection.set_prepared_statement_cache_capacity(64);
    // auto_vacuum counts only before the first table, and must come before WAL writes the header.
    connection.execute_batch(&format!(
        "PRAGMA busy_timeout = 5000;
         PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA journal_mode = WAL;
         PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -{WRITER_CACHE_KIB};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = 67108864;"
    ))?;
    set_synchronous(&connection, synchronous)?;
    Ok(connection)
}

/// What the commits from now on wait for.
pub(super) fn set_synchronous(connection: &Connection, synchronous: Synchronous) -> rusqlite::Result<()> {
    connection.execute_batch(match synchronous {
        Synchronous::Full => "PRAGMA synchronous = FULL",
        Synchronous::Normal => "PRAGMA synchronous = NORMAL",
    })
}

/// Puts on the disk what has been committed without waiting for it.
pub(super) fn sync_wal(location: &Location) -> std::io::Result<()> {
    let Location::File(path) = location else { return Ok(()) };
    let mut wal = path.clone().into_os_string();
    wal.push("-wal");
    // Opened each time: it costs little, and nobody has to know when SQLite begins another file.
    File::open(wal)?.sync_data()
}

fn open_reader(location: &Location) -> rusqlite::Result<Connection> {
    let connection = location.connect()?;
    connection.execute_batch(&format!(
        "PRAGMA busy_timeout = 5000;
         PRAGMA query_only = ON;
         PRAGMA cache_size = -{READER_CACHE_KIB};"
    ))?;
    Ok(connection)
}

/// Runs the statements in one transaction: all of them, or none.
pub(super) fn apply(connection: &mut Connection, statements: &[Statement]) -> Result<Vec<Outcome>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let outcomes = run(&transaction, statements)?;
    transaction.commit()?;
    Ok(outcomes)
}

/// Writes log rows, and the statements that go with them, in one transaction.
pub(super) fn write(
    connection: &mut Connection,
    rows: &[ProxyLogRow],
    statements: &[Statement],
) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (together, alone) = rows.split_at(rows.len() - rows.len() % proxy_logs::TOGETHER);
    insert(&transaction, together, proxy_logs::TOGETHER)?;
    insert(&transaction, alone, 1)?;
    run(&transaction, statements)?;
    transaction.commit()?;
    Ok(())
}

/// Inserts log rows, so many with each statement.
fn insert(connection: &Connection, rows: &[ProxyLogRow], at_once: usize) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    // OR FAIL: so that it could be undone alone, a statement of many rows would copy every page before it changes it,
    // and a group that fails is undone as a whole.
    let mut insert = connection.prepare_cached(&format!("INSERT OR FAIL {}", proxy_logs::into(at_once)))?;
    // What an attempt leaves behind differs from others in a few places only: the rest stays bound.
    let mut bound: Vec<Option<(&ProxyLogRow, [Arg<'_>; proxy_logs::ARGS])>> = vec![None; at_once];
    for rows in rows.chunks(at_once) {
        for ((row, bound), place) in rows.iter().zip(&mut bound).zip((0..).step_by(proxy_logs::ARGS + 1)) {
            let args = row.args();
            for (index, arg) in args.into_iter().enumerate() {
                if bound.as_ref().is_none_or(|(_, before)| before[index] != arg) {
                    insert.raw_bind_parameter(place + index + 1, arg)?;
                }
            }
            if bound.as_ref().is_none_or(|(before, _)| before.decision != row.decision) {
                let words = row.decision.map(|why| why.to_string());
                insert.raw_bind_parameter(place + proxy_logs::ARGS + 1, words)?;
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
        // Rows of one kind come as runs of one text: those are looked up once.
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

/// Answers one question.
pub(super) fn select(connection: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
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
        let arg = match value {
            Value::Null => Arg::Null,
            Value::Bool(value) => Arg::Bool(*value),
            Value::Int(value) => Arg::Int(*value),
            Value::Real(value) => Arg::Real(*value),
            Value::Text(value) => Arg::Text(value),
            Value::Sealed(value) => Arg::Text(value.as_str()),
            Value::Blob(value) => Arg::Blob(value),
            Value::IdOf(statement) => {
                let outcome = outcomes.get(*statement).ok_or_else(|| {
                    Error::Database(format!("statement {statement} has not run before its id is used"))
                })?;
                Arg::Int(outcome.last_id)
            }
        };
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

fn owned(value: ValueRef<'_>) -> Value {
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
            // The second is what a limit or a quota comes as.
            _ if failure.code == ErrorCode::DiskFull => Self::Full(error.to_string()),
            rusqlite::ffi::SQLITE_IOERR_WRITE | rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
                Self::Full(error.to_string())
            }
            _ => Self::Database(error.to_string()),
        }
    }
}

/// The threads that answer questions.
pub(super) struct Readers {
    location: Location,
    state: Mutex<ReadState>,
    wake: Condvar,
}

#[derive(Default)]
struct ReadState {
    waiting: VecDeque<ReadRequest>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct ReadRequest {
    sql: std::borrow::Cow<'static, str>,
    args: Vec<Value>,
    reply: oneshot::Sender<Result<Vec<Row>>>,
}

impl Readers {
    pub(super) fn new(location: Location) -> Arc<Self> {
        Arc::new(Self { location, state: Mutex::default(), wake: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, ReadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the query to a reader thread, and starts one when there is none.
    pub(super) fn submit(
        self: &Arc<Self>,
        sql: std::borrow::Cow<'static, str>,
        args: Vec<Value>,
    ) -> Result<oneshot::Receiver<Result<Vec<Row>>>> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(Error::Closed);
        }
        if state.waiting.len() >= MAX_WAITING_READS {
            return Err(Error::Busy);
        }
        state.waiting.push_back(ReadRequest { sql, args, reply });
        if state.threads == 0 {
            self.spawn_reader(state)?;
        } else {
            drop(state);
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Starts a further thread when queries wait, all threads are busy and fewer than four exist.
    pub(super) fn spawn_reader_if_busy(self: &Arc<Self>) -> Result<()> {
        let state = self.state();
        if state.waiting.len() > state.idle && state.threads < READERS && !state.closed {
            self.spawn_reader(state)?;
        }
        Ok(())
    }

    fn spawn_reader(self: &Arc<Self>, mut state: MutexGuard<'_, ReadState>) -> Result<()> {
        state.threads += 1;
        drop(state);
        let readers = Arc::clone(self);
        let thread = thread::Builder::new().name("store-reader".into()).stack_size(512 * 1024);
        let spawned = thread.spawn(move || readers.serve());
        if let Err(error) = spawned {
            self.state().threads -= 1;
            return Err(Error::Database(format!("cannot start a reader thread: {error}")));
        }
        Ok(())
    }

    /// Ends the threads once the queue is empty.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_all();
    }

    fn serve(&self) {
        let mut connection = None;
        while let Some(request) = self.next() {
            let answer = match &connection {
                Some(connection) => select(connection, &request.sql, &request.args),
                None => open_reader(&self.location)
                    .map_err(Error::from)
                    .and_then(|opened| select(connection.insert(opened), &request.sql, &request.args)),
            };
            // Nobody waits any more when the asking request was dropped.
            let _ = request.reply.send(answer);
        }
    }

    /// The next query, or `None` when this thread should end.
    fn next(&self) -> Option<ReadRequest> {
        let mut state = self.state();
        loop {
            if let Some(request) = state.waiting.pop_front() {
                return Some(request);
            }
            if state.closed {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.wake.wait_timeout(state, READER_IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}
