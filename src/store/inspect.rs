//! Read-only inspection of a database, whether or not a process serves from it.
//!
//! The connection to a file is read-only. When there is no write-ahead log beside the file, nobody has it open,
//! and it is read as immutable, so that not even the files that SQLite shares between processes are created. A
//! database on a server is only queried, and takes care of its own pages.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::{InterruptHandle, OpenFlags};

use super::connection::Connection;
use super::error::{OpenError, Result};
use super::migrate;
use super::next_database;
use super::options::StoreOptions;
use super::relocate::{DatabaseAddress, NEXT_DATABASE};
use super::seal::Sealer;
use super::seal::keyring::Derivation;
use super::server::{drivers, masked::masked};
use super::sql::Row;
use super::sqlite::connection::Sqlite;
pub use super::sqlite::file_state::{damaged_log, refuse_emptied};
use super::sqlite::location::Location;
pub use super::sqlite::location::{beside, free_space};
use crate::config::DatabaseKind;
use crate::routing::Secret;

/// The number of faults of a database that are reported.
const MOST_FAULTS: usize = 5;

/// A database opened for inspection.
pub struct Inspection {
    connection: Box<dyn Connection>,
    /// `None` for a database on a server.
    file: Option<OpenFile>,
}

struct OpenFile {
    path: PathBuf,
    /// Whether it is read as a file that does not change.
    is_at_rest: bool,
    interrupt: InterruptHandle,
}

/// How far the schema of a database has come.
pub struct SchemaVersion {
    /// The last step that was applied to the database.
    pub applied: i64,
    /// The last step that this program knows.
    pub known: i64,
}

/// The result of checking a whole database.
#[derive(Debug, PartialEq, Eq)]
pub enum Integrity {
    Sound,
    /// Descriptions of the first few faults.
    Broken(Vec<String>),
    /// The time limit was reached first.
    Unfinished,
}

/// A site in use, with what is needed to reach it.
pub struct SiteAddress {
    pub name: String,
    pub url: String,
    /// The site's own outbound proxy.
    pub proxy: Option<Secret>,
    pub use_system_proxy: bool,
}

/// Where a start with certain options finds its database.
pub enum DatabaseLocation {
    File(PathBuf),
    Memory,
    /// The address of a server, with its secrets masked.
    Server(String),
}

/// Returns where a start with these options finds its database.
pub fn whereabouts(options: &StoreOptions) -> DatabaseLocation {
    if options.kind != DatabaseKind::Sqlite {
        return DatabaseLocation::Server(masked(&options.db_url));
    }
    match Location::parse(&options.db_url, &options.data_dir) {
        Location::File(path) => DatabaseLocation::File(path),
        Location::Memory => DatabaseLocation::Memory,
    }
}

/// Returns the options for the database that a start with these options uses: the one that an operator saved in the
/// settings of the file that they name, or that file. Servers are not asked. Only reads.
///
/// # Errors
/// When the database that these options name cannot be read, or the secret does not open what is saved in it.
pub fn in_use(options: StoreOptions) -> Result<StoreOptions, OpenError> {
    let mut inspection = match whereabouts(&options) {
        DatabaseLocation::File(path) if path.is_file() => Inspection::open(&path)?,
        DatabaseLocation::File(_) | DatabaseLocation::Memory | DatabaseLocation::Server(_) => {
            return Ok(options);
        }
    };
    // The keys are needed only to read an address.
    if !inspection.is_made()? || !inspection.has_place()? {
        return Ok(options);
    }
    let sealer = inspection.sealer(&options)?;
    let saved = inspection.place(&options, &sealer)?;
    Ok(match saved {
        Some(saved) => saved.options(options),
        None => options,
    })
}

impl Inspection {
    /// Opens an existing file.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let is_at_rest = !beside(path, "-wal").exists();
        let connection = if is_at_rest {
            rusqlite::Connection::open_with_flags(as_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?
        } else {
            rusqlite::Connection::open_with_flags(path, flags)?
        };
        connection.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA query_only = ON;")?;
        let file =
            OpenFile { path: path.to_owned(), is_at_rest, interrupt: connection.get_interrupt_handle() };
        Ok(Self { connection: Box::new(Sqlite::from(connection)), file: Some(file) })
    }

    /// Connects to a database on a server. Blocks.
    pub fn of_server(options: &StoreOptions) -> Result<Self, OpenError> {
        let connection = drivers::connect(options.kind, &options.db_url, &options.tls)?;
        Ok(Self { connection, file: None })
    }

    /// Whether a start has created the tables.
    pub fn is_made(&mut self) -> Result<bool> {
        Ok(self.connection.tables()?.iter().any(|name| name == "schema_migrations"))
    }

