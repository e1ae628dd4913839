//! Writes a streamed answer for a client.
//!
//! ```text
//! {role} {reasoning_content}… {reasoning_signature} {content}… {tool_calls}… {finish_reason} usage? [DONE]
//! ```
//!
//! Each of several answers has a writer of its own, and one of these writers concludes the stream.

use std::collections::BTreeMap;

use super::chunk::{ChunkHead, chunk_tail};
use super::reply_write::{call_id, id, put_citations, put_logprobs};
use super::turns_write::put_gemini_signature;
use super::{stop, thinking};
use crate::dialect::Dialect;
use crate::dialect::canonical::{CallKind, Event, PartKind, ReplyContext, Stop};
use crate::dialect::citation::Citation;
use crate::dialect::errors;
use crate::dialect::literal::Text;
use crate::dialect::logprobs::Token;
use crate::dialect::signature::Signature;
use crate::dialect::usage::Usage;
use crate::dialect::writer::{Writer, append_object};

/// Writes a streamed answer.
#[derive(Debug, Default)]
pub struct StreamWriter {
    /// The index of the answer that this writer writes.
    choice: u64,
    head: ChunkHead,
    usage_chunk: bool,
    legacy_calls: bool,
    usage: Option<Usage>,
    stop: Option<Stop<'static>>,
    /// The parts that are open, by their keys.
    open: BTreeMap<u32, OpenPart>,
    calls: u64,
    /// The thinking that has a signature, so far.
    signatures: Vec<(Text<'static>, Signature<'static>)>,
    /// The number of `signatures` that have been written.
    signatures_written: usize,
    /// The log probabilities of the next delta.
    tokens: Vec<Token<'static>>,
    /// The number of characters of the content so far.
    said: u64,
    /// The citations of the content. SDKs accept them once, so they are written after the last text.
    citations: Vec<Citation<'static>>,
    over: bool,
}

/// An open part.
#[derive(Debug)]
enum OpenPart {
    /// The position in the content where the text begins, and its citations.
    Text(u64, Vec<Citation<'static>>),
    Refusal,
    /// The thought and its signature. The thought is kept because the signature is written together with it.
    Thinking(Text<'static>, Option<Signature<'static>>),
    Call {
        number: u64,
        kind: CallKind,
        has_input: bool,
    },
}

impl StreamWriter {
    /// Creates a writer of the choice with that index.
    pub fn of_choice(choice: u64, context: &ReplyContext) -> Self {
        let (usage_chunk, legacy_calls) = (context.usage_chunk, context.legacy_calls);
        Self { choice, usage_chunk, legacy_calls, ..Self::default() }
    }

    /// Appends to `out` the SSE events for one canonical event. Nothing is written before the first part.
    pub fn write(&mut self, event: &Event<'_>, context: &ReplyContext, out: &mut String) {
        if self.over {
            return;
        }
        match event {
            Event::Start { .. } | Event::Model(_) => self.head.read(event),
            // This dialect has no place for a search.
            Event::PartStart { part: PartKind::Search { .. }, .. } | Event::SearchOutcome { .. } => {}
            Event::PartStart { key, part } => {
                self.begin(context, out);
                self.start_part(*key, part, out);
            }
            Event::Delta { key, text } if !text.is_empty() => self.more(*key, text, out),
            Event::Delta { .. } => {}
            Event::Logprobs { tokens, .. } => {
                self.tokens.extend(tokens.iter().cloned().map(Token::into_owned))
            }
            Event::Cite { key, citation } => {
                if let Some(OpenPart::Text(_, citations)) = self.open.get_mut(key) {
                    citations.push(citation.clone().into_owned());
                }
            }
            Event::Signature { key, signature } => self.signature(*key, signature, out),
            Event::PartStop { key } => self.stop_part(*key, out),
            Event::Usage(usage) => self.usage.get_or_insert_default().merge(*usage),
            Event::Finish(stop) => self.stop = Some(stop.clone().into_owned()),
            Event::Fail(error) => {
                self.over = true;
                let event = errors::stream_event(Dialect::Chat, error);
                out.push_str(&String::from_utf8_lossy(&event));
            }
            Event::End => self.end(context, out),
        }
    }

