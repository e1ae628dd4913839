//! The result of opening a database, whichever kind it is.

use std::fs::File;

use super::connection::{Connection, Listen, Opener};
use super::seal::Sealer;
use super::seal::keyring::FirstKeys;

/// A database that has been opened and brought up to date.
pub(super) struct OpenedDatabase {
    /// The connection that makes every change.
    pub connection: Box<dyn Connection>,
    /// `None` when only that connection can see the database.
    pub opener: Option<Opener>,
    /// `None` when the database does not notify of changes by others.
    pub listen: Option<Listen>,
    pub sealer: Sealer,
    /// New keys that must be stored before anything else.
    pub first_keys: Option<FirstKeys>,
    /// Held until the database is closed.
    pub lock: Option<File>,
}
