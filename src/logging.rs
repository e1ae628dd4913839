//! Lines on standard error: `2026-05-01T08:00:00.000Z INFO  message`.
//!
//! One writer behind the `log` facade, no files, no rotation: a service manager or a container
//! keeps the stream. A reader that stops reading it must not stop the service, so that has its lines
//! written by a thread ([`write_in_background`]). Modules of dependencies are quiet below warnings, because at their lower
//! levels they print headers, and headers carry credentials.
//!
//! Operators search the log for these words: auth failed, no available channel, channel cooling, upstream 429,
//! upstream 5xx, notify failed, checkin failed, balance refresh failed, proxy timeout, token expired.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};
use tokio::time::Instant;

use crate::one_line::is_direction;
use crate::time;

/// The interval at which a [`ThrottledWarning`] is logged at most.
const WARNING_EVERY: Duration = Duration::from_secs(60);

/// The maximum number of lines that wait to be written; further ones are dropped and counted.
const MOST_WAITING: usize = 1024;
/// The longest time that the process waits for its last lines to be written.
const LONGEST_FLUSH: Duration = Duration::from_secs(1);
/// The interval at which it looks whether there is room again.
const LOOK: Duration = Duration::from_millis(10);

struct Stderr {
    /// The way to the thread that writes; without it each line is written where it is logged.
    background: OnceLock<SyncSender<Entry>>,
    dropped: AtomicU64,
}

/// A message to the thread that writes.
enum Entry {
    Line(String),
    /// To be answered when everything before it is written.
    Flush(SyncSender<()>),
}

static LOGGER: Stderr = Stderr { background: OnceLock::new(), dropped: AtomicU64::new(0) };

/// Installs the logger; a second call only changes the level.
pub fn init(level: LevelFilter) {
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(level);
}

/// Has lines written by a thread from now on.
pub fn write_in_background() -> io::Result<()> {
    let (entries, waiting) = sync_channel(MOST_WAITING);
    thread::Builder::new().name("log".to_owned()).spawn(move || write(&waiting))?;
    let _ = LOGGER.background.set(entries);
    Ok(())
}

fn write(waiting: &Receiver<Entry>) {
    // A closed standard error is no reason to stop.
    while let Ok(entry) = waiting.recv() {
        match entry {
            Entry::Line(line) => drop(io::stderr().write_all(line.as_bytes())),
            Entry::Flush(done) => drop(done.try_send(())),
        }
        let dropped = LOGGER.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let message = format_args!("{dropped} line(s) were dropped here: nobody read them in time");
            let _ = io::stderr().write_all(line(Level::Warn, message).as_bytes());
        }
    }
}

/// Returns a message as one line, whatever it contains: names of sites are in many messages, and a part of one must
/// neither look like a line of its own, nor change what is shown, nor control the terminal.
fn line(level: Level, message: fmt::Arguments<'_>) -> String {
    let mut line = format!("{} {level:<5} {message}", time::iso(time::now_ms()));
    if line.contains(|c: char| c.is_control() || is_direction(c)) {
        let kept = line.chars().filter(|c| !is_direction(*c));
        line = kept.map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    line.push('\n');
    line
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("switchyard") || metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = line(record.level(), *record.args());
            let Some(background) = self.background.get() else {
                let _ = io::stderr().write_all(line.as_bytes());
                return;
            };
            if background.try_send(Entry::Line(line)).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until all lines are written, but not for long.
    fn flush(&self) {
        let Some(background) = self.background.get() else { return };
        let (done, written) = sync_channel(1);
        let mut entry = Entry::Flush(done);
        let end = std::time::Instant::now() + LONGEST_FLUSH;
        while let Err(TrySendError::Full(again)) = background.try_send(entry) {
            if std::time::Instant::now() >= end {
                return;
            }
            entry = again;
            thread::sleep(LOOK);
        }
        let _ = written.recv_timeout(LONGEST_FLUSH);
    }
}

/// A message that is logged at most once a minute, however often it occurs.
#[derive(Default)]
pub struct ThrottledWarning {
    said: Option<Instant>,
    kept_back: u64,
}

impl ThrottledWarning {
    pub fn warn(&mut self, message: impl FnOnce() -> String) {
        if self.said.is_some_and(|at| at.elapsed() < WARNING_EVERY) {
            self.kept_back += 1;
            return;
        }
        let before = match std::mem::take(&mut self.kept_back) {
            0 => String::new(),
            times => format!(" (repeated {times} times since it was last logged)"),
        };
        log::warn!("{}{before}", message());
        self.said = Some(Instant::now());
    }
}
