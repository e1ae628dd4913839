//! Writes a streamed answer.
//!
//! The SDKs' stream helpers rebuild the response from its events and fail on any that is out of
//! place: `created` comes first, an item is added before its parts and done after them, and the
//! terminal event repeats everything. Texts are therefore kept until the end.

use std::collections::BTreeMap;

use super::answer::{Head, Item, OutputPart, complete_input, put_citation};
use super::reasoning;
use super::status::Status;
use crate::dialect::canonical::{CallKind, Event, PartKind, ReplyContext, Stop};
use crate::dialect::literal::{Json, Text};
use crate::dialect::logprobs::{self, Token};
use crate::dialect::search::{Search, SearchOutcome};
use crate::dialect::signature::Signature;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;
use crate::dialect::writer::{Writer, append_object};

/// Writes a streamed answer.
#[derive(Debug, Default)]
pub struct StreamWriter {
    /// The id, model and time of the answer; set by the upstream's start, at the latest before the first event.
    head: Option<Head>,
    begun: bool,
    over: bool,
    sequence: u64,
    /// The finished items as JSON, by their place; an open item has an empty string.
    items: Vec<String>,
    /// The unfinished items, by their place in the output.
    open: BTreeMap<usize, Open>,
    /// The places of the items with an open part, by the key of that part.
    places: BTreeMap<u32, usize>,
    /// The place of the unfinished message.
    message: Option<usize>,
    usage: Option<Usage>,
    stop: Stop<'static>,
}

/// An unfinished item.
#[derive(Debug)]
struct Open {
    /// The key of the open part; `None` for a message between two parts.
    key: Option<u32>,
    index: usize,
    id: String,
    item: Item<'static>,
    signature: Option<Signature<'static>>,
}

impl Open {
    /// Returns the latest part of a message.
    fn last_part(&mut self) -> Option<&mut OutputPart<'static>> {
        match &mut self.item {
            Item::Message(parts) => parts.last_mut(),
            _ => None,
        }
    }
}

/// Writes the whole stream of an answer that failed before it began.
pub fn failed_stream(error: &UpstreamError, context: &ReplyContext) -> String {
    let (mut writer, mut out) = (StreamWriter::new(context), String::new());
    let model = Text::of(&context.model);
    writer.write(&Event::Start { id: Text::EMPTY, model, created: None }, context, &mut out);
    writer.write(&Event::Fail(error.clone()), context, &mut out);
    out
}

impl StreamWriter {
    pub fn new(_: &ReplyContext) -> Self {
        Self::default()
    }

    /// Appends to `out` the SSE events for one canonical event.
    pub fn write(&mut self, event: &Event<'_>, context: &ReplyContext, out: &mut String) {
        if self.over {
            return;
        }
        match event {
            Event::Start { id, model, created } => {
                self.head.get_or_insert_with(|| Head::new(id, model, *created, context));
            }
            // The last event carries the name.
            Event::Model(model) => {
                if let Some(head) = &mut self.head {
                    head.model = model.clone().into_owned();
                }
            }
            Event::PartStart { key, part } => {
                self.begin(context, out);
                self.start(*key, part, out);
            }
            Event::Delta { key, text } if !text.is_empty() => self.delta(*key, text, out),
            Event::Delta { .. } => {}
            Event::Logprobs { key, tokens } => {
                if let Some(part) = self.open_part(*key).and_then(Open::last_part) {
                    part.logprobs.extend(tokens.iter().cloned().map(Token::into_owned));
                }
            }
            Event::Cite { key, citation } => {
                if let Some(part) = self.open_part(*key).and_then(Open::last_part) {
                    part.citations.push(citation.clone().into_owned());
                }
            }
            Event::SearchOutcome { key, found } => {
                if let Some(Open { item: Item::Search(search), .. }) = self.open_part(*key) {
                    search.found = Some(found.clone().into_owned());
                }
            }
            Event::Signature { key, signature } => {
                if let Some(open) = self.open_part(*key) {
                    open.signature = Some(signature.clone().into_owned());
                }
            }
            Event::PartStop { key } => self.stop_part(*key, out),
            Event::Usage(usage) => match &mut self.usage {
                Some(so_far) => so_far.merge(*usage),
                None => self.usage = Some(*usage),
            },
            Event::Finish(stop) => {
                self.begin(context, out);
                self.stop = stop.clone().into_owned();
                self.close_all(out);
            }
            Event::End => {
                self.begin(context, out);
                self.close_all(out);
                // The types of the clients' SDKs require counts, known or not.
                self.usage.get_or_insert_default();
                let status = Status::of(&self.stop);
                self.terminal(status, context, out);
            }
            Event::Fail(error) => self.fail(error, context, out),
        }
    }

