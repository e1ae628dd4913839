//! Writes a streamed answer for a client.
//!
//! Every event is an answer with only the new parts. A call is one part, so it is held until it is complete; calls in a
//! row come in one event, because some clients number the calls of an event from 0. The last event tells why the model
//! stopped, and the whole usage.

use std::collections::BTreeMap;

use super::contents_write::{put_call, put_thought};
use super::grounding::{self, Cited};
use super::reply_write::{call_id, id, is_carried, own_signature, put_carrier};
use super::{images, probabilities, stop};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Event, PartKind, ReplyContext, Stop};
use crate::dialect::citation::{Citation, SaidText};
use crate::dialect::errors;
use crate::dialect::literal::{Json, Text};
use crate::dialect::logprobs::Token;
use crate::dialect::signature::{Signature, tag_in_bytes};
use crate::dialect::usage::Usage;
use crate::dialect::writer::Writer;

/// Writes a streamed answer.
#[derive(Debug, Default)]
pub struct StreamWriter {
    /// The index of the answer that this writer writes.
    candidate: u64,
    id: Text<'static>,
    model: Text<'static>,
    usage: Option<Usage>,
    stop: Option<Stop<'static>>,
    /// The open parts, by their keys, which follow the order of their start.
    open: BTreeMap<u32, Open>,
    calls: u64,
    /// The text so far.
    said: SaidText,
    /// The number of its characters.
    chars: u64,
    /// Its citations.
    citations: Vec<Citation<'static>>,
    tokens: Vec<Token<'static>>,
    /// The queries of searches.
    queries: Vec<Text<'static>>,
    /// The thoughts of another provider's model that the next call will carry.
    carried: Vec<(Text<'static>, Signature<'static>)>,
    /// Complete calls in a row, as JSON, which are written before the next part.
    ready: Vec<String>,
    over: bool,
}

/// An open part.
#[derive(Debug)]
struct Open {
    kind: CandidatePart,
    /// Whether the part has ended; it waits for the parts before it.
    stopped: bool,
}

