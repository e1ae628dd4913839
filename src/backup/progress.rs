//! The progress of an import, for display while it runs.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// The progress of an import, shared between the import and its display. Cheap to clone; all clones share one
/// state.
#[derive(Debug, Clone, Default)]
pub struct ImportProgress {
    inner: Arc<Mutex<State>>,
}

/// The stages of an import, in order. An import may start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reads the file; counted in bytes.
    Reading,
    /// Verifies the checksum, and finds the sections.
    Checking,
    /// Reads rows one by one and stages them; counted in rows.
    Staging,
    /// Compares the staged rows with the stored ones.
    Comparing,
    /// Runs the one transaction.
    Writing,
}

#[derive(Debug, Default)]
struct State {
    stage: Option<Stage>,
    done: u64,
    total: u64,
    /// Lines of the stages that have begun and were not reported yet.
    begun: Vec<String>,
}

/// A reader that counts the bytes it reads as progress.
pub struct Counted<R> {
    inner: R,
    progress: ImportProgress,
}

// === impl ImportProgress ===

impl ImportProgress {
    /// Begins a stage with a total of this many bytes or rows; 0 when it is unknown.
    pub fn begin(&self, stage: Stage, total: u64) {
        let mut state = lock(&self.inner);
        (state.stage, state.done, state.total) = (Some(stage), 0, total);
        let line = stage.line(total);
        state.begun.push(line);
    }

    /// Adds to what is done of the stage.
    pub fn add(&self, count: u64) {
        lock(&self.inner).done += count;
    }

    /// Returns the stages that have begun since the last call.
    pub fn take_begun(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.inner).begun)
    }

    /// Returns a line with the current stage and its progress; `None` before the first stage.
    pub fn now(&self) -> Option<String> {
        let state = lock(&self.inner);
        let stage = state.stage?;
        let line = stage.line(state.total);
        Some(match (state.total, stage) {
            (0, _) => line,
            (total, Stage::Reading) => {
                format!("{line}: {} of {} MiB", state.done >> 20, total.div_ceil(1 << 20))
            }
            (total, _) => format!("{line}: {} of {total}", state.done),
        })
    }

    /// Wraps a reader so that its bytes count as progress of the stage.
    pub fn counting<R: Read>(&self, inner: R) -> Counted<R> {
        Counted { inner, progress: self.clone() }
    }
}

impl Stage {
    fn line(self, total: u64) -> String {
        match self {
            Self::Reading => "Reading the document".to_owned(),
            Self::Checking => "Checking that the document is complete".to_owned(),
            Self::Staging if total > 0 => format!("Staging {total} rows"),
            Self::Staging => "Staging the rows".to_owned(),
            Self::Comparing => "Comparing with what is stored".to_owned(),
            Self::Writing => "Writing".to_owned(),
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.add(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_done_and_how_far_it_is() {
        let progress = ImportProgress::default();
        assert_eq!((progress.now(), progress.take_begun()), (None, Vec::new()));
        progress.begin(Stage::Reading, 3 << 20);
        let mut read = Vec::new();
        progress.counting(&[7; 1 << 20][..]).read_to_end(&mut read).expect("read");
        assert_eq!(progress.now().as_deref(), Some("Reading the document: 1 of 3 MiB"));
        progress.begin(Stage::Staging, 40);
        progress.add(10);
        assert_eq!(progress.now().as_deref(), Some("Staging 40 rows: 10 of 40"));
        progress.begin(Stage::Writing, 0);
        assert_eq!(progress.now().as_deref(), Some("Writing"));
        assert_eq!(progress.take_begun(), ["Reading the document", "Staging 40 rows", "Writing"]);
        assert!(progress.take_begun().is_empty());
    }
}
