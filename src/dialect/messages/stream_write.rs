//! Writes a streamed answer.
//!
//! ```text
//! message_start  (block_start  delta…  [signature]  block_stop)…  message_delta  message_stop
//! ```
//!
//! One block is open at a time; what comes meanwhile for another part is held until its turn. Nothing is written
//! before the first part or the end, so that input tokens that an upstream reports early stand in `message_start`.
//! What it reports later stands in `message_delta`.

use std::collections::BTreeMap;

use super::reply::{ShownSignature, call_id, message_id, put_redacted};
use super::stop::{self, Counts};
use super::{citations, searches};
use crate::dialect::canonical::{CallKind, Event, PartKind, ReplyContext, Stop};
use crate::dialect::citation::{Citation, CitedText, SaidText};
use crate::dialect::literal::{Json, Text};
use crate::dialect::search::Search;
use crate::dialect::signature::Signature;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;
use crate::dialect::writer::{Put, Writer, append_object};
use crate::dialect::{Dialect, errors};

/// Writes a streamed answer.
#[derive(Debug)]
pub struct StreamWriter {
    id: Text<'static>,
    model: Text<'static>,
    phase: Phase,
    /// The parts that have not been written to their end, by their keys, which follow the order of their start. Only
    /// the first may have an open block.
    parts: BTreeMap<u32, WrittenBlock>,
    next_index: u64,
    calls: usize,
    searches: usize,
    usage: Usage,
    stop: Option<Stop<'static>>,
}

#[derive(Debug, PartialEq)]
enum Phase {
    Fresh,
    Started,
    Over,
}

#[derive(Debug)]
struct WrittenBlock {
    kind: BlockContent,
    /// Whether its block has begun.
    open: bool,
    /// The text that came before its turn.
    held: Text<'static>,
    signature: Option<Signature<'static>>,
    /// Whether the part has ended.
    stopped: bool,
}

