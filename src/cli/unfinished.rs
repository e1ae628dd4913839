//! Unfinished files and directories of commands. Each is locked while its command runs, so that a later command knows those
//! that a killed one has left, and deletes them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::interruption::{OnInterruption, remove_on_interruption};
use crate::uuid;

/// The beginning of the name of a directory in which a dry run works.
pub const DRY_RUN: &str = "switchyard-dry-run-";
/// The ending of the name of a file that is being written.
const PART: &str = ".switchyard-part";

/// A file that is being written beside its target. Unless it is finished, it is removed when this is dropped and when the
/// command is interrupted.
pub struct PartialFile {
    path: PathBuf,
    target: PathBuf,
    _lock: Option<File>,
    _interruption: OnInterruption,
}

impl PartialFile {
    /// Names a file that can be renamed to its target at once, and deletes those that killed commands have left.
    pub fn of(target: &Path) -> Self {
        remove_parts_of(target);
        let path = target.with_file_name(format!(".{}.{}{PART}", name(target), uuid::random_number()));
        let interruption = remove_on_interruption(path.clone());
        Self { path, target: target.to_owned(), _lock: None, _interruption: interruption }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file, readable by nobody else.
    pub fn create(&mut self) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        self._lock = lock(&self.path);
        Ok(file)
    }

    /// Gives the file the name of its target.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks a file or directory for as long as the result is kept. A file system without locks gives none: what is left
/// there stays.
pub fn lock(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| file.try_lock().is_ok())
}

/// Deletes what killed commands with such a target have left beside it.
fn remove_parts_of(target: &Path) {
    let is_copy = |name: &str| name.starts_with("switchyard-") && name.ends_with(".db");
    let target_name = name(target);
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in left_in(directory.unwrap_or(Path::new("."))) {
        let part = name(&path);
        let of = part.strip_prefix('.').and_then(|part| part.strip_suffix(PART)?.rsplit_once('.'));
        // Each copy of the database has a name of its own.
        let is_such = of.is_some_and(|(of, _)| of == target_name || is_copy(of) && is_copy(&target_name));
        if is_such && let Some(_lock) = lock(&path) {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(path.with_file_name(format!("{part}-journal")));
        }
    }
}

/// Deletes the directories that killed dry runs have left in this one.
pub fn remove_dry_runs(directory: &Path) {
    for path in left_in(directory) {
        if name(&path).starts_with(DRY_RUN)
            && let Some(_lock) = lock(&path)
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn left_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
