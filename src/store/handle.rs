//! The open store, as used by everything outside this module.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::database::Database;
use super::error::{OpenError, Result};
use super::journal::Journal;
use super::options::StoreOptions;
use super::seal::Sealer;
use super::sql::{Fields, MAX_PLACEHOLDERS, Row, Value, placeholders, values};
use super::telemetry::Telemetry;

/// The open store; clones share it. Dropping the last clone writes what is waiting and closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    telemetry: Telemetry,
    database: Database,
    sealer: Sealer,
    time_zone: TimeZone,
}

impl Store {
    /// Opens the database, brings its schema up to date, and opens its keys. Blocks: call it before anything
    /// else runs.
    pub fn open(options: StoreOptions) -> Result<Self, OpenError> {
        let (database, sealer) = Database::open(&options)?;
        let (telemetry, time_zone) = (database.telemetry(), options.time_zone);
        Ok(Self { inner: Arc::new(Inner { telemetry, database, sealer, time_zone }) })
    }

    /// Returns the database, which takes queries and changes.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Returns the sealer, which seals and opens credentials.
    pub fn sealer(&self) -> &Sealer {
        &self.inner.sealer
    }

    /// Returns the telemetry, to which requests hand their log rows and counters.
    pub fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// Returns the service's time zone: days begin at its midnight.
    pub fn time_zone(&self) -> &TimeZone {
        &self.inner.time_zone
    }

    /// Returns the journal of changed rows that routing depends on.
    pub(crate) fn journal(&self) -> &Journal {
        self.database().journal()
    }

    /// Waits until everything handed over before is committed, or cannot be committed for now.
    pub async fn flush(&self) {
        self.telemetry().flush().await;
    }

    /// Writes what is waiting and closes the database; later changes fail with
    /// [`Error::Closed`](super::Error::Closed).
    pub async fn close(&self) {
        self.inner.database.close().await;
    }

    pub(crate) async fn query(
        &self,
        sql: impl Into<Cow<'static, str>>,
        args: Vec<Value>,
    ) -> Result<Vec<Row>> {
        self.database().query(sql, args).await
    }

    /// Runs a query and reads each row of the result with `read`.
    pub(crate) async fn rows<T, C: FromIterator<T>>(
        &self,
        sql: impl Into<Cow<'static, str>>,
        args: Vec<Value>,
        read: impl Fn(&mut Fields<'_>) -> Result<T>,
    ) -> Result<C> {
        self.query(sql, args).await?.iter().map(|row| read(&mut row.fields())).collect()
    }

    /// Queries rows by ids, as many at a time as one statement can name, and reads each row of the results with
    /// `read`. `sql` builds the statement around the placeholders of the ids, which are its only arguments.
    pub(crate) async fn rows_of<I: Copy + Into<Value>, C: Default + IntoIterator + Extend<C::Item>>(
        &self,
        ids: &[I],
        sql: impl Fn(&str) -> String,
        read: impl Fn(&mut Fields<'_>) -> Result<C::Item>,
    ) -> Result<C> {
        let mut found = C::default();
        for ids in ids.chunks(MAX_PLACEHOLDERS) {
            let rows: Vec<C::Item> =
                self.rows(sql(&placeholders(ids.len())), values(ids).collect(), &read).await?;
            found.extend(rows);
        }
        Ok(found)
    }

    /// Runs a query and reads the first row of the result with `read`; `None` when there is no row.
    pub(crate) async fn row<T>(
        &self,
        sql: impl Into<Cow<'static, str>>,
        args: Vec<Value>,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.query(sql, args).await?.first().map(|row| read(&mut row.fields())).transpose()
    }
}
