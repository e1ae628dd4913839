//! A connection as the store's threads see it, independent of the database: the trait that each driver
//! implements.

use std::path::Path;
use std::sync::Arc;

use super::change_signals::ChangeSignals;
use super::error::{Error, Result};
use super::sql::{Outcome, Row, SqlDialect, Statement, Value};
use super::telemetry::log_row::ProxyLogRow;
use super::versions::{Scope, Version};

/// One connection, used by one thread at a time.
pub(super) trait Connection: Send {
    fn dialect(&self) -> SqlDialect;

    /// Runs one query on committed data.
    fn select(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>>;

    /// Runs the statements as one transaction that survives a power cut: all of them, or none. When other
    /// instances have the database open as well, the same transaction tells them which scopes changed.
    fn apply(&mut self, statements: &[Statement], changed: &[Scope]) -> Result<Applied>;

    /// Writes log rows, and the statements that go with them, as one transaction. A group keeps its number
    /// until it is written or given up, so that a group whose commit was cut off is stored only once. When
    /// nobody waits for it, it need not survive a power cut at once.
    fn write(
        &mut self,
        group: u64,
        rows: &[ProxyLogRow],
        statements: &[Statement],
        is_awaited: bool,
    ) -> Result<()>;

    /// Starts numbering changes in the database, for databases whose commits can be cut off. Called once the
    /// schema is up to date.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn mark_changes(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes the lock under which one process at a time prepares or fills the database; returns false when another process has
    /// it. The lock ends with the connection. A file is locked when it is opened.
    fn take_turn(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Releases the lock of [`Self::take_turn`].
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn end_turn(&mut self) -> Result<()> {
        Ok(())
    }

    /// Begins a transaction that spans calls of [`Self::run`] until it is committed or rolled back.
    fn begin(&mut self) -> Result<()>;

    fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>>;

    fn commit(&mut self) -> Result<()>;

    fn roll_back(&mut self) -> Result<()>;

    /// Returns the names of the existing tables.
    fn tables(&mut self) -> Result<Vec<String>>;

    /// Returns the names of a table's columns.
    fn columns(&mut self, table: &str) -> Result<Vec<String>>;

    /// Runs the scripts in order, each with the statement that records it. A start that fails leaves nothing
    /// behind where the database can roll back schema changes; where it cannot, the next start continues at the
    /// step that failed.
    fn migrate(&mut self, scripts: &[Script]) -> Result<(), MigrateError>;

    /// Makes all later reads see the database as of this moment.
    fn begin_snapshot(&mut self) -> Result<()>;

    /// Runs a batch whose statements see the database in this file as `staged`.
    fn apply_staged(&mut self, file: &Path, statements: &[Statement]) -> Result<Applied>;

    /// Returns the highest id ever given to a row of this table, even if deleted; 0 when there is none.
    fn highest_id(&mut self, table: &str) -> Result<i64>;

    /// Makes the ids of new rows continue after those of rows inserted with an id.
    fn advance_ids(&mut self) -> Result<()> {
        Ok(())
    }

    /// Overwrites what our database files still hold of deleted rows.
    fn wipe(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns up to this many free pages to the file system, where that must be requested.
    fn reclaim(&mut self, _pages: u32) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Opens further connections, which only read.
pub(super) type Opener = Arc<dyn Fn() -> Result<Box<dyn Connection>> + Send + Sync>;

/// Starts listening for the database's notifications of changes by other instances. Returns at once.
pub(super) type Listen = Box<dyn FnOnce(Arc<ChangeSignals>) + Send>;

/// The result of a batch.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub outcomes: Vec<Outcome>,
    /// The new versions of the scopes that the batch changed, where other instances are told of them.
    pub versions: Vec<Version>,
}

/// A step of the schema, written for its database.
pub(super) struct Script {
    pub name: &'static str,
    pub sql: String,
    /// The statement that records that the step was run.
    pub note: Option<Statement>,
}

/// The step that failed, and its error.
#[derive(Debug)]
pub(super) struct MigrateError {
    pub step: &'static str,
    pub error: Error,
}