#[derive(Debug)]
enum BlockContent {
    /// The text so far, and its citations.
    Text(SaidText, Vec<Citation<'static>>),
    Thinking,
    Call {
        id: Text<'static>,
        name: Text<'static>,
        /// Whether its input is not JSON; it becomes the only string of an object.
        custom: bool,
    },
    /// A search, with the id that the client gets.
    Search(Search<'static>),
}

impl StreamWriter {
    pub fn new(context: &ReplyContext) -> Self {
        Self {
            id: message_id(&Text::EMPTY, context),
            model: Text::EMPTY,
            phase: Phase::Fresh,
            parts: BTreeMap::new(),
            next_index: 0,
            calls: 0,
            searches: 0,
            usage: Usage::default(),
            stop: None,
        }
    }

    /// Appends to `out` the SSE events for one canonical event.
    pub fn write(&mut self, event: &Event<'_>, context: &ReplyContext, out: &mut String) {
        if self.phase == Phase::Over {
            return;
        }
        match event {
            Event::Start { id, model, .. } => {
                self.id = message_id(id, context);
                self.model = model.clone().into_owned();
            }
            Event::PartStart { key, part } => {
                self.start(out);
                self.add(*key, part);
                self.advance(out);
            }
            Event::Delta { key, text } => self.take(*key, text, out),
            Event::Cite { key, citation } => {
                if let Some(WrittenBlock { kind: BlockContent::Text(_, citations), .. }) =
                    self.parts.get_mut(key)
                {
                    citations.push(citation.clone().into_owned());
                }
            }
            // This dialect has no place for them: only the first event names the model.
            Event::Logprobs { .. } | Event::Model(_) => {}
            Event::SearchOutcome { key, found } => {
                if let Some(WrittenBlock { kind: BlockContent::Search(search), .. }) = self.parts.get_mut(key)
                {
                    search.found = Some(found.clone().into_owned());
                }
            }
            Event::Signature { key, signature } => {
                if let Some(part) = self.parts.get_mut(key) {
                    part.signature = Some(signature.clone().into_owned());
                }
            }
            Event::PartStop { key } => {
                if let Some(part) = self.parts.get_mut(key) {
                    part.stopped = true;
                }
                self.advance(out);
            }
            Event::Usage(usage) => self.usage.merge(*usage),
            Event::Finish(stop) => {
                self.stop.get_or_insert_with(|| stop.clone().into_owned());
            }
            Event::Fail(error) => self.fail(error, out),
            Event::End => self.end(out),
        }
    }

    fn start(&mut self, out: &mut String) {
        if self.phase != Phase::Fresh {
            return;
        }
        self.phase = Phase::Started;
        put_event(out, "message_start", |o| {
            o.object_at("message", |o| {
                o.field("id", &self.id);
                o.field("type", "message");
                o.field("role", "assistant");
                o.field("model", &self.model);
                o.array("content", |_| {});
                o.field("stop_reason", ());
                o.field("stop_sequence", ());
                let counts = Counts::of(&self.usage);
                o.object_at("usage", |o| {
                    o.field("input_tokens", counts.input);
                    o.field("cache_creation_input_tokens", counts.cache_creation);
                    o.field("cache_read_input_tokens", counts.cache_read);
                    // As Anthropic's first event says; clients add it to, or replace it by, the number of the last one.
                    o.field("output_tokens", counts.output.min(1));
                });
            });
        });
    }

    fn add(&mut self, key: u32, part: &PartKind<'_>) {
        let kind = match part {
            PartKind::Text | PartKind::Refusal => BlockContent::Text(SaidText::default(), Vec::new()),
            PartKind::Thinking => BlockContent::Thinking,
            PartKind::Call { name, .. } if name.is_empty() => return,
            PartKind::Call { id, name, kind, .. } => {
                let id = call_id(id, self.calls).into_owned();
                self.calls += 1;
                BlockContent::Call { id, name: name.clone().into_owned(), custom: *kind == CallKind::Custom }
            }
            PartKind::Search { id } => {
                let id = searches::own_id(id, self.searches);
                self.searches += 1;
                BlockContent::Search(Search { id, ..Search::default() })
            }
        };
        let (held, signature) = (Text::EMPTY, None);
        self.parts.insert(key, WrittenBlock { kind, open: false, held, signature, stopped: false });
    }

    fn take(&mut self, key: u32, text: &Text<'_>, out: &mut String) {
        if text.is_empty() {
            return;
        }
        let is_first = self.parts.first_key_value().is_some_and(|(first, _)| *first == key);
        match self.parts.get_mut(&key) {
            Some(part) if is_first => part.put_delta(text, &mut self.next_index, out),
            Some(part) => part.held.push(text),
            None => {}
        }
    }

    /// Writes everything that can be written after a part has begun or ended.
    fn advance(&mut self, out: &mut String) {
        while let Some(mut entry) = self.parts.first_entry() {
            let first = entry.get_mut();
            first.begin(&mut self.next_index, out);
            if !first.stopped {
                return;
            }
            first.finish(&mut self.next_index, out);
            entry.remove();
        }
    }

    fn end(&mut self, out: &mut String) {
        self.start(out);
        self.parts.values_mut().for_each(|part| part.stopped = true);
        self.advance(out);
        self.phase = Phase::Over;
        put_event(out, "message_delta", |o| {
            let stop = self.stop.take().unwrap_or_default();
            o.object_at("delta", |o| stop::put(o, &stop, self.calls > 0));
            let counts = Counts::of(&self.usage);
            o.object_at("usage", |o| {
                o.field("input_tokens", counts.input);
                o.field("cache_read_input_tokens", counts.cache_read);
                o.field_if("cache_creation_input_tokens", Some(counts.cache_creation).filter(|n| *n > 0));
                o.field("output_tokens", counts.output);
                searches::put_count(o, self.searches);
            });
        });
        put_event(out, "message_stop", |_| {});
    }

    /// Closes the open block and writes the error; parts behind it are not begun any more.
    fn fail(&mut self, error: &UpstreamError, out: &mut String) {
        if let Some(first) = self.parts.values_mut().next().filter(|part| part.open) {
            first.finish(&mut self.next_index, out);
        }
        self.phase = Phase::Over;
        let event = errors::stream_event(Dialect::Messages, error);
        out.push_str(&String::from_utf8_lossy(&event));
    }
}

impl WrittenBlock {
    /// Begins the part's turn. Blocks of text and thinking begin with their first delta: an empty block is none, and
    /// thinking without text may turn out to be redacted.
    fn begin(&mut self, next_index: &mut u64, out: &mut String) {
        if matches!(self.kind, BlockContent::Call { .. } | BlockContent::Search(_)) {
            self.open(next_index, out);
        }
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.put_delta(&held, next_index, out);
        }
    }

    fn open(&mut self, next_index: &mut u64, out: &mut String) {
        if self.open {
            return;
        }
        self.open = true;
        put_block_start(*next_index, out, |o| match &self.kind {
            BlockContent::Text(..) => {
                o.field("type", "text");
                o.field("text", "");
            }
            BlockContent::Thinking => {
                o.field("type", "thinking");
                o.field("thinking", "");
                o.field("signature", "");
            }
            BlockContent::Call { id, name, .. } => {
                o.field("type", "tool_use");
                o.field("id", id);
                o.field("name", name);
                o.field("input", Json::checked("{}"));
            }
            BlockContent::Search(search) => searches::put_call(o, &search.id, |_| {}),
        });
        *next_index += 1;
        if matches!(self.kind, BlockContent::Call { custom: true, .. }) {
            put_delta(*next_index - 1, "input_json_delta", "partial_json", "{\"input\":\"", out);
        }
    }

    fn put_delta(&mut self, text: &Text<'_>, next_index: &mut u64, out: &mut String) {
        self.open(next_index, out);
        let index = *next_index - 1;
        match &mut self.kind {
            BlockContent::Text(said, _) => {
                said.push(text);
                put_delta(index, "text_delta", "text", text, out);
            }
            BlockContent::Thinking => put_delta(index, "thinking_delta", "thinking", text, out),
            BlockContent::Call { custom: false, .. } => {
                put_delta(index, "input_json_delta", "partial_json", text, out);
            }
            BlockContent::Search(search) => {
                search.query.push(text);
                let mut input = Writer::new();
                input.object(|o| searches::put_query(o, search));
                put_delta(index, "input_json_delta", "partial_json", input.as_str(), out);
            }
            // The text's JSON literal, as part of a JSON string that is itself sent as text.
            BlockContent::Call { custom: true, .. } => {
                put_delta(index, "input_json_delta", "partial_json", text.literal(), out);
            }
        }
    }

    /// Closes the part's block; the signature of thinking and the citations of a text come last in it.
    fn finish(&mut self, next_index: &mut u64, out: &mut String) {
        let signature = self.signature.take();
        let proof = match self.kind {
            BlockContent::Thinking => ShownSignature::of(signature.as_ref(), !self.open),
            _ => ShownSignature::None,
        };
        match &proof {
            ShownSignature::Beside(proof) => {
                // Thinking that is not shown has a signature all the same.
                self.open(next_index, out);
                put_delta(*next_index - 1, "signature_delta", "signature", proof, out);
            }
            // Clients send thinking back only with a signature; some take it from this event alone.
            _ if self.open && matches!(self.kind, BlockContent::Thinking) => {
                put_delta(*next_index - 1, "signature_delta", "signature", "", out);
            }
            _ => {}
        }
        if self.open {
            match &self.kind {
                BlockContent::Call { custom: true, .. } => {
                    put_delta(*next_index - 1, "input_json_delta", "partial_json", "\"}", out);
                }
                BlockContent::Text(said, citations) if !citations.is_empty() => {
                    let said = CitedText::of(said.kept());
                    citations.iter().for_each(|citation| put_citation(*next_index - 1, citation, &said, out));
                }
                _ => {}
            }
            put_event(out, "content_block_stop", |o| o.field("index", *next_index - 1));
        }
        if let BlockContent::Search(Search { id, found: Some(found), .. }) = &self.kind {
            let index = *next_index;
            put_block_start(index, out, |o| searches::put_found(o, id, found));
            put_event(out, "content_block_stop", |o| o.field("index", index));
            *next_index += 1;
        }
        if let ShownSignature::Instead(data) = &proof {
            let index = *next_index;
            put_block_start(index, out, |o| put_redacted(o, data));
            put_event(out, "content_block_stop", |o| o.field("index", index));
            *next_index += 1;
        }
    }
}

fn put_block_start(index: u64, out: &mut String, block: impl FnOnce(&mut Writer)) {
    put_event(out, "content_block_start", |o| {
        o.field("index", index);
        o.object_at("content_block", block);
    });
}

fn put_delta(index: u64, kind: &str, member: &str, text: impl Put, out: &mut String) {
    put_event(out, "content_block_delta", |o| {
        o.field("index", index);
        o.object_at("delta", |o| {
            o.field("type", kind);
            o.field(member, text);
        });
    });
}

fn put_citation(index: u64, citation: &Citation<'_>, said: &CitedText<'_>, out: &mut String) {
    put_event(out, "content_block_delta", |o| {
        o.field("index", index);
        o.object_at("delta", |o| {
            o.field("type", "citations_delta");
            o.object_at("citation", |o| citations::put(o, citation, said));
        });
    });
}

/// Writes an event whose name is its `type`.
pub(super) fn put_event(out: &mut String, name: &str, members: impl FnOnce(&mut Writer)) {
    for piece in ["event: ", name, "\ndata: "] {
        out.push_str(piece);
    }
    append_object(out, |o| {
        o.field("type", name);
        members(o);
    });
    out.push_str("\n\n");
}