    /// Writes the first chunk, which names the role.
    fn begin(&mut self, context: &ReplyContext, out: &mut String) {
        if self.head.is_built() {
            return;
        }
        self.put_head(context);
        self.delta(out, |o| {
            o.field("role", "assistant");
            o.field("content", "");
        });
    }

    fn put_head(&mut self, context: &ReplyContext) {
        self.head.build(|o, head| {
            o.field("id", id(&head.id, context));
            o.field("object", "chat.completion.chunk");
            o.field("created", head.created.unwrap_or(context.now));
            o.field("model", &head.model);
        });
    }

    fn start_part(&mut self, key: u32, part: &PartKind<'_>, out: &mut String) {
        let kind = match part {
            PartKind::Thinking => OpenPart::Thinking(Text::EMPTY, None),
            PartKind::Text => OpenPart::Text(self.said, Vec::new()),
            PartKind::Refusal => OpenPart::Refusal,
            PartKind::Search { .. } => return,
            PartKind::Call { kind, .. } => {
                OpenPart::Call { number: self.calls, kind: *kind, has_input: false }
            }
        };
        if !matches!(kind, OpenPart::Thinking(..)) && self.signatures.len() >= 2 * self.signatures_written {
            self.write_signatures(out);
        }
        self.open.insert(key, kind);
        let PartKind::Call { id, name, kind, signature } = part else { return };
        let number = self.calls;
        self.calls += 1;
        if self.legacy_calls {
            return self.legacy_call(number, out, |o| {
                o.field("name", name);
                o.field("arguments", "");
            });
        }
        self.call(number, out, |o| {
            o.field("id", call_id(id, number));
            let (word, input) = words(*kind);
            o.field("type", word);
            o.object_at(word, |o| {
                o.field("name", name);
                o.field(input, "");
            });
            // Vercel's AI SDK looks for the signature in the first piece only.
            if let Some(Signature::Gemini(proof)) = signature {
                put_gemini_signature(o, proof);
            }
        });
    }

    fn more(&mut self, key: u32, text: &Text<'_>, out: &mut String) {
        let Some(part) = self.open.get_mut(&key) else { return };
        let member = match part {
            OpenPart::Text(..) => {
                self.said += text.char_count();
                return self.delta_with_logprobs(out, |o| o.field("content", text));
            }
            OpenPart::Refusal => "refusal",
            OpenPart::Thinking(thought, _) => {
                thought.push(text);
                "reasoning_content"
            }
            OpenPart::Call { number, kind, has_input } => {
                *has_input = true;
                let (number, kind) = (*number, *kind);
                return self.input(number, kind, text, out);
            }
        };
        self.delta(out, |o| o.field(member, text));
    }

    fn signature(&mut self, key: u32, proof: &Signature<'_>, out: &mut String) {
        let Some(part) = self.open.get_mut(&key) else { return };
        match (part, proof) {
            (OpenPart::Thinking(_, signature), proof) => *signature = Some(proof.clone().into_owned()),
            (OpenPart::Call { number, kind, .. }, Signature::Gemini(proof)) if !self.legacy_calls => {
                let (number, (word, input)) = (*number, words(*kind));
                self.call(number, out, |o| {
                    // OpenAI's SDK accepts no piece of a call without this member.
                    o.object_at(word, |o| o.field(input, ""));
                    put_gemini_signature(o, proof);
                });
            }
            _ => {}
        }
    }

    fn stop_part(&mut self, key: u32, out: &mut String) {
        let Some(part) = self.open.remove(&key) else { return };
        match part {
            OpenPart::Text(from, citations) => {
                if !self.tokens.is_empty() {
                    self.delta_with_logprobs(out, |_| {});
                }
                let letters = self.said - from;
                let placed = citations.iter().map(|citation| citation.within(from, letters).into_owned());
                self.citations.extend(placed);
            }
            OpenPart::Thinking(thought, Some(proof)) => self.signatures.push((thought, proof)),
            OpenPart::Call { number, kind: CallKind::Function, has_input: false } => {
                // Clients parse the arguments, and an empty string is not JSON.
                self.input(number, CallKind::Function, &Text::plain("{}"), out);
            }
            _ => {}
        }
    }

