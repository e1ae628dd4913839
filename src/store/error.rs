//! Errors of the store, distinguished by what the caller can do about them.

use std::fmt;

use crate::exit_code;

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed query or change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A unique constraint refused the change; holds the names of the columns.
    Conflict(String),
    /// The row to change does not exist; nothing was changed.
    NotFound,
    /// A row that this one refers to does not exist; nothing was changed.
    Dangling(String),
    /// The change is part of a job that another instance has taken over; nothing was changed.
    Superseded,
    /// Too much is already waiting; nothing was done.
    Busy,
    /// The store has been closed.
    Closed,
    /// A sealed value does not open with the available keys; names table and column, never the value.
    Sealed(String),
    /// The disk cannot take more data: it is full, or a limit or quota is reached. Nothing was changed.
    Full(String),
    /// The database server does not answer. A change that was under way may or may not be stored.
    Unreachable(String),
    /// The database does not take a value, however often it is tried: it is too large, for example. Nothing was changed.
    Refused(String),
    /// The database failed. The text is for the log, not for clients.
    Database(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(what) => write!(f, "already exists: {what}"),
            Self::NotFound => f.write_str("no such row"),
            Self::Dangling(what) => write!(f, "refers to a missing row: {what}"),
            Self::Superseded => f.write_str("another instance has taken this job over"),
            Self::Busy => f.write_str("the database is busy"),
            Self::Closed => f.write_str("the store is closed"),
            Self::Sealed(what) => write!(f, "cannot decrypt the sealed value of {what}"),
            Self::Full(what) => write!(f, "the disk is full: {what}"),
            Self::Unreachable(what) => write!(f, "the database cannot be reached: {what}"),
            Self::Refused(what) | Self::Database(what) => write!(f, "database: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// Converts the error for callers that only show its message to a person.
impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

/// The message to clients when the disk is full.
pub const FULL: &str = "The disk that holds the data of this service is full: nothing was stored. Free some space where \
                        DATA_DIR is, then send it again; model calls are served meanwhile";

/// The message to clients when the database server does not answer.
pub const UNREACHABLE: &str = "The database of this service cannot be reached: check that its server runs, answers and \
                               can be reached from here. Before sending a change again, check whether it was stored; model \
                               calls are served meanwhile";

/// The message to clients when the writer thread has ended.
const WRITER_ENDED: &str = "The part of this service that stores changes has ended by a fault: nothing is stored any \
                                more. Restart the service, and report what its log says";

/// A condition that keeps changes from being stored while the service goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The disk was full at the last write.
    Full,
    /// The database server did not answer when it was last asked.
    Unreachable,
    /// The thread that makes changes has ended by a fault of its own.
    WriterEnded,
}

impl Trouble {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Unreachable => "unreachable",
            Self::WriterEnded => "ended",
        }
    }

    /// Returns the message to clients, with what to do about it.
    pub fn message(self) -> &'static str {
        match self {
            Self::Full => FULL,
            Self::Unreachable => UNREACHABLE,
            Self::WriterEnded => WRITER_ENDED,
        }
    }

    /// Returns the trouble that this outcome shows, `Some(None)` when it shows that there is none, and `None`
    /// when it says nothing about it.
    pub(super) fn of<T>(outcome: &Result<T>) -> Option<Option<Self>> {
        match outcome {
            Ok(_) => Some(None),
            Err(Error::Full(_)) => Some(Some(Self::Full)),
            Err(Error::Unreachable(_)) => Some(Some(Self::Unreachable)),
            Err(_) => None,
        }
    }
}

/// Why the store could not be opened. Every message says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// DB_TYPE or DB_URL asks for something that this binary cannot do.
    Unsupported(String),
    /// The data directory or the database file cannot be used.
    Unusable(String),
    /// The database does not exist, where it must.
    Missing(String),
    /// Another process has this database open.
    Locked(String),
    /// A migration failed or was changed after it had been applied.
    Migration(String),
    /// The stored keys do not open with the given secrets; the process should exit with 78.
    WrongSecret(String),
}

impl OpenError {
    /// Returns the exit code that tells a supervisor whether only a changed configuration can help.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unsupported(_) | Self::WrongSecret(_) => exit_code::CONFIGURATION,
            Self::Unusable(_) | Self::Missing(_) | Self::Locked(_) | Self::Migration(_) => exit_code::OTHER,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(text)
            | Self::Unusable(text)
            | Self::Missing(text)
            | Self::Locked(text)
            | Self::Migration(text)
            | Self::WrongSecret(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Unusable(error.to_string())
    }
}
