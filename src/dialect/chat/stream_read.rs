//! Reads a streamed answer.
//!
//! ```text
//! delta.content ─▶ snapshots ─▶ inline thinking ┐
//! delta.reasoning_content ─▶ snapshots ─────────┼─▶ parts ─▶ events
//! delta.refusal, delta.tool_calls ──────────────┘
//! ```

use super::calls::{self, Piece};
use super::content::{self, Pieces};
use super::inline::{Inline, TextKind};
use super::parts::Parts;
use super::snapshots::Snapshots;
use super::{stop, thinking, usage};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Event, Image, MAX_CHOICES, MAX_OPEN_PARTS, Part, Stop, too_many_parts};
use crate::dialect::citation::Citation;
use crate::dialect::events::error_of_choice;
use crate::dialect::gemini;
use crate::dialect::literal::Text;
use crate::dialect::logprobs;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// Reads a streamed answer, event by event. If there are several choices, it reads the one that comes first.
#[derive(Debug, Default)]
pub struct StreamReader {
    progress: Progress,
    started: bool,
    /// The index of the choice that is read.
    choice: Option<u64>,
    pieces: Pieces,
    text_snapshots: Snapshots,
    thinking_snapshots: Snapshots,
    inline: Inline,
    parts: Parts,
    /// Whether pictures are left out, because someone else keeps them as they came.
    omits_images: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Reading,
    /// A `finish_reason` was seen; from here on only usage counts.
    Finished,
    Over,
}

impl StreamReader {
    /// Creates a reader of the choice with that index.
    pub fn of_choice(index: u64) -> Self {
        Self { choice: Some(index), ..Self::default() }
    }

