//! Builds the parts of a streamed answer from its chunks.
//!
//! A chunk says only what is new; the part that it belongs to, and the end of a part, are worked out here. Text,
//! thinking and refusal close one another, and calls close them. A call whose input is complete is closed when the next
//! one begins; others stay open side by side to the end, because their pieces may alternate. Text after the calls waits
//! until they are closed.

use std::collections::HashMap;

use super::calls::Piece;
use super::inline::TextKind;
use super::input_end::InputEnd;
use crate::dialect::canonical::{CallKind, Event, PartKind};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs::Token;
use crate::dialect::signature::Signature;

/// The most bytes of text that wait for open calls; beyond that the calls are taken as complete.
const MAX_LATE: usize = 32 * 1024;
/// The most bytes of a call's input that are held while its name or its id is unknown.
const MAX_NAMELESS: usize = 32 * 1024;

#[derive(Debug, Default)]
pub(super) struct Parts {
    next_key: u32,
    open: Option<(u32, TextKind)>,
    calls: Vec<OpenCall>,
    /// The call that was announced last, when it is not closed.
    last_announced: Option<usize>,
    /// The last call of each index.
    by_index: HashMap<u64, usize>,
    /// The last call of each id.
    by_id: HashMap<Text<'static>, usize>,
    /// Whether any call has a name.
    named: bool,
    /// Text that came while calls were open, and its kinds.
    late: Vec<(TextKind, String)>,
    /// The number of bytes in `late`.
    late_bytes: usize,
    called: bool,
    /// The log probabilities of the text that comes next.
    tokens: Vec<Token<'static>>,
    /// The number of characters of text so far.
    characters: u64,
    /// The number of characters of text before the open part.
    characters_before: u64,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: Text<'static>,
    name: Text<'static>,
    kind: CallKind,
    /// The key of the call's part; `None` until the part has been announced.
    key: Option<u32>,
    /// Input that came before the announcement.
    held: Text<'static>,
    /// Whether any of its input has come.
    has_input: bool,
    input_end: InputEnd,
    /// Whether the end of the call's part has been announced.
    is_closed: bool,
    signature: Option<Signature<'static>>,
}

impl Parts {
    /// Returns whether any part has been announced.
    pub(super) fn any(&self) -> bool {
        self.next_key > 0
    }

    /// Returns the number of open calls, announced or not.
    pub(super) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether a call has been announced.
    pub(super) fn called(&self) -> bool {
        self.called
    }

    /// Adds text, thinking or refusal, as a JSON literal.
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
            self.characters += text.char_count();
            self.emit_logprobs(key, each);
        }
        each(Event::Delta { key, text });
    }

    /// Adds the log probabilities of the text in the same chunk.
    pub(super) fn push_logprobs(&mut self, tokens: Vec<Token<'_>>) {
        self.tokens.extend(tokens.into_iter().map(Token::into_owned));
    }

    fn emit_logprobs(&mut self, key: u32, each: &mut dyn FnMut(Event<'_>)) {
        if !self.tokens.is_empty() {
            each(Event::Logprobs { key, tokens: std::mem::take(&mut self.tokens) });
        }
    }

    /// Adds a citation of the text. It is dropped when the text part is closed already.
    pub(super) fn push_citation(&mut self, citation: Citation<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if let Some((key, TextKind::Text)) = self.open {
            each(Event::Cite { key, citation: citation.counted_from(self.characters_before) });
        }
    }

    /// Adds the signatures of the preceding thinking.
    pub(super) fn push_signatures(
        &mut self,
        signatures: Vec<Signature<'static>>,
        each: &mut dyn FnMut(Event<'_>),
    ) {
        for signature in signatures {
            if matches!(signature, Signature::AnthropicRedacted(_)) {
                // Redacted thinking is a part of its own.
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

    /// Adds a piece of a call.
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
        if call.is_closed {
            return;
        }
        call.has_input |= !piece.input.is_empty();
        if call.kind == CallKind::Function {
            call.input_end.push(&piece.input);
        }
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
        // The id may come last; a call that never gets one is announced without it at the end.
        if !call.name.is_empty() && (!call.id.is_empty() || is_long) {
            self.start_call(at, each);
        }
    }

    /// Closes everything at the end of the answer.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        self.close_open(each);
        self.close_calls(each);
        self.push_late(each);
    }

    /// Finds the call that a piece belongs to: by its index, else by its id, else the last one. Upstreams that number
    /// all calls 0 tell them apart by their ids, and upstreams without ids by their names.
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
        self.close_complete_call(each);
        let key = self.take_key();
        let Some(call) = self.calls.get_mut(at) else { return };
        call.key = Some(key);
        self.last_announced = Some(at);
        self.called = true;
        let (id, name) = (call.id.borrowed(), call.name.borrowed());
        let signature = call.signature.take();
        each(Event::PartStart { key, part: PartKind::Call { id, name, kind: call.kind, signature } });
        let held = std::mem::take(&mut call.held);
        if !held.is_empty() {
            each(Event::Delta { key, text: held });
        }
    }

    /// Closes the call that was announced last, if its input is complete. Some clients know only one open call at a time.
    fn close_complete_call(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        let Some(call) = self.last_announced.take().and_then(|at| self.calls.get_mut(at)) else { return };
        if let Some(key) = call.key.filter(|_| call.input_end.is_reached()) {
            call.is_closed = true;
            each(Event::PartStop { key });
        }
    }

    /// Closes all calls. Calls without a name cannot be called, and are left out.
    fn close_calls(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        for at in 0..self.calls.len() {
            let waits = |call: &OpenCall| call.key.is_none() && !call.name.is_empty();
            if self.calls.get(at).is_some_and(waits) {
                self.start_call(at, each);
            }
        }
        for key in self.calls.drain(..).filter(|call| !call.is_closed).filter_map(|call| call.key) {
            each(Event::PartStop { key });
        }
        self.last_announced = None;
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

    /// Returns the key of the open part of that kind; opens one if there is none.
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
