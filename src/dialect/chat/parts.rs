//! The parts of a streamed answer, as its chunks open them.
//!
//! A chunk only says what is new; which part that belongs to, and when a part is over, is worked out
//! here. Text, thinking and refusal close one another, and calls close them. Calls stay open side by
//! side to the end, because their pieces may alternate; text after the calls waits until they are
//! closed.

use std::collections::HashMap;

use super::calls::Piece;
use super::inline::TextKind;
use crate::dialect::canonical::{CallKind, Event, PartKind};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs::Token;
use crate::dialect::signature::Signature;

/// Bytes of what follows the calls that wait for them; then the calls are taken for complete.
const MAX_LATE: usize = 32 * 1024;
/// Bytes of a call that are held while its name or its id is unknown.
const MAX_NAMELESS: usize = 32 * 1024;

#[derive(Debug, Default)]
pub(super) struct Parts {
    next_key: u32,
    open: Option<(u32, TextKind)>,
    calls: Vec<OpenCall>,
    /// The last of the calls of each index and of each id,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<Text<'static>, usize>,
    /// and whether any of them has a name.
    named: bool,
    /// Text that came while calls were open, and how many bytes it has.
    late: Vec<(TextKind, String)>,
    late_bytes: usize,
    called: bool,
    /// The log probabilities of the text that comes next.
    tokens: Vec<Token<'static>>,
    /// Characters of text so far,
    characters: u64,
    /// and before the open part.
    characters_before: u64,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: Text<'static>,
    name: Text<'static>,
    kind: CallKind,
    /// Unknown until it has been announced.
    key: Option<u32>,
    /// Input that came before the announcement.
    held: Text<'static>,
    /// Some of its input has come.
    has_input: bool,
    signature: Option<Signature<'static>>,
}

impl Parts {
    /// Whether any part has been announced.
    pub(super) fn any(&self) -> bool {
        self.next_key > 0
    }

    /// How many calls stand open, announced or not.
    pub(super) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether a call has been announced.
    pub(super) fn called(&self) -> bool {
        self.called
    }

