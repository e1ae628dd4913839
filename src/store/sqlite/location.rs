//! The location of the SQLite database, and the lock file beside it.
//!
//! The lock keeps a second process away: two writers, each with its own snapshot in memory, would serve stale
//! routes without noticing.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use crate::idle_thread::yield_thread;
use crate::store::error::{OpenError, Result};
use crate::store::sql::LOWER_ALL;

/// The number of steps of SQLite's virtual machine after which a statement gives way: some tens of
/// microseconds.
const TURN: i32 = 1000;

/// The ending of the name of a database that is being restored.
pub(in crate::store) const RESTORING: &str = ".restoring";

/// The ending of the name of a database's lock file.
pub(super) const LOCK: &str = ".lock";

/// The location of the SQLite database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Location {
    File(PathBuf),
    /// In memory: gone when the process ends; queries go to the writer, which has the only connection.
    Memory,
}

impl Location {
    /// Parses DB_URL: empty for the file in the data directory, `:memory:`, a path, or a path after `sqlite://`
    /// or `file://`.
    pub(in crate::store) fn parse(url: &str, data_dir: &Path) -> Self {
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

    /// Whether there is nothing in the database, not even its header.
    pub(in crate::store) fn is_empty(&self) -> bool {
        match self {
            Self::Memory => true,
            Self::File(path) => path.metadata().is_ok_and(|file| file.len() == 0),
        }
    }

    pub(in crate::store) fn connect(&self) -> rusqlite::Result<Connection> {
        let mut connection = match self {
            Self::Memory => Connection::open_in_memory(),
            Self::File(path) => Connection::open_with_flags(
                path,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            ),
        }?;
        give_way_within(&mut connection)?;
        add_lower_all(&connection)?;
        Ok(connection)
    }
}

/// Adds the function that lowers all letters of a text.
fn add_lower_all(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(LOWER_ALL, 1, flags, |context| {
        let text = context.get_raw(0).as_bytes_or_null()?;
        Ok(text.map(|text| lower(&String::from_utf8_lossy(text))))
    })
}

/// Lowers each letter by itself: `str::to_lowercase` writes a sigma at the end of a word in another way than within it.
fn lower(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Makes the connection's thread give way to request threads even in the middle of a statement.
pub(in crate::store) fn give_way_within(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.progress_handler(
        TURN,
        Some(|| {
            yield_thread();
            false
        }),
    )
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Memory => f.write_str("in memory"),
        }
    }
}

/// Locks the database, and creates it if there is none.
pub(in crate::store) fn lock(location: &Location) -> Result<Option<File>, OpenError> {
    let Location::File(path) = location else { return Ok(None) };
    let lock = lock_path(path)?;
    refuse_unfinished(path)?;
    private(path).map_err(|error| unusable(path, &error))?;
    Ok(Some(lock))
}

/// Creates the directory (mode 0700) and locks the path of a database, whether or not it exists. Does not wait: a
/// database that another process holds is an error.
pub(in crate::store) fn lock_path(path: &Path) -> Result<File, OpenError> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| unusable(dir, &error))?;
    }
    // A database that is reached through a link is still one database.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let lock_path = beside(&real, LOCK);
    let lock = private(&lock_path).map_err(|error| unusable(&lock_path, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(format!(
            "another Switchyard process has {} open; an SQLite database serves one process. \
             Stop that process, or give this one a DATA_DIR of its own",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(unusable(&lock_path, &error)),
    }
}

/// Refuses to create a database whose restore was interrupted: the service would be empty.
pub fn refuse_unfinished(path: &Path) -> Result<(), OpenError> {
    let unfinished = beside(path, RESTORING);
    if path.exists() || !unfinished.exists() {
        return Ok(());
    }
    Err(OpenError::Unusable(format!(
        "the restore of the database {} was interrupted: run `switchyard restore` again; or, to begin with an empty \
         database, delete {}",
        path.display(),
        unfinished.display()
    )))
}

/// Returns the path of the file beside a database file that has this ending.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

/// Returns the space, in bytes, that is left to this user on the disk of a directory.
pub fn free_space(directory: &Path) -> std::io::Result<u64> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Opens a file that only its owner can read, and creates it if it is missing.
fn private(path: &Path) -> std::io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    give_to_owner_of_directory(&file, path);
    Ok(file)
}

/// Gives an empty file that root has made to the owner of its directory: an operator may run a command as root for a service
/// that has a user of its own. SQLite does the same with the files that it makes beside a database. In a container, root may
/// lack the right to; the file then stays root's. So does one that a link leads to, which that owner may have laid.
pub(in crate::store) fn give_to_owner_of_directory(file: &File, path: &Path) {
    const ROOT: u32 = 0;
    let directory = path.parent().and_then(|directory| directory.metadata().ok());
    let (Some(directory), Ok(about), Ok(entry)) = (directory, file.metadata(), path.symlink_metadata())
    else {
        return;
    };
    let is_entry = entry.is_file() && (entry.dev(), entry.ino()) == (about.dev(), about.ino());
    let is_new = about.len() == 0 && about.nlink() == 1 && about.uid() == ROOT;
    if is_entry && is_new && directory.uid() != ROOT {
        let _ = fchown(file, Some(directory.uid()), Some(directory.gid()));
    }
}

fn unusable(what: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Unusable(format!("cannot use {}: {error}", what.display()))
}

/// Makes every connection of this process use this directory, if it exists, for data that does not fit in
/// memory: a large sort, or a database that is rewritten. The usual directories for that are missing in a
/// container with nothing but its data, and are in memory themselves on many machines. The files are unlinked
/// as soon as they are open.
pub(in crate::store) fn keep_temporary_files_in(dir: &Path) {
    let Some(dir) = std::path::absolute(dir).ok().filter(|dir| dir.is_dir()) else { return };
    let Some(dir) = dir.to_str() else { return };
    let kept = Connection::open_in_memory()
        .and_then(|connection| connection.pragma_update(None, "temp_store_directory", dir));
    if let Err(error) = kept {
        log::warn!("SQLite cannot be told to keep its temporary files in {dir}: {error}");
    }
}

/// Syncs to disk what was committed without waiting for it.
pub(in crate::store) fn sync_wal(location: &Location) -> std::io::Result<()> {
    let Location::File(path) = location else { return Ok(()) };
    // Opened each time: this is cheap, and there is no need to know when SQLite starts another file.
    File::open(beside(path, "-wal"))?.sync_data()
}
