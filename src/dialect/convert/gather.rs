//! Gathers a streamed answer into a complete one, for a client that did not ask for a stream.
//!
//! Within one dialect everything that only this dialect has is kept: its own accumulator takes the events. Between two
//! dialects an answer is put together from the events of its reader; from chat to chat as well, with the members that
//! the canonical form cannot hold beside it.

use super::{Answer, Reader, answers_in, restore, whole, write};
use crate::dialect::canonical::{MAX_CHOICES, Reply, ReplyContext};
use crate::dialect::edit::edit;
use crate::dialect::observe::StreamProgress;
use crate::dialect::sse::{self, Scanner};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::{Dialect, chat, completions, gemini, json, messages, responses, usage};

/// Takes the chunks of a stream, and returns the answer at its end.
#[derive(Debug)]
pub struct StreamGatherer {
    to: Dialect,
    scanner: Scanner,
    progress: StreamProgress,
    gathered: Gathered,
}

#[derive(Debug)]
enum Gathered {
    Responses(Box<GatheredResponse>),
    Messages(messages::Accumulator),
    Gemini(gemini::Accumulator),
    Completions(completions::Accumulator),
    Answers(Answers),
}

/// The answers of a stream in the canonical form.
#[derive(Debug)]
struct Answers {
    from: Dialect,
    /// The members of a chat stream that the canonical form cannot hold, for a client of chat.
    unknown: Option<chat::UnknownMembers>,
    /// Whether the stream may hold several answers.
    several: bool,
    /// The answers. Never empty: the first also takes what belongs to no single answer.
    all: Vec<GatheredAnswer>,
}

/// A response within its dialect.
#[derive(Debug)]
struct GatheredResponse {
    accumulator: responses::Accumulator,
    /// The answer in the canonical form, for an upstream that sends no whole items; `None` once an item has come whole.
    deltas: Option<GatheredAnswer>,
}

#[derive(Debug)]
struct GatheredAnswer {
    /// The index of the answer, known once a chunk of it has come.
    index: Option<u64>,
    reader: Reader,
    accumulator: whole::Accumulator,
}

impl StreamGatherer {
    /// Creates a gatherer for an upstream and a client of these dialects. `longest` is the longest event, in bytes.
    pub fn new(from: Dialect, to: Dialect, context: &ReplyContext, longest: usize) -> Self {
        let gathered = match (from, to) {
            (Dialect::Responses, Dialect::Responses) => Gathered::Responses(Box::default()),
            (Dialect::Messages, Dialect::Messages) => Gathered::Messages(Default::default()),
            (Dialect::Gemini, Dialect::Gemini) => Gathered::Gemini(Default::default()),
            (Dialect::Completions, Dialect::Completions) => Gathered::Completions(Default::default()),
            _ => Gathered::Answers(Answers::new(from, to, context)),
        };
        Self { to, scanner: Scanner::new(longest), progress: StreamProgress::new(from), gathered }
    }

    /// Reads the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        let Self { scanner, progress, gathered, .. } = self;
        scanner.feed(chunk, |event| gathered.take(&event, progress));
    }

    /// Returns how far the answer has come, and what it consumed as its upstream counts.
    pub fn progress(&self) -> &StreamProgress {
        &self.progress
    }

    /// Returns the answer, now that nothing more comes.
    ///
    /// # Errors
    /// The stream failed, or never ended.
    pub fn finish(mut self, context: &ReplyContext) -> Result<Answer, UpstreamError> {
        let Self { to, scanner, progress, gathered } = &mut self;
        scanner.finish(|event| gathered.take(&event, progress));
        let to = *to;
        if let Some(error) = progress.failure() {
            return Err(error.clone());
        }
        let body = match self.gathered {
            Gathered::Responses(gathered) => gathered.finish(context)?,
            Gathered::Messages(accumulator) => accumulator.finish(context)?,
            Gathered::Gemini(accumulator) => accumulator.finish()?,
            Gathered::Completions(accumulator) => accumulator.finish()?,
            Gathered::Answers(answers) => return answers.finish(to, context),
        };
        let usage = usage::of_reply(to, body.as_bytes());
        Ok(Answer { body: body.into(), usage, signatures: Vec::new() })
    }
}

/// Gathers a stream that has been received completely.
pub fn accumulated(
    from: Dialect,
    to: Dialect,
    body: &[u8],
    context: &ReplyContext,
) -> Result<Answer, UpstreamError> {
    let mut gatherer = StreamGatherer::new(from, to, context, body.len());
    gatherer.feed(body);
    gatherer.finish(context)
}

