//! The queue between the process and its writer: what is waiting, and who waits for it.
//!
//! Handing over telemetry never blocks and costs a short lock: the thread is woken only by the first row of a
//! group and by a full group.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::keys::KeyLive;
use crate::routing::{ChannelLive, EndpointLive};
use crate::store::error::{Error, Result, Trouble};
use crate::store::sql::{Outcome, Row, Statement, Value};
use crate::store::telemetry::debug_trace::DebugTrace;
use crate::store::telemetry::log_row::ProxyLogRow;
use crate::store::telemetry::stored_response::StoredResponse;
use crate::sync::lock;

/// The number of rows that may wait for the writer.
const MAX_WAITING_ROWS: usize = 16_384;
/// The memory that debug traces waiting for the writer may take, in bytes.
const MAX_WAITING_TRACE_BYTES: usize = 16 << 20;
const MAX_WAITING_COMMANDS: usize = 1024;
/// The number of rows that closes a group.
pub(in crate::store) const FULL_GROUP: usize = 500;

/// A command for the writer thread, which runs it at once and sends the result to the caller.
pub(in crate::store) enum Command {
    Batch {
        statements: Vec<Statement>,
        reply: oneshot::Sender<Result<Vec<Outcome>>>,
    },
    /// A batch whose statements see the database in a file as `staged`.
    BatchWith {
        file: PathBuf,
        statements: Vec<Statement>,
        reply: oneshot::Sender<Result<Vec<Outcome>>>,
    },
    Query {
        sql: Cow<'static, str>,
        args: Vec<Value>,
        reply: oneshot::Sender<Result<Vec<Row>>>,
    },
    /// Removes all traces of deleted rows from the database files.
    Wipe {
        reply: oneshot::Sender<Result<()>>,
    },
    /// Returns up to this many free pages to the file system.
    Reclaim {
        pages: u32,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// The queue between the process and its writer.
pub(in crate::store) struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
    /// The trouble that the last change met.
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Default)]
pub(in crate::store) struct QueueState {
    pub(in crate::store) commands: VecDeque<Command>,
    pub(in crate::store) rows: Vec<ProxyLogRow>,
    /// The number of rows that the writer has taken and not yet committed.
    pub(in crate::store) with_writer: usize,
    pub(in crate::store) traces: Vec<DebugTrace>,
    pub(in crate::store) trace_bytes: usize,
    pub(in crate::store) responses: Vec<StoredResponse>,
    pub(in crate::store) channels: Vec<Arc<ChannelLive>>,
    pub(in crate::store) endpoints: Vec<Arc<EndpointLive>>,
    pub(in crate::store) keys: Vec<Arc<KeyLive>>,
    /// Callers that wait for a commit.
    pub(in crate::store) flushes: Vec<oneshot::Sender<()>>,
    pub(in crate::store) dropped: u64,
    pub(in crate::store) dropped_traces: u64,
    /// Whether an attempt failed, whose cooldown should be on disk soon.
    pub(in crate::store) urgent: bool,
    /// Whether nothing new is accepted; what is waiting is still done.
    pub(in crate::store) stop: bool,
    /// Whether the thread has ended.
    pub(in crate::store) closed: bool,
    pub(in crate::store) asleep: Asleep,
}

/// What wakes the writer thread before its time.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Asleep {
    #[default]
    No,
    UntilAnything,
    /// A group is open; only its end or a command is worth a system call.
    UntilGroupEnds,
}

/// Why the writer thread has ended its sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum WakeCause {
    Woken,
    TimePassed,
}

impl QueueState {
    pub(in crate::store) fn waiting_rows(&self) -> usize {
        self.rows.len() + self.with_writer
    }

    pub(in crate::store) fn has_telemetry(&self) -> bool {
        !self.rows.is_empty()
            || !self.traces.is_empty()
            || !self.responses.is_empty()
            || !self.channels.is_empty()
            || !self.endpoints.is_empty()
            || !self.keys.is_empty()
    }
}

