//! The file in which rows are staged.

use std::fs;
use std::path::Path;

/// The file's name in the data directory. Only one import runs at a time.
pub(in crate::store) const NAME: &str = "import.db";

/// Removes what an interrupted import left behind.
pub fn clear(dir: &Path) {
    for ending in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(dir.join(format!("{NAME}{ending}")));
    }
}
