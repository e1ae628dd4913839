//! The writer: one thread, one connection, every change.
//!
//! ```text
//!   commands ──▶ own transaction each, first ────────┐
//!   wait for the disk                                ├──▶ the database
//!   telemetry ─▶ one transaction per group ──────────┘
//!     a group is closed by 500 rows, 20 ms of silence, or age: 250 ms, 50 ms once an attempt failed
//! ```
//!
//! Everything handed over waits in its [`Queue`]. A full group commits at once, with all that has arrived
//! since, and then the next one begins. When the database fails, the group is kept and retried; meanwhile rows
//! accumulate up to a limit, beyond which they are dropped and counted. Counters wait in their channels until a
//! group takes them; of a group that the database refuses, what it accepts is written and the rest is dropped. Nobody
//! waits for a failing database: a flush ends with the attempt, so that an operator still sees what is committed.

use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::queue::{Asleep, Command, FULL_GROUP, Queue, QueueState, WakeCause};
use super::salvage::{self, Salvage, is_refusal};
use crate::store::connection::{Applied, Connection};
use crate::store::error::{Error, Result};
use crate::store::journal::Journal;
use crate::store::lists_version;
use crate::store::new_event::{EventLevel, NewEvent};
use crate::store::sql::{Outcome, Statement};
use crate::store::telemetry::log_row::ProxyLogRow;
use crate::store::telemetry::recorder::{Group, Recorder};
use crate::store::versions::{self, Versions};
use crate::time::now_ms;

/// The row capacity kept for the next group; what an overload needed beyond it is freed.
const KEPT_CAPACITY: usize = 4 * FULL_GROUP;
const SILENCE: Duration = Duration::from_millis(20);
const MAX_AGE: Duration = Duration::from_millis(250);
const MAX_AGE_URGENT: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(5);
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// On drop, tells everyone who waits that the thread has ended, even by a panic.
struct Gone(Arc<Queue>);

impl Drop for Gone {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.note_ended_writer();
        }
        let mut state = self.0.state();
        state.stop = true;
        state.closed = true;
        state.flushes.clear();
        state.commands.clear();
    }
}

/// The work that the thread found.
struct Work {
    commands: VecDeque<Command>,
    /// Whether a group should be committed now.
    commit: bool,
    stop: bool,
}

impl Work {
    fn of(state: &mut QueueState, commit: bool) -> Self {
        Self { commands: std::mem::take(&mut state.commands), commit, stop: state.stop }
    }
}

/// A group whose transaction failed and will be retried.
struct Unwritten {
    number: u64,
    rows: Vec<ProxyLogRow>,
    statements: Vec<Statement>,
    flushes: Vec<oneshot::Sender<()>>,
    again_at: Instant,
    pause: Duration,
}

/// The numbers of rows and traces that were dropped.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Dropped {
    rows: u64,
    /// The number of these rows that the database refused.
    refused: u64,
    traces: u64,
}

impl Dropped {
    /// Describes what was dropped since an earlier count, and why.
    fn since(self, earlier: Self) -> String {
        let refused = self.refused - earlier.refused;
        let rows = self.rows - earlier.rows - refused;
        let traces = self.traces - earlier.traces;
        let late =
            format!("{rows} log rows and {traces} debug traces were dropped: the database cannot keep up");
        let unfit = format!("{refused} log rows were dropped: the database refuses them, as the log says");
        match (refused, rows + traces) {
            (0, _) => late,
            (_, 0) => unfit,
            _ => format!("{late}. {unfit}"),
        }
    }
}

/// The state of the writer thread.
pub(in crate::store) struct Writer {
    queue: Arc<Queue>,
    connection: Box<dyn Connection>,
    recorder: Recorder,
    journal: Journal,
    versions: Versions,
    /// Spare capacity for rows, empty between two groups. It is exchanged with the queue's, so that the lock is
    /// held for a swap, not for a copy.
    spare: Vec<ProxyLogRow>,
    /// The time at which the open group began.
    since: Option<Instant>,
    unwritten: Option<Unwritten>,
    /// The number of groups so far.
    groups: u64,
    /// The number of rows that the database refused.
    refused: u64,
    /// The counts that were already reported.
    reported: Dropped,
    reported_at: Option<Instant>,
}

impl Writer {
    pub(in crate::store) fn new(
        queue: Arc<Queue>,
        connection: Box<dyn Connection>,
        recorder: Recorder,
        journal: Journal,
        versions: Versions,
    ) -> Self {
        Self {
            queue,
            connection,
            recorder,
            journal,
            versions,
            spare: Vec::new(),
            since: None,
            unwritten: None,
            groups: 0,
            refused: 0,
            reported: Dropped::default(),
            reported_at: None,
        }
    }

