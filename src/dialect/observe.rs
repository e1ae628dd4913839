//! Watches a streamed answer pass.

use super::{Dialect, errors::UpstreamError, usage::Usage};

/// How far a streamed answer has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing yet that a client would miss: another channel may still be tried.
    Preamble,
    /// Content, reasoning, a refusal or a tool call has been seen.
    Output,
    /// The answer is complete: an end of the stream is now clean. Usage may still follow, see
    /// [`StreamObserver::is_finished`].
    Ended,
    /// An error event has been seen; nothing after it counts.
    Failed(UpstreamError),
}

/// Which part of the chunk last fed may be relayed when it made the stream [`Phase::Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// Bytes of the chunk to relay before anything else.
    pub keep: usize,
    /// The error event had begun in an earlier chunk and is relayed whole: no event of our own may follow.
    pub told: bool,
}

/// Reads phase and usage beside a stream.
pub struct StreamObserver {
    dialect: Dialect,
    phase: Phase,
}

impl StreamObserver {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, phase: Phase::Preamble }
    }

    /// Takes the next chunk and gives the phase after it.
    pub fn feed(&mut self, _chunk: &[u8]) -> &Phase {
        let _ = self.dialect;
        &self.phase
    }

    /// The upstream has closed: reads a last event that no blank line ended. After it, a phase other
    /// than `Ended` or `Failed` means that the stream broke.
    pub fn close(&mut self) -> &Phase {
        &self.phase
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Where the stream broke within the chunk last fed; `None` unless that chunk made it fail.
    pub fn break_at(&self) -> Option<Break> {
        None
    }

    /// Nothing can follow any more (`[DONE]`, `message_stop`, a terminal response event): reading may stop.
    pub fn is_finished(&self) -> bool {
        false
    }

    /// Whether any content, reasoning, refusal or tool call was seen.
    pub fn output_seen(&self) -> bool {
        false
    }

    /// The usage seen so far.
    pub fn usage(&self) -> Option<Usage> {
        None
    }

    /// The `sequence_number` that an event of our own would carry (responses).
    pub fn next_sequence(&self) -> u64 {
        0
    }

    /// Whether a `message_start` has passed, so that a `ping` may be sent (messages).
    pub fn message_started(&self) -> bool {
        false
    }
}
