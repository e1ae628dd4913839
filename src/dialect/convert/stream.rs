//! Converts a stream from one dialect to another.

use std::sync::Arc;

use super::restore::Restorer;
use super::signatures::{self, CallSignature, SignatureCollector};
use super::surrogates::SurrogateJoiner;
use super::{Reader, Writer, answers_in, failed_stop};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Event, MAX_CHOICES, MAX_OPEN_PARTS, ReplyContext, too_many_parts};
use crate::dialect::observe::StreamProgress;
use crate::dialect::sse::{self, Scanner};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// The longest event that is converted, in bytes: a whole image may come as one. A longer one ends the stream.
pub const MAX_EVENT: usize = 16 << 20;
/// The longest stream that is converted to responses, whose last event holds the whole answer, in bytes.
const MAX_KEPT: usize = 64 << 20;

/// Takes the chunks of one dialect and writes those of another as soon as they can be written.
///
/// Several answers may come in one stream, told apart by the index of their choice or candidate, and leave the same
/// way: each is converted on its own from its first chunk on.
#[derive(Debug)]
pub struct StreamConverter {
    scanner: Scanner,
    progress: StreamProgress,
    choices: Choices,
    /// The number of bytes received.
    received: usize,
}

#[derive(Debug)]
struct Choices {
    from: Dialect,
    to: Dialect,
    context: Arc<ReplyContext>,
    /// The converters of the answers. Never empty: the first also converts what belongs to no single answer.
    all: Vec<Choice>,
    /// Whether the end of several answers has been written.
    concluded: bool,
}

#[derive(Debug)]
struct Choice {
    /// The index of the answer.
    index: u64,
    reader: Reader,
    surrogates: SurrogateJoiner,
    restorer: Restorer,
    context: Arc<ReplyContext>,
    written: Written,
}

/// The state of an answer that is being written.
#[derive(Debug)]
struct Written {
    to: Dialect,
    writer: Writer,
    failure: Option<UpstreamError>,
    ended: bool,
    /// The number of open parts.
    open: usize,
    /// Collects the signatures of calls; `None` where the client's dialect has a place for them.
    signatures: Option<SignatureCollector>,
}

impl StreamConverter {
    pub fn new(from: Dialect, to: Dialect, context: Arc<ReplyContext>) -> Self {
        let reader = if context.several { Reader::of_answer(0, from) } else { Reader::new(from) };
        let all = vec![Choice::new(0, reader, to, &context)];
        Self {
            scanner: Scanner::new(MAX_EVENT),
            progress: StreamProgress::new(from),
            choices: Choices { from, to, context, all, concluded: false },
            received: 0,
        }
    }

    /// Counts the text from now on, see [`StreamProgress::output_tokens`].
    pub fn count_text(&mut self) {
        self.progress.count_text();
    }

    /// Reads the next chunk and appends its conversion to `out`. After a failure nothing more is written; see
    /// [`failure`](Self::failure).
    pub fn feed(&mut self, chunk: &[u8], out: &mut String) {
        let Self { scanner, progress, choices, received } = self;
        *received = received.saturating_add(chunk.len());
        if choices.to == Dialect::Responses && *received > MAX_KEPT {
            choices.give_up();
        }
        scanner.feed(chunk, |event| choices.take(&event, progress, out));
        if scanner.is_too_long() {
            // It cannot be converted, and may never end.
            scanner.finish(|event| choices.take(&event, progress, out));
        }
    }

    /// Reads a last event that no blank line ended, once the upstream's body is over.
    pub fn finish(&mut self, out: &mut String) {
        let Self { scanner, progress, choices, .. } = self;
        scanner.finish(|event| choices.take(&event, progress, out));
    }

    /// Writes the rest, now that nothing more comes. Returns whether the answer is complete.
    pub fn close(&mut self, out: &mut String) -> bool {
        self.finish(out);
        self.choices.all.iter_mut().for_each(|choice| choice.close(out));
        self.choices.conclude(out);
        self.is_ended()
    }

    /// Returns how far the answer has come, and what it consumed as its upstream counts.
    pub fn progress(&self) -> &StreamProgress {
        &self.progress
    }

    /// Returns the error when the stream failed.
    pub fn failure(&self) -> Option<&UpstreamError> {
        let of_choice = self.choices.all.iter().find_map(|choice| choice.written.failure.as_ref());
        of_choice.or_else(|| self.progress.failure())
    }

    /// Takes the signatures of calls, for which the client has no place, that have come since the last call.
    pub fn take_signatures(&mut self) -> Vec<CallSignature> {
        let signatures = self.choices.all.iter_mut().filter_map(|choice| choice.written.signatures.as_mut());
        signatures.flat_map(|signatures| std::mem::take(&mut signatures.found)).collect()
    }

