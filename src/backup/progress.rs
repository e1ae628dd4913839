//! How far an import is, for whoever shows it while it runs.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Shared by who imports and who shows it. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    inner: Arc<Mutex<State>>,
}

/// What an import does at a time, in this order. It may begin anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The file; counted in bytes.
    Reading,
    /// The checksum, and which sections there are.
    Checking,
    /// Rows are read one by one and staged; counted in rows.
    Staging,
    /// What is staged with what is stored.
    Comparing,
    /// The one transaction.
    Writing,
}

#[derive(Debug, Default)]
struct State {
    stage: Option<Stage>,
    done: u64,
    total: u64,
    /// Stages that have begun and that nobody was told of.
    begun: Vec<String>,
}

/// Counts what is read.
pub struct Counted<R> {
    inner: R,
    progress: Progress,
}

// === impl Progress ===

impl Progress {
    /// A stage begins, of so many bytes or rows; 0 where that is not known.
    pub fn begin(&self, stage: Stage, total: u64) {
        let mut state = lock(&self.inner);
        (state.stage, state.done, state.total) = (Some(stage), 0, total);
        let line = stage.line(total);
        state.begun.push(line);
    }

    /// So much more of the stage is done.
    pub fn add(&self, count: u64) {
        lock(&self.inner).done += count;
    }

    /// The stages that have begun since this was asked last.
    pub fn take_begun(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.inner).begun)
    }

    /// What is being done and how far it is, in a line; `None` before the first stage.
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

    /// The source, whose bytes count for the stage.
    pub fn counting<R: Read>(&self, inner: R) -> Counted<R> {
        Counted { inner, progress: self.clone() }
    }
}

impl Stage {
    fn line(self, total: u64) -> String {
        match self {
            Self::Reading => "Reading the document".to_owned(),
            Self::Checking => "Checking that it is whole".to_owned(),
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
        let progress = Progress::default();
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