    // === the response ===

    fn begin(&mut self, context: &ReplyContext, out: &mut String) {
        if self.begun {
            return;
        }
        self.begun = true;
        for kind in ["created", "in_progress"] {
            let head = self.head.get_or_insert_with(|| Head::new(&Text::EMPTY, &Text::EMPTY, None, context));
            emit(&mut self.sequence, out, kind, |o| {
                o.object_at("response", |o| head.put(o, Status::InProgress, |_| {}, None, context));
            });
        }
    }

    fn terminal(&mut self, status: Status<'_>, context: &ReplyContext, out: &mut String) {
        self.over = true;
        let Some(head) = &self.head else { return };
        let (items, usage) = (&self.items, self.usage.as_ref());
        let output = |list: &mut Writer| {
            let finished = items.iter().filter(|item| !item.is_empty());
            finished.for_each(|item| list.item(Json::checked(item)));
        };
        emit(&mut self.sequence, out, status.word(), |o| {
            o.object_at("response", |o| head.put(o, status, output, usage, context));
        });
    }

    /// Ends what is open and writes `response.failed`.
    fn fail(&mut self, error: &UpstreamError, context: &ReplyContext, out: &mut String) {
        self.begin(context, out);
        self.cut(out);
        self.terminal(Status::Failed(error), context, out);
    }

    /// Ends what is open where the upstream broke off. An unfinished call appears only in the terminal event: a
    /// client runs any call that it is told is done.
    fn cut(&mut self, out: &mut String) {
        self.stop = Stop::OutputLimit;
        let is_call = |open: &Open| matches!(open.item, Item::Call { .. });
        let ended: Vec<_> = self.open.values().filter(|open| !is_call(open)).map(|open| open.index).collect();
        ended.into_iter().for_each(|at| self.close(at, out));
        for (at, call) in std::mem::take(&mut self.open) {
            let mut told = Writer::new();
            told.object(|o| call.item.put(o, &call.id, Status::of(&self.stop)));
            if let Some(place) = self.items.get_mut(at) {
                *place = told.into_string();
            }
        }
    }

    // === items and parts ===

    fn start(&mut self, key: u32, part: &PartKind<'_>, out: &mut String) {
        let refused = match part {
            PartKind::Text => false,
            PartKind::Refusal => true,
            _ => {
                self.close_message(out);
                self.add(Some(key), new_item(part, self.items.len()), out);
                return;
            }
        };
        let at = self.message.unwrap_or_else(|| self.add(None, Item::Message(Vec::new()), out));
        self.message = Some(at);
        self.stop_last_part(at, out);
        let Some(open) = self.open.get_mut(&at) else { return };
        let Item::Message(parts) = &mut open.item else { return };
        open.key = Some(key);
        self.places.insert(key, at);
        parts.push(OutputPart::new(refused, Text::EMPTY));
        let content_index = parts.len() as u64 - 1;
        emit(&mut self.sequence, out, "content_part.added", |o| {
            open_fields(o, &open.id, open.index);
            o.field("content_index", content_index);
            o.object_at("part", |o| OutputPart::new(refused, Text::EMPTY).put(o));
        });
    }

    /// Returns the item whose open part has that key.
    fn open_part(&mut self, key: u32) -> Option<&mut Open> {
        self.open.get_mut(self.places.get(&key)?)
    }

    /// Adds an item to the output and returns its place there.
    fn add(&mut self, key: Option<u32>, item: Item<'static>, out: &mut String) -> usize {
        let index = self.items.len();
        self.items.push(String::new());
        // The head is known here: items come after `response.created`.
        let id = self.head.as_ref().map(|head| head.item_id(&item, index)).unwrap_or_default();
        emit(&mut self.sequence, out, "output_item.added", |o| {
            o.field("output_index", index as u64);
            o.object_at("item", |o| item.put(o, &id, Status::InProgress));
        });
        if matches!(item, Item::Search(_)) {
            emit(&mut self.sequence, out, "web_search_call.in_progress", |o| open_fields(o, &id, index));
        }
        self.places.extend(key.map(|key| (key, index)));
        self.open.insert(index, Open { key, index, id, item, signature: None });
        index
    }

