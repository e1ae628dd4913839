//! Copying everything into another database, of the same kind or another.
//!
//! ```text
//! source, as of one moment ── pages of rows ──▶ target, one transaction ── read again, compared ──▶ committed
//! ```
//!
//! The source is only read. Rows are copied as stored, sealed values together with the keys that open them, so that the
//! target opens with the source's secret. Nothing is committed unless each table holds exactly the rows that were read.

use std::fmt::{self, Display, Write};
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::admin_snapshots;
use super::connection::Connection;
use super::error::{Error, OpenError, Result};
use super::instances;
use super::migrate::{self, Table};
use super::options::StoreOptions;
use super::server::drivers;
use super::server::masked::masked;
use super::sql::{Row, SqlDialect, Statement, Value, placeholders};
use super::sqlite::connection::Sqlite;
use super::sqlite::location::{self, Location};
use super::{ReadView, Store};
use crate::config::{DatabaseKind, DatabaseTls, Synchronous};

/// The number of rows read at once; fewer for tables with large rows.
const PAGE: usize = 400;
const PAGE_OF_LARGE: usize = 4;
const LARGE: &[&str] =
    &["proxy_file_chunks", "proxy_file_blobs", "proxy_debug_attempts", "proxy_debug_traces"];
/// The number of rows that one statement inserts.
const TOGETHER: usize = 40;

/// Tables that only matter to running processes and are not copied.
const NOT_COPIED: &[&str] =
    &["job_leases", "cache_versions", "instances", "writer_marks", admin_snapshots::TABLE];
/// The settings that say which database the next start uses: its kind, its address, and whether TLS is required.
pub const NEXT_DATABASE: [&str; 3] = ["db_type", "db_url", "db_ssl"];

/// The address of a database.
#[derive(Clone, Debug)]
pub struct DatabaseAddress {
    pub kind: DatabaseKind,
    pub url: String,
    pub tls: DatabaseTls,
    /// The directory of the SQLite file when there is no address.
    pub data_dir: PathBuf,
}

/// The number of rows that a table received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub table: &'static str,
    pub rows: u64,
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyProgress {
    pub table: &'static str,
    /// The position of this table among all, from 1.
    pub number: usize,
    pub tables: usize,
    /// The number of its rows that are copied, or read again.
    pub rows: u64,
    /// Whether the copied rows are being read again and compared.
    pub compares: bool,
}

impl fmt::Display for CopyProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, number, tables, rows, compares } = self;
        let what = if *compares { "Comparing" } else { "Copying" };
        write!(f, "{what} {table} (table {number} of {tables}): {rows} rows")
    }
}

/// A callback that is called after each page.
pub type OnProgress<'a> = &'a dyn Fn(CopyProgress);

/// A function that queries one of the two databases.
type Read<'a> = &'a mut dyn FnMut(&str, Vec<Value>) -> Result<Vec<Row>>;

// === impl DatabaseAddress ===

impl DatabaseAddress {
    /// Returns the address without its password, for display.
    pub fn masked(&self) -> String {
        match (self.kind, self.url.trim()) {
            (DatabaseKind::Sqlite, "") => "(default path)".to_owned(),
            (DatabaseKind::Sqlite, path) => path.to_owned(),
            (_, url) => masked(url),
        }
    }

    /// Whether both addresses lead to the same database, as far as they show.
    pub fn is_same_place(&self, other: &Self) -> bool {
        if self.kind != other.kind {
            return false;
        }
        if self.kind != DatabaseKind::Sqlite {
            let place = |url: &str| {
                let place = url.split_once("://").map_or(url, |(_, place)| place);
                let place = place.split('?').next().unwrap_or(place);
                place.rsplit_once('@').map_or(place, |(_, place)| place).to_owned()
            };
            return place(&self.url) == place(&other.url);
        }
        match (self.location(), other.location()) {
            (Location::File(one), Location::File(other)) => {
                let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
                real(&one) == real(&other)
            }
            _ => false,
        }
    }

    /// Returns these options with this address.
    pub fn options(&self, options: StoreOptions) -> StoreOptions {
        StoreOptions { kind: self.kind, db_url: self.url.clone(), tls: self.tls.clone(), ..options }
    }

