//! The open database: it answers queries, runs batches of changes as transactions, and takes telemetry.

use std::borrow::Cow;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::change_signals::ChangeSignals;
use super::connection::Connection;
use super::error::{Error, OpenError, Result, Trouble};
use super::journal::Journal;
use super::opened::OpenedDatabase;
use super::options::StoreOptions;
use super::seal::Sealer;
use super::server::drivers;
use super::sql::{Outcome, Row, SqlDialect, Statement, Value};
use super::sqlite;
use super::telemetry::Telemetry;
use super::telemetry::recorder::Recorder;
use super::threads::queue::{Command, Queue};
use super::threads::readers::Readers;
use super::threads::writer::Writer;
use super::versions::Versions;
use crate::config::DatabaseKind;
use crate::idle_thread::lower_priority_slightly;
use crate::keys::ReservationHorizon;
use crate::sync::lock;
use crate::unfinished;

/// How long a query waits for its answer before another reader is started. Each reader has a connection with
/// caches of its own, which the many short queries of a start should not pay for.
const READER_WAIT: Duration = Duration::from_millis(10);
/// How long closing waits for the writer if the database is on a server, which may not answer.
const WRITER_WAIT: Duration = Duration::from_secs(5);

/// The open database of this process.
pub struct Database {
    dialect: SqlDialect,
    queue: Arc<Queue>,
    /// `None` for a database in memory, which only the writer's connection can see.
    readers: Option<Arc<Readers>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    journal: Journal,
    versions: Versions,
    /// `None` when the database does not notify of changes.
    change_signals: Option<Arc<ChangeSignals>>,
    /// Held until the writer has closed the database.
    lock: Mutex<Option<File>>,
}