    /// Runs the thread until the queue is told to stop and everything in it is done.
    pub(in crate::store) fn run(mut self) {
        let _gone = Gone(Arc::clone(&self.queue));
        loop {
            let work = self.wait();
            for command in work.commands {
                self.execute(command);
            }
            if work.commit || work.stop {
                self.commit(work.stop);
            }
            self.report();
            if work.stop && self.is_done() {
                break;
            }
        }
        self.reported_at = None;
        self.report();
        if let Err(error) = self.connection.close() {
            log::warn!("closing the database: {error}");
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) -> Work {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.state();
        loop {
            if state.has_telemetry() {
                self.since.get_or_insert_with(Instant::now);
            }
            if !state.commands.is_empty() || state.stop {
                let commit = self.group_is_due(&state);
                return Work::of(&mut state, commit);
            }
            if let Some(unwritten) = &self.unwritten {
                let now = Instant::now();
                if now >= unwritten.again_at || !state.flushes.is_empty() {
                    return Work::of(&mut state, true);
                }
                let pause = unwritten.again_at - now;
                state = queue.sleep(state, Asleep::UntilGroupEnds, Some(pause)).0;
                continue;
            }
            if !state.has_telemetry() && state.flushes.is_empty() {
                self.since = None;
                state = queue.sleep(state, Asleep::UntilAnything, None).0;
                continue;
            }
            if self.group_is_due(&state) {
                return Work::of(&mut state, true);
            }
            let before = state.rows.len();
            let pause = self.time_left(&state).min(SILENCE);
            let (woken, cause) = queue.sleep(state, Asleep::UntilGroupEnds, Some(pause));
            state = woken;
            if cause == WakeCause::TimePassed && state.rows.len() == before {
                return Work::of(&mut state, true);
            }
        }
    }

    /// Returns how long the open group may still wait.
    fn time_left(&self, state: &QueueState) -> Duration {
        let most = if state.urgent { MAX_AGE_URGENT } else { MAX_AGE };
        self.since.map_or(most, |since| most.saturating_sub(since.elapsed()))
    }

    fn group_is_due(&self, state: &QueueState) -> bool {
        self.unwritten.is_none()
            && (state.rows.len() >= FULL_GROUP
                || !state.flushes.is_empty()
                || (self.since.is_some() && self.time_left(state).is_zero()))
    }

    fn is_done(&self) -> bool {
        let state = self.queue.state();
        self.unwritten.is_none() && state.commands.is_empty() && !state.has_telemetry()
    }

    fn execute(&mut self, command: Command) {
        // A dropped receiver is no error: the change is stored all the same.
        match command {
            Command::Batch { mut statements, reply } => {
                let count = statements.len();
                statements.extend(lists_version::incremented_by(self.connection.dialect(), &statements));
                let mut applied = self.apply(&statements);
                if let Ok(outcomes) = &mut applied {
                    outcomes.truncate(count);
                }
                self.queue.note(&applied);
                let _ = reply.send(applied);
            }
            Command::BatchWith { file, mut statements, reply } => {
                statements.extend(lists_version::incremented_by(self.connection.dialect(), &statements));
                let applied = self.connection.apply_staged(&file, &statements);
                if let Ok(applied) = &applied {
                    self.versions.note_own(&applied.versions);
                    self.journal.note_everything();
                }
                self.queue.note(&applied);
                let _ = reply.send(applied.map(|applied| applied.outcomes));
            }
            Command::Query { sql, args, reply } => {
                let _ = reply.send(self.connection.select(&sql, &args));
            }
            Command::Wipe { reply } => {
                let _ = reply.send(self.connection.wipe());
            }
            Command::Reclaim { pages, reply } => {
                let _ = reply.send(self.connection.reclaim(pages));
            }
        }
    }

    /// Makes a change, and records it for followers: the versions and the journal.
    fn apply(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        let Applied { outcomes, versions } =
            self.connection.apply(statements, &versions::changed_by(statements))?;
        self.versions.note_own(&versions);
        self.journal.note(statements, &outcomes);
        Ok(outcomes)
    }

    /// Commits the open group, or the one that failed before. With `last`, gives up instead of waiting for
    /// another attempt.
    fn commit(&mut self, last: bool) {
        let group = self.unwritten.take().unwrap_or_else(|| self.take_group());
        let count = group.rows.len();
        let is_empty = count == 0 && group.statements.is_empty();
        let is_awaited = !group.flushes.is_empty();
        // A group that failed may have waited for long.
        let late = self.recorder.late(&group.rows, now_ms());
        let written = if is_empty {
            Ok(())
        } else if late.is_empty() {
            self.connection.write(group.number, &group.rows, &group.statements, is_awaited)
        } else {
            let statements = [&group.statements[..], &late].concat();
            self.connection.write(group.number, &group.rows, &statements, is_awaited)
        };
        if !is_empty {
            self.queue.note(&written);
        }
        match written {
            Ok(()) => {
                self.queue.state().with_writer = 0;
                for waiting in group.flushes {
                    let _ = waiting.send(());
                }
                self.reuse(group.rows);
            }
            // These errors would occur again on every attempt; what is refused must not hold up all that follows.
            Err(error) if is_refusal(&error) => self.salvage(group, &error),
            Err(error) if last => {
                log::error!(
                    "{count} log rows are lost, because the database failed while the service was stopping: \
                     {error}"
                );
            }
            Err(error @ Error::Database(_)) if group.pause == RETRY_MOST => self.salvage(group, &error),
            Err(error) => {
                log::error!("writing {count} log rows failed, trying again: {error}");
                self.queue.state().flushes.clear();
                self.unwritten = Some(Unwritten {
                    flushes: Vec::new(),
                    again_at: Instant::now() + group.pause,
                    pause: (group.pause * 2).min(RETRY_MOST),
                    ..group
                });
            }
        }
    }

    /// Writes the part of a failing group that the database accepts, piece by piece. What it refuses is dropped; what fails
    /// for another reason too, if the database accepts anything at all; everything else is kept.
    fn salvage(&mut self, mut group: Unwritten, why: &Error) {
        let late = self.recorder.late(&group.rows, now_ms());
        let mut write = |rows: &[ProxyLogRow], statements: &[Statement]| {
            self.groups += 1;
            self.connection.write(self.groups, rows, statements, false)
        };
        let mut salvage = Salvage::default();
        let pieces = salvage::pieces(std::mem::take(&mut group.statements));
        let pieces = pieces.into_iter().chain(late.into_iter().map(|statement| vec![statement]));
        let pieces = salvage.write_each(pieces, |piece| write(&[], piece));
        let rows =
            salvage.write_each(std::mem::take(&mut group.rows), |row| write(slice::from_ref(row), &[]));
        let is_in_doubt = salvage.doubts > 0 && !salvage.gives_up;
        let is_well = salvage.is_any_written || (is_in_doubt && write(&[], &salvage::trial()).is_ok());
        let (kept, refused) = pieces.part(is_well);
        group.statements = salvage::join(kept);
        for (piece, error) in &refused {
            let sql = piece.first().map_or("", |statement| &*statement.sql);
            log::error!("a change is lost, because the database refuses it: {error}: {sql}");
        }
        let (kept, refused) = rows.part(is_well);
        group.rows = kept;
        if let Some((_, error)) = refused.first() {
            log::error!("dropping {} log rows that the database refuses: {error}", refused.len());
        }
        self.refused += refused.len() as u64;
        self.keep(group, refused.len(), why);
    }

    /// Keeps what is left of a failing group for another attempt.
    fn keep(&mut self, group: Unwritten, dropped: usize, why: &Error) {
        let mut state = self.queue.state();
        state.with_writer = group.rows.len();
        state.dropped += dropped as u64;
        state.flushes.clear();
        drop(state);
        if group.rows.is_empty() && group.statements.is_empty() {
            for waiting in group.flushes {
                let _ = waiting.send(());
            }
        } else {
            log::error!("writing {} log rows failed, trying again: {why}", group.rows.len());
            self.groups += 1;
            let again_at = Instant::now() + group.pause;
            self.unwritten = Some(Unwritten { number: self.groups, flushes: Vec::new(), again_at, ..group });
        }
    }

    fn take_group(&mut self) -> Unwritten {
        let mut state = self.queue.state();
        let mut rows = std::mem::take(&mut self.spare);
        std::mem::swap(&mut state.rows, &mut rows);
        state.with_writer = rows.len();
        let traces = std::mem::take(&mut state.traces);
        state.trace_bytes = 0;
        let responses = std::mem::take(&mut state.responses);
        let channels = std::mem::take(&mut state.channels);
        let endpoints = std::mem::take(&mut state.endpoints);
        let keys = std::mem::take(&mut state.keys);
        let flushes = std::mem::take(&mut state.flushes);
        state.urgent = false;
        self.since = None;
        drop(state);
        self.groups += 1;
        Unwritten {
            number: self.groups,
            statements: self
                .recorder
                .statements(&mut rows, Group { traces, responses, channels, endpoints, keys }),
            rows,
            flushes,
            again_at: Instant::now(),
            pause: RETRY_FIRST,
        }
    }

    /// Keeps the capacity of rows that are written.
    fn reuse(&mut self, mut rows: Vec<ProxyLogRow>) {
        rows.clear();
        if rows.capacity() <= KEPT_CAPACITY {
            self.spare = rows;
        }
    }

    /// Reports what was dropped, in the log and as an event: the first time at once, then once a minute.
    fn report(&mut self) {
        let dropped = Dropped {
            rows: self.queue.dropped(),
            refused: self.refused,
            traces: self.queue.dropped_traces(),
        };
        if dropped == self.reported || self.reported_at.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            return;
        }
        let message = dropped.since(self.reported);
        (self.reported, self.reported_at) = (dropped, Some(Instant::now()));
        log::warn!("{message}");
        let event = NewEvent {
            kind: "status",
            title: "Log rows were dropped".to_owned(),
            message: Some(message),
            level: EventLevel::Warning,
            related_id: None,
            related_type: None,
        };
        if let Err(error) = self.apply(&[event.insert(now_ms())]) {
            log::warn!("the event of dropped log rows could not be stored: {error}");
        }
    }
}
