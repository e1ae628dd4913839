//! What a command says while it works: on a terminal one line that changes, elsewhere a line for each step.

use std::future::Future;
use std::io::{self, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

/// How often the line of a terminal changes.
const TICK: Duration = Duration::from_millis(200);

/// Speaks on standard error, which is not where results go.
pub struct Progress {
    on_terminal: bool,
}

/// Tells how much has been read.
pub struct Metered<'p, R> {
    inner: R,
    progress: &'p Progress,
    what: String,
    read: u64,
    told: Instant,
}

impl Progress {
    pub fn new() -> Self {
        Self { on_terminal: io::stderr().is_terminal() }
    }

    /// A step begins.
    pub fn step(&self, text: &str) {
        self.say(text, "\n");
    }

    /// Waits for work, and shows on a terminal that it goes on.
    pub async fn during<T>(&self, text: &str, work: impl Future<Output = T>) -> T {
        if !self.on_terminal {
            self.step(text);
            return work.await;
        }
        let began = Instant::now();
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(TICK);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                _ = ticks.tick() => self.say(&format!("{text} … {} s", began.elapsed().as_secs()), ""),
            }
        };
        self.step(text);
        done
    }

    pub fn metered<R: Read>(&self, what: &str, inner: R) -> Metered<'_, R> {
        if !self.on_terminal {
            self.step(what);
        }
        Metered { inner, progress: self, what: what.to_owned(), read: 0, told: Instant::now() }
    }

    fn say(&self, text: &str, end: &str) {
        let begin = if self.on_terminal { "\r\x1b[K" } else { "" };
        let mut out = io::stderr().lock();
        // A closed standard error is not worth a panic.
        let _ = write!(out, "{begin}{text}{end}");
        let _ = out.flush();
    }
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        if self.progress.on_terminal && (count == 0 || self.told.elapsed() >= TICK) {
            self.told = Instant::now();
            let end = if count == 0 { "\n" } else { "" };
            self.progress.say(&format!("{} … {} KiB", self.what, self.read >> 10), end);
        }
        Ok(count)
    }
}
