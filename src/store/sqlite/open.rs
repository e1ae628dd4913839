//! Opens an SQLite database and brings it up to date.

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

pub(in crate::store) fn open(options: &StoreOptions) -> Result<OpenedDatabase, OpenError> {
    let location = Location::parse(&options.db_url, &options.data_dir);
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