impl Queue {
    pub(in crate::store) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), wake: Condvar::new(), trouble: Mutex::default() })
    }

    pub(in crate::store) fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the writer if it sleeps; the lock is released first so that the writer does not wake up to a held
    /// lock.
    fn wake(&self, mut state: MutexGuard<'_, QueueState>) {
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep != Asleep::No {
            self.wake.notify_one();
        }
    }

    pub(in crate::store) fn command(&self, command: Command) -> Result<()> {
        let mut state = self.state();
        if state.stop {
            return Err(Error::Closed);
        }
        if state.commands.len() >= MAX_WAITING_COMMANDS {
            return Err(Error::Busy);
        }
        state.commands.push_back(command);
        self.wake(state);
        Ok(())
    }

    pub(in crate::store) fn log(&self, row: ProxyLogRow) {
        let mut state = self.state();
        if state.waiting_rows() >= MAX_WAITING_ROWS || state.stop {
            state.dropped += 1;
            return;
        }
        // The thread checks every 20 ms while a group is open, so urgency needs no waking.
        state.urgent |= !row.status.is_success();
        state.rows.push(row);
        if state.asleep == Asleep::UntilAnything || state.rows.len() == FULL_GROUP {
            self.wake(state);
        }
    }

    /// Queues a debug trace, or drops it: a lagging writer has room for log rows only.
    pub(in crate::store) fn trace(&self, trace: DebugTrace) {
        let size = trace.size();
        let mut state = self.state();
        let is_lagging = state.waiting_rows() >= MAX_WAITING_ROWS / 2;
        if is_lagging || state.trace_bytes + size > MAX_WAITING_TRACE_BYTES || state.stop {
            state.dropped_traces += 1;
            return;
        }
        state.trace_bytes += size;
        state.traces.push(trace);
        if state.asleep == Asleep::UntilAnything {
            self.wake(state);
        }
    }

    pub(in crate::store) fn stored_response(&self, response: StoredResponse) {
        let mut state = self.state();
        if state.responses.len() >= MAX_WAITING_ROWS || state.stop {
            state.dropped += 1;
            return;
        }
        state.responses.push(response);
        if state.asleep == Asleep::UntilAnything {
            self.wake(state);
        }
    }

    pub(in crate::store) fn dirty_channel(&self, channel: Arc<ChannelLive>) {
        let mut state = self.state();
        state.channels.push(channel);
        if state.asleep == Asleep::UntilAnything {
            self.wake(state);
        }
    }

    pub(in crate::store) fn dirty_endpoint(&self, endpoint: Arc<EndpointLive>) {
        let mut state = self.state();
        state.endpoints.push(endpoint);
        if state.asleep == Asleep::UntilAnything {
            self.wake(state);
        }
    }

    pub(in crate::store) fn dirty_key(&self, key: Arc<KeyLive>, urgent: bool) {
        let mut state = self.state();
        state.keys.push(key);
        state.urgent |= urgent;
        if state.asleep == Asleep::UntilAnything {
            self.wake(state);
        }
    }

    /// Returns a receiver that resolves when everything handed over before this call is committed, or fails
    /// when the writer is gone or the database fails.
    pub(in crate::store) fn flush(&self) -> oneshot::Receiver<()> {
        let (done, waiting) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return waiting;
        }
        state.flushes.push(done);
        self.wake(state);
        waiting
    }

    pub(in crate::store) fn dropped(&self) -> u64 {
        self.state().dropped
    }

    pub(in crate::store) fn dropped_traces(&self) -> u64 {
        self.state().dropped_traces
    }

    pub(in crate::store) fn waiting_rows(&self) -> usize {
        self.state().waiting_rows()
    }

    /// Returns what keeps changes from being stored, as of the last one.
    pub(in crate::store) fn trouble(&self) -> Option<Trouble> {
        *lock(&self.trouble)
    }

    /// Records that the writer thread has ended by a panic.
    pub(in crate::store) fn note_ended_writer(&self) {
        log::error!("{}", Trouble::WriterEnded.message());
        *lock(&self.trouble) = Some(Trouble::WriterEnded);
    }

    /// Records the outcome of a change, and logs when trouble begins and when it is over.
    pub(in crate::store) fn note<T>(&self, outcome: &Result<T>) {
        let Some(now) = Trouble::of(outcome) else { return };
        let before = std::mem::replace(&mut *lock(&self.trouble), now);
        if before == now {
            return;
        }
        let why = outcome.as_ref().err().map(Error::to_string).unwrap_or_default();
        match now {
            Some(Trouble::Full) => {
                log::error!("{why}; changes are refused (507) and log rows wait until there is space");
            }
            Some(Trouble::Unreachable) => {
                log::error!("{why}; changes are refused (503) and log rows wait until it answers");
            }
            None => log::info!("changes are stored again"),
            // Told by `note_ended_writer`; no outcome shows it.
            Some(Trouble::WriterEnded) => {}
        }
    }

    /// Sleeps until woken or until `most` has passed.
    pub(in crate::store) fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, QueueState>,
        asleep: Asleep,
        most: Option<Duration>,
    ) -> (MutexGuard<'a, QueueState>, WakeCause) {
        state.asleep = asleep;
        let (mut state, cause) = match most {
            None => (self.wake.wait(state).unwrap_or_else(PoisonError::into_inner), WakeCause::Woken),
            Some(most) => {
                let (state, result) =
                    self.wake.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner);
                (state, if result.timed_out() { WakeCause::TimePassed } else { WakeCause::Woken })
            }
        };
        state.asleep = Asleep::No;
        (state, cause)
    }

    pub(in crate::store) fn stop(&self) {
        let mut state = self.state();
        state.stop = true;
        self.wake(state);
    }
}
