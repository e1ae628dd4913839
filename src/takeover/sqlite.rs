//! SQLite files of other programs, opened without changing them, and read by column names.
//!
//! A file that its program closed properly is opened read-only and as immutable. If there is a log beside it,
//! the latest commits are only in that log: file and log are copied to a separate directory, where SQLite
//! merges them.

use std::collections::{BTreeSet, HashMap};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::taken::Error;
use crate::unfinished::{IMPORT, WorkDirectory};

/// The first bytes of an SQLite file (sqlite.org/fileformat2.html).
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// The maximum length of a text, in bytes; longer ones are read as absent.
const MAX_TEXT: usize = 1024 * 1024;
/// The maximum number of rows read from one table.
const MAX_TABLE_ROWS: i64 = 200_000;

const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// An open file of another program.
pub(super) struct ForeignDatabase {
    connection: Connection,
    tables: HashMap<String, BTreeSet<String>>,
    /// Removed after the connection is closed.
    _copy: Option<Copy>,
}

/// One row, by the names of the requested columns.
pub(super) struct ForeignRow {
    pub rowid: i64,
    cells: HashMap<&'static str, Cell>,
}

#[derive(Clone, Debug)]
enum Cell {
    Int(i64),
    Real(f64),
    Text(String),
}

/// A directory with a copy of the database, for one process and one reading.
pub struct Copy(WorkDirectory);

// === impl ForeignDatabase ===

impl ForeignDatabase {
    /// Opens a database. `scratch` is where a copy is made of one that is incomplete without the log beside it.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, Error> {
        let unreadable = |error: rusqlite::Error| Error(format!("it cannot be read: {error}"));
        let logs: Vec<PathBuf> = ["-wal", "-journal"]
            .iter()
            .map(|ending| beside(path, ending))
            .filter(|log| is_filled(log))
            .collect();
        let (connection, copy) = if logs.is_empty() {
            let absolute = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
            let name = absolute
                .to_str()
                .ok_or_else(|| Error("the path has characters outside Unicode".to_owned()))?;
            let uri = format!("file:{}?mode=ro&immutable=1", utf8_percent_encode(name, IN_PATH));
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            (Connection::open_with_flags(uri, flags).map_err(unreadable)?, None)
        } else {
            let copy = Copy::of(path, scratch)?;
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(copy.database(), flags).map_err(unreadable)?;
            (connection, Some(copy))
        };
        // Functions named in the schema are not called, and cells that lie outside their page are an error.
        connection.pragma_update(None, "trusted_schema", false).map_err(unreadable)?;
        connection.pragma_update(None, "cell_size_check", true).map_err(unreadable)?;
        let verdict: String =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(unreadable)?;
        if verdict != "ok" {
            return Err(Error(format!("the file is damaged: {verdict}")));
        }
        let tables = tables(&connection).map_err(unreadable)?;
        Ok(Self { connection, tables, _copy: copy })
    }

    pub fn has(&self, table: &str, columns: &[&str]) -> bool {
        self.tables.get(table).is_some_and(|known| columns.iter().all(|column| known.contains(*column)))
    }

    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Returns the columns of a table that are not among these.
    pub fn unknown_columns(&self, table: &str, known: &[&str]) -> Vec<String> {
        let columns = self.tables.get(table).into_iter().flatten();
        columns.filter(|column| !known.contains(&column.as_str())).cloned().collect()
    }

    /// Returns the rows of a table in the order in which they were inserted, without columns that it lacks, and
    /// whether there are more than are read.
    pub fn rows(&self, table: &str, wanted: &[&'static str]) -> Result<(Vec<ForeignRow>, bool), Error> {
        let Some(columns) = self.tables.get(table) else { return Ok((Vec::new(), false)) };
        let present: Vec<&'static str> =
            wanted.iter().copied().filter(|name| columns.contains(*name)).collect();
        let list = present.iter().map(|name| format!(", {}", quoted(name))).collect::<String>();
        let limit = MAX_TABLE_ROWS + 1;
        let failed = |error: rusqlite::Error| Error(format!("the table {table} cannot be read: {error}"));
        let query = |rowid: &str| {
            let sql = format!("SELECT {rowid}{list} FROM {} ORDER BY 1 LIMIT {limit}", quoted(table));
            self.connection.prepare(&sql)
        };
        // A table may have been created without rowids.
        let mut statement = query("rowid").or_else(|_| query("0")).map_err(failed)?;
        let mut found = statement.query([]).map_err(failed)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(failed)? {
            let mut cells = HashMap::new();
            for (at, name) in present.iter().enumerate() {
                if let Some(cell) = Cell::read(row.get_ref(at + 1).map_err(failed)?) {
                    cells.insert(*name, cell);
                }
            }
            rows.push(ForeignRow { rowid: row.get(0).map_err(failed)?, cells });
        }
        let most = usize::try_from(MAX_TABLE_ROWS).unwrap_or(usize::MAX);
        let is_cut = rows.len() > most;
        rows.truncate(most);
        Ok((rows, is_cut))
    }

    /// Runs a query and passes its rows to `take`, one by one.
    pub fn each(
        &self,
        sql: &str,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        let failed = |error: rusqlite::Error| Error(format!("the database cannot be read: {error}"));
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(row).map_err(failed)?;
        }
        Ok(())
    }

    pub fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {}", quoted(table));
        self.connection.query_row(&sql, [], |row| row.get(0)).unwrap_or(0)
    }

    /// Sums a column of a table; 0 when the column is missing.
    pub fn sum(&self, table: &str, column: &str) -> f64 {
        if !self.has(table, &[column]) {
            return 0.0;
        }
        let sql = format!("SELECT total({}) FROM {}", quoted(column), quoted(table));
        self.connection.query_row(&sql, [], |row| row.get(0)).unwrap_or(0.0)
    }
}

