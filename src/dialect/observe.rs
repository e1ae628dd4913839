//! Observes a streamed answer as it passes.
//!
//! The bytes go to the client untouched; beside them [`StreamObserver`] tells how far the answer has come, what it
//! consumed, and whether it failed.
//!
//! ```text
//! Preamble ──output──▶ Output ──end event──▶ Ended          what each event means: `events`
//!     └──────────────────┴──error event──▶ Failed
//! ```
//!
//! Until the first output that is not blank every event is parsed: the decision to retry depends on them, and they are
//! few. After it an event is parsed only when its bytes name something that matters (usage, an error, an end); a plain
//! delta costs a few substring searches. The model's text cannot mislead such a search: inside a JSON string its quotes
//! are escaped, so a quoted word is a key or a whole value, and then the parse decides.
//!
//! Every event of an answer that is converted or gathered is parsed anyway, and passed to [`StreamProgress`] as well.

use super::{
    Dialect,
    errors::{self, BrokenResponse, UpstreamError},
    events::{self, Meaning},
    json,
    opening::Opening,
    responses::AddedItem,
    sse::{self, Scanner},
    stream_event::StreamEvent,
    usage::Usage,
};
use bytes::Bytes;
use response::ResponseSoFar;
use std::ops::Deref;
use written::WrittenText;

mod response;
mod written;

/// The longest event that is read whole, in bytes; only the beginning and the end of a longer one are.
const EVENT_LIMIT: usize = 256 * 1024;

/// The maximum number of items of an answer whose ids are noted, and the longest id that is, in bytes.
const MAX_ITEMS: usize = 256;
const MAX_ITEM_ID: usize = 256;

/// The stage that a streamed answer has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has come yet that a client would miss: another channel may still be tried.
    Preamble,
    /// Content, reasoning, a refusal or a tool call has been seen.
    Output,
    /// The answer is complete: an end of the stream is now clean. Usage may still follow, see
    /// [`StreamProgress::is_finished`].
    Ended,
    /// An error event has been seen; nothing after it counts.
    Failed(UpstreamError),
}

/// The state of a streamed answer, as its events tell it.
#[derive(Debug)]
pub struct StreamProgress {
    dialect: Dialect,
    phase: Phase,
    usage: Option<Usage>,
    output: bool,
    /// Whether any of the output is more than blank text.
    words: bool,
    finished: bool,
    /// Whether output came in events before the one that ended the answer.
    ended_after_output: bool,
    /// Whether a stop reason has come (messages).
    stopped: bool,
    opening: Opening,
    /// The text that has come, where it is counted.
    written: Option<WrittenText>,
    /// The ids of the answer's items so far, and its own if only its end has told it (responses only).
    items: Vec<String>,
}

/// The part of the chunk last fed that may be relayed when the chunk made the stream [`Phase::Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The bytes of the chunk to relay before anything else.
    pub keep: usize,
    /// Whether the error event had begun in an earlier chunk and is relayed whole: no event of our own may follow.
    pub error_relayed: bool,
}

/// Events about the items of a response, or the end of a message, are missing.
#[derive(Clone, Debug)]
pub struct Lack {
    pub dialect: Dialect,
    /// Offset in the chunk last fed of the event before which they are missing; `None` when it began in an earlier chunk.
    pub start: Option<usize>,
    /// The number of that event.
    pub number: u64,
    /// The items that have been added before.
    pub items: Vec<AddedItem>,
}

/// Reads the progress of a stream that passes, and what is needed to add an event of our own to it.
#[derive(Debug)]
pub struct StreamObserver {
    scanner: Scanner,
    watch: Watch,
}

#[derive(Debug)]
struct Watch {
    progress: StreamProgress,
    events: u64,
    /// What the stream has told of the response (responses only).
    response: ResponseSoFar,
    /// The index of the open block (messages only).
    open_block: Option<u64>,
    broke: Option<Break>,
    /// See [`StreamObserver::lack`].
    lack: Option<Lack>,
    /// See [`StreamObserver::ended_at`].
    ended_at: Option<usize>,
    /// Whether data that is no JSON has come.
    has_text: bool,
}

// === impl StreamProgress ===

impl StreamProgress {
    pub fn new(dialect: Dialect) -> Self {
        let opening = Opening::default();
        Self {
            dialect,
            phase: Phase::Preamble,
            usage: None,
            output: false,
            words: false,
            finished: false,
            ended_after_output: false,
            stopped: false,
            opening,
            written: None,
            items: Vec::new(),
        }
    }

