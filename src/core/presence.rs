//! A file of this process in the data directory, locked while the process lives: it shows the next start which
//! processes of this directory are dead.
//!
//! The database cannot tell a process that was killed from a slow one: for half a minute its leases stay taken and it
//! counts as an instance. A lock of the file system ends with its process, however that ends, so a process started in
//! its place need not wait.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::{self, Store, instances, leases};

/// The folder of these files, below the data directory.
const FOLDER: &str = "instances";

/// The file of this process, named by the id that leases and the list of instances have.
#[derive(Debug)]
pub(super) struct Presence {
    path: PathBuf,
    /// Locked until the process ends.
    _lock: File,
}

// === impl Presence ===

impl Presence {
    /// Creates and locks the file of this instance; `None` if the directory accepts no files or no locks: then a later
    /// process waits until the leases expire.
    pub fn of(data_dir: &Path, id: &str) -> Option<Self> {
        match Self::new(data_dir, id) {
            Ok(presence) => Some(presence),
            Err(error) => {
                log::info!(
                    "cannot lock a file in {}, so jobs will wait half a minute if this process is killed: \
                     {error}",
                    data_dir.display()
                );
                None
            }
        }
    }

    fn new(data_dir: &Path, id: &str) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(id);
        let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        lock.try_lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Removes the file: this process leaves nothing behind for a later one to release.
    pub fn end(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            log::debug!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Releases the leases of dead processes of this data directory, and removes them from the list of instances.
pub(super) async fn release_dead_processes(store: &Store, data_dir: &Path) -> store::Result<()> {
    for dead in dead_processes(data_dir) {
        leases::give_back(store, &dead.id).await?;
        instances::leave(store, &dead.id).await?;
        if let Err(error) = std::fs::remove_file(&dead.path) {
            log::debug!("cannot remove {}: {error}", dead.path.display());
        }
    }
    Ok(())
}

/// A process that ended without removing its file.
struct DeadProcess {
    id: String,
    path: PathBuf,
    /// The file, locked so that nobody else takes it.
    _lock: File,
}

fn dead_processes(data_dir: &Path) -> Vec<DeadProcess> {
    let Ok(folder) = std::fs::read_dir(data_dir.join(FOLDER)) else { return Vec::new() };
    let found = folder.flatten().filter_map(|entry| {
        let lock = File::open(entry.path()).ok()?;
        lock.try_lock().ok()?;
        let id = entry.file_name().into_string().ok()?;
        Some(DeadProcess { id, path: entry.path(), _lock: lock })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_is_not_taken_for_dead_and_who_has_left_is_not_found() {
        let dir = std::env::temp_dir().join(format!("switchyard-presence-{}", std::process::id()));
        // A test run that was killed leaves its directory behind, and process ids are reused.
        let _ = std::fs::remove_dir_all(&dir);
        let ids = || dead_processes(&dir).into_iter().map(|dead| dead.id).collect::<Vec<_>>();
        let living = Presence::of(&dir, "living").expect("a file");
        let killed = Presence::of(&dir, "killed").expect("a file");
        let left = Presence::of(&dir, "left").expect("a file");
        assert!(ids().is_empty());
        left.end();
        drop((killed, left));
        assert_eq!(ids(), ["killed"]);
        living.end();
        let _ = std::fs::remove_dir_all(dir);
    }
}