    pub fn schema_version(&mut self) -> Result<SchemaVersion> {
        let sql = "SELECT COALESCE(MAX(version), 0) FROM schema_migrations";
        let rows = self.connection.select(sql, &[])?;
        let applied = rows.first().map_or(Ok(0), |row| row.fields().int())?;
        Ok(SchemaVersion { applied, known: migrate::newest() })
    }

    /// Returns what is wrong with the schema, in words; nothing if the next start can use it.
    pub fn schema_faults(&mut self) -> Result<Vec<String>> {
        migrate::faults(&mut *self.connection)
    }

    /// Checks every page of a file for at most this long; a database on a server is reported as sound.
    pub fn integrity(&mut self, limit: Duration) -> Result<Integrity> {
        let Self { connection, file: Some(file) } = self else { return Ok(Integrity::Sound) };
        let (done, ended) = mpsc::channel::<()>();
        let interrupt = &file.interrupt;
        let (faults, is_late) = thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let is_late = matches!(ended.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout));
                if is_late {
                    interrupt.interrupt();
                }
                is_late
            });
            let faults = faults(&mut **connection);
            drop(done);
            (faults, watch.join().unwrap_or(false))
        });
        match faults {
            Ok(faults) if faults.is_empty() => Ok(Integrity::Sound),
            Ok(faults) => Ok(Integrity::Broken(faults)),
            Err(_) if is_late => Ok(Integrity::Unfinished),
            Err(error) => Err(error),
        }
    }

    /// Opens the keys that seal credentials, with the configured secret or a former one.
    pub fn sealer(&mut self, options: &StoreOptions) -> Result<Sealer, OpenError> {
        Derivation::for_stored(&mut *self.connection, &options.secret)?.read(&mut *self.connection, options)
    }

    /// Returns the sites that are in use.
    pub fn sites(&mut self, sealer: Option<&Sealer>) -> Result<Vec<SiteAddress>> {
        let sql =
            "SELECT name, url, proxy_url, use_system_proxy FROM sites WHERE status = 'active' ORDER BY id";
        let rows = self.connection.select(sql, &[])?;
        let site = |row: &Row| {
            let mut row = row.fields();
            let (name, url, proxy) = (row.text()?, row.text()?, row.opt_text()?);
            let proxy = proxy.zip(sealer).map(|(stored, sealer)| sealer.open("sites", "proxy_url", &stored));
            Ok(SiteAddress { name, url, proxy: proxy.transpose()?, use_system_proxy: row.bool()? })
        };
        rows.iter().map(site).collect()
    }

    /// Returns a saved setting as JSON.
    pub fn setting(&mut self, name: &str, sealer: &Sealer) -> Result<Option<String>> {
        let rows = self.connection.select("SELECT value FROM settings WHERE name = ?", &[name.into()])?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(sealer.open("settings", name, row.fields().str()?)?.expose().to_owned()))
    }

    /// Whether an operator saved a database for the next start.
    fn has_place(&mut self) -> Result<bool> {
        let sql = "SELECT 1 FROM settings WHERE name = ?";
        Ok(!self.connection.select(sql, &[NEXT_DATABASE[0].into()])?.is_empty())
    }

    /// Returns the database that an operator saved for the next start.
    pub fn place(&mut self, options: &StoreOptions, sealer: &Sealer) -> Result<Option<DatabaseAddress>> {
        let mut saved = [const { None }; NEXT_DATABASE.len()];
        for (value, name) in saved.iter_mut().zip(NEXT_DATABASE) {
            *value = self.setting(name, sealer)?;
        }
        Ok(next_database::parse(saved, &options.data_dir, &options.tls))
    }

    /// Whether a process has opened the file since it was opened here as immutable: what was read may then be
    /// half of a change.
    pub fn is_outdated(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_at_rest && beside(&file.path, "-wal").exists())
    }
}

/// Returns the faults that SQLite finds.
fn faults(connection: &mut dyn Connection) -> Result<Vec<String>> {
    let rows = connection.select(&format!("PRAGMA integrity_check({MOST_FAULTS})"), &[])?;
    let mut faults = rows.iter().map(|row| row.fields().text()).collect::<Result<Vec<_>>>()?;
    faults.retain(|line| line != "ok");
    let rows = connection.select("PRAGMA foreign_key_check", &[])?;
    for row in rows.iter().take(MOST_FAULTS.saturating_sub(faults.len())) {
        faults.push(format!("a row of {} refers to a row that does not exist", row.fields().str()?));
    }
    Ok(faults)
}

/// Returns the file's URI, marked as immutable.
fn as_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(*byte as char)
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_name_is_one_address() {
        assert_eq!(as_uri(Path::new("/a b/c?d#e%.db")), "file:/a%20b/c%3Fd%23e%25.db?immutable=1");
        assert_eq!(as_uri(Path::new("./data/x.db")), "file:./data/x.db?immutable=1");
    }
}