    /// Returns the upstream's dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns the upstream's error when its stream failed.
    pub fn failure(&self) -> Option<&UpstreamError> {
        match &self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether nothing can follow any more (`[DONE]`, `message_stop`, a terminal response event), so that reading may
    /// stop.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether output came in events before the one that ended the answer.
    pub fn ended_after_output(&self) -> bool {
        self.ended_after_output
    }

    /// Whether any content, reasoning, refusal or tool call was seen.
    pub fn output_seen(&self) -> bool {
        self.output
    }

    /// Whether any output other than blank text was seen.
    pub fn words_seen(&self) -> bool {
        self.words
    }

    /// Returns the usage seen so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Counts the text from now on, see [`output_tokens`](Self::output_tokens).
    pub fn count_text(&mut self) {
        self.written = Some(WrittenText::new(self.dialect));
    }

    /// Whether the text is counted.
    pub fn counts_text(&self) -> bool {
        self.written.is_some()
    }

    /// Returns how many tokens the model has written so far: what the upstream tells, or else an estimate by the text.
    pub fn output_tokens(&self) -> u64 {
        let told = self.usage.and_then(|usage| usage.completion);
        // At the beginning of a message a few tokens are told, which say nothing of the rest.
        let told = told.filter(|told| *told > 0 && self.dialect != Dialect::Messages);
        told.or(self.written.as_ref().map(WrittenText::tokens)).unwrap_or(0)
    }

    /// Returns the ids by which later requests may refer to the answer's items so far, and to the answer itself if only its end
    /// has told its id (responses only).
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Whether events that a client needs before the first output are missing (messages, responses).
    pub fn lacks_opening(&self) -> bool {
        self.opening.is_lacking()
    }

    /// Whether later events no longer count.
    fn is_over(&self) -> bool {
        self.finished || matches!(self.phase, Phase::Failed(_))
    }

    /// Reads the next event.
    pub fn take(&mut self, event: &StreamEvent<'_>) {
        if self.is_over() {
            return;
        }
        if let (Some(written), Some(json)) = (&mut self.written, event.json()) {
            written.take(json.raw().as_bytes());
        }
        if self.phase == Phase::Preamble {
            self.opening.take(self.dialect, event);
        }
        if self.dialect == Dialect::Responses {
            self.note_items(event);
        }
        if self.dialect == Dialect::Messages {
            self.stopped |= events::has_stop_reason(event);
        }
        let read = events::read(self.dialect, event);
        if let Some(usage) = read.usage {
            self.usage.get_or_insert_default().merge(usage);
        }
        self.output |= read.output;
        self.words = self.words || read.output && !events::has_blank_output(self.dialect, event);
        match read.meaning {
            Meaning::End { last: true } if self.is_bare_end() => {
                self.phase = Phase::Failed(UpstreamError::new("Upstream's stream has no content"));
            }
            Meaning::Failure(error) => self.phase = Phase::Failed(error),
            Meaning::Plain if self.stopped && event.is_done() => {
                self.finished = true;
                self.phase = Phase::Ended;
            }
            Meaning::End { last } => {
                self.finished = last;
                self.ended_after_output |= self.phase == Phase::Output;
                self.phase = Phase::Ended;
            }
            Meaning::Plain if read.output && self.phase == Phase::Preamble => self.phase = Phase::Output,
            Meaning::Plain => {}
        }
    }

    fn note_items(&mut self, event: &StreamEvent<'_>) {
        // Without a beginning, only the end tells the id of the answer.
        let own = events::ended_id(event).filter(|_| !self.opening.has_begun());
        let ids = events::item_ids(event)
            .chain(own)
            .filter(|id| id.len() <= MAX_ITEM_ID && !self.items.contains(id));
        let room = MAX_ITEMS.saturating_sub(self.items.len());
        let new: Vec<String> = ids.take(room).collect();
        self.items.extend(new);
    }

    /// Whether an end marker now would follow nothing, not even a finish reason: that is never an answer.
    fn is_bare_end(&self) -> bool {
        matches!(self.dialect, Dialect::Chat | Dialect::Completions) && self.phase == Phase::Preamble
    }
}

// === impl StreamObserver ===

impl Deref for StreamObserver {
    type Target = StreamProgress;

    fn deref(&self) -> &StreamProgress {
        &self.watch.progress
    }
}

impl StreamObserver {
    pub fn new(dialect: Dialect) -> Self {
        let progress = StreamProgress::new(dialect);
        let response = ResponseSoFar::default();
        let watch = Watch {
            progress,
            events: 0,
            response,
            open_block: None,
            broke: None,
            lack: None,
            ended_at: None,
            has_text: false,
        };
        Self { scanner: Scanner::new(EVENT_LIMIT), watch }
    }

    /// Counts the text from now on, see [`StreamProgress::output_tokens`].
    pub fn count_text(&mut self) {
        self.watch.progress.count_text();
    }

    /// Reads the next chunk and returns the phase after it.
    pub fn feed(&mut self, chunk: &[u8]) -> &Phase {
        let Self { scanner, watch } = self;
        (watch.broke, watch.lack, watch.ended_at) = (None, None, None);
        scanner.feed(chunk, |event| watch.take(&event));
        self.phase()
    }

    /// Ends the stream, now that the upstream has closed: reads a last event that no blank line ended. After it, a
    /// phase other than `Ended` or `Failed` means that the stream broke.
    pub fn close(&mut self) -> &Phase {
        let Self { scanner, watch } = self;
        (watch.broke, watch.lack) = (None, None);
        scanner.finish(|event| watch.take(&event));
        self.phase()
    }

