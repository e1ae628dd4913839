//! Detects whether a database that looks new has been in use.
//!
//! A first start begins with an empty file. An interrupted copy, a full disk or a mistake leaves an empty file, too. SQLite
//! takes it for a new database: it deletes the write-ahead log beside it, or silently ignores one without a valid header. So a
//! database in use has a mark in its lock file. The start is refused if that mark, or a log beside the file, shows that there
//! was more. A log without a committed transaction shows nothing: a killed first start leaves one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::location::{LOCK, Location, beside};
use crate::store::error::OpenError;

/// The mark in the lock file.
const IN_USE: &[u8] = b"in use\n";
/// The first bytes of a write-ahead log, for either byte order of its checksums (SQLite's file format).
const WAL_MAGIC: [[u8; 4]; 2] = [[0x37, 0x7f, 0x06, 0x82], [0x37, 0x7f, 0x06, 0x83]];

/// The sizes of the header of a write-ahead log, and of the header of each page in it.
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The content of a write-ahead log, as far as it matters to a start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    /// The log is missing, or no transaction in it is committed.
    Nothing,
    Committed,
    /// SQLite will ignore the log.
    Damaged,
}

/// The state of a database, read from its files before it is opened.
pub(in crate::store) struct FileState {
    path: PathBuf,
    /// The reason why the database cannot be new.
    why: Option<String>,
    /// A write-ahead log that SQLite will ignore.
    damaged: Option<PathBuf>,
}

/// Examines the files of a database. Refuses an empty one that has been in use.
pub(in crate::store) fn find(location: &Location, lock: Option<&File>) -> Result<FileState, OpenError> {
    let (Location::File(path), Some(lock)) = (location, lock) else {
        return Ok(FileState { path: PathBuf::new(), why: None, damaged: None });
    };
    let trace = FileState::read(path, lock)?;
    if location.is_empty() {
        trace.refuse_if_any()?;
    }
    Ok(trace)
}

/// Refuses an empty or missing database that has been in use, as a start does; changes nothing.
pub fn refuse_emptied(path: &Path) -> Result<(), OpenError> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let state = match File::open(beside(&real, LOCK)) {
        Ok(lock) => FileState::read(path, lock),
        Err(_) => FileState::read(path, io::empty()),
    };
    state?.refuse_if_any()
}

/// Returns the write-ahead log of a database if it is damaged, so that a start ignores what is in it.
pub fn damaged_log(path: &Path) -> Option<PathBuf> {
    let wal = beside(path, "-wal");
    let log = File::open(&wal).and_then(examine);
    log.is_ok_and(|log| log == Log::Damaged).then_some(wal)
}

/// Writes the mark that the database is in use.
pub(in crate::store) fn leave(lock: Option<&File>) -> std::io::Result<()> {
    let Some(mut lock) = lock else { return Ok(()) };
    if lock.metadata()?.len() == 0 {
        lock.write_all(IN_USE)?;
    }
    Ok(())
}

impl FileState {
    /// Reads the mark in the lock file, and the write-ahead log.
    fn read(path: &Path, lock: impl Read) -> Result<Self, OpenError> {
        let unusable =
            |error: std::io::Error| OpenError::Unusable(format!("cannot read {}: {error}", path.display()));
        let mut word = Vec::new();
        lock.take(64).read_to_end(&mut word).map_err(unusable)?;
        let wal = beside(path, "-wal");
        let log = match File::open(&wal) {
            Ok(file) => examine(file).map_err(unusable)?,
            Err(_) => Log::Nothing,
        };
        let log_found = |state| format!("there is {state} write-ahead log beside it, {}", wal.display());
        let why = match log {
            Log::Damaged => Some(log_found("a damaged")),
            Log::Committed => Some(log_found("a")),
            Log::Nothing => (word == IN_USE).then(|| "it was in use before".to_owned()),
        };
        Ok(Self { path: path.to_owned(), why, damaged: (log == Log::Damaged).then_some(wal) })
    }

    /// Refuses a database without any table that has been in use.
    pub fn check(&self, connection: &Connection) -> Result<(), OpenError> {
        let unusable = |error: rusqlite::Error| {
            OpenError::Unusable(format!("cannot read the database {}: {error}", self.path.display()))
        };
        let tables: i64 = connection
            .query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get(0))
            .map_err(unusable)?;
        if tables == 0 && self.why.is_some() {
            // Closing would otherwise delete the log.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(unusable)?;
            return self.refuse_if_any();
        }
        if let Some(wal) = &self.damaged {
            log::error!(
                "the write-ahead log {} is damaged: changes in it that were not yet in the database are lost",
                wal.display()
            );
        }
        Ok(())
    }

    fn refuse_if_any(&self) -> Result<(), OpenError> {
        let Some(why) = &self.why else { return Ok(()) };
        let path = self.path.display();
        Err(OpenError::Unusable(format!(
            "the database {path} is empty, but {why}: nothing was started. Put a backup in its place; or, to begin anew, remove it with {path}-wal and {path}.lock"
        )))
    }
}

/// Looks for a committed transaction in a write-ahead log. The header has the size of a page at byte 8 and two salts at 16;
/// the header of a page has at byte 4 the size of the database after a commit, else 0, and at 8 the salts again
/// (SQLite's file format, section 4.1).
fn examine(mut wal: File) -> io::Result<Log> {
    let mut header = Vec::new();
    (&mut wal).take(WAL_HEADER as u64).read_to_end(&mut header)?;
    if header.is_empty() {
        return Ok(Log::Nothing);
    }
    if !WAL_MAGIC.iter().any(|magic| header.starts_with(magic)) {
        return Ok(Log::Damaged);
    }
    let Ok(header) = <[u8; WAL_HEADER]>::try_from(header) else { return Ok(Log::Nothing) };
    let page_size = i64::from(u32::from_be_bytes([header[8], header[9], header[10], header[11]]));
    let mut frame = [0; FRAME_HEADER];
    while let Ok(()) = wal.read_exact(&mut frame) {
        if frame[8..16] != header[16..24] {
            break;
        }
        if frame[4..8] != [0; 4] {
            return Ok(Log::Committed);
        }
        wal.seek(SeekFrom::Current(page_size))?;
    }
    Ok(Log::Nothing)
}