impl Database {
    pub(super) fn open(options: &StoreOptions) -> Result<(Self, Sealer), OpenError> {
        unfinished::remove_left_directories(&options.data_dir, unfinished::IMPORT);
        let opened = match options.kind {
            DatabaseKind::Sqlite => sqlite::open::open(options)?,
            DatabaseKind::Postgres | DatabaseKind::MySql => drivers::open(options)?,
        };
        let OpenedDatabase { mut connection, opener, listen, sealer, first_keys, lock } = opened;
        let dialect = connection.dialect();
        let queue = Queue::new();
        let recorder = Recorder::new(dialect, options.time_zone.clone());
        let for_writer = Arc::clone(&queue);
        let journal = Journal::default();
        let noted = journal.clone();
        let versions = Versions::default();
        let own = versions.clone();
        let writer = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                lower_priority_slightly();
                if let Some(keys) = first_keys
                    && let Err(error) = keys.store(&mut *connection)
                {
                    // Nothing is committed yet, and the next start could not open anything sealed from now on.
                    log::error!("the first keys of the database could not be stored: {error}");
                    log::logger().flush();
                    std::process::exit(error.exit_code().into());
                }
                Writer::new(for_writer, connection, recorder, noted, own).run();
            })
            .map_err(|error| OpenError::Unusable(format!("cannot start the writer thread: {error}")))?;
        let readers = opener.map(Readers::new);
        let change_signals = listen.map(|listen| {
            let change_signals = Arc::<ChangeSignals>::default();
            listen(Arc::clone(&change_signals));
            change_signals
        });
        let writer = Mutex::new(Some(writer));
        Ok((
            Self {
                dialect,
                queue,
                readers,
                writer,
                journal,
                versions,
                change_signals,
                lock: Mutex::new(lock),
            },
            sealer,
        ))
    }

    /// Returns the SQL dialect of this database.
    pub fn dialect(&self) -> SqlDialect {
        self.dialect
    }

    /// Whether other instances may use the database too.
    pub fn is_shared(&self) -> bool {
        self.dialect != SqlDialect::Sqlite
    }

    /// Returns how far ahead requests of downstream keys are reserved in the database.
    pub fn reservation_horizon(&self) -> ReservationHorizon {
        if self.is_shared() { ReservationHorizon::Outage } else { ReservationHorizon::Near }
    }

    /// Returns what this instance knows of changes by other instances.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Waits until the database notifies of possible changes by other instances; forever when it does not
    /// notify.
    pub async fn changes_signalled(&self) {
        match &self.change_signals {
            Some(change_signals) => change_signals.next().await,
            None => std::future::pending().await,
        }
    }

    /// Runs one query on committed data.
    pub async fn query(&self, sql: impl Into<Cow<'static, str>>, args: Vec<Value>) -> Result<Vec<Row>> {
        let sql = sql.into();
        let Some(readers) = &self.readers else {
            return self.command(|reply| Command::Query { sql, args, reply }).await;
        };
        let mut answer = readers.submit(sql, args)?;
        let answer = match timeout(READER_WAIT, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                // The readers that are running answer all the same.
                if let Err(error) = readers.spawn_reader_if_busy() {
                    log::warn!(
                        "cannot start another reader thread, so reads of the database wait behind slow \
                         ones: {error}"
                    );
                }
                answer.await
            }
        };
        let answer = answer.map_err(|_| Error::Closed)?;
        // A query shows whether the server is reachable, but nothing about free space on its disk.
        let is_lost = matches!(answer, Err(Error::Unreachable(_)));
        if is_lost || self.trouble() == Some(Trouble::Unreachable) {
            self.queue.note(&answer);
        }
        answer
    }

    /// Runs the statements as one transaction and returns once it is committed: all of them apply, or none.
    pub async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Outcome>> {
        self.command(|reply| Command::Batch { statements, reply }).await
    }

    /// Runs the statements as one transaction in which they see the database in this file as `staged`.
    pub(super) async fn batch_with(&self, file: PathBuf, statements: Vec<Statement>) -> Result<Vec<Outcome>> {
        self.command(|reply| Command::BatchWith { file, statements, reply }).await
    }

    /// Opens a connection that keeps seeing what is committed now for as long as it lives; `None` for a
    /// database in memory, which only the writer's connection can see.
    pub(super) fn read_view(&self) -> Result<Option<Box<dyn Connection>>> {
        self.readers.as_ref().map(|readers| readers.read_view()).transpose()
    }

    /// Removes all traces of deleted rows from the database files.
    pub(super) async fn wipe(&self) -> Result<()> {
        self.command(|reply| Command::Wipe { reply }).await
    }

    /// Returns up to this many free pages to the file system, where that must be requested.
    pub async fn reclaim(&self, pages: u32) -> Result<()> {
        self.command(|reply| Command::Reclaim { pages, reply }).await
    }

    /// Returns what keeps changes from being stored, as of the last attempt.
    pub fn trouble(&self) -> Option<Trouble> {
        self.queue.trouble()
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(super) fn telemetry(&self) -> Telemetry {
        Telemetry::new(Arc::clone(&self.queue))
    }

    async fn command<T>(&self, command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.queue.command(command(reply))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    fn take_writer(&self) -> Option<JoinHandle<()>> {
        self.queue.stop();
        if let Some(change_signals) = &self.change_signals {
            change_signals.end();
        }
        lock(&self.writer).take()
    }

    async fn close_readers(&self) {
        let Some(readers) = self.readers.clone() else { return };
        if tokio::task::spawn_blocking(move || readers.close()).await.is_err() {
            log::error!("the wait for the reader threads of the database panicked");
        }
    }

    async fn close_writer(&self) {
        let Some(writer) = self.take_writer() else { return };
        let ended = tokio::task::spawn_blocking(|| writer.join());
        let most = if self.is_shared() { WRITER_WAIT } else { Duration::MAX };
        match timeout(most, ended).await {
            Ok(Ok(Ok(()))) => {}
            Ok(_) => log::error!("the writer thread of the database panicked"),
            Err(_) => log::error!(
                "{} log rows and what was counted last are lost, because the database does not answer in time",
                self.queue.waiting_rows()
            ),
        }
    }

    pub(super) async fn close(&self) {
        if self.is_shared() {
            tokio::join!(self.close_readers(), self.close_writer());
        } else {
            // The writer cleans up after all others.
            self.close_readers().await;
            self.close_writer().await;
        }
        // A handle that is still held does not keep other processes from the database.
        drop(lock(&self.lock).take());
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if lock(&self.writer).is_none() {
            return;
        }
        if let Some(readers) = &self.readers {
            readers.close();
        }
        if let Some(writer) = self.take_writer()
            && writer.join().is_err()
        {
            log::error!("the writer thread of the database panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::proxy_logs::{LogStatus, ProxyLogRow};

    /// Returns SQLite's `synchronous` setting for the writer's next commit: 2 waits for the disk, 1 for the
    /// kernel.
    async fn synchronous(database: &Database) -> Value {
        let sql = Cow::Borrowed("PRAGMA synchronous");
        let rows = database.command(|reply| Command::Query { sql, args: Vec::new(), reply }).await;
        rows.expect("an answer").swap_remove(0).0.swap_remove(0)
    }

    #[tokio::test]
    async fn a_change_waits_for_the_disk_and_a_log_row_does_not() {
        let dir = std::env::temp_dir().join(format!("switchyard-database-{}", std::process::id()));
        // A run that was killed leaves its directory behind, and process ids are reused.
        let _ = std::fs::remove_dir_all(&dir);
        let (database, _) = Database::open(&StoreOptions::in_dir(&dir, "a secret")).expect("a database");
        assert_eq!(synchronous(&database).await, Value::Int(2));
        database.telemetry().log(ProxyLogRow::new(0, LogStatus::Success));
        let logged = || database.query("SELECT 1 FROM proxy_logs", Vec::new());
        while logged().await.expect("rows").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(synchronous(&database).await, Value::Int(1), "nobody waits for a row of the log");
        database.batch(Vec::new()).await.expect("a batch");
        assert_eq!(synchronous(&database).await, Value::Int(2), "somebody waits for a change");
        database.close().await;
        let _ = std::fs::remove_dir_all(dir);
    }

    #[tokio::test]
    async fn what_does_not_fit_into_memory_goes_to_the_data_directory() {
        let dir = std::env::temp_dir().join(format!("switchyard-temporary-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let (database, _) = Database::open(&StoreOptions::in_dir(&dir, "a secret")).expect("a database");
        let rows = database.query("PRAGMA temp_store_directory", Vec::new()).await.expect("an answer");
        let place = rows.into_iter().next().map(|mut row| row.0.swap_remove(0));
        assert_eq!(place, Some(dir.to_str().expect("a path").into()));
        database.close().await;
        let _ = std::fs::remove_dir_all(dir);
    }
}
