//! Whole copies of the database: made while it is in use, and put in its place where there is none.
//!
//! A copy has everything, the history of requests and the counters included. Credentials in it stay sealed: it is of use
//! only together with the secret that they are sealed under.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::OpenError;
use super::options::StoreOptions;
use super::sqlite::location::Location;
use crate::config::DatabaseKind;

/// What a copy is told by, in this order.
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

/// How many rows the tables of a copy have.
pub type Counts = Vec<(&'static str, i64)>;

/// Writes a copy of what is committed now, also while a process serves from the database.
///
/// # Errors
/// When there is no database, the file exists, or the copy is not whole.
pub fn save(options: &StoreOptions, to: &Path) -> Result<Counts, OpenError> {
    let from = file_of(options)?;
    refuse_missing(&from)?;
    let fail = |error: &dyn std::fmt::Display| unusable(format!("cannot copy to {}: {error}", to.display()));
    // Empty, so that SQLite writes into it, and nobody else's to read.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let made = made.map_err(|error| fail(&error))?;
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

/// Refuses a data directory without a database, before an opening would make one.
///
/// # Errors
/// Names the file that is not there.
pub fn require(options: &StoreOptions) -> Result<(), OpenError> {
    match file_of(options) {
        Ok(file) => refuse_missing(&file),
        // What a server keeps is there, or the opening tells.
        Err(_) => Ok(()),
    }
}

fn refuse_missing(database: &Path) -> Result<(), OpenError> {
    if database.metadata().is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let message =
        format!("there is no database at {}: DATA_DIR names the directory that has it", database.display());
    Err(unusable(message))
}

/// Whether this is a whole database of ours, and what is in it.
///
/// # Errors
/// Says what is wrong with it.
pub fn check(copy: &Path) -> Result<Counts, OpenError> {
    let broken =
        |error: &dyn std::fmt::Display| unusable(format!("{} is no whole copy: {error}", copy.display()));
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
        return Err(broken(&"it is a database of another program; `switchyard import` may take it over"));
    }
    let count = |table: &'static str| {
        let rows = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
        rows.map(|rows| (table, rows)).map_err(|error| broken(&error))
    };
    COUNTED.into_iter().map(count).collect()
}

/// What is in the database of a data directory.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn counts(options: &StoreOptions) -> Result<Counts, OpenError> {
    check(&file_of(options)?)
}

/// Puts a copy where the database shall be. The next opening tells whether its keys open.
///
/// # Errors
/// When there is something already, the copy is not whole, or the disk takes no more. Nothing is left then.
pub fn place(options: &StoreOptions, copy: &Path) -> Result<Counts, OpenError> {
    let to = file_of(options)?;
    refuse_used(options)?;
    if let Some(dir) = to.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| unusable(format!("{}: {error}", dir.display())))?;
    }
    let partial = with_ending(&to, ".restoring");
    let fail = |error: &dyn std::fmt::Display| unusable(format!("cannot write {}: {error}", to.display()));
    let placed = (|| {
        let mut source =
            File::open(copy).map_err(|error| unusable(format!("{}: {error}", copy.display())))?;
        let target = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial);
        let mut target = target.map_err(|error| fail(&error))?;
        io::copy(&mut source, &mut target).map_err(|error| fail(&error))?;
        target.sync_all().map_err(|error| fail(&error))?;
        let counts = check(&partial)?;
        fs::rename(&partial, &to).map_err(|error| fail(&error))?;
        Ok(counts)
    })();
    if placed.is_err() {
        let _ = fs::remove_file(&partial);
    }
    placed
}

/// Refuses a data directory in which something is: what is restored would be mixed with it, or replace it.
///
/// # Errors
/// Names what is there.
pub fn refuse_used(options: &StoreOptions) -> Result<(), OpenError> {
    let database = file_of(options)?;
    let mut used = [&database].into_iter().find(|path| path.exists()).cloned();
    let entries = fs::read_dir(&options.data_dir).into_iter().flatten().flatten();
    // The root of a file system of its own has this directory.
    let mut entries = entries.filter(|entry| entry.file_name() != "lost+found");
    used = used.or_else(|| entries.next().map(|entry| entry.path()));
    match used {
        None => Ok(()),
        Some(path) => Err(unusable(format!(
            "{} is there: a backup is restored into an empty data directory. Move what is in {} away, or name another \
             directory in DATA_DIR",
            path.display(),
            options.data_dir.display()
        ))),
    }
}

/// Removes a database that was placed and does not open.
pub fn remove(options: &StoreOptions) {
    let Ok(database) = file_of(options) else { return };
    for ending in ["", "-wal", "-shm", "-journal", ".lock"] {
        let _ = fs::remove_file(with_ending(&database, ending));
    }
}

/// Where the database is. One that a server keeps, or the memory, is no file to copy.
fn file_of(options: &StoreOptions) -> Result<PathBuf, OpenError> {
    let location = Location::parse(&options.db_url, &options.data_dir);
    match location {
        Location::File(path) if options.kind == DatabaseKind::Sqlite => Ok(path),
        Location::Memory if options.kind == DatabaseKind::Sqlite => {
            Err(OpenError::Unsupported("DB_URL: a database in memory has no file to copy".to_owned()))
        }
        _ => Err(OpenError::Unsupported(format!(
            "DB_TYPE={}: this is for an SQLite file. `switchyard migrate --to FILE` copies everything of a server into \
             one, `switchyard export` writes what is set up and `switchyard import` takes it in; servers have tools of \
             their own besides",
            options.kind.as_str()
        ))),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn unusable(message: String) -> OpenError {
    OpenError::Unusable(message)
}
