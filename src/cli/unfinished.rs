//! Unfinished files and directories of commands. Each is locked while its command runs, so that a later command knows those
//! that a killed one has left, and deletes them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::uuid;

/// The beginning of the name of a directory in which a dry run works.
pub const DRY_RUN: &str = "switchyard-dry-run-";
/// The ending of the name of a file that is being written.
const PART: &str = ".switchyard-part";

/// Returns the path of a temporary file beside the target, so that it can be renamed at once.
pub fn part_of(target: &Path) -> PathBuf {
    target.with_file_name(format!(".{}.{}{PART}", name(target), uuid::random_number()))
}

/// Locks a file or directory for as long as the result is kept. A file system without locks gives none: what is left
/// there stays.
pub fn lock(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| file.try_lock().is_ok())
}

/// Deletes what killed commands with such a target have left beside it.
pub fn remove_parts_of(target: &Path) {
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
