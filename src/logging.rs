//! Lines on standard error: `2026-05-01T08:00:00.000Z INFO  message`.
//!
//! One writer behind the `log` facade, no files, no rotation: a service manager or a container
//! keeps the stream. Modules of dependencies are quiet below warnings, because at their lower
//! levels they print headers, and headers carry credentials.
//!
//! Operators search the log for these words: auth failed, no available channel, channel cooling, upstream 429,
//! upstream 5xx, notify failed, checkin failed, balance refresh failed, proxy timeout, token expired.

use std::io::Write;
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};
use tokio::time::Instant;

use crate::one_line::is_direction;
use crate::time;

/// The interval at which a [`ThrottledWarning`] is logged at most.
const WARNING_EVERY: Duration = Duration::from_secs(60);

struct Stderr;

static LOGGER: Stderr = Stderr;

/// Installs the logger; a second call only changes the level.
pub fn init(level: LevelFilter) {
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(level);
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("switchyard") || metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut line = format!("{} {:<5} {}\n", time::iso(time::now_ms()), record.level(), record.args());
            // Names of sites are in many messages; a line must not be shown as another one.
            if !line.is_ascii() {
                line.retain(|c| !is_direction(c));
            }
            // A closed standard error is no reason to stop serving.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
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
