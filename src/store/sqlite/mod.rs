//! SQLite: one file, one process.
//!
//! | file | what it holds |
//! |---|---|
//! | `location`, `file_state` | the location of the file, and its lock; whether an empty database has been in use |
//! | `open` | opening a database and bringing it up to date |
//! | `connection` | a connection, and how statements are run on it |
//! | `wal_sync` | the thread that syncs log rows to disk after the writer's commit |

pub(super) mod connection;
pub(super) mod file_state;
pub(super) mod location;
pub(super) mod open;
mod wal_sync;
