//! The SQLite rows that `bare-lazy` writes, one per request: requests never wait for them, and they are committed in
//! groups.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::usage::Usage;

/// The most rows that wait for the writer; further ones are dropped, since a request never waits.
const CAPACITY: usize = 16 << 10;
/// How long the first row of a group waits for others.
const GROUP: Duration = Duration::from_millis(50);

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE proxy_logs (
        id INTEGER PRIMARY KEY,
        created_at INTEGER NOT NULL,
        client_key INTEGER NOT NULL,
        path TEXT NOT NULL,
        model_requested TEXT NOT NULL,
        model_actual TEXT NOT NULL,
        is_stream INTEGER NOT NULL,
        status INTEGER NOT NULL,
        latency_us INTEGER NOT NULL,
        first_byte_us INTEGER NOT NULL,
        prompt_tokens INTEGER,
        completion_tokens INTEGER,
        total_tokens INTEGER
    );
    CREATE INDEX proxy_logs_created_at ON proxy_logs (created_at);";

/// One answered request.
pub struct Row {
    /// Unix time in milliseconds.
    pub created_at: i64,
    pub client_key: i64,
    pub path: &'static str,
    pub model_requested: String,
    pub model_actual: String,
    pub is_stream: bool,
    pub status: u16,
    pub latency: Duration,
    pub first_byte: Duration,
    pub usage: Option<Usage>,
}

/// The sending end of the queue to the writer.
#[derive(Clone)]
pub struct Journal(SyncSender<Row>);

impl Journal {
    /// Opens a new file in `directory` and starts the thread that owns it.
    pub fn open(directory: &Path) -> rusqlite::Result<Self> {
        let file = Connection::open(directory.join("bare.db"))?;
        file.execute_batch(SCHEMA)?;
        let (sender, rows) = sync_channel(CAPACITY);
        thread::spawn(move || {
            if let Err(failed) = write_groups(file, &rows) {
                eprintln!("bare-lazy: the journal stopped: {failed}");
                std::process::exit(1);
            }
        });
        Ok(Self(sender))
    }

    pub fn write(&self, row: Row) {
        // A full queue drops the row, as the product does.
        let _ = self.0.try_send(row);
    }
}

fn write_groups(mut file: Connection, rows: &Receiver<Row>) -> rusqlite::Result<()> {
    while let Ok(first) = rows.recv() {
        // Sleeps instead of waiting in `recv`, so that no request pays for waking this thread.
        thread::sleep(GROUP);
        let transaction = file.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO proxy_logs (created_at, client_key, path, model_requested, model_actual, is_stream, status,
                     latency_us, first_byte_us, prompt_tokens, completion_tokens, total_tokens)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            for row in std::iter::once(first).chain(rows.try_iter().take(CAPACITY)) {
                insert.execute(params![
                    row.created_at,
                    row.client_key,
                    row.path,
                    row.model_requested,
                    row.model_actual,
                    row.is_stream,
                    row.status,
                    row.latency.as_micros() as i64,
                    row.first_byte.as_micros() as i64,
                    row.usage.map(|usage| usage.prompt_tokens),
                    row.usage.map(|usage| usage.completion_tokens),
                    row.usage.map(|usage| usage.total_tokens),
                ])?;
            }
        }
        transaction.commit()?;
    }
    Ok(())
}
