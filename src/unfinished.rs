//! Files that are being written, and directories of temporary files. Each is locked while its process lives, so that another
//! process can delete those of a killed one. A file system without locks keeps them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::uuid;

/// The beginning of the name of a directory with the rows or the copied database of an import.
pub const IMPORT: &str = ".import-";
/// The beginning of the name of a directory in which a dry run works.
pub const DRY_RUN: &str = "switchyard-dry-run-";
/// The ending of the name of a file that is being written.
const PART: &str = ".switchyard-part";

/// Distinguishes this process from all others, also from those in other containers.
static PROCESS: LazyLock<String> = LazyLock::new(|| format!("{:016x}", uuid::random_number()));

/// A file that is being written beside its target. Unless it is finished, it is removed when this is dropped.
pub struct PartialFile {
    path: PathBuf,
    target: PathBuf,
    _lock: Option<File>,
}

/// A directory of temporary files, which only its owner can read. It is removed when this is dropped.
pub struct WorkDirectory {
    path: PathBuf,
    _lock: Option<File>,
}

// === impl PartialFile ===

impl PartialFile {
    /// Names a file that can be renamed to its target at once.
    pub fn of(target: &Path) -> Self {
        let path = target.with_file_name(format!(".{}.{}{PART}", name(target), uuid::random_number()));
        Self { path, target: target.to_owned(), _lock: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file, readable by nobody else.
    pub fn create(&mut self) -> io::Result<File> {
        loop {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
            self._lock = lock_new(&self.path);
            if self.path.exists() {
                return Ok(file);
            }
        }
    }

    /// Gives the file the name of its target, which is replaced if it exists.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }

    /// Gives the file this name in the directory of its target.
    ///
    /// # Errors
    /// With [`io::ErrorKind::AlreadyExists`] if another file has the name; the file is kept.
    pub fn name_new(&self, target: &Path) -> io::Result<()> {
        // Of two processes, only one creates the name. Not every file system has links, which need no empty file.
        File::create_new(target)?;
        fs::rename(&self.path, target).inspect_err(|_| drop(fs::remove_file(target)))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

// === impl WorkDirectory ===

impl WorkDirectory {
    /// Creates a directory in this one. `kind` begins its name.
    pub fn create(parent: &Path, kind: &str) -> io::Result<Self> {
        let path = parent.join(format!("{kind}{}-{:016x}", *PROCESS, uuid::random_number()));
        loop {
            DirBuilder::new().mode(0o700).create(&path)?;
            let lock = lock_new(&path);
            if path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            log::warn!("{} could not be removed: {error}", self.path.display());
        }
    }
}

/// Deletes the directories of this kind that killed processes have left in this one.
pub fn remove_left_directories(parent: &Path, kind: &str) {
    for path in entries(parent) {
        if name(&path).starts_with(kind)
            && let Some(_lock) = lock(&path)
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Deletes the directories of this kind that this process has in this one, although they are locked: it is about to end.
pub fn remove_own_directories(parent: &Path, kind: &str) {
    let own = format!("{kind}{}-", *PROCESS);
    for path in entries(parent).filter(|path| name(path).starts_with(&own)) {
        let _ = fs::remove_dir_all(&path);
    }
}

/// Deletes the unfinished files that killed processes have left in a directory, if their target has such a name.
pub fn remove_left_files(directory: &Path, is_target: impl Fn(&str) -> bool) {
    for path in entries(directory) {
        let part = name(&path);
        let target = part.strip_prefix('.').and_then(|part| part.strip_suffix(PART)?.rsplit_once('.'));
        if target.is_some_and(|(target, _)| is_target(target))
            && let Some(_lock) = lock(&path)
        {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(path.with_file_name(format!("{part}-journal")));
        }
    }
}

/// Locks a file or directory for as long as the result is kept; `None` if another process has locked it.
fn lock(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| file.try_lock().is_ok())
}

/// Locks a new file or directory like [`lock`]. Waits for a process that has found it unlocked and deletes it: the caller
/// must look whether it is still there.
fn lock_new(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| file.lock().is_ok())
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_nobody_uses_are_left() {
        let parent = std::env::temp_dir().join(format!("switchyard-unfinished-{}", uuid::v4()));
        fs::create_dir(&parent).expect("a directory");
        let used = WorkDirectory::create(&parent, IMPORT).expect("a directory");
        let left = [".import-7", "others", "switchyard-dry-run-7"].map(|name| parent.join(name));
        for path in &left {
            fs::create_dir(path).expect("a directory");
        }
        remove_left_directories(&parent, IMPORT);
        assert_eq!(left.each_ref().map(|path| path.exists()), [false, true, true]);
        assert!(used.path().exists());
        remove_own_directories(&parent, IMPORT);
        assert!(!used.path().exists());
        drop(used);
        fs::remove_dir_all(&parent).expect("removed");
    }

    #[test]
    fn a_new_name_replaces_no_file() {
        let parent = WorkDirectory::create(&std::env::temp_dir(), "switchyard-names-").expect("a directory");
        let target = parent.path().join("copy.db");
        let mut parts = [PartialFile::of(&target), PartialFile::of(&target)];
        for part in &mut parts {
            part.create().expect("a file");
        }
        parts[0].name_new(&target).expect("it is free");
        let error = parts[1].name_new(&target).expect_err("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        parts[1].name_new(&parent.path().join("copy-2.db")).expect("it is free");
    }
}