    fn delta(&mut self, key: u32, text: &Text<'_>, out: &mut String) {
        let Some(open) = self.places.get(&key).and_then(|place| self.open.get_mut(place)) else { return };
        let (id, index) = (&open.id, open.index);
        match &mut open.item {
            Item::Message(parts) => {
                let content_index = parts.len() as u64 - 1;
                let Some(part) = parts.last_mut() else { return };
                part.text.push(text);
                let kind = if part.refused { "refusal.delta" } else { "output_text.delta" };
                emit(&mut self.sequence, out, kind, |o| {
                    open_fields(o, id, index);
                    o.field("content_index", content_index);
                    o.field("delta", text);
                    if !part.refused {
                        let tokens = part.logprobs.get(part.weighed..).unwrap_or_default();
                        logprobs::put(o, "logprobs", tokens);
                    }
                });
                part.weighed = part.logprobs.len();
            }
            Item::Reasoning { summary, .. } => {
                match summary.first_mut() {
                    Some(so_far) => so_far.push(text),
                    None => {
                        summary.push(text.clone().into_owned());
                        emit(&mut self.sequence, out, "reasoning_summary_part.added", |o| {
                            summary_fields(o, id, index);
                            put_summary_part(o, &Text::EMPTY);
                        });
                    }
                }
                emit(&mut self.sequence, out, "reasoning_summary_text.delta", |o| {
                    summary_fields(o, id, index);
                    o.field("delta", text);
                });
            }
            Item::Call { kind, input, .. } => {
                input.push(text);
                let kind = match kind {
                    CallKind::Function => "function_call_arguments.delta",
                    CallKind::Custom => "custom_tool_call_input.delta",
                };
                emit(&mut self.sequence, out, kind, |o| {
                    open_fields(o, id, index);
                    o.field("delta", text);
                });
            }
            Item::Search(search) => {
                search.query.push(text);
                emit(&mut self.sequence, out, "web_search_call.searching", |o| open_fields(o, id, index));
            }
        }
    }

    fn stop_part(&mut self, key: u32, out: &mut String) {
        let Some(at) = self.places.get(&key).copied() else { return };
        let is_cut_off = self.open.get(&at).is_some_and(|open| open.item.is_cut_off());
        if self.message == Some(at) {
            // More parts may follow in the same message.
            self.stop_last_part(at, out);
        } else if is_cut_off {
            // Whether a limit cut the call off is known only at the end of the answer.
            self.places.remove(&key);
        } else {
            self.close(at, out);
        }
    }

    /// Ends the open part of a message.
    fn stop_last_part(&mut self, at: usize, out: &mut String) {
        let Some(open) = self.open.get_mut(&at) else { return };
        let Item::Message(parts) = &open.item else { return };
        let Some(key) = open.key.take() else { return };
        self.places.remove(&key);
        let Some(part) = parts.last() else { return };
        let content_index = parts.len() as u64 - 1;
        let letters = part.cited_chars();
        for (number, citation) in part.citations.iter().enumerate() {
            emit(&mut self.sequence, out, "output_text.annotation.added", |o| {
                open_fields(o, &open.id, open.index);
                o.field("content_index", content_index);
                o.field("annotation_index", number as u64);
                o.object_at("annotation", |o| put_citation(o, citation, letters));
            });
        }
        let (kind, member) =
            if part.refused { ("refusal.done", "refusal") } else { ("output_text.done", "text") };
        emit(&mut self.sequence, out, kind, |o| {
            open_fields(o, &open.id, open.index);
            o.field("content_index", content_index);
            o.field(member, &part.text);
            if !part.refused {
                logprobs::put(o, "logprobs", &part.logprobs);
            }
        });
        emit(&mut self.sequence, out, "content_part.done", |o| {
            open_fields(o, &open.id, open.index);
            o.field("content_index", content_index);
            o.object_at("part", |o| part.put(o));
        });
    }

