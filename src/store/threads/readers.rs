//! The threads that run queries: up to four read-only connections, opened when queries wait and closed again
//! when idle, so that a quiet gateway holds one connection.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::idle_thread::lower_priority_slightly;
use crate::store::connection::{Connection, Opener};
use crate::store::error::{Error, Result};
use crate::store::sql::{Row, Value};

const READERS: usize = 4;
const READER_IDLE: Duration = Duration::from_secs(30);
const MAX_WAITING_READS: usize = 1024;
/// The longest time that closing waits for queries under way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The threads that run queries.
pub(in crate::store) struct Readers {
    open: Opener,
    state: Mutex<ReadState>,
    wake: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct ReadState {
    waiting: VecDeque<ReadRequest>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct ReadRequest {
    sql: std::borrow::Cow<'static, str>,
    args: Vec<Value>,
    reply: oneshot::Sender<Result<Vec<Row>>>,
}

/// Counts a thread until it ends, even by a panic.
struct RunningReader<'a>(&'a Readers);

impl Drop for RunningReader<'_> {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
        self.0.ended.notify_all();
    }
}

impl Readers {
    pub(in crate::store) fn new(open: Opener) -> Arc<Self> {
        Arc::new(Self { open, state: Mutex::default(), wake: Condvar::new(), ended: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, ReadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the query for a reader thread, and starts one when there is none.
    pub(in crate::store) fn submit(
        self: &Arc<Self>,
        sql: std::borrow::Cow<'static, str>,
        args: Vec<Value>,
    ) -> Result<oneshot::Receiver<Result<Vec<Row>>>> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(Error::Closed);
        }
        if state.waiting.len() >= MAX_WAITING_READS {
            return Err(Error::Busy);
        }
        state.waiting.push_back(ReadRequest { sql, args, reply });
        if state.threads == 0 {
            self.spawn_reader(state).inspect_err(|_| drop(self.state().waiting.pop_back()))?;
        } else {
            drop(state);
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Starts another thread when queries wait, all threads are busy and fewer than four exist.
    pub(in crate::store) fn spawn_reader_if_busy(self: &Arc<Self>) -> Result<()> {
        let state = self.state();
        if state.waiting.len() > state.idle && state.threads < READERS && !state.closed {
            self.spawn_reader(state)?;
        }
        Ok(())
    }

    fn spawn_reader(self: &Arc<Self>, mut state: MutexGuard<'_, ReadState>) -> Result<()> {
        state.threads += 1;
        drop(state);
        let readers = Arc::clone(self);
        let thread = thread::Builder::new().name("store-reader".into()).stack_size(512 * 1024);
        let spawned = thread.spawn(move || readers.serve());
        if let Err(error) = spawned {
            self.state().threads -= 1;
            return Err(Error::Database(format!("cannot start a reader thread: {error}")));
        }
        Ok(())
    }

    /// Opens a separate connection that keeps seeing what is committed now for as long as it lives.
    pub(in crate::store) fn read_view(&self) -> Result<Box<dyn Connection>> {
        let mut connection = (self.open)()?;
        connection.begin_snapshot()?;
        Ok(connection)
    }

    /// Ends the threads once the queue is empty, and waits until their connections are closed: SQLite deletes its
    /// write-ahead log only when the last connection that closes may write.
    pub(in crate::store) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.wake.notify_all();
        let runs = |state: &mut ReadState| state.threads > 0;
        let ended = self.ended.wait_timeout_while(state, CLOSE_TIMEOUT, runs);
        if ended.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            log::warn!("queries of the database are still running: they end with the process");
        }
    }

    fn serve(&self) {
        let _running = RunningReader(self);
        lower_priority_slightly();
        let mut connection: Option<Box<dyn Connection>> = None;
        while let Some(request) = self.next() {
            let answer = match &mut connection {
                Some(connection) => connection.select(&request.sql, &request.args),
                None => match (self.open)() {
                    Ok(opened) => connection.insert(opened).select(&request.sql, &request.args),
                    Err(error) => {
                        self.fail_waiting(&error);
                        Err(error)
                    }
                },
            };
            // The receiver is gone when the asking request was dropped.
            let _ = request.reply.send(answer);
        }
    }

    /// Answers the queries that came while no connection could be opened: each would wait as long in its turn.
    fn fail_waiting(&self, error: &Error) {
        for waiting in std::mem::take(&mut self.state().waiting) {
            let _ = waiting.reply.send(Err(error.clone()));
        }
    }

    /// Waits for the next query; returns `None` when this thread should end.
    fn next(&self) -> Option<ReadRequest> {
        let mut state = self.state();
        loop {
            if let Some(request) = state.waiting.pop_front() {
                return Some(request);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.wake.wait_timeout(state, READER_IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                return None;
            }
        }
    }
}
