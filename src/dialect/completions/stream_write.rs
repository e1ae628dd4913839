//! Writes a streamed answer for a client: chunks in the form of the answer, each with the new text.

use std::collections::HashSet;

use super::logprobs;
use super::reply_write::{put_head, reason};
use crate::dialect::canonical::{Event, PartKind, ReplyContext, Stop};
use crate::dialect::chat::{ChunkHead, chunk_tail};
use crate::dialect::literal::Text;
use crate::dialect::logprobs::Token;
use crate::dialect::usage::Usage;
use crate::dialect::writer::Writer;
use crate::dialect::{Dialect, errors};

/// Writes a streamed answer.
#[derive(Debug, Default)]
pub struct StreamWriter {
    /// The index of the answer that this writer writes.
    choice: u64,
    head: ChunkHead,
    usage: Option<Usage>,
    stop: Option<Stop<'static>>,
    /// The open parts whose text belongs to the answer.
    said: HashSet<u32>,
    /// The log probabilities of the next text.
    tokens: Vec<Token<'static>>,
    /// The number of characters in the tokens before `tokens`.
    offset: u64,
    over: bool,
}

impl StreamWriter {
    /// Creates a writer of the choice with that index.
    pub fn of_choice(choice: u64) -> Self {
        Self { choice, ..Self::default() }
    }

    /// Appends to `out` the SSE events for one canonical event. Nothing is written before the first text.
    pub fn write(&mut self, event: &Event<'_>, context: &ReplyContext, out: &mut String) {
        if self.over {
            return;
        }
        match event {
            Event::Start { .. } | Event::Model(_) => self.head.read(event),
            Event::PartStart { key, part: PartKind::Text | PartKind::Refusal } => {
                self.begin(context, out);
                self.said.insert(*key);
            }
            Event::Delta { key, text } if !text.is_empty() && self.said.contains(key) => {
                self.chunk(text, None, context, out);
            }
            Event::Logprobs { tokens, .. } => {
                self.tokens.extend(tokens.iter().cloned().map(Token::into_owned));
            }
            Event::PartStop { key } => {
                self.said.remove(key);
                if !self.tokens.is_empty() {
                    self.chunk(&Text::EMPTY, None, context, out);
                }
            }
            Event::Usage(usage) => self.usage.get_or_insert_default().merge(*usage),
            Event::Finish(stop) => self.stop = Some(stop.clone().into_owned()),
            Event::Fail(error) => {
                self.over = true;
                let event = errors::stream_event(Dialect::Completions, error);
                out.push_str(&String::from_utf8_lossy(&event));
            }
            Event::End => {
                self.begin(context, out);
                self.over = true;
                let stop = self.stop.take().unwrap_or_default();
                self.chunk(&Text::EMPTY, Some(reason(&stop)), context, out);
                if !context.several {
                    self.conclude(context, out);
                }
            }
            // This dialect has no place for thoughts, calls, searches and citations.
            _ => {}
        }
    }

    /// Appends the end of the stream, after the last of several answers.
    pub fn conclude(&self, context: &ReplyContext, out: &mut String) {
        self.head.conclude(self.usage.filter(|_| context.usage_chunk), None, out);
    }

    fn begin(&mut self, context: &ReplyContext, out: &mut String) {
        if self.head.is_built() {
            return;
        }
        self.put_head(context);
        if let Some(prompt) = context.echo_text.as_ref().filter(|prompt| !prompt.is_empty()) {
            self.chunk(prompt, None, context, out);
        }
    }

    fn put_head(&mut self, context: &ReplyContext) {
        self.head.build(|o, head| put_head(o, (&head.id, &head.model, head.created), context));
    }

    fn chunk(
        &mut self,
        text: &Text<'_>,
        reason: Option<&'static str>,
        context: &ReplyContext,
        out: &mut String,
    ) {
        let tokens = std::mem::take(&mut self.tokens);
        let mut choice = Writer::with_capacity(160);
        choice.object(|o| {
            o.field("text", text);
            o.field("index", self.choice);
            logprobs::put(o, &tokens.iter().collect::<Vec<_>>(), self.offset);
            o.field("finish_reason", reason);
        });
        self.offset += tokens.iter().map(|token| token.text.char_count()).sum::<u64>();
        let tail = chunk_tail(context.usage_chunk);
        [self.head.as_str(), choice.as_str(), tail].iter().for_each(|piece| out.push_str(piece));
    }
}