    /// Leaves out pictures from now on.
    pub fn omit_images(&mut self) {
        self.omits_images = true;
    }

    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if self.progress == Progress::Over {
            return;
        }
        if event.is_done() {
            return self.done(each);
        }
        let Some(chunk) = event.json() else {
            if let Some(error) = event.failure() {
                self.fail(error, each);
            }
            return;
        };
        let failure = if event.is_named_error() { Some(stop::error_of(chunk)) } else { stop::failure(chunk) };
        if let Some(error) = failure {
            return self.fail(error, each);
        }
        if let Some(mut usage) = event.usage(Dialect::Chat) {
            // Some sites pass on the counts of the messages dialect.
            usage.count_cache_in();
            usage.tier = usage::tier(chunk);
            each(Event::Usage(usage));
        }
        for choice in chunk.items_at("choices").iter().take(MAX_CHOICES) {
            if self.progress == Progress::Reading {
                self.read_choice(chunk, choice, each);
            }
        }
    }

    /// Ends the stream at the end of the upstream's body. The answer is known to be complete only after a
    /// `finish_reason`.
    pub fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        match self.progress {
            Progress::Reading => self.release(each),
            Progress::Finished => each(Event::End),
            Progress::Over => {}
        }
        self.progress = Progress::Over;
    }

    fn done(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        if self.progress == Progress::Reading {
            self.release(each);
            self.parts.finish(each);
            if !self.parts.any() {
                return self.fail(UpstreamError::new("Upstream's stream has no content"), each);
            }
            each(Event::Finish(if self.parts.called() { Stop::ToolCall } else { Stop::End }));
        }
        self.progress = Progress::Over;
        each(Event::End);
    }

    fn fail(&mut self, error: UpstreamError, each: &mut dyn FnMut(Event<'_>)) {
        if self.progress == Progress::Reading {
            self.progress = Progress::Over;
            each(Event::Fail(error));
        }
    }

    fn read_choice(&mut self, chunk: &Node<'_>, choice: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let index = choice.u64_at("index").unwrap_or(0);
        if *self.choice.get_or_insert(index) != index {
            return;
        }
        if !std::mem::replace(&mut self.started, true) {
            let (id, model) = (chunk.text_at("id"), chunk.text_at("model"));
            let (id, model) = (id.unwrap_or_default(), model.unwrap_or_default());
            each(Event::Start { id, model, created: chunk.u64_at("created") });
        }
        if let Some(logprobs) = choice.get("logprobs") {
            self.parts.push_logprobs(logprobs::read(logprobs.items_at("content")));
        }
        if let Some(piece) = self.pieces.of(choice) {
            self.read_delta(piece, each);
        }
        match &*choice.str_at("finish_reason") {
            "" => {}
            "error" => self.fail(error_of_choice(choice), each),
            reason => {
                let has_calls = self.parts.open_calls() > 0;
                self.release(each);
                self.parts.finish(each);
                if has_calls && !self.parts.any() {
                    let message = "Upstream's stream has no content but calls without a name";
                    return self.fail(UpstreamError::new(message), each);
                }
                self.progress = Progress::Finished;
                each(Event::Finish(stop::read(reason, self.parts.called())));
            }
        }
    }

    fn read_delta(&mut self, delta: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if let Some(text) = thinking::text(delta) {
            self.read_thinking(&text, each);
        }
        if let Some(proof) = delta.text_at("reasoning_signature").filter(|proof| !proof.is_empty()) {
            let signatures = thinking::from_member(&proof).into_iter().map(|(_, signature)| signature);
            self.parts.push_signatures(signatures.collect(), each);
        }
        match delta.get("content") {
            Some(text) if text.is_string() => self.read_text(&text.text().unwrap_or_default(), each),
            Some(parts) => {
                for part in content::read(parts).unwrap_or_default() {
                    match part {
                        Part::Text(text) => self.read_text(&text, each),
                        Part::Thinking(thinking) => self.read_thinking(&thinking.text, each),
                        Part::Image(image) => self.read_image(&image, each),
                        _ => {}
                    }
                }
            }
            None => {}
        }
        content::images(delta).for_each(|image| self.read_image(&image, each));
        for citation in delta.items_at("annotations").iter().filter_map(Citation::of_annotation) {
            self.release(each);
            self.parts.push_citation(citation, each);
        }
        if let Some(text) = delta.text_at("refusal").filter(|text| !text.is_empty()) {
            self.release(each);
            self.parts.push(TextKind::Refusal, text.literal(), each);
        }
        let together = delta.items_at("tool_calls").len() > 1;
        for (place, piece) in calls::of_message(delta).enumerate() {
            self.release(each);
            // Calls that come together without an index are distinguished by their position.
            let place = together.then_some(place as u64);
            self.parts.push_call(Piece { index: piece.index.or(place), ..piece }, each);
        }
        if self.parts.open_calls() > MAX_OPEN_PARTS {
            self.fail(too_many_parts(), each);
        }
    }

    fn read_text(&mut self, text: &Text<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let Self { text_snapshots, inline, parts, .. } = self;
        text_snapshots.feed(text.literal(), &mut |new| {
            inline.feed(new, &mut |kind, literal| parts.push(kind, literal, each));
        });
    }

    fn read_thinking(&mut self, text: &Text<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let Self { thinking_snapshots, inline, parts, .. } = self;
        if !text.is_empty() {
            inline.settle();
        }
        thinking_snapshots.feed(text.literal(), &mut |new| parts.push(TextKind::Thinking, new, each));
    }

    fn read_image(&mut self, image: &Image<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let Some(text) = gemini::image_as_text(image).filter(|_| !self.omits_images) else { return };
        self.release(each);
        self.parts.push(TextKind::Text, text.literal(), each);
    }

    /// Releases everything that was held back in doubt.
    fn release(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        let Self { text_snapshots, thinking_snapshots, inline, parts, .. } = self;
        thinking_snapshots.finish(&mut |new| parts.push(TextKind::Thinking, new, each));
        text_snapshots
            .finish(&mut |new| inline.feed(new, &mut |kind, literal| parts.push(kind, literal, each)));
        inline.finish(&mut |kind, literal| parts.push(kind, literal, each));
    }
}
