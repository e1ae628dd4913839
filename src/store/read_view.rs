//! A view of the whole database at one moment, read a page at a time while others go on writing.

use std::sync::Mutex;

use tokio::runtime::Handle;

use super::connection::Connection;
use super::sql::{Row, Value};
use super::{Result, Store};
use crate::sync::lock;

/// A view of what was committed when it was taken. Reading blocks: not for threads that serve requests.
pub struct ReadView {
    store: Store,
    /// `None` for a database in memory: there, each page is read as it is at that time.
    connection: Option<Mutex<Box<dyn Connection>>>,
}

impl ReadView {
    pub fn of(store: &Store) -> Result<Self> {
        Ok(Self { store: store.clone(), connection: store.database().read_view()?.map(Mutex::new) })
    }

    /// Returns the highest id ever given to a row of this table, even if deleted.
    pub fn highest_id(&self, table: &str) -> Result<i64> {
        match &self.connection {
            Some(connection) => lock(connection).highest_id(table),
            None => {
                let rows =
                    self.query("SELECT seq FROM sqlite_sequence WHERE name = ?", vec![table.into()])?;
                rows.first().map_or(Ok(0), |row| row.fields().int())
            }
        }
    }

    pub fn query(&self, sql: &str, args: Vec<Value>) -> Result<Vec<Row>> {
        match &self.connection {
            Some(connection) => lock(connection).select(sql, &args),
            None => Handle::current().block_on(self.store.query(sql.to_owned(), args)),
        }
    }
}