    /// Returns the address with an absolute path: a relative one would name another file in another working directory.
    pub fn absolute(self) -> Self {
        let path = self.file().filter(|path| path.is_relative());
        let path = path.and_then(|path| std::path::absolute(path).ok()?.into_os_string().into_string().ok());
        match path {
            Some(url) => Self { url, ..self },
            None => self,
        }
    }

    /// Returns the path of an SQLite file; `None` for a server, and in memory.
    fn file(&self) -> Option<PathBuf> {
        match self.location() {
            Location::File(path) if self.kind == DatabaseKind::Sqlite => Some(path),
            _ => None,
        }
    }

    pub fn is_in_memory(&self) -> bool {
        self.kind == DatabaseKind::Sqlite && self.location() == Location::Memory
    }

    /// Whether no file can have the path of this SQLite database: it has a NUL byte, or a name that is too long for its
    /// file system, be it that of a file beside the database.
    pub fn has_impossible_path(&self) -> bool {
        let is_no_name =
            |error: io::Error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidFilename);
        self.file().is_some_and(|path| {
            location::beside(&path, location::RESTORING).try_exists().is_err_and(is_no_name)
        })
    }

    /// Returns the path of an SQLite file that does not exist.
    fn missing_file(&self) -> Result<Option<PathBuf>, OpenError> {
        let Some(path) = self.file() else { return Ok(None) };
        let exists = path.try_exists().map_err(|error| cannot("open", &path, &error))?;
        Ok((!exists).then_some(path))
    }

    fn location(&self) -> Location {
        Location::parse(&self.url, &self.data_dir)
    }
}

/// Connects and runs the simplest query; checks whether a missing file can be created. Changes nothing.
///
/// # Errors
/// When the database cannot be used; the message says why.
pub fn try_out(place: &DatabaseAddress) -> Result<(), OpenError> {
    if place.kind != DatabaseKind::Sqlite {
        let mut connection = drivers::connect(place.kind, &place.url, &place.tls)?;
        connection.select("SELECT 1", &[])?;
        return migrate::refuse_foreign(connection.dialect(), &connection.tables()?);
    }
    let Location::File(path) = place.location() else { return Ok(()) };
    if path.is_file() {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let opened = rusqlite::Connection::open_with_flags(&path, flags);
        let tables = opened.and_then(|opened| {
            let mut query = opened.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
            query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        });
        return migrate::refuse_foreign(
            SqlDialect::Sqlite,
            &tables.map_err(|error| cannot("open", &path, &error))?,
        );
    }
    if path.is_dir() {
        return Err(cannot("open", &path, &"it is a directory"));
    }
    directory_of(&path)?;
    try_creating(&path).map_err(|error| cannot("create", &path, &error))
}

/// Checks whether a file can be created at this path by creating one beside it, since another process may create the
/// database meanwhile.
fn try_creating(path: &Path) -> io::Result<()> {
    let beside = location::beside(path, ".tried");
    File::create(&beside)?;
    fs::remove_file(beside)
}

/// Whether the place is an empty file, so that a start on it begins without any data.
pub fn begins_empty(place: &DatabaseAddress) -> bool {
    place.file().is_some_and(|path| path.metadata().is_ok_and(|file| file.len() == 0))
}

/// Creates an empty file for a database that is to be saved for the next start, unless there is one.
///
/// # Errors
/// When there is no directory for it, or the file cannot be written.
pub fn create_file(place: &DatabaseAddress) -> Result<(), OpenError> {
    let Some(path) = place.missing_file()? else { return Ok(()) };
    directory_of(&path)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    made.map(drop).map_err(|error| cannot("create", &path, &error))
}

/// Refuses a saved database whose file is missing, as on a disk that is not mounted: a start would create it, and serve
/// without any data.
pub fn require_file(place: &DatabaseAddress) -> Result<(), OpenError> {
    let Some(path) = place.missing_file()? else { return Ok(()) };
    Err(OpenError::Unusable(format!(
        "the database {} does not exist: is its disk mounted? To begin with a new one there, create an empty file",
        path.display()
    )))
}

/// Refuses a file in a directory that does not exist, which is more likely a typing error than intended.
fn directory_of(path: &Path) -> Result<(), OpenError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if dir.is_dir() {
        return Ok(());
    }
    Err(cannot("open", path, &format!("there is no directory {}", dir.display())))
}

fn cannot(action: &str, path: &Path, why: &dyn Display) -> OpenError {
    OpenError::Unusable(format!("cannot {action} the database {}: {why}", path.display()))
}

