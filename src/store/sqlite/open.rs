//! Opens an SQLite database and brings it up to date.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::connection::Sqlite;
use super::file_state;
use super::location::{self, Location};
use crate::config::Synchronous;
use crate::store::connection::{Connection, Opener};
use crate::store::error::{Error, OpenError};
use crate::store::migrate;
use crate::store::opened::OpenedDatabase;
use crate::store::options::StoreOptions;
use crate::store::seal::keyring::Derivation;

/// The free space, in bytes, below which SQLite can open nothing.
const FULL: u64 = 256 * 1024;

pub(in crate::store) fn open(options: &StoreOptions) -> Result<OpenedDatabase, OpenError> {
    let location = Location::parse(&options.db_url, &options.data_dir);
    open_at(location.clone(), options).map_err(|error| match room_beside(&location) {
        Some((directory, left)) => naming_full_disk(error, &directory, left),
        None => error,
    })
}

/// Returns the directory of a database file, and the free space there in bytes.
fn room_beside(location: &Location) -> Option<(PathBuf, u64)> {
    let Location::File(path) = location else { return None };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let left = location::free_space(directory).ok()?;
    Some((directory.to_owned(), left))
}

/// Adds to an error that the disk is full, of which SQLite may say only that the disk failed.
fn naming_full_disk(error: OpenError, directory: &Path, left: u64) -> OpenError {
    let advice = |text: String| {
        let (left, directory) = (left / 1024, directory.display());
        format!("{text}. The disk is full, {left} KB are left in {directory}: make room there")
    };
    match error {
        OpenError::Unusable(text) if left < FULL => OpenError::Unusable(advice(text)),
        OpenError::Migration(text) if left < FULL => OpenError::Migration(advice(text)),
        error => error,
    }
}

fn open_at(location: Location, options: &StoreOptions) -> Result<OpenedDatabase, OpenError> {
    let lock = location::lock(&location)?;
    location::keep_temporary_files_in(&options.data_dir);
    let trace = file_state::find(&location, lock.as_ref())?;
    // A new database has nothing sealed: its opening only waits for the disk, while the key derivation runs in
    // parallel.
    let is_new = location.is_empty();
    let early = is_new.then(|| Derivation::for_new(&options.secret)).transpose()?;
    let mut connection = Sqlite::open_writer(&location, options.synchronous)
        .map_err(|error| OpenError::Unusable(format!("cannot open the database {location}: {error}")))?;
    trace.check(connection.raw())?;
    let derivation = match early {
        Some(derivation) => derivation,
        None => Derivation::for_stored(&mut connection, &options.secret)?,
    };
    migrate::run(&mut connection, migrate::STEPS, crate::time::now_ms())?;
    let (sealer, first_keys) = if is_new {
        let (sealer, keys) = derivation.begin(options)?;
        (sealer, Some(keys))
    } else {
        (derivation.finish(&mut connection, options)?, None)
    };
    file_state::leave(lock.as_ref())
        .map_err(|error| OpenError::Unusable(format!("cannot write the lock of {location}: {error}")))?;
    if options.synchronous == Synchronous::Full && location != Location::Memory {
        connection
            .sync_behind(&location)
            .map_err(|error| OpenError::Unusable(format!("cannot start a thread: {error}")))?;
    }
    let opener = (location != Location::Memory).then(|| -> Opener {
        Arc::new(move || match Sqlite::open_reader(&location) {
            Ok(reader) => Ok(Box::new(reader) as Box<dyn Connection>),
            Err(error) => Err(Error::from(error)),
        })
    });
    Ok(OpenedDatabase { connection: Box::new(connection), opener, listen: None, sealer, first_keys, lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_on_a_full_disk_names_the_directory_that_has_no_room() {
        let error = |left| {
            let error = OpenError::Unusable("cannot read the database: disk I/O error".to_owned());
            naming_full_disk(error, Path::new("/data"), left).to_string()
        };
        assert!(error(4096).ends_with("The disk is full, 4 KB are left in /data: make room there"));
        assert!(error(FULL).ends_with("disk I/O error"));
    }
}