    /// More text, thinking or refusal, as a literal.
    pub(super) fn push(&mut self, kind: TextKind, literal: &str, each: &mut dyn FnMut(Event<'_>)) {
        if literal.is_empty() {
            return;
        }
        if self.named {
            self.late_bytes += literal.len();
            match self.late.last_mut() {
                Some((last, text)) if *last == kind => text.push_str(literal),
                _ => self.late.push((kind, literal.to_owned())),
            }
            if self.late_bytes > MAX_LATE {
                self.close_calls(each);
                self.push_late(each);
            }
            return;
        }
        let key = self.open_part(kind, each);
        let text = Text::inside(literal);
        if kind == TextKind::Text {
            self.characters += text.letters();
            self.emit_logprobs(key, each);
        }
        each(Event::Delta { key, text });
    }

    /// The log probabilities of the text in the same chunk.
    pub(super) fn push_logprobs(&mut self, tokens: Vec<Token<'_>>) {
        self.tokens.extend(tokens.into_iter().map(Token::into_owned));
    }

    fn emit_logprobs(&mut self, key: u32, each: &mut dyn FnMut(Event<'_>)) {
        if !self.tokens.is_empty() {
            each(Event::Logprobs { key, tokens: std::mem::take(&mut self.tokens) });
        }
    }

    /// A source of the text. It is dropped when the text part is closed already.
    pub(super) fn push_citation(&mut self, citation: Citation<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if let Some((key, TextKind::Text)) = self.open {
            each(Event::Cite { key, citation: citation.counted_from(self.characters_before) });
        }
    }

    /// The signatures of the thinking before.
    pub(super) fn push_signatures(
        &mut self,
        signatures: Vec<Signature<'static>>,
        each: &mut dyn FnMut(Event<'_>),
    ) {
        for signature in signatures {
            if matches!(signature, Signature::AnthropicRedacted(_)) {
                // Thinking that is not shown is a part of its own.
                self.close_open(each);
                let key = self.open_part(TextKind::Thinking, each);
                each(Event::Signature { key, signature });
                self.close_open(each);
            } else if let Some((key, TextKind::Thinking)) = self.open {
                each(Event::Signature { key, signature });
                self.close_open(each);
            }
        }
    }

    /// A piece of a call.
    pub(super) fn push_call(&mut self, piece: Piece<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let at = match self.find(&piece) {
            Some(at) => at,
            None => {
                let (kind, at) = (piece.kind, self.calls.len());
                self.calls.push(OpenCall { kind, ..OpenCall::default() });
                self.by_index.extend(piece.index.map(|index| (index, at)));
                at
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.id.is_empty() && !piece.id.is_empty() {
            call.id = piece.id.into_owned();
            let last = self.by_id.entry(call.id.clone()).or_default();
            *last = at.max(*last);
        }
        if call.name.is_empty() {
            call.name = piece.name.into_owned();
            self.named |= !call.name.is_empty();
        }
        call.has_input |= !piece.input.is_empty();
        if let Some(key) = call.key {
            if !piece.input.is_empty() {
                each(Event::Delta { key, text: piece.input });
            }
            if let Some(signature) = piece.signature {
                each(Event::Signature { key, signature });
            }
            return;
        }
        call.signature = piece.signature.map(Signature::into_owned).or(call.signature.take());
        let is_long = call.held.literal().len() > MAX_NAMELESS;
        if !is_long || !call.name.is_empty() {
            call.held.push(&piece.input);
        }
        // The id may come last; a call that never gets one is given one at its end.
        if !call.name.is_empty() && (!call.id.is_empty() || is_long) {
            self.start_call(at, each);
        }
    }

    /// The answer is over: closes everything.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        self.close_open(each);
        self.close_calls(each);
        self.push_late(each);
    }

    /// Which call a piece belongs to: that of its index, else of its id, else the last. Upstreams
    /// that number all calls 0 tell them apart by their ids, and those without ids by their names.
    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        let at = if let Some(index) = piece.index {
            self.by_index.get(&index).copied()
        } else if !piece.id.is_empty() {
            self.by_id.get(piece.id.literal()).copied()
        } else {
            self.calls.len().checked_sub(1)
        }?;
        let call = self.calls.get(at)?;
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        let no_ids = piece.id.is_empty() && call.id.is_empty();
        let other_name = !call.name.is_empty() && piece.name != call.name && call.has_input;
        let is_new = !piece.name.is_empty() && (other_id || (no_ids && other_name));
        (!is_new).then_some(at)
    }

    fn start_call(&mut self, at: usize, each: &mut dyn FnMut(Event<'_>)) {
        self.close_open(each);
        let key = self.take_key();
        let Some(call) = self.calls.get_mut(at) else { return };
        call.key = Some(key);
        self.called = true;
        let (id, name) = (call.id.borrowed(), call.name.borrowed());
        let signature = call.signature.take();
        each(Event::PartStart { key, part: PartKind::Call { id, name, kind: call.kind, signature } });
        let held = std::mem::take(&mut call.held);
        if !held.is_empty() {
            each(Event::Delta { key, text: held });
        }
    }

    /// Calls without a name cannot be called, and are left out.
    fn close_calls(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        for at in 0..self.calls.len() {
            let waits = |call: &OpenCall| call.key.is_none() && !call.name.is_empty();
            if self.calls.get(at).is_some_and(waits) {
                self.start_call(at, each);
            }
        }
        for key in self.calls.drain(..).filter_map(|call| call.key) {
            each(Event::PartStop { key });
        }
        self.by_index.clear();
        self.by_id.clear();
        self.named = false;
    }

    fn push_late(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        self.late_bytes = 0;
        for (kind, text) in std::mem::take(&mut self.late) {
            self.push(kind, &text, each);
        }
        self.close_open(each);
    }

    /// The key of the open part of that kind, which is opened if need be.
    fn open_part(&mut self, kind: TextKind, each: &mut dyn FnMut(Event<'_>)) -> u32 {
        if let Some((key, open)) = self.open
            && open == kind
        {
            return key;
        }
        self.close_open(each);
        let key = self.take_key();
        self.open = Some((key, kind));
        self.characters_before = self.characters;
        let part = match kind {
            TextKind::Thinking => PartKind::Thinking,
            TextKind::Text => PartKind::Text,
            TextKind::Refusal => PartKind::Refusal,
        };
        each(Event::PartStart { key, part });
        key
    }

    fn close_open(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        if let Some((key, kind)) = self.open.take() {
            if kind == TextKind::Text {
                self.emit_logprobs(key, each);
            }
            each(Event::PartStop { key });
        }
    }

    fn take_key(&mut self) -> u32 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }
}
