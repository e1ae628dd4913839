//! The progress of a command: on a terminal one line that changes, elsewhere a line for each step.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use crate::backup;

/// The interval at which the line of a terminal changes.
const TICK: Duration = Duration::from_millis(200);

/// Writes progress to standard error, apart from results.
pub struct Progress {
    on_terminal: bool,
    out: RefCell<Box<dyn Write>>,
}

/// A reader that shows how much has been read.
pub struct Metered<'p, R> {
    inner: R,
    progress: &'p Progress,
    what: String,
    length: u64,
    read: u64,
    shown_at: Instant,
}

impl Progress {
    pub fn new() -> Self {
        Self { on_terminal: io::stderr().is_terminal(), out: RefCell::new(Box::new(io::stderr())) }
    }

    /// Shows a new step.
    pub fn step(&self, text: &str) {
        self.say(text, "\n");
    }

    /// Waits for work, and shows its progress on a terminal.
    pub async fn during<T>(&self, text: &str, work: impl Future<Output = T>) -> T {
        if !self.on_terminal {
            self.step(text);
        }
        let done = self.watching(work, || Some(text.to_owned())).await;
        if self.on_terminal {
            self.step(text);
        }
        done
    }

    /// Waits for an import, and shows its progress.
    pub async fn following<T>(&self, at: &backup::ImportProgress, work: impl Future<Output = T>) -> T {
        let begun = || at.take_begun().iter().for_each(|line| self.step(line));
        let done = self
            .watching(work, || {
                begun();
                at.now()
            })
            .await;
        begun();
        if self.on_terminal {
            // Clears the line that changed last.
            self.say("", "");
        }
        done
    }

    async fn watching<T>(&self, work: impl Future<Output = T>, now: impl Fn() -> Option<String>) -> T {
        let began = Instant::now();
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick() => {
                    if let Some(text) = now() && self.on_terminal {
                        self.say(&format!("{text} … {} s", began.elapsed().as_secs()), "");
                    }
                }
            }
        }
    }

    pub fn metered<R: Read>(&self, what: &str, length: u64, inner: R) -> Metered<'_, R> {
        if !self.on_terminal {
            self.step(what);
        }
        Metered { inner, progress: self, what: what.to_owned(), length, read: 0, shown_at: Instant::now() }
    }

    fn say(&self, text: &str, end: &str) {
        let begin = if self.on_terminal { "\r\x1b[K" } else { "" };
        let mut out = self.out.borrow_mut();
        // A closed standard error is not worth a panic.
        let _ = write!(out, "{begin}{text}{end}");
        let _ = out.flush();
    }
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        if self.progress.on_terminal && (count == 0 || self.shown_at.elapsed() >= TICK) {
            self.shown_at = Instant::now();
            let end = if count == 0 { "\n" } else { "" };
            let (read, length) = (self.read >> 10, self.length.div_ceil(1024));
            self.progress.say(&format!("{} … {read} of {length} KiB", self.what), end);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::backup::Stage;

    #[derive(Clone, Default)]
    struct Shown(Arc<Mutex<Vec<u8>>>);

    impl Write for Shown {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the output for an import that stages three rows and writes them.
    async fn shown(on_terminal: bool) -> String {
        let shown = Shown::default();
        let progress = Progress { on_terminal, out: RefCell::new(Box::new(shown.clone())) };
        let at = backup::ImportProgress::default();
        let work = async {
            at.begin(Stage::Staging, 3);
            tokio::time::sleep(TICK).await;
            at.add(2);
            // Long enough for the line to change in between, whichever of two timers at the same moment comes first.
            tokio::time::sleep(TICK * 2).await;
            at.begin(Stage::Writing, 0);
        };
        progress.following(&at, work).await;
        let bytes = shown.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[tokio::test(start_paused = true)]
    async fn an_import_is_a_line_that_moves_on_a_terminal_and_a_line_for_each_step_elsewhere() {
        assert_eq!(shown(false).await, "Staging 3 rows\nWriting\n");
        let on_terminal = shown(true).await;
        assert!(on_terminal.contains("\r\x1b[KStaging 3 rows: 2 of 3 … "), "{on_terminal:?}");
        assert!(on_terminal.ends_with("\r\x1b[KWriting\n\r\x1b[K"), "{on_terminal:?}");
    }
}
