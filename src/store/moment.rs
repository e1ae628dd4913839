//! Everything in the database as it is at one moment, read a page at a time while others go on writing.

use rusqlite::Connection;
use tokio::runtime::Handle;

use super::sql::{Row, Value};
use super::sqlite::connection::select;
use super::{Result, Store};

/// What is committed when it is taken. Reading blocks: not for threads that serve requests.
pub struct Moment {
    store: Store,
    /// A database in memory has none: who copies it sees each page as it is then.
    connection: Option<Connection>,
}

impl Moment {
    pub fn of(store: &Store) -> Result<Self> {
        Ok(Self { store: store.clone(), connection: store.database().moment()? })
    }

    pub fn query(&self, sql: &str, args: Vec<Value>) -> Result<Vec<Row>> {
        match &self.connection {
            Some(connection) => select(connection, sql, &args),
            None => Handle::current().block_on(self.store.query(sql.to_owned(), args)),
        }
    }
}