// === impl ForeignRow ===

impl ForeignRow {
    /// Returns a text that is not blank; numbers are converted.
    pub fn text(&self, column: &str) -> Option<String> {
        let text = match self.cells.get(column)? {
            Cell::Text(text) => text.trim().to_owned(),
            Cell::Int(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    pub fn int(&self, column: &str) -> Option<i64> {
        match self.cells.get(column)? {
            Cell::Int(number) => Some(*number),
            Cell::Real(number) if number.is_finite() => Some(*number as i64),
            Cell::Real(_) => None,
            Cell::Text(text) => text.trim().parse().ok(),
        }
    }

    pub fn real(&self, column: &str) -> Option<f64> {
        let number = match self.cells.get(column)? {
            Cell::Int(number) => *number as f64,
            Cell::Real(number) => *number,
            Cell::Text(text) => text.trim().parse().ok()?,
        };
        Some(number).filter(|number| number.is_finite())
    }

    pub fn flag(&self, column: &str) -> Option<bool> {
        match self.cells.get(column)? {
            Cell::Int(number) => Some(*number != 0),
            Cell::Real(number) => Some(*number != 0.0),
            Cell::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "t" => Some(true),
                "" | "0" | "false" | "f" => Some(false),
                _ => None,
            },
        }
    }

    /// Returns the parsed content of a JSON column.
    pub fn json(&self, column: &str) -> Option<serde_json::Value> {
        serde_json::from_str(&self.text(column)?).ok()
    }

    /// Returns the cell as a JSON value.
    pub fn value(&self, column: &str) -> Option<serde_json::Value> {
        Some(match self.cells.get(column)? {
            Cell::Text(text) => text.as_str().into(),
            Cell::Int(number) => (*number).into(),
            Cell::Real(number) => (*number).into(),
        })
    }
}

impl Cell {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(Self::Int(number)),
            ValueRef::Real(number) => Some(Self::Real(number)),
            ValueRef::Text(text) | ValueRef::Blob(text) if text.len() <= MAX_TEXT => {
                Some(Self::Text(String::from_utf8_lossy(text).into_owned()))
            }
            ValueRef::Text(_) | ValueRef::Blob(_) => None,
        }
    }
}

// === impl Copy ===

impl Copy {
    fn begin(scratch: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(scratch);
        let directory = made.and_then(|()| WorkDirectory::create(scratch, IMPORT));
        directory.map(Self).map_err(|error| unusable(scratch, &error))
    }

    /// Copies a database that was uploaded; the file needs no name.
    pub fn of_sent(mut file: File, scratch: &Path) -> Result<Self, Error> {
        let copy = Self::begin(scratch)?;
        let made = File::create(copy.database()).and_then(|mut to| io::copy(&mut file, &mut to));
        made.map_err(|error| unusable(&copy.database(), &error))?;
        Ok(copy)
    }

    fn of(path: &Path, scratch: &Path) -> Result<Self, Error> {
        let copy = Self::begin(scratch)?;
        for ending in ["", "-wal", "-journal"] {
            let from = beside(path, ending);
            if ending.is_empty() || is_filled(&from) {
                let to = beside(&copy.database(), ending);
                std::fs::copy(&from, &to).map_err(|error| unusable(&from, &error))?;
            }
        }
        Ok(copy)
    }

    pub fn database(&self) -> PathBuf {
        self.0.path().join("copy.db")
    }
}

/// Returns the ordinary tables with their columns. Views contain foreign code, and are not queried.
fn tables(connection: &Connection) -> rusqlite::Result<HashMap<String, BTreeSet<String>>> {
    let mut statement = connection.prepare(
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c \
         WHERE m.type = 'table' AND upper(m.sql) NOT LIKE 'CREATE VIRTUAL%' LIMIT 20000",
    )?;
    let mut tables: HashMap<String, BTreeSet<String>> = HashMap::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
    }
    Ok(tables)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn is_filled(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0)
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error(format!("{}: {error}", path.display()))
}