    /// Returns where the stream broke within the chunk last fed; `None` unless that chunk made it fail.
    pub fn break_at(&self) -> Option<Break> {
        self.watch.broke
    }

    /// Returns what is missing in the chunk last fed. A stream that
    /// [lacks its opening](StreamProgress::lacks_opening) lacks more than these.
    pub fn lack(&self) -> Option<&Lack> {
        self.watch.lack.as_ref().filter(|_| !self.watch.progress.lacks_opening())
    }

    /// Returns the offset behind the event with which the stream ended in the last chunk. What follows is not part of the
    /// answer. `None` for a responses stream, which may have a `[DONE]` behind its last event.
    pub fn ended_at(&self) -> Option<usize> {
        self.watch.ended_at.filter(|_| self.watch.progress.dialect != Dialect::Responses)
    }

    /// Whether something has come since the last call that no model wrote: comments, or data that is no JSON.
    pub fn take_free_text(&mut self) -> bool {
        self.scanner.take_remarks() | std::mem::take(&mut self.watch.has_text)
    }

    /// Returns the `sequence_number` that an event of our own would carry (responses).
    #[cfg(test)]
    pub fn next_sequence(&self) -> u64 {
        self.watch.events
    }

    /// Whether no event is half fed: only then may an event of our own be put into the stream.
    pub fn between_events(&self) -> bool {
        self.scanner.between_events()
    }

    /// Builds the event that tells the client of a break ([`errors::stream_event`]), with the sequence number and the
    /// response as the upstream reported it, with the items that are whole, or after the end of the open block, where these
    /// are known. `id` is that of a response that the upstream has not reported.
    pub fn failure_event(&self, error: &UpstreamError, id: &str) -> Bytes {
        let Watch { progress, events, response, open_block, .. } = &self.watch;
        let reported = response.text();
        let response = BrokenResponse { sequence: *events, reported: reported.as_deref(), id };
        let event = errors::stream_event_of(progress.dialect, error, &response);
        let Some(index) = open_block else { return event };
        let stop = format!(
            "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n"
        );
        Bytes::from([stop.as_bytes(), &event].concat())
    }
}

impl Watch {
    fn take(&mut self, event: &sse::Event<'_>) {
        if self.progress.is_over() {
            return;
        }
        let number = self.events;
        self.events += 1;
        self.has_text |= !matches!(event.data.first(), Some(b'{' | b'['));
        let dialect = self.progress.dialect;
        match dialect {
            Dialect::Messages => self.note_block(event),
            Dialect::Responses if self.response.lacks_addition(event.name) => {
                self.note_lack(event, number);
                self.response.note_addition();
            }
            _ => {}
        }
        if self.progress.words && !events::may_matter(dialect, event.name, event.data) {
            if let Some(written) = &mut self.progress.written {
                written.take(event.data);
            }
            return;
        }
        let text = sse::text(event.data);
        let parsed = StreamEvent::of(event, &text);
        self.progress.take(&parsed);
        if dialect == Dialect::Responses {
            if self.response.lacks_ends(&parsed) {
                self.note_lack(event, number);
            }
            self.note_response(&parsed, number);
        }
        if self.progress.is_finished() {
            self.ended_at = Some(event.end);
            if dialect == Dialect::Messages && parsed.is_done() {
                self.note_lack(event, number);
            }
        }
        if self.progress.failure().is_some() {
            self.events = self.events.saturating_sub(1);
            self.broke = Some(match event.start {
                Some(start) => Break { keep: start, error_relayed: false },
                None => Break { keep: event.end, error_relayed: true },
            });
        }
    }

    /// Notes which block is open, by the names of the events: those are few beside the deltas.
    fn note_block(&mut self, event: &sse::Event<'_>) {
        match event.name {
            b"content_block_start" => {
                let data = std::str::from_utf8(event.data).unwrap_or_default();
                self.open_block = json::member(data, "index").and_then(|index| index.parse().ok());
            }
            b"content_block_stop" => self.open_block = None,
            _ => {}
        }
    }

    /// Notes that events are missing before this one.
    fn note_lack(&mut self, event: &sse::Event<'_>, number: u64) {
        let told = json::member(&sse::text(event.data), "sequence_number").and_then(|told| told.parse().ok());
        let (number, items) = (told.unwrap_or(number), self.response.items().to_vec());
        let dialect = self.progress.dialect;
        self.lack.get_or_insert(Lack { dialect, start: event.start, number, items });
    }

    /// Notes what the event tells of the response, and how the events are numbered.
    fn note_response(&mut self, event: &StreamEvent<'_>, number: u64) {
        let sequence = event.json().and_then(|json| json.u64_at("sequence_number"));
        if let Some(sequence) = sequence.filter(|sequence| *sequence >= number) {
            self.events = sequence.saturating_add(1);
        }
        self.response.take(event, self.progress.failure().is_some());
    }
}

#[cfg(test)]
mod tests;