/// Whether this build can use databases of this kind.
pub fn is_usable(kind: DatabaseKind) -> bool {
    kind == DatabaseKind::Sqlite || drivers::is_built_in(kind)
}

/// Copies everything into another database. Blocks.
///
/// # Errors
/// When the target cannot be used, is in use by a process, has rows although `overwrite` is false, or does not
/// hold what was read in the end. It is then left as it was, except for its tables.
pub fn copy(
    store: &Store,
    place: &DatabaseAddress,
    overwrite: bool,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Copied>, OpenError> {
    if let (DatabaseKind::Sqlite, Location::File(path)) = (place.kind, place.location()) {
        directory_of(&path)?;
    }
    let lock = match place.kind {
        DatabaseKind::Sqlite => location::lock(&place.location())?,
        _ => None,
    };
    let mut target: Box<dyn Connection> = match place.kind {
        DatabaseKind::Sqlite => {
            let opened = Sqlite::open_writer(&place.location(), Synchronous::Full);
            Box::new(opened.map_err(|error| OpenError::Unusable(error.to_string()))?)
        }
        _ => drivers::connect(place.kind, &place.url, &place.tls)?,
    };
    if !target.take_turn()? {
        return Err(OpenError::Unusable(format!(
            "the database {} is being filled or prepared by another process: try again when that one has ended",
            place.masked()
        )));
    }
    migrate::run(&mut *target, migrate::STEPS, crate::time::now_ms())?;
    refuse_served(&mut *target)?;
    if !overwrite {
        refuse_used(&mut *target)?;
    }
    let source = ReadView::of(store)?;
    target.begin()?;
    let copied = fill(&source, &mut *target, on_progress).inspect_err(|_| undo(&mut *target))?;
    target.commit()?;
    target.close()?;
    drop(lock);
    Ok(copied)
}

/// Rolls an incomplete copy back. A database whose connection was lost does that by itself.
fn undo(target: &mut dyn Connection) {
    if let Err(error) = target.roll_back() {
        log::debug!("rolling back an incomplete copy: {error}");
    }
}

/// Refuses a database that a process is using. This includes the source itself, under whatever address: a
/// process that copies from a shared database has registered in it.
fn refuse_served(target: &mut dyn Connection) -> Result<(), OpenError> {
    let present = instances::present(target)?;
    if present.is_empty() {
        return Ok(());
    }
    Err(OpenError::Unusable(format!(
        "the target database is in use by {}, and its content would be lost. Name another one, or stop its \
         users first; after a kill it is free within 30 seconds",
        present.join(", ")
    )))
}

fn refuse_used(target: &mut dyn Connection) -> Result<(), OpenError> {
    for Table { name, .. } in copied_tables() {
        if !target.select(&format!("SELECT 1 FROM {name} LIMIT 1"), &[])?.is_empty() {
            return Err(OpenError::Unusable(format!(
                "the target database is not empty: it has rows in {name}. To empty it first, set \
                 overwrite=true, or on the command line leave out --keep"
            )));
        }
    }
    Ok(())
}

fn copied_tables() -> impl DoubleEndedIterator<Item = &'static Table> {
    migrate::tables().iter().filter(|table| !NOT_COPIED.contains(&table.name))
}

