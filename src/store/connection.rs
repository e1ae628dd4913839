//! A connection as the threads above it see it, whatever database is behind: the one thing that each driver is.

use std::path::Path;
use std::sync::Arc;

use super::error::{Error, Result};
use super::news::News;
use super::sql::{Outcome, Row, SqlDialect, Statement, Value};
use super::telemetry::log_row::ProxyLogRow;
use super::versions::{Scope, Version};

/// One connection, used by one thread at a time.
pub(super) trait Connection: Send {
    fn dialect(&self) -> SqlDialect;

    /// Answers one question from what is committed.
    fn select(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>>;

    /// Runs the statements as one transaction that outlives a power cut: all of them, or none. Where others have the
    /// database open as well, the same transaction tells them which scopes it changes.
    fn apply(&mut self, statements: &[Statement], changed: &[Scope]) -> Result<Applied>;

    /// Writes log rows, and the statements that go with them, as one transaction. A group keeps its number until it is
    /// written or given up: one whose commit was cut off is there once. Where nobody waits for it, it need not outlive
    /// a power cut at once.
    fn write(
        &mut self,
        group: u64,
        rows: &[ProxyLogRow],
        statements: &[Statement],
        is_awaited: bool,
    ) -> Result<()>;

    /// From now on changes are numbered in the database, where their commit can be cut off. Once its schema is up to date.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn mark_changes(&mut self) -> Result<()> {
        Ok(())
    }

    /// Begins a transaction that goes on over calls of [`Self::run`] until [`Self::end`].
    fn begin(&mut self) -> Result<()>;

    fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>>;

    /// Ends it with all that was run, or with nothing.
    fn end(&mut self, keep: bool) -> Result<()>;

    /// The names of the tables that are there.
    fn tables(&mut self) -> Result<Vec<String>>;

    /// The names of the columns of a table.
    fn columns(&mut self, table: &str) -> Result<Vec<String>>;

    /// Runs the scripts in order, each with the statement that notes it. Those of a start that fails leave nothing
    /// behind where the database can undo changes of its schema; where it cannot, they go on where they stopped.
    fn migrate(&mut self, scripts: &[Script]) -> Result<(), MigrateError>;

    /// Everything that is read from now on is of this moment.
    fn stand_still(&mut self) -> Result<()>;

    /// A batch whose statements see the database in this file as `staged`.
    fn apply_staged(&mut self, file: &Path, statements: &[Statement]) -> Result<Applied>;

    /// The highest number that was given to a row of this table, gone or not; 0 where there is none.
    fn last_number(&mut self, table: &str) -> Result<i64>;

    /// Has the numbers of new rows go on behind those that rows have brought.
    fn count_on(&mut self) -> Result<()> {
        Ok(())
    }

    /// Overwrites what files of ours still hold of rows that are gone.
    fn wipe(&mut self) -> Result<()> {
        Ok(())
    }

    /// Gives up to this many free pages back to the file system, where that needs asking for.
    fn reclaim(&mut self, _pages: u32) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Opens further connections, which only read.
pub(super) type Opener = Arc<dyn Fn() -> Result<Box<dyn Connection>> + Send + Sync>;

/// Hears what the database tells of others' changes, from now on. Returns at once.
pub(super) type Listen = Box<dyn FnOnce(Arc<News>) + Send>;

/// What a batch has done.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub outcomes: Vec<Outcome>,
    /// What the scopes that it changes have come to, where others are told.
    pub versions: Vec<Version>,
}

/// A step of the schema, spelled for its database.
pub(super) struct Script {
    pub name: &'static str,
    pub sql: String,
    /// The row that says that it was run.
    pub note: Option<Statement>,
}

/// Which step failed, and why.
#[derive(Debug)]
pub(super) struct MigrateError {
    pub step: &'static str,
    pub error: Error,
}
