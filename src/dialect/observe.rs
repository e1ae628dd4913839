//! Watches a streamed answer pass.
//!
//! The bytes go to the client untouched; beside them [`StreamObserver`] tells how far the answer
//! has come, what it consumed, and whether it failed.
//!
//! ```text
//! Preamble ──output──▶ Output ──end event──▶ Ended          what each event means: `events`
//!     └──────────────────┴──error event──▶ Failed
//! ```
//!
//! Until the first output every event is parsed: that is what the retry hangs on, and they are few.
//! After it an event is parsed only when its bytes name something that matters (usage, an error, an
//! end); a plain delta costs a few substring searches. Such a search cannot be misled by what the
//! model writes: inside a JSON string its quotes are escaped, so a quoted word is a key or a whole
//! value, and then the parse decides.

use super::{
    Dialect,
    errors::{self, UpstreamError},
    events::{self, Meaning},
    json,
    sse::{Event, Scanner},
    usage::Usage,
};
use bytes::Bytes;

/// The longest event that is looked at whole; only the beginning and the end of a longer one are.
const EVENT_LIMIT: usize = 256 * 1024;

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
    pub error_relayed: bool,
}

/// Reads phase and usage beside a stream.
#[derive(Debug)]
pub struct StreamObserver {
    scanner: Scanner,
    state: StreamState,
}

#[derive(Debug)]
struct StreamState {
    dialect: Dialect,
    phase: Phase,
    usage: Option<Usage>,
    output: bool,
    finished: bool,
    events: u64,
    /// The response as it began, in JSON (responses).
    begun: Option<String>,
    /// The block that is open (messages).
    open_block: Option<u64>,
    broke: Option<Break>,
}

impl StreamObserver {
    pub fn new(dialect: Dialect) -> Self {
        Self {
            scanner: Scanner::new(EVENT_LIMIT),
            state: StreamState {
                dialect,
                phase: Phase::Preamble,
                usage: None,
                output: false,
                finished: false,
                events: 0,
                begun: None,
                open_block: None,
                broke: None,
            },
        }
    }

    /// Takes the next chunk and gives the phase after it.
    pub fn feed(&mut self, chunk: &[u8]) -> &Phase {
        let Self { scanner, state } = self;
        state.broke = None;
        scanner.feed(chunk, |event| state.take(event));
        &self.state.phase
    }

    /// The upstream has closed: reads a last event that no blank line ended. After it, a phase other
    /// than `Ended` or `Failed` means that the stream broke.
    pub fn close(&mut self) -> &Phase {
        let Self { scanner, state } = self;
        state.broke = None;
        scanner.finish(|event| state.take(event));
        &self.state.phase
    }

    pub fn phase(&self) -> &Phase {
        &self.state.phase
    }

    /// Where the stream broke within the chunk last fed; `None` unless that chunk made it fail.
    pub fn break_at(&self) -> Option<Break> {
        self.state.broke
    }

    /// Nothing can follow any more (`[DONE]`, `message_stop`, a terminal response event): reading may stop.
    pub fn is_finished(&self) -> bool {
        self.state.finished
    }

    /// Whether any content, reasoning, refusal or tool call was seen.
    pub fn output_seen(&self) -> bool {
        self.state.output
    }

    /// The usage seen so far.
    pub fn usage(&self) -> Option<Usage> {
        self.state.usage
    }

    /// The `sequence_number` that an event of our own would carry (responses).
    #[cfg(test)]
    pub fn next_sequence(&self) -> u64 {
        self.state.events
    }

    /// No event is half fed: only now may an event of our own be put into the stream.
    pub fn between_events(&self) -> bool {
        self.scanner.between_events()
    }

    /// What tells the client of a break ([`errors::stream_event`]), with what is known of the stream: its
    /// sequence number and the response as it began, or the block that is to be closed before.
    pub fn failure_event(&self, error: &UpstreamError) -> Bytes {
        let state = &self.state;
        let event = errors::stream_event_of(state.dialect, error, state.events, state.begun.as_deref());
        let Some(index) = state.open_block else { return event };
        let stop = format!(
            "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n"
        );
        Bytes::from([stop.as_bytes(), &event].concat())
    }
}

impl StreamState {
    fn take(&mut self, event: Event<'_>) {
        if self.finished || matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        let number = self.events;
        self.events += 1;
        if self.dialect == Dialect::Messages {
            self.note_block(&event);
        }
        if self.phase != Phase::Preamble && !events::may_matter(self.dialect, event.name, event.data) {
            return;
        }
        let read = events::read(self.dialect, event.name, event.data, event.cut);
        if let Some(usage) = read.usage {
            self.usage.get_or_insert_default().merge(usage);
        }
        if read.sequence.is_some_and(|sequence| sequence >= number) {
            self.events = read.sequence.unwrap_or(number).saturating_add(1);
        }
        if read.begun.is_some() {
            self.begun = read.begun;
        }
        self.output |= read.output;
        let meaning = match read.meaning {
            Meaning::End { last: true } if self.is_bare_end() => {
                Meaning::Failure(UpstreamError::new("Upstream's stream has no content"))
            }
            meaning => meaning,
        };
        match meaning {
            Meaning::Failure(error) => {
                self.broke = Some(match event.start {
                    Some(start) => Break { keep: start, error_relayed: false },
                    None => Break { keep: event.end, error_relayed: true },
                });
                self.events = read.sequence.unwrap_or(number);
                self.phase = Phase::Failed(error);
            }
            Meaning::End { last } => {
                self.finished = last;
                self.phase = Phase::Ended;
            }
            Meaning::Plain if read.output && self.phase == Phase::Preamble => self.phase = Phase::Output,
            Meaning::Plain => {}
        }
    }
}

impl StreamState {
    /// Which block is open, by the names of the events: they are few beside the deltas.
    fn note_block(&mut self, event: &Event<'_>) {
        match event.name {
            b"content_block_start" => {
                let data = std::str::from_utf8(event.data).unwrap_or_default();
                self.open_block = json::member(data, "index").and_then(|index| index.parse().ok());
            }
            b"content_block_stop" => self.open_block = None,
            _ => {}
        }
    }

    /// An end marker after nothing, not even a reason to stop: never an answer.
    fn is_bare_end(&self) -> bool {
        matches!(self.dialect, Dialect::Chat | Dialect::Completions) && self.phase == Phase::Preamble
    }
}

#[cfg(test)]
mod tests;
