//! What opening a database gives, whichever it is.

use std::fs::File;

use super::connection::{Connection, Listen, Opener};
use super::seal::Sealer;
use super::seal::keyring::FirstKeys;

/// A database that has been opened and brought up to date.
pub(super) struct Opened {
    /// The connection that makes every change.
    pub connection: Box<dyn Connection>,
    /// `None` where nobody but that connection sees the database.
    pub opener: Option<Opener>,
    /// `None` where nobody tells of the changes of others.
    pub listen: Option<Listen>,
    pub sealer: Sealer,
    /// What has to be stored before all else.
    pub first_keys: Option<FirstKeys>,
    /// Held until the database is closed.
    pub lock: Option<File>,
}
