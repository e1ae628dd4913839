//! SQLite: one file, one process.
//!
//! | file | what it holds |
//! |---|---|
//! | `location`, `traces` | where the file is, and its lock; whether a database that looks new has been in use |
//! | `open` | from there to a database that is up to date |
//! | `connection` | how a connection is opened and spoken to |
//! | `wal_sync` | the thread that puts log rows on the disk behind the writer |

pub(super) mod connection;
pub(super) mod location;
pub(super) mod open;
mod traces;
mod wal_sync;
