//! SQLite: one file, one process.
//!
//! | file | what it holds |
//! |---|---|
//! | `location`, `traces` | where the file is, and its lock; whether a database that looks new has been in use |
//! | `connection` | how a connection is opened and spoken to |
//! | `queue`, `writer`, `wal_sync` | what waits for the one thread that changes; that thread; the one that syncs behind it |
//! | `readers` | the threads that answer questions |

pub(super) mod connection;
pub(super) mod location;
pub(super) mod queue;
pub(super) mod readers;
pub(super) mod traces;
pub(super) mod wal_sync;
pub(super) mod writer;
