//! Lines on standard error: `2026-05-01T08:00:00.000Z INFO  message`.
//!
//! One writer behind the `log` facade, no files, no rotation: a service manager or a container
//! keeps the stream. Modules of dependencies are quiet below warnings, because at their lower
//! levels they print headers, and headers carry credentials.

use std::io::Write;

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::time;

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
            let line = format!("{} {:<5} {}\n", time::iso(time::now_ms()), record.level(), record.args());
            // A closed standard error is no reason to stop serving.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}
