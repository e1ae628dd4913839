//! Reads a streamed answer.
//!
//! Every chunk is an answer of its own with only the new parts. The last one is marked by nothing but its
//! `finishReason`, which some models write in every chunk, so the answer ends with the body.

use super::parts_read::{self, Read};
use super::{grounding, images, member, probabilities, stop};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Call, Event, MAX_CHOICES, Part, PartKind, Stop};
use crate::dialect::citation::{CitedText, SaidText};
use crate::dialect::literal::Text;
use crate::dialect::search::Search;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// Reads a streamed answer, event by event. If there are several candidates, it reads the one that comes first.
#[derive(Debug, Default)]
pub struct StreamReader {
    started: bool,
    over: bool,
    id: Text<'static>,
    candidate: Option<u64>,
    next_key: u32,
    /// The open part.
    open: Option<(u32, OpenPart)>,
    calls: usize,
    /// The text so far.
    said: SaidText,
    /// The number of its characters.
    chars: u64,
    /// The number of its characters before the open part.
    before: u64,
    /// The latest grounding metadata, as JSON.
    grounding: Option<String>,
    stop: Option<Stop<'static>>,
}

/// The kind of the open part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenPart {
    Text,
    Thinking,
}

impl StreamReader {
    /// Creates a reader of the candidate with that index.
    pub fn of_candidate(index: u64) -> Self {
        Self { candidate: Some(index), ..Self::default() }
    }

    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if self.over {
            return;
        }
        let Some(chunk) = event.json() else {
            let counts = event.is_named_error() || self.stop.is_none();
            if let Some(error) = event.failure().filter(|_| counts) {
                self.fail(error, each);
            }
            return;
        };
        let chunk = stop::opened(chunk);
        let failure = if event.is_named_error() { Some(stop::error_of(chunk)) } else { stop::failure(chunk) };
        if let Some(error) = failure {
            return self.fail(error, each);
        }
        if let Some(usage) = event.usage(Dialect::Gemini) {
            each(Event::Usage(stop::with_cache(usage)));
        }
        self.start(chunk, each);
        if chunk.items_at("candidates").is_empty() && stop::is_blocked(chunk) {
            self.stop = Some(Stop::Filtered);
        }
        for candidate in chunk.items_at("candidates").iter().take(MAX_CHOICES) {
            let index = candidate.u64_at("index").unwrap_or(0);
            if !self.over && *self.candidate.get_or_insert(index) == index {
                self.read_candidate(candidate, each);
            }
        }
    }

    /// Ends the stream at the end of the upstream's body; the answer is complete only if it has told why it stops.
    pub fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        if let Some(stop) = self.stop.take() {
            self.cite(each);
            self.close_part(each);
            self.emit_searches(each);
            each(Event::Finish(stop));
            each(Event::End);
        }
    }

    fn start(&mut self, chunk: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let text = |key: &str| member::get(chunk, key).and_then(Node::text).unwrap_or_default();
        self.id = text("responseId").into_owned();
        each(Event::Start { id: self.id.borrowed(), model: text("modelVersion"), created: None });
    }

    fn fail(&mut self, error: UpstreamError, each: &mut dyn FnMut(Event<'_>)) {
        self.over = true;
        each(Event::Fail(error));
    }

    fn read_candidate(&mut self, candidate: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let mut tokens = probabilities::read(candidate);
        for part in candidate.path(&["content", "parts"]).map_or(&[][..], Node::items) {
            if let Some(Read::Part(part)) = parts_read::read(part) {
                if matches!(part, Part::Text(_)) && !tokens.is_empty() {
                    let key = self.open_part(OpenPart::Text, each);
                    each(Event::Logprobs { key, tokens: std::mem::take(&mut tokens) });
                }
                self.read_part(part, each);
            }
        }
        if let Some(metadata) = member::get(candidate, "groundingMetadata") {
            self.grounding = Some(metadata.raw().to_owned());
        }
        let Some(reason) = member::get(candidate, "finishReason").and_then(Node::str) else { return };
        let stop = stop::read(&reason, self.calls > 0);
        // Of other reasons the last counts: some sites put one into every chunk.
        let is_last = stop == Stop::BrokenCall;
        self.stop = Some(stop);
        if is_last {
            self.close(each);
        }
    }

    fn read_part(&mut self, part: Part<'_>, each: &mut dyn FnMut(Event<'_>)) {
        match part {
            Part::Text(text) => {
                let key = self.open_part(OpenPart::Text, each);
                self.said.push(&text);
                self.chars += text.char_count();
                each(Event::Delta { key, text });
            }
            Part::Thinking(thinking) => {
                let key = self.open_part(OpenPart::Thinking, each);
                if !thinking.text.is_empty() {
                    each(Event::Delta { key, text: thinking.text });
                }
                if let Some(signature) = thinking.signature {
                    each(Event::Signature { key, signature });
                }
            }
            Part::Call(call) => {
                self.close_part(each);
                let key = self.take_key();
                self.calls += 1;
                let Call { id, name, kind, input, signature } = call;
                each(Event::PartStart { key, part: PartKind::Call { id, name, kind, signature } });
                if !input.is_empty() {
                    each(Event::Delta { key, text: input });
                }
                each(Event::PartStop { key });
            }
            Part::Image(image) => {
                let Some(text) = images::image_as_text(&image) else { return };
                self.close_part(each);
                let key = self.take_key();
                each(Event::PartStart { key, part: PartKind::Text });
                each(Event::Delta { key, text });
                each(Event::PartStop { key });
            }
            _ => {}
        }
    }

    /// Returns the key of the open part of that kind; opens one if there is none.
    fn open_part(&mut self, part: OpenPart, each: &mut dyn FnMut(Event<'_>)) -> u32 {
        if let Some((key, open)) = self.open
            && open == part
        {
            return key;
        }
        self.close_part(each);
        let key = self.take_key();
        self.open = Some((key, part));
        self.before = self.chars;
        let part = match part {
            OpenPart::Text => PartKind::Text,
            OpenPart::Thinking => PartKind::Thinking,
        };
        each(Event::PartStart { key, part });
        key
    }

    /// Emits the citations of the open text; earlier texts are closed already.
    fn cite(&self, each: &mut dyn FnMut(Event<'_>)) {
        let Some((key, OpenPart::Text)) = self.open else { return };
        let metadata = self.grounding.as_deref().and_then(|metadata| Node::parse(metadata).ok());
        let Some(metadata) = metadata else { return };
        let said = CitedText::of(self.said.kept());
        for (_, citation) in grounding::read(&metadata, |_| Some((0, &said))) {
            if citation.span.is_none_or(|span| span.end > self.before) {
                each(Event::Cite { key, citation: citation.counted_from(self.before) });
            }
        }
    }

    /// Emits the searches that were made, which are named at the end of the answer.
    fn emit_searches(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        let Some(metadata) = self.grounding.take() else { return };
        let Ok(metadata) = Node::parse(&metadata) else { return };
        for Search { id, query, found } in grounding::searches(&metadata) {
            let key = self.take_key();
            each(Event::PartStart { key, part: PartKind::Search { id } });
            each(Event::Delta { key, text: query });
            if let Some(found) = found {
                each(Event::SearchOutcome { key, found });
            }
            each(Event::PartStop { key });
        }
    }

    fn close_part(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        if let Some((key, _)) = self.open.take() {
            each(Event::PartStop { key });
        }
    }

    fn take_key(&mut self) -> u32 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }
}
