//! Whole copies of the database: saving one while the database is in use, and checking one.
//!
//! A copy contains everything, including the request history and the counters. Credentials in it stay sealed:
//! it is useful only together with the secret under which they are sealed.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::OpenError;
use super::options::StoreOptions;
use super::sqlite::location::Location;
use crate::config::DatabaseKind;

/// The tables whose row counts describe a copy, in this order.
const COUNTED: [&str; 8] = [
    "sites",
    "accounts",
    "account_tokens",
    "token_routes",
    "route_channels",
    "downstream_api_keys",
    "settings",
    "proxy_logs",
];

/// The number of rows in each of a copy's tables.
pub type Counts = Vec<(&'static str, i64)>;

/// Writes a copy of what is committed now, even while a process serves from the database.
///
/// # Errors
/// When there is no database, the file exists, or the copy is not intact.
pub fn save(options: &StoreOptions, to: &Path) -> Result<Counts, OpenError> {
    let from = file_of(options)?;
    refuse_missing(&from)?;
    let fail = |error: &dyn std::fmt::Display| unusable(format!("cannot copy to {}: {error}", to.display()));
    // Created empty, so that SQLite writes into it, and readable by nobody else.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let made = made.map_err(|error| fail(&error))?;
    // Tells others that it is being written; not every file system has locks.
    let _ = made.try_lock();
    let copied = (|| {
        let connection = Location::File(from).connect().map_err(|error| fail(&error))?;
        connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(|error| fail(&error))?;
        let name = to.to_str().ok_or_else(|| fail(&"the path has characters outside Unicode"))?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(|error| fail(&error))?;
        made.sync_all().map_err(|error| fail(&error))?;
        check(to)
    })();
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied
}

/// Refuses a data directory without a database, before opening it would create one.
///
/// # Errors
/// When the file does not exist or cannot be reached; the message names it.
pub fn require(options: &StoreOptions) -> Result<(), OpenError> {
    match file_of(options) {
        Ok(file) => refuse_missing(&file),
        // A database on a server is assumed to exist; opening it reports otherwise.
        Err(_) => Ok(()),
    }
}

fn refuse_missing(database: &Path) -> Result<(), OpenError> {
    match database.metadata() {
        Ok(file) if file.len() > 0 => Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(unusable(format!("cannot use {}: {error}", database.display())))
        }
        _ => Err(OpenError::Missing(format!(
            "there is no database at {}: set DATA_DIR to the directory that has it",
            database.display()
        ))),
    }
}

/// Checks that a file is an intact database of this program, and counts its rows.
///
/// # Errors
/// When it is not; the message says what is wrong.
pub fn check(copy: &Path) -> Result<Counts, OpenError> {
    let broken = |error: &dyn std::fmt::Display| {
        unusable(format!("{} is not a complete copy of a database: {error}", copy.display()))
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags).map_err(|error| broken(&error))?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| broken(&error))?;
    if verdict != "ok" {
        return Err(broken(&verdict));
    }
    let ours = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('schema_migrations', 'crypto_keys')";
    let ours: i64 = connection.query_row(ours, [], |row| row.get(0)).map_err(|error| broken(&error))?;
    if ours != 2 {
        return Err(broken(
            &"it is a database of another program; `switchyard import` may be able to read it",
        ));
    }
    let count = |table: &'static str| {
        let rows = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
        rows.map(|rows| (table, rows)).map_err(|error| broken(&error))
    };
    COUNTED.into_iter().map(count).collect()
}

/// Counts the rows in the database of a data directory.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn counts(options: &StoreOptions) -> Result<Counts, OpenError> {
    check(&file_of(options)?)
}

/// Returns the path of the database file.
///
/// # Errors
/// For a database on a server or in memory, which has no file to copy.
pub fn file_of(options: &StoreOptions) -> Result<PathBuf, OpenError> {
    let location = Location::parse(&options.db_url, &options.data_dir);
    match location {
        Location::File(path) if options.kind == DatabaseKind::Sqlite => Ok(path),
        Location::Memory if options.kind == DatabaseKind::Sqlite => {
            Err(OpenError::Unsupported("a database in memory has no file to copy".to_owned()))
        }
        _ => Err(OpenError::Unsupported(format!(
            "the database is on a {} server: this command works on SQLite files only. `switchyard \
             migrate --to FILE` copies a server's database into such a file, `switchyard export` writes the \
             configuration and `switchyard import` reads it; or use the tools of the database server",
            options.kind.title()
        ))),
    }
}

fn unusable(message: String) -> OpenError {
    OpenError::Unusable(message)
}