impl Gathered {
    fn take(&mut self, event: &sse::Event<'_>, progress: &mut StreamProgress) {
        let text = sse::text(event.data);
        let event = StreamEvent::of(event, &text);
        progress.take(&event);
        match self {
            Self::Responses(gathered) => gathered.read(&event),
            Self::Messages(accumulator) => accumulator.read(&event),
            Self::Gemini(accumulator) => accumulator.read(&event),
            Self::Completions(accumulator) => accumulator.read(&event),
            Self::Answers(answers) => answers.read(&event),
        }
    }
}

impl Default for GatheredResponse {
    fn default() -> Self {
        let reader = Reader::new(Dialect::Responses);
        let deltas = GatheredAnswer { index: None, reader, accumulator: Default::default() };
        Self { accumulator: Default::default(), deltas: Some(deltas) }
    }
}

impl GatheredResponse {
    fn read(&mut self, event: &StreamEvent<'_>) {
        self.accumulator.read(event);
        if event.kind() == "response.output_item.done" {
            self.deltas = None;
        }
        if let Some(GatheredAnswer { reader, accumulator, .. }) = &mut self.deltas {
            reader.read(event, &mut |event| accumulator.take(event));
        }
    }

    /// Returns the response, in JSON. An output that the upstream left out is put together from the deltas.
    fn finish(self, context: &ReplyContext) -> Result<String, UpstreamError> {
        let body = self.accumulator.finish()?;
        let has_output = Node::parse(&body).is_ok_and(|node| !node.items_at("output").is_empty());
        let Some(deltas) = self.deltas.filter(|_| !has_output) else { return Ok(body) };
        let written = responses::write_reply(&deltas.accumulator.finish()?, context);
        let output = std::str::from_utf8(&written).ok().and_then(|written| json::member(written, "output"));
        Ok(output.map_or_else(|| body.clone(), |output| edit(&body, &[("output", output)], &[]).into_owned()))
    }
}

impl Answers {
    fn new(from: Dialect, to: Dialect, context: &ReplyContext) -> Self {
        let is_chat = from == Dialect::Chat;
        let unknown = (is_chat && to == Dialect::Chat).then(Default::default);
        let mut answers = Self {
            from,
            unknown,
            several: is_chat || (from == Dialect::Gemini && context.several),
            all: Vec::new(),
        };
        answers.add(None, Reader::new(from));
        answers
    }

    fn add(&mut self, index: Option<u64>, mut reader: Reader) {
        // From chat to chat, pictures are kept among the unknown members.
        if self.unknown.is_some() {
            reader.omit_images();
        }
        self.all.push(GatheredAnswer { index, reader, accumulator: Default::default() });
    }

    fn read(&mut self, event: &StreamEvent<'_>) {
        if let Some(json) = event.json() {
            if let Some(unknown) = &mut self.unknown {
                unknown.read(json);
            }
            if self.several {
                answers_in(self.from, json).for_each(|index| self.open(index));
            }
        }
        for GatheredAnswer { reader, accumulator, .. } in &mut self.all {
            reader.read(event, &mut |event| accumulator.take(event));
        }
    }

    /// Prepares for an answer of which this may be the first chunk.
    fn open(&mut self, index: u64) {
        match self.all.as_mut_slice() {
            [first] if first.index.is_none() => first.index = Some(index),
            all if all.iter().any(|answer| answer.index == Some(index)) || all.len() == MAX_CHOICES => {}
            _ => self.add(Some(index), Reader::of_answer(index, self.from)),
        }
    }

    fn finish(mut self, to: Dialect, context: &ReplyContext) -> Result<Answer, UpstreamError> {
        self.all.sort_by_key(|answer| answer.index);
        let mut whole: Option<Reply<'static>> = None;
        for GatheredAnswer { mut reader, mut accumulator, .. } in self.all {
            reader.close(&mut |event| accumulator.take(event));
            let reply = accumulator.finish()?;
            match &mut whole {
                Some(whole) => whole.candidates.extend(reply.candidates),
                None => whole = Some(reply),
            }
        }
        let mut reply = whole.unwrap_or_default();
        match self.unknown {
            Some(unknown) => {
                restore::reply(&mut reply, context);
                let body = chat::write_reply_with(&reply, context, &unknown);
                Ok(Answer { body, usage: reply.usage, signatures: Vec::new() })
            }
            None => write(to, reply, context),
        }
    }
}