fn fill(
    source: &ReadView,
    target: &mut dyn Connection,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Copied>, OpenError> {
    target.run(&[admin_snapshots::delete_all()])?;
    for table in copied_tables().rev() {
        target.run(&[Statement::new(format!("DELETE FROM {}", table.name), Vec::new())])?;
    }
    let mut copied = Vec::new();
    let count = copied_tables().count();
    for (number, table) in (1..).zip(copied_tables()) {
        let columns = target.columns(table.name)?;
        let failed =
            |error: Error| OpenError::Unusable(format!("the table {} cannot be copied: {error}", table.name));
        let mut sum = Sum::default();
        let step = |rows, compares| CopyProgress { table: table.name, number, tables: count, rows, compares };
        let mut read = |sql: &str, args: Vec<Value>| source.query(sql, args);
        pages(table, &columns, &mut read, &mut |rows| {
            target.run(&inserts(table.name, &columns, rows))?;
            sum.add(rows);
            on_progress(step(sum.rows, false));
            Ok(())
        })
        .map_err(failed)?;
        let mut found = Sum::default();
        let mut read = |sql: &str, args: Vec<Value>| target.select(sql, &args);
        pages(table, &columns, &mut read, &mut |rows| {
            found.add(rows);
            on_progress(step(found.rows, true));
            Ok(())
        })
        .map_err(failed)?;
        if found != sum {
            return Err(OpenError::Unusable(format!(
                "the copy is not complete: read back, the table {} of the target database has {} rows of \
                 {}, or other content; nothing was kept",
                table.name, found.rows, sum.rows
            )));
        }
        copied.push(Copied { table: table.name, rows: sum.rows });
    }
    target.advance_ids()?;
    Ok(copied)
}

/// Reads a table page by page, in the order of its key.
fn pages(
    table: &Table,
    columns: &[String],
    read: Read<'_>,
    take: &mut dyn FnMut(&[Row]) -> Result<()>,
) -> Result<()> {
    let most = if LARGE.contains(&table.name) { PAGE_OF_LARGE } else { PAGE };
    let key: Vec<usize> =
        table.key.iter().filter_map(|key| columns.iter().position(|column| column == key)).collect();
    let mut after: Vec<Value> = Vec::new();
    loop {
        let (beyond, args) = beyond(&table.key, &after);
        let pointer = match table.name {
            "settings" => format!(" AND name NOT IN ('{}')", NEXT_DATABASE.join("', '")),
            _ => String::new(),
        };
        let sql = format!(
            "SELECT {} FROM {} WHERE {beyond}{pointer} ORDER BY {} LIMIT {most}",
            columns.join(", "),
            table.name,
            table.key.join(", ")
        );
        let rows = read(&sql, args)?;
        if let Some(last) = rows.last() {
            after = key.iter().map(|index| last.0[*index].clone()).collect();
            take(&rows)?;
        }
        if rows.len() < most {
            return Ok(());
        }
    }
}

/// Returns the SQL condition for the rows after this key.
fn beyond(key: &[&str], after: &[Value]) -> (String, Vec<Value>) {
    if after.is_empty() {
        return ("1 = 1".to_owned(), Vec::new());
    }
    let (mut sql, mut args) = (String::from("("), Vec::new());
    for end in 0..key.len() {
        if end > 0 {
            sql.push_str(" OR ");
        }
        sql.push('(');
        for (same, value) in key[..end].iter().zip(after) {
            let _ = write!(sql, "{same} = ? AND ");
            args.push(value.clone());
        }
        let _ = write!(sql, "{} > ?)", key[end]);
        args.push(after[end].clone());
    }
    sql.push(')');
    (sql, args)
}

fn inserts(table: &str, columns: &[String], rows: &[Row]) -> Vec<Statement> {
    let row = format!("({})", placeholders(columns.len()));
    let of = |rows: &[Row]| {
        let values = vec![row.as_str(); rows.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({}) VALUES {values}", columns.join(", "));
        Statement::new(sql, rows.iter().flat_map(|row| row.0.iter().cloned()).collect())
    };
    let (together, alone) = rows.split_at(rows.len() - rows.len() % TOGETHER);
    together.chunks(TOGETHER).chain(alone.chunks(1)).map(of).collect()
}

/// A checksum over rows, independent of their order.
#[derive(Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    hash: u64,
}

impl Sum {
    fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let mut hasher = DefaultHasher::new();
            for value in &row.0 {
                hash(value, &mut hasher);
            }
            self.rows += 1;
            self.hash = self.hash.wrapping_add(hasher.finish());
        }
    }
}

/// Below this every whole number has a floating-point number of its own.
const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// Hashes a value independently of the type in which a database returns it.
fn hash(value: &Value, into: &mut DefaultHasher) {
    match value {
        Value::Null | Value::IdOf(_) => 0_u8.hash(into),
        Value::Bool(value) => i64::from(*value).hash(into),
        Value::Int(value) => value.hash(into),
        // A whole number may come back as either kind, and a zero with or without a sign.
        Value::Real(value) if value.fract() == 0.0 && value.abs() < EXACT => (*value as i64).hash(into),
        Value::Real(value) => value.to_bits().hash(into),
        Value::Text(value) => value.replace('\0', "\u{fffd}").hash(into),
        Value::Sealed(value) => value.as_str().hash(into),
        Value::Blob(value) => value.hash(into),
    }
}