    fn end(&mut self, context: &ReplyContext, out: &mut String) {
        self.begin(context, out);
        while let Some((&key, _)) = self.open.first_key_value() {
            self.stop_part(key, out);
        }
        self.write_signatures(out);
        if !self.citations.is_empty() {
            let citations = std::mem::take(&mut self.citations);
            self.delta(out, |o| put_citations(o, &citations));
        }
        self.over = true;
        let stop = self.stop.take().unwrap_or_default();
        let reason = stop::word(&stop, self.legacy_calls);
        self.chunk(out, |o| {
            o.object_at("delta", |_| {});
            o.field("finish_reason", reason);
        });
        if !context.several {
            self.conclude(out);
        }
    }

    /// Appends the end of the stream, after the last of several answers.
    pub fn conclude(&self, out: &mut String) {
        let usage = self.usage.filter(|_| self.usage_chunk);
        self.head.conclude(usage, usage.and_then(|usage| usage.tier), out);
    }

    /// Writes all signatures so far as one tag. Usually all thinking comes first, so there is one tag. A later tag
    /// repeats the earlier signatures, for clients that keep the last tag, so one is written only when their number
    /// has doubled, and at the end.
    fn write_signatures(&mut self, out: &mut String) {
        if self.signatures_written == self.signatures.len() {
            return;
        }
        self.signatures_written = self.signatures.len();
        if let Some(proof) = thinking::to_member(&self.signatures) {
            self.delta(out, |o| o.field("reasoning_signature", proof));
        }
    }

    fn input(&self, number: u64, kind: CallKind, text: &Text<'_>, out: &mut String) {
        if self.legacy_calls {
            return self.legacy_call(number, out, |o| o.field("arguments", text));
        }
        let (word, input) = words(kind);
        self.call(number, out, |o| o.object_at(word, |o| o.field(input, text)));
    }

    /// Writes a piece of a call in the legacy form, which has a place for only one call.
    fn legacy_call(&self, number: u64, out: &mut String, inside: impl FnOnce(&mut Writer)) {
        if number == 0 {
            self.delta(out, |o| o.object_at("function_call", inside));
        }
    }

    fn call(&self, number: u64, out: &mut String, inside: impl FnOnce(&mut Writer)) {
        self.delta(out, |o| {
            o.array("tool_calls", |a| {
                a.object(|o| {
                    o.field("index", number);
                    inside(o);
                });
            });
        });
    }

    fn delta(&self, out: &mut String, inside: impl FnOnce(&mut Writer)) {
        self.chunk(out, |o| {
            o.object_at("delta", inside);
            o.field("finish_reason", ());
        });
    }

    /// Writes a delta with the log probabilities of its text.
    fn delta_with_logprobs(&mut self, out: &mut String, inside: impl FnOnce(&mut Writer)) {
        let tokens = std::mem::take(&mut self.tokens);
        if tokens.is_empty() {
            return self.delta(out, inside);
        }
        self.chunk(out, |o| {
            o.object_at("delta", inside);
            put_logprobs(o, tokens.iter());
            o.field("finish_reason", ());
        });
    }

    /// Writes a chunk with one choice; `inside` writes the members after the index.
    fn chunk(&self, out: &mut String, inside: impl FnOnce(&mut Writer)) {
        out.push_str(self.head.as_str());
        append_object(out, |o| {
            o.field("index", self.choice);
            inside(o);
        });
        out.push_str(chunk_tail(self.usage_chunk));
    }
}

/// Returns the member names of a call of that kind and of its input.
fn words(kind: CallKind) -> (&'static str, &'static str) {
    match kind {
        CallKind::Function => ("function", "arguments"),
        CallKind::Custom => ("custom", "input"),
    }
}