#[derive(Debug)]
enum CandidatePart {
    /// The position in the whole text where it begins, and its citations.
    Text(u64, Vec<Citation<'static>>),
    /// The thought, and its signature if that is another provider's.
    Thinking(Text<'static>, Option<Signature<'static>>),
    Search(Text<'static>),
    Call {
        id: Text<'static>,
        name: Text<'static>,
        input: Text<'static>,
        proof: Option<Text<'static>>,
    },
}

impl StreamWriter {
    /// Creates a writer of the candidate with that index.
    pub fn of_candidate(candidate: u64) -> Self {
        Self { candidate, ..Self::default() }
    }

    /// Appends to `out` the SSE events for one canonical event.
    pub fn write(&mut self, event: &Event<'_>, context: &ReplyContext, out: &mut String) {
        if self.over {
            return;
        }
        match event {
            Event::Start { id, model, .. } => {
                self.id = id.clone().into_owned();
                self.model = model.clone().into_owned();
            }
            Event::Model(model) => self.model = model.clone().into_owned(),
            Event::PartStart { key, part } => {
                let kind = match part {
                    PartKind::Text | PartKind::Refusal => CandidatePart::Text(self.chars, Vec::new()),
                    PartKind::Thinking => CandidatePart::Thinking(Text::EMPTY, None),
                    PartKind::Search { .. } => CandidatePart::Search(Text::EMPTY),
                    PartKind::Call { id, name, signature, .. } => {
                        let id = call_id(id, self.calls).into_owned();
                        self.calls += 1;
                        let name = name.clone().into_owned();
                        let proof = signature.as_ref().and_then(own_signature);
                        let proof = proof.map(|proof| proof.clone().into_owned());
                        CandidatePart::Call { id, name, input: Text::EMPTY, proof }
                    }
                };
                self.open.insert(*key, Open { kind, stopped: false });
            }
            Event::Delta { key, text } if !text.is_empty() => self.more(*key, text, context, out),
            Event::Delta { .. } => {}
            Event::Cite { key, citation } => {
                if let Some(Open { kind: CandidatePart::Text(_, citations), .. }) = self.open.get_mut(key) {
                    citations.push(citation.clone().into_owned());
                }
            }
            Event::SearchOutcome { .. } => {}
            Event::Logprobs { tokens, .. } => {
                self.tokens.extend(tokens.iter().cloned().map(Token::into_owned))
            }
            Event::Signature { key, signature } => {
                let open = self.open.get_mut(key).map(|part| &mut part.kind);
                if let Some(CandidatePart::Thinking(_, proof)) = open
                    && is_carried(signature)
                {
                    *proof = Some(signature.clone().into_owned());
                    return;
                }
                let Some(own) = own_signature(signature) else { return };
                match self.open.get_mut(key).map(|part| &mut part.kind) {
                    Some(CandidatePart::Call { proof, .. }) => *proof = Some(own.clone().into_owned()),
                    Some(CandidatePart::Thinking(..)) => {
                        let part = object(|o| put_thought(o, &Text::EMPTY, Some(own)));
                        self.write_part(part, context, out);
                    }
                    _ => {}
                }
            }
            Event::PartStop { key } => self.stop_part(*key),
            Event::Usage(usage) => self.usage.get_or_insert_default().merge(*usage),
            Event::Finish(stop) => self.stop = Some(stop.clone().into_owned()),
            Event::Fail(error) => {
                self.over = true;
                let event = errors::stream_event(Dialect::Gemini, error);
                out.push_str(&String::from_utf8_lossy(&event));
            }
            Event::End => self.end(context, out),
        }
    }

    fn more(&mut self, key: u32, text: &Text<'_>, context: &ReplyContext, out: &mut String) {
        let Some(part) = self.open.get_mut(&key) else { return };
        let part = match &mut part.kind {
            CandidatePart::Text(..) => {
                self.said.push(text);
                self.chars += text.char_count();
                object(|o| images::put_text_or_image(o, text))
            }
            CandidatePart::Thinking(so_far, _) => {
                so_far.push(text);
                object(|o| put_thought(o, text, None))
            }
            CandidatePart::Call { input, .. } => return input.push(text),
            CandidatePart::Search(query) => return query.push(text),
        };
        self.write_part(part, context, out);
    }

    /// Ends a part. Calls are written in the order in which they began, whichever is complete first.
    fn stop_part(&mut self, key: u32) {
        if let Some(part) = self.open.get_mut(&key) {
            part.stopped = true;
        }
        while let Some(first) = self.open.first_entry().filter(|first| first.get().stopped) {
            match first.remove().kind {
                CandidatePart::Call { id, name, input, proof } => {
                    let carried = std::mem::take(&mut self.carried);
                    self.ready.push(object(|o| {
                        put_call(o, &id, &name, &input);
                        o.field_if("thoughtSignature", proof.or_else(|| tag_in_bytes(&carried)));
                    }));
                }
                CandidatePart::Text(from, citations) => {
                    let letters = self.chars.saturating_sub(from);
                    let placed = citations.iter().map(|it| it.within(from, letters).into_owned());
                    self.citations.extend(placed);
                }
                CandidatePart::Search(query) => self.queries.push(query),
                CandidatePart::Thinking(text, proof) => self.carried.extend(proof.map(|proof| (text, proof))),
            }
        }
    }

    fn write_part(&mut self, part: String, context: &ReplyContext, out: &mut String) {
        self.flush(context, out);
        push(out, &self.answer(&[part], None, context));
    }

    fn flush(&mut self, context: &ReplyContext, out: &mut String) {
        let ready = std::mem::take(&mut self.ready);
        if !ready.is_empty() {
            push(out, &self.answer(&ready, None, context));
        }
    }

    fn end(&mut self, context: &ReplyContext, out: &mut String) {
        while let Some((&key, _)) = self.open.first_key_value() {
            self.stop_part(key);
        }
        self.over = true;
        let stop = self.stop.take().unwrap_or_default();
        let carrier = tag_in_bytes(&std::mem::take(&mut self.carried));
        if carrier.is_some() {
            self.flush(context, out);
        }
        let mut last = std::mem::take(&mut self.ready);
        if let Some(tag) = carrier {
            last.push(object(|o| put_carrier(o, &tag)));
        } else if last.is_empty() {
            // Clients require a part in every answer; Google writes an empty text, too.
            last.push(object(|o| o.field("text", "")));
        }
        push(out, &self.answer(&last, Some(&stop), context));
    }

    fn answer(&self, parts: &[String], stop: Option<&Stop<'_>>, context: &ReplyContext) -> String {
        object(|o| {
            o.array("candidates", |a| {
                a.object(|o| {
                    o.object_at("content", |o| {
                        o.field("role", "model");
                        o.array("parts", |a| parts.iter().for_each(|part| a.item(Json::checked(part))));
                    });
                    o.field_if("finishReason", stop.map(stop::word));
                    if stop.is_some() {
                        let citations = self.citations.iter().collect();
                        let said = Cited { part: None, text: self.said.kept(), citations };
                        grounding::put(o, &self.queries, &[said]);
                        probabilities::put(o, &self.tokens.iter().collect::<Vec<_>>());
                    }
                    o.field("index", self.candidate);
                });
            });
            // Google writes it in every event, and the types of some clients require it.
            match stop {
                None => stop::write_usage_so_far(o, self.usage.as_ref()),
                Some(_) => stop::write_usage(o, &self.usage.unwrap_or_default()),
            }
            o.field("modelVersion", &self.model);
            o.field("responseId", id(&self.id, context));
        })
    }
}

fn object(inside: impl FnOnce(&mut Writer)) -> String {
    let mut json = Writer::with_capacity(160);
    json.object(inside);
    json.into_string()
}

fn push(out: &mut String, json: &str) {
    ["data: ", json, "\n\n"].iter().for_each(|piece| out.push_str(piece));
}
