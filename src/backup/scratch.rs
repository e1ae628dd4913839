//! Unnamed files: they disappear with the process, however it ends, and nobody else can open them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::uuid;

/// Creates an empty unnamed file on the disk of this directory, which is created when it is missing. An error names the
/// directory.
pub fn file(dir: &Path) -> io::Result<File> {
    create(dir).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))
}

fn create(dir: &Path) -> io::Result<File> {
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let path = dir.join(format!(".backup-{}", uuid::v4()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