    /// Ends an item and keeps it for the terminal event.
    fn close(&mut self, at: usize, out: &mut String) {
        self.stop_last_part(at, out);
        let Some(mut open) = self.open.remove(&at) else { return };
        open.key.and_then(|key| self.places.remove(&key));
        let (id, index) = (&open.id, open.index);
        match &mut open.item {
            Item::Message(_) | Item::Search(_) => {}
            Item::Reasoning { summary, encrypted, .. } => {
                if let Some(text) = summary.first() {
                    emit(&mut self.sequence, out, "reasoning_summary_text.done", |o| {
                        summary_fields(o, id, index);
                        o.field("text", text);
                    });
                    emit(&mut self.sequence, out, "reasoning_summary_part.done", |o| {
                        summary_fields(o, id, index);
                        put_summary_part(o, text);
                    });
                }
                let text = summary.first().cloned().unwrap_or_default();
                let proof = open.signature.as_ref();
                *encrypted =
                    proof.and_then(|proof| reasoning::encrypted_content(&text, proof)).map(Text::into_owned);
            }
            Item::Call { name, kind, input, .. } => {
                if input.is_empty() && *kind == CallKind::Function {
                    *input = complete_input(*kind, input);
                    // The deltas together must equal the input in the last event.
                    emit(&mut self.sequence, out, "function_call_arguments.delta", |o| {
                        open_fields(o, id, index);
                        o.field("delta", &*input);
                    });
                }
                let (event, member) = match kind {
                    CallKind::Function => ("function_call_arguments.done", "arguments"),
                    CallKind::Custom => ("custom_tool_call_input.done", "input"),
                };
                emit(&mut self.sequence, out, event, |o| {
                    open_fields(o, id, index);
                    if *kind == CallKind::Function {
                        o.field("name", &*name);
                    }
                    o.field(member, &*input);
                });
            }
        }
        let status = open.item.status(&self.stop);
        if let Item::Search(Search { found: Some(SearchOutcome::Pages(_)), .. }) = &open.item {
            emit(&mut self.sequence, out, "web_search_call.completed", |o| open_fields(o, id, index));
        }
        let mut finished = Writer::new();
        finished.object(|o| open.item.put(o, id, status));
        emit(&mut self.sequence, out, "output_item.done", |o| {
            o.field("output_index", index as u64);
            o.field("item", Json::checked(finished.as_str()));
        });
        if let Some(place) = self.items.get_mut(index) {
            *place = finished.into_string();
        }
    }

    fn close_message(&mut self, out: &mut String) {
        if let Some(at) = self.message.take() {
            self.close(at, out);
        }
    }

    fn close_all(&mut self, out: &mut String) {
        while let Some((&at, _)) = self.open.first_key_value() {
            self.close(at, out);
        }
        self.message = None;
    }
}

fn new_item(part: &PartKind<'_>, index: usize) -> Item<'static> {
    match part {
        PartKind::Call { id, name, kind, .. } => Item::Call {
            call_id: if id.is_empty() { Text::of(&format!("call_{index}")) } else { id.clone().into_owned() },
            name: name.clone().into_owned(),
            kind: *kind,
            input: Text::EMPTY,
        },
        PartKind::Thinking => Item::Reasoning { id: None, summary: Vec::new(), encrypted: None },
        PartKind::Search { id } => Item::Search(Search { id: id.clone().into_owned(), ..Search::default() }),
        PartKind::Text | PartKind::Refusal => Item::Message(Vec::new()),
    }
}

fn open_fields(o: &mut Writer, id: &str, index: usize) {
    o.field("item_id", id);
    o.field("output_index", index as u64);
}

/// Writes the fields of a summary event. Our summary of a reasoning item is one part, even when the upstream wrote
/// several.
fn summary_fields(o: &mut Writer, id: &str, index: usize) {
    open_fields(o, id, index);
    o.field("summary_index", 0u64);
}

fn put_summary_part(o: &mut Writer, text: &Text<'_>) {
    o.object_at("part", |o| {
        o.field("type", "summary_text");
        o.field("text", text);
    });
}

/// Appends an event; its kind is given without `response.`.
pub(super) fn emit(sequence: &mut u64, out: &mut String, kind: &str, fill: impl FnOnce(&mut Writer)) {
    for piece in ["event: response.", kind, "\ndata: "] {
        out.push_str(piece);
    }
    append_object(out, |o| {
        o.joined("type", &["response.", kind]);
        o.field("sequence_number", *sequence);
        fill(o);
    });
    out.push_str("\n\n");
    *sequence += 1;
}
