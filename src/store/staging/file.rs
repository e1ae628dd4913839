//! The file that rows are staged in.

use std::fs;
use std::path::Path;

/// Its name in the data directory. One import is under way at a time.
pub(super) const NAME: &str = "import.db";

/// Removes what an import left that was cut off.
pub fn clear(dir: &Path) {
    for ending in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(dir.join(format!("{NAME}{ending}")));
    }
}
