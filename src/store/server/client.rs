//! What a driver is: how one database is spoken to, where it differs from the others.

use crate::store::error::Result;
use crate::store::sql::{Arg, Outcome, Row, SqlDialect};

/// One connection of a driver, which is up.
pub(super) trait Client: Sized + Send {
    /// What it takes to make one.
    type Address: Send;

    const WORDS: Words;

    async fn dial(address: &Self::Address) -> Result<Self>;

    async fn rows(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<Row>>;

    /// Runs a statement and tells how many rows it changed.
    async fn execute(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<u64>;

    /// Inserts into a table whose rows the database numbers.
    async fn insert(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Outcome>;

    /// Runs statements without arguments, as one text.
    async fn script(&mut self, sql: &str) -> Result<()>;

    /// Runs a step of the schema.
    async fn step(&mut self, sql: &str) -> Result<()>;

    /// What the server calls this connection.
    fn name(&self) -> &Name;

    /// Has the server end another connection of ours, if it is still there.
    async fn end(&mut self, other: &Name) -> Result<()>;
}

/// What a server calls a connection: its number, and what no later connection of that number has in common with it.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub number: i64,
    pub apart: String,
}

/// How a database says what the others say otherwise.
pub(super) struct Words {
    pub dialect: SqlDialect,
    pub begin: &'static str,
    /// Has everything read from then on be of one moment.
    pub stand_still: &'static [&'static str],
    /// The names of the tables that are there.
    pub tables: &'static str,
    /// The names of the columns of a table, in order.
    pub columns: &'static str,
    /// Tells everybody who listens of a change, once it is committed.
    pub tell: Option<&'static str>,
    /// Drops a temporary table if it is there.
    pub drop_temporary: &'static str,
    /// The highest number that was given to a row of this table, gone or not.
    pub last_number: &'static str,
    /// Has the numbers of `{table}` go on behind the highest that is there, where rows that bring their own do not move
    /// them.
    pub count_on: Option<&'static str>,
    /// A transaction undoes changes of the schema as well.
    pub undoes_schema: bool,
}

/// Reads the answer to the question what a connection is called.
pub(super) fn name(rows: &[Row]) -> Result<Name> {
    let Some(row) = rows.first() else { return Ok(Name { number: 0, apart: String::new() }) };
    let mut row = row.fields();
    Ok(Name { number: row.int()?, apart: row.text()? })
}