    /// Whether the end of the stream has been written.
    pub fn is_ended(&self) -> bool {
        self.choices.all.iter().all(|choice| choice.written.ended)
    }

    /// Whether several answers may come, of which one may end long before another.
    pub fn is_of_several(&self) -> bool {
        self.choices.context.several
    }

    /// Writes the error that ends the stream. Nothing may follow.
    pub fn fail(&mut self, error: &UpstreamError, out: &mut String) {
        let mut reported = self.is_ended();
        for choice in &mut self.choices.all {
            let written = &mut choice.written;
            if !written.ended && !std::mem::replace(&mut reported, true) {
                written.writer.write(&Event::Fail(error.clone()), &choice.context, out);
            }
            written.ended = true;
        }
    }
}

impl Choices {
    fn take(&mut self, event: &sse::Event<'_>, progress: &mut StreamProgress, out: &mut String) {
        if progress.failure().is_some() {
            return;
        }
        let text = sse::text(event.data);
        let event = StreamEvent::of(event, &text);
        progress.take(&event);
        if self.context.several
            && let Some(json) = event.json()
        {
            self.open_choices(json);
        }
        for choice in &mut self.all {
            choice.read(&event, out);
        }
        self.conclude(out);
    }

    /// Ends the stream when each of several answers has ended. The first writer does so: it has seen all that belongs
    /// to no single answer.
    fn conclude(&mut self, out: &mut String) {
        let all_ended = self.context.several && self.all.iter().all(|choice| choice.written.ended);
        if all_ended
            && !std::mem::replace(&mut self.concluded, true)
            && let Some(first) = self.all.first()
        {
            first.written.writer.conclude(&self.context, out);
        }
    }

    /// Fails the answers that are not over: they are longer than may be held.
    fn give_up(&mut self) {
        for written in
            self.all.iter_mut().map(|choice| &mut choice.written).filter(|written| !written.is_over())
        {
            written.failure = Some(UpstreamError::new("the answer is too long to be converted"));
        }
    }

    /// Starts the conversion of answers of which this is the first chunk.
    fn open_choices(&mut self, chunk: &Node<'_>) {
        for index in answers_in(self.from, chunk) {
            let is_new = !self.all.iter().any(|choice| choice.index == index);
            if is_new && self.all.len() < MAX_CHOICES {
                let reader = Reader::of_answer(index, self.from);
                self.all.push(Choice::new(index, reader, self.to, &self.context));
            }
        }
    }
}

impl Choice {
    fn new(index: u64, reader: Reader, to: Dialect, context: &Arc<ReplyContext>) -> Self {
        Self {
            index,
            reader,
            surrogates: SurrogateJoiner::default(),
            restorer: Restorer::default(),
            context: context.clone(),
            written: Written {
                to,
                writer: Writer::of_answer(index, to, context),
                failure: None,
                ended: false,
                open: 0,
                signatures: signatures::may_be_lost(to).then(SignatureCollector::default),
            },
        }
    }

    fn read(&mut self, event: &StreamEvent<'_>, out: &mut String) {
        self.pass(out, |reader, each| reader.read(event, each));
    }

    fn close(&mut self, out: &mut String) {
        self.pass(out, Reader::close);
    }

    /// Writes the events that result from reading on.
    fn pass(&mut self, out: &mut String, read: impl FnOnce(&mut Reader, &mut dyn FnMut(Event<'_>))) {
        let Self { reader, surrogates, restorer, context, written, .. } = self;
        if written.is_over() {
            return;
        }
        read(reader, &mut |event| {
            surrogates.event(event, &mut |event| {
                restorer.event(event, context, &mut |event| written.take(event, context, out));
            });
        });
    }
}

impl Written {
    fn is_over(&self) -> bool {
        self.failure.is_some() || self.ended
    }

    fn take(&mut self, event: Event<'_>, context: &ReplyContext, out: &mut String) {
        if let Some(signatures) = &mut self.signatures {
            signatures.take(&event);
        }
        if self.is_over() {
            return;
        }
        match event {
            Event::PartStart { .. } => self.open += 1,
            Event::PartStop { .. } => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        if let Event::Finish(stop) = &event
            && let Some(error) = failed_stop(self.to, stop)
        {
            self.failure = Some(error);
            return;
        }
        match event {
            Event::Fail(error) => self.failure = Some(error),
            _ if self.open > MAX_OPEN_PARTS => self.failure = Some(too_many_parts()),
            event => {
                self.ended = matches!(event, Event::End);
                self.writer.write(&event, context, out);
            }
        }
    }
}
