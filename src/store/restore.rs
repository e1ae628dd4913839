//! Restoring a database where there is none: it has its name only when it is complete.
//!
//! ```text
//! switchyard.db.restoring: copied or imported, opened once, closed ── synced ──▶ renamed to switchyard.db
//! ```
//!
//! A restore that was interrupted leaves a file with the first name. The next restore begins anew, and a start is
//! refused until then.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::copies::{self, check};
use super::error::OpenError;
use super::options::StoreOptions;
use super::relocate::NEXT_DATABASE;
pub use super::sqlite::location::refuse_unfinished;
use super::sqlite::location::{self, Location, RESTORING, beside};
use crate::unfinished;

/// A database that is being restored.
pub struct Restore {
    /// Its path when it is complete.
    database: PathBuf,
    /// Its path until then.
    partial: PathBuf,
    /// Keeps a start and another restore away.
    _lock: File,
}

impl Restore {
    /// Locks the place of the database, and removes what an interrupted restore left there.
    ///
    /// # Errors
    /// When there already is something, or another process is restoring.
    pub fn begin(options: &StoreOptions) -> Result<Self, OpenError> {
        let database = copies::file_of(options)?;
        let lock = location::lock_path(&database)?;
        // A service may have begun since the caller looked.
        refuse_used(options)?;
        let partial = beside(&database, RESTORING);
        remove_partial(&partial);
        unfinished::remove_left_directories(&options.data_dir, unfinished::IMPORT);
        Ok(Self { database, partial, _lock: lock })
    }

    /// Returns the address of the database until it is complete.
    ///
    /// # Errors
    /// When its path has characters outside Unicode.
    pub fn address(&self) -> Result<String, OpenError> {
        let path = self.partial.to_str().map(|path| format!("sqlite://{path}"));
        path.ok_or_else(|| self.unusable(&"the path has characters outside Unicode"))
    }

    /// Copies a database, without the address of another one in its settings: a start would use that one instead.
    /// Returns whether there was such an address. Whether the keys of the copy open is known when it is next opened.
    ///
    /// # Errors
    /// When the copy is not intact, or the disk is full.
    pub fn copy(&self, from: &Path) -> Result<bool, OpenError> {
        let mut source =
            File::open(from).map_err(|error| OpenError::Unusable(format!("{}: {error}", from.display())))?;
        let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.partial);
        target
            .and_then(|mut target| {
                location::give_to_owner_of_directory(&target, &self.partial);
                io::copy(&mut source, &mut target)
            })
            .map_err(|error| self.unusable(&error))?;
        check(&self.partial)?;
        let connection = Location::File(self.partial.clone()).connect();
        let deleted = connection.and_then(|connection| {
            connection.execute("DELETE FROM settings WHERE name IN (?1, ?2, ?3)", NEXT_DATABASE)
        });
        Ok(deleted.map_err(|error| self.unusable(&error))? > 0)
    }

    /// Gives the closed database its name, once all of it is on disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<(), OpenError> {
        let Self { database, partial, .. } = &self;
        let connection = Location::File(partial.clone()).connect();
        let is_busy = connection.and_then(|connection| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        });
        if is_busy.map_err(|error| self.unusable(&error))? {
            return Err(self.unusable(&"it is still being read"));
        }
        let named = File::open(partial).and_then(|file| file.sync_all()).and_then(|()| {
            fs::rename(partial, database)?;
            // This lock file has the mark of a database in use.
            fs::rename(beside(partial, ".lock"), beside(database, ".lock"))?;
            let dir = database.parent().filter(|dir| !dir.as_os_str().is_empty());
            File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
        });
        remove_partial(partial);
        named.map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, why: &dyn std::fmt::Display) -> OpenError {
        OpenError::Unusable(format!("cannot write {}: {why}", self.database.display()))
    }
}

/// Removes a database that is not completely restored, and the lock that the restore made.
pub fn remove(options: &StoreOptions) {
    let Ok(database) = copies::file_of(options) else { return };
    remove_partial(&beside(&database, RESTORING));
    if !database.exists() {
        let _ = fs::remove_file(beside(&database, ".lock"));
    }
}

fn remove_partial(partial: &Path) {
    for ending in ["-wal", "-shm", "-journal", ".lock", ""] {
        let _ = fs::remove_file(beside(partial, ending));
    }
}

/// Refuses a data directory that is not empty: restored data would be mixed with its content or replace it. What an
/// interrupted restore left does not count.
///
/// # Errors
/// When there is something; the message names it.
pub fn refuse_used(options: &StoreOptions) -> Result<(), OpenError> {
    let database = copies::file_of(options)?;
    let mut used = [&database].into_iter().find(|path| path.exists()).cloned();
    let entries = fs::read_dir(&options.data_dir).into_iter().flatten().flatten();
    let mut entries = entries.map(|entry| entry.path()).filter(|path| !is_left_over(path, &database));
    used = used.or_else(|| entries.next());
    match used {
        None => Ok(()),
        Some(path) => Err(OpenError::Unusable(format!(
            "{} exists already: a backup is restored only into an empty data directory. Move the content of \
             {} away, or set DATA_DIR to another directory",
            path.display(),
            options.data_dir.display()
        ))),
    }
}

/// Whether an interrupted restore of this database may have left this file, or the file system always has it.
fn is_left_over(path: &Path, database: &Path) -> bool {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let found = name(path);
    let is_lock = found == name(&beside(database, ".lock"));
    // The root directory of a mounted file system contains the first.
    found == "lost+found"
        || found.starts_with(&name(&beside(database, RESTORING)))
        || found.starts_with(unfinished::IMPORT)
        // The lock of a database that has been in use is not empty.
        || is_lock && path.metadata().is_ok_and(|file| file.len() == 0)
}
