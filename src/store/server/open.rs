//! Opens a database on a server and brings it up to date.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::address::ServerAddress;
use super::session::as_unreachable;
use crate::config::{DatabaseKind, DatabaseTls};
use crate::store::connection::{Connection, Listen, Opener};
use crate::store::error::{Error, OpenError, Result};
use crate::store::migrate;
use crate::store::opened::OpenedDatabase;
use crate::store::options::StoreOptions;
use crate::store::seal::Sealer;
use crate::store::seal::keyring::Derivation;

/// How long a start waits for a server that does not answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a start waits for another instance that is bringing the database up to date.
const LONGEST_TURN: Duration = Duration::from_secs(120);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Parses an address, and returns the function that connects to it.
pub(super) type Dialler = fn(ServerAddress) -> Result<Opener, OpenError>;
/// Parses an address, and returns the function that listens there for others' changes; `None` when the database
/// does not notify of any.
pub(super) type Listener = fn(&ServerAddress) -> Result<Option<Listen>, OpenError>;

/// Opens the database that `dialler` leads to. Runs on a thread of its own, because connections drive their own
/// runtime, and a thread cannot drive two.
pub(super) fn open(
    options: &StoreOptions,
    dialler: Dialler,
    listener: Listener,
) -> Result<OpenedDatabase, OpenError> {
    thread::scope(|scope| {
        let opening = scope.spawn(|| open_here(options, dialler, listener));
        opening
            .join()
            .unwrap_or_else(|_| Err(OpenError::Unusable("opening the database ended in a panic".into())))
    })
}

/// Connects without retrying.
pub(super) fn connect(
    kind: DatabaseKind,
    url: &str,
    tls: &DatabaseTls,
    dialler: Dialler,
) -> Result<Box<dyn Connection>, OpenError> {
    let address = ServerAddress::read(kind, url, tls)?;
    let shown = address.to_string();
    dialler(address)?()
        .map_err(|error| OpenError::Unusable(format!("cannot open the database {shown}: {error}")))
}

fn open_here(
    options: &StoreOptions,
    dialler: Dialler,
    listener: Listener,
) -> Result<OpenedDatabase, OpenError> {
    let address = ServerAddress::read(options.kind, &options.db_url, &options.tls)?;
    let shown = address.to_string();
    let listen = listener(&address)?;
    let dial = dialler(address)?;
    let unusable = |error: Error| OpenError::Unusable(format!("cannot use the database {shown}: {error}"));
    let mut connection = wait_for(&dial, &shown)?;
    // The lock makes instances that start together migrate once and create the keys once.
    wait_for_turn(&mut *connection, &shown)?;
    let sealer = bring_up_to_date(&mut *connection, options);
    connection.end_turn().map_err(unusable)?;
    let sealer = sealer?;
    connection.mark_changes().map_err(unusable)?;
    let opener: Opener = Arc::new(move || dial().map_err(as_unreachable));
    Ok(OpenedDatabase { connection, opener: Some(opener), listen, sealer, first_keys: None, lock: None })
}

/// Waits until no other instance is bringing the database up to date. Without the lock nothing is changed
/// there.
fn wait_for_turn(connection: &mut dyn Connection, shown: &str) -> Result<(), OpenError> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let unusable =
            |error: Error| OpenError::Unusable(format!("cannot use the database {shown}: {error}"));
        if connection.take_turn().map_err(unusable)? {
            return Ok(());
        }
        if begun.elapsed() > LONGEST_TURN {
            return Err(OpenError::Unusable(format!(
                "another instance has been preparing the database {shown} for {} s. Start this one again \
                 when that one is ready",
                LONGEST_TURN.as_secs()
            )));
        }
        log::info!("another instance is preparing the database {shown}; waiting for it");
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn bring_up_to_date(connection: &mut dyn Connection, options: &StoreOptions) -> Result<Sealer, OpenError> {
    let derivation = Derivation::for_stored(connection, &options.secret)?;
    migrate::run(connection, migrate::STEPS, crate::time::now_ms())?;
    derivation.finish(connection, options)
}

/// Opens the first connection. Waits only for a server that cannot be reached.
fn wait_for(dial: &Opener, shown: &str) -> Result<Box<dyn Connection>, OpenError> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match dial() {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let is_over = begun.elapsed() + pause > SERVER_TIMEOUT;
        if is_over || !matches!(error, Error::Unreachable(_)) {
            return Err(OpenError::Unusable(format!(
                "cannot open the database {shown}: {error}. Check DB_TYPE, DB_URL and DB_SSL, and that the server \
                 runs; nothing else is used in its place"
            )));
        }
        log::warn!(
            "the database {shown} does not answer, trying again for {} s: {error}",
            SERVER_TIMEOUT.as_secs()
        );
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
