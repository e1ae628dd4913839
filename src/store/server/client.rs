//! The driver trait: how each server database is spoken to, where it differs from the others.

use crate::store::error::Result;
use crate::store::sql::{Arg, Outcome, Row, SqlDialect};

/// An open connection of a driver.
pub(super) trait Client: Sized + Send {
    /// The data needed to open a connection.
    type Address: Send;

    const WORDS: Words;

    async fn dial(address: &Self::Address) -> Result<Self>;

    async fn rows(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<Row>>;

    /// Runs a statement and returns the number of rows it changed.
    async fn execute(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<u64>;

    /// Inserts into a table whose rows the database numbers.
    async fn insert(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Outcome>;

    /// Runs several statements without arguments, given as one text.
    async fn script(&mut self, sql: &str) -> Result<()>;

    /// Runs a step of the schema.
    async fn step(&mut self, sql: &str) -> Result<()>;

    /// Returns the server's identifier of this connection.
    fn name(&self) -> &Name;

    /// Makes the server close another connection of ours, if it still exists.
    async fn end(&mut self, other: &Name) -> Result<()>;
}

/// A server's identifier of a connection: its number, and a mark that no later connection with that number
/// shares.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub number: i64,
    pub apart: String,
}

/// SQL texts and properties in which the databases differ.
pub(super) struct Words {
    pub dialect: SqlDialect,
    /// The query that takes the lock of [`Connection::take_turn`](crate::store::connection::Connection::take_turn) without
    /// waiting, and returns 1 when it was taken.
    pub take_turn: &'static str,
    pub end_turn: &'static str,
    pub begin: &'static str,
    /// Statements after which everything is read as of one moment.
    pub begin_snapshot: &'static [&'static str],
    /// The query for the names of the existing tables.
    pub tables: &'static str,
    /// The query for the names of a table's columns, in order.
    pub columns: &'static str,
    /// The statement that notifies every listener of a change, once it is committed.
    pub tell: Option<&'static str>,
    /// The start of a statement that drops a temporary table if it exists.
    pub drop_temporary: &'static str,
    /// The query for the highest id ever given to a row of a table, even if deleted.
    pub highest_id: &'static str,
    /// The statement that makes the ids of `{table}` continue after the highest one, on databases where rows inserted with
    /// an id do not move the counter.
    pub advance_ids: Option<&'static str>,
    /// Whether a transaction can roll back schema changes.
    pub undoes_schema: bool,
}

/// Reads a connection's identifier from a query result.
pub(super) fn name(rows: &[Row]) -> Result<Name> {
    let Some(row) = rows.first() else { return Ok(Name { number: 0, apart: String::new() }) };
    let mut row = row.fields();
    Ok(Name { number: row.int()?, apart: row.text()? })
}
