//! The store: what survives a restart. Typed rows and queries per resource over one database, the
//! writer that commits in groups, migrations, and the sealing of credentials.
//!
//! | file | what it holds |
//! |---|---|
//! | `sql`, `database`, `error` | values, statements and dialects; the open database; what can go wrong |
//! | `sqlite`, `queue`, `writer`, `wal_sync`, `migrate` | the SQLite connections, what waits for the one thread that changes, that thread, the one that syncs behind it, the schema |
//! | `seal`, `sealed`, `envelope` | credentials at rest: sealing and opening, a sealed text on its way, its form |
//! | `keyring`, `rekey`, `sweep` | their keys: opened at start, replaced in use; the pass at start that seals what is still plain |
//! | `traces`, `uploads` | whether a database that looks new has been in use; files on their way in |
//! | `journal` | which of the rows that requests are routed by have changed |
//! | `telemetry` | log rows, counters and usage: handed over without waiting, written in groups |
//! | the rest | one file per resource: rows, queries, changes |
//!
//! Times are epoch milliseconds. Sealed columns are opened on reading into [`Secret`]s and sealed
//! on writing; nothing above this room sees a sealed text. Nothing here runs on the proxy's path:
//! it reads the snapshot that [`snapshot::load`] builds.

pub mod accounts;
pub mod amend;
pub mod announcements;
pub mod availability;
pub mod balances;
pub mod checkins;
pub mod connections;
mod database;
pub mod debug_traces;
mod envelope;
mod error;
pub mod events;
pub mod files;
pub mod job_runs;
mod journal;
pub mod key_usage;
mod keyring;
pub mod keys;
mod migrate;
pub mod model_rates;
pub mod owner;
pub mod proxy_logs;
mod prune;
mod queue;
pub mod quota;
pub mod rekey;
pub mod reset;
pub mod responses;
pub mod route_edits;
pub mod routes;
pub mod seal;
mod sealed;
pub mod settings;
pub mod sites;
pub mod snapshot;
pub mod spend;
mod sql;
mod sqlite;
pub mod stats;
mod sweep;
mod telemetry;
#[cfg(test)]
mod tests;
pub mod throttle;
pub mod tokens;
mod traces;
pub mod uploads;
mod usage;
pub mod videos;
mod wal_sync;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use database::Database;
pub use error::{Error, FULL, OpenError, Result};
pub(crate) use journal::{Journal, Touched};
pub use seal::{Purpose, Sealer};
pub use sql::{Outcome, Row, Statement, Value};
pub use telemetry::Telemetry;

use crate::config::{DatabaseKind, Synchronous};
pub use crate::routing::Secret;

/// What [`Store::open`] needs to know.
pub struct StoreOptions {
    /// Created (0700) when missing.
    pub data_dir: PathBuf,
    /// DB_TYPE; only SQLite is built in, the others are refused.
    pub kind: DatabaseKind,
    /// Empty for the file in `data_dir`.
    pub db_url: String,
    /// ACCOUNT_CREDENTIAL_SECRET: what the keys that seal credentials are wrapped under.
    pub secret: String,
    /// ACCOUNT_CREDENTIAL_SECRET_PREVIOUS: tried when `secret` does not open the keys.
    pub previous_secrets: Vec<String>,
    /// SQLITE_SYNCHRONOUS: what a commit waits for.
    pub synchronous: Synchronous,
    /// CREDENTIAL_SECRET_LOST=1: start with new keys and empty what cannot be opened.
    pub secret_lost: bool,
    /// The service's time zone: days and hours of the usage tables.
    pub time_zone: jiff::tz::TimeZone,
}

impl StoreOptions {
    /// An SQLite file in this directory, sealed under this secret, days in UTC.
    pub fn in_dir(data_dir: impl Into<PathBuf>, secret: impl Into<String>) -> Self {
        Self {
            data_dir: data_dir.into(),
            kind: DatabaseKind::Sqlite,
            db_url: String::new(),
            secret: secret.into(),
            previous_secrets: Vec::new(),
            synchronous: Synchronous::default(),
            secret_lost: false,
            time_zone: jiff::tz::TimeZone::UTC,
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("data_dir", &self.data_dir)
            .field("kind", &self.kind)
            .field("secret_lost", &self.secret_lost)
            .finish_non_exhaustive()
    }
}

/// The open store; clones share it. Dropping the last clone writes what is waiting and closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    telemetry: Telemetry,
    database: Database,
    sealer: Sealer,
}

impl Store {
    /// Opens the database, brings its schema up to date, and opens its keys. Blocks: call it before
    /// there is anything else to do.
    pub fn open(options: StoreOptions) -> Result<Self, OpenError> {
        let (database, sealer) = Database::open(&options)?;
        Ok(Self { inner: Arc::new(Inner { telemetry: database.telemetry(), database, sealer }) })
    }

    /// Where questions and changes go.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Seals and opens credentials.
    pub fn sealer(&self) -> &Sealer {
        &self.inner.sealer
    }

    /// Where requests leave what they did.
    pub fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// What has changed of the rows that requests are routed by.
    pub(crate) fn journal(&self) -> &Journal {
        self.database().journal()
    }

    /// Returns when everything handed over before is committed, or cannot be for now.
    pub async fn flush(&self) {
        self.telemetry().flush().await;
    }

    /// Writes what is waiting and closes the database; later changes get [`Error::Closed`].
    pub async fn close(&self) {
        self.inner.database.close().await;
    }

    pub(crate) async fn query(
        &self,
        sql: impl Into<std::borrow::Cow<'static, str>>,
        args: Vec<Value>,
    ) -> Result<Vec<Row>> {
        self.database().query(sql, args).await
    }

    pub(crate) async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Outcome>> {
        self.database().batch(statements).await
    }
}
