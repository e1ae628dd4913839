//! A look at a database that changes nothing in it, while a process serves from it or none does.
//!
//! The connection is read-only. Where no write-ahead log lies beside the file, nobody has it open, and the file is read as it
//! is, so that not even the files that SQLite shares between processes come into being.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::error::{OpenError, Result};
use super::migrate;
use super::options::StoreOptions;
use super::seal::Sealer;
use super::seal::keyring::Derivation;
use super::sqlite::connection::Sqlite;
use super::sqlite::location::Location;
use crate::routing::Secret;

/// How many faults of a database are told.
const MOST_FAULTS: usize = 5;

/// A database that is looked at.
pub struct Inspection {
    path: PathBuf,
    connection: Sqlite,
    /// It is read as a file that does not change.
    is_at_rest: bool,
}

/// What the check of a whole database found.
#[derive(Debug, PartialEq, Eq)]
pub enum Integrity {
    Sound,
    /// What is broken, the first few faults.
    Broken(Vec<String>),
    /// The time for it was over first.
    Unfinished,
}

/// A site that is in use, as far as it is to be reached.
pub struct SiteAddress {
    pub name: String,
    pub url: String,
    /// Its own outbound proxy.
    pub proxy: Option<Secret>,
    pub use_system_proxy: bool,
}

/// The file that a start with these options opens; `None` for a database in memory.
pub fn database_file(options: &StoreOptions) -> Option<PathBuf> {
    match Location::parse(&options.db_url, &options.data_dir) {
        Location::File(path) => Some(path),
        Location::Memory => None,
    }
}

/// The file of this ending beside a database file.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

impl Inspection {
    /// Opens a file that is there.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let is_at_rest = !beside(path, "-wal").exists();
        let connection = if is_at_rest {
            Connection::open_with_flags(as_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?
        } else {
            Connection::open_with_flags(path, flags)?
        };
        connection.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA query_only = ON;")?;
        Ok(Self { path: path.to_owned(), connection: connection.into(), is_at_rest })
    }

    /// The last step of the schema that was taken, and the last one that this program knows.
    pub fn schema(&self) -> Result<(i64, i64)> {
        let sql = "SELECT COALESCE(MAX(version), 0) FROM schema_migrations";
        Ok((self.connection.raw().query_row(sql, [], |row| row.get(0))?, migrate::newest()))
    }

    /// Reads every page, for at most this long.
    pub fn integrity(&self, limit: Duration) -> Result<Integrity> {
        let interrupt = self.connection.raw().get_interrupt_handle();
        let (done, ended) = mpsc::channel::<()>();
        let watch = thread::spawn(move || {
            let is_late = matches!(ended.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout));
            if is_late {
                interrupt.interrupt();
            }
            is_late
        });
        let faults = self.faults();
        drop(done);
        let is_late = watch.join().unwrap_or(false);
        match faults {
            Ok(faults) if faults.is_empty() => Ok(Integrity::Sound),
            Ok(faults) => Ok(Integrity::Broken(faults)),
            Err(_) if is_late => Ok(Integrity::Unfinished),
            Err(error) => Err(error),
        }
    }

    fn faults(&self) -> Result<Vec<String>> {
        let mut check = self.connection.raw().prepare(&format!("PRAGMA integrity_check({MOST_FAULTS})"))?;
        let lines = check.query_map([], |row| row.get::<_, String>(0))?;
        let mut faults: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
        faults.retain(|line| line != "ok");
        let mut check = self.connection.raw().prepare("PRAGMA foreign_key_check")?;
        let tables = check.query_map([], |row| row.get::<_, String>(0))?;
        for table in tables.take(MOST_FAULTS.saturating_sub(faults.len())) {
            faults.push(format!("a row of {} refers to a missing one", table?));
        }
        Ok(faults)
    }

    /// Opens the keys that seal credentials, with the secret of the configuration or one before it.
    pub fn sealer(&mut self, options: &StoreOptions) -> Result<Sealer, OpenError> {
        Derivation::for_stored(&mut self.connection, &options.secret)?.read(&mut self.connection, options)
    }

    /// The sites that are in use.
    pub fn sites(&self, sealer: Option<&Sealer>) -> Result<Vec<SiteAddress>> {
        let sql =
            "SELECT name, url, proxy_url, use_system_proxy FROM sites WHERE status = 'active' ORDER BY id";
        let mut query = self.connection.raw().prepare(sql)?;
        let rows = query.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?, row.get(3)?))
        })?;
        let site = |row: rusqlite::Result<(String, String, Option<String>, bool)>| {
            let (name, url, proxy, use_system_proxy) = row?;
            let proxy = proxy.zip(sealer).map(|(stored, sealer)| sealer.open("sites", "proxy_url", &stored));
            Ok(SiteAddress { name, url, proxy: proxy.transpose()?, use_system_proxy })
        };
        rows.map(site).collect()
    }

    /// A saved setting that is a sealed text.
    pub fn sealed_setting(&self, name: &str, sealer: &Sealer) -> Result<Option<String>> {
        let sql = "SELECT value FROM settings WHERE name = ?";
        let stored: Option<String> =
            self.connection.raw().query_row(sql, [name], |row| row.get(0)).optional()?;
        let Some(stored) = stored else { return Ok(None) };
        let json = sealer.open("settings", name, &stored)?;
        Ok(serde_json::from_str(json.expose()).unwrap_or(None))
    }

    /// Whether a process has opened the file since, which was read as one that does not change: what was read
    /// may be half of a change.
    pub fn is_outdated(&self) -> bool {
        self.is_at_rest && beside(&self.path, "-wal").exists()
    }
}

/// The file by an address that says it does not change.
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
