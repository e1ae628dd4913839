//! The parts of a streamed answer, as its chunks open them.
//!
//! A chunk only says what is new; which part that belongs to, and when a part is over, is worked out
//! here. Text, thinking and refusal close one another, and calls close them. Calls stay open side by
//! side to the end, because their pieces may alternate; what the model says after its calls waits
//! until they are closed.

use super::calls::Piece;
use super::inline::Voice;
use crate::dialect::canonical::{CallKind, Event, PartKind};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs::Token;
use crate::dialect::signature::Signature;

/// So many bytes of what follows the calls wait for them; then they are taken for complete.
const MAX_LATE: usize = 32 * 1024;
/// So many bytes of a call are held while its name or its id is unknown.
const MAX_NAMELESS: usize = 32 * 1024;

#[derive(Debug, Default)]
pub(super) struct Parts {
    next_key: u32,
    open: Option<(u32, Voice)>,
    calls: Vec<OpenCall>,
    /// What was said while calls were open.
    late: Vec<(Voice, String)>,
    called: bool,
    /// The tokens of the text that comes next.
    tokens: Vec<Token<'static>>,
    /// So many characters of text have been said,
    said: u64,
    /// and so many of them before the open part.
    before: u64,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
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

    /// Whether a call has been announced.
    pub(super) fn called(&self) -> bool {
        self.called
    }

    /// More text, thinking or refusal, as a literal.
    pub(super) fn say(&mut self, voice: Voice, literal: &str, each: &mut dyn FnMut(Event<'_>)) {
        if literal.is_empty() {
            return;
        }
        if self.calls.iter().any(|call| !call.name.is_empty()) {
            match self.late.last_mut() {
                Some((last, text)) if *last == voice => text.push_str(literal),
                _ => self.late.push((voice, literal.to_owned())),
            }
            if self.late.iter().map(|(_, text)| text.len()).sum::<usize>() > MAX_LATE {
                self.close_calls(each);
                self.say_late(each);
            }
            return;
        }
        let key = self.voice(voice, each);
        let text = Text::inside(literal);
        if voice == Voice::Text {
            self.said += text.letters();
            self.tell_tokens(key, each);
        }
        each(Event::Delta { key, text });
    }

    /// The tokens of the content that comes with them, or has come.
    pub(super) fn weigh(&mut self, tokens: Vec<Token<'_>>) {
        self.tokens.extend(tokens.into_iter().map(Token::into_owned));
    }

    fn tell_tokens(&mut self, key: u32, each: &mut dyn FnMut(Event<'_>)) {
        if !self.tokens.is_empty() {
            each(Event::Logprobs { key, tokens: std::mem::take(&mut self.tokens) });
        }
    }

    /// Where the content comes from. What is known of a text that is over comes too late for it.
    pub(super) fn cite(&mut self, citation: Citation<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if let Some((key, Voice::Text)) = self.open {
            each(Event::Cite { key, citation: citation.counted_from(self.before) });
        }
    }

    /// The proofs of the thinking before.
    pub(super) fn prove(&mut self, proofs: Vec<Signature<'static>>, each: &mut dyn FnMut(Event<'_>)) {
        for signature in proofs {
            if matches!(signature, Signature::AnthropicRedacted(_)) {
                // Thinking that is not shown is a part of its own.
                self.close_voice(each);
                let key = self.voice(Voice::Thought, each);
                each(Event::Signature { key, signature });
                self.close_voice(each);
            } else if let Some((key, Voice::Thought)) = self.open {
                each(Event::Signature { key, signature });
                self.close_voice(each);
            }
        }
    }

    /// A piece of a call.
    pub(super) fn piece(&mut self, piece: Piece<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let at = match self.find(&piece) {
            Some(at) => at,
            None => {
                let kind = piece.kind;
                self.calls.push(OpenCall { index: piece.index, kind, ..OpenCall::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.id.is_empty() {
            call.id = piece.id.into_owned();
        }
        if call.name.is_empty() {
            call.name = piece.name.into_owned();
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
        // The id may come last; who has none gets one when the call is over.
        if !call.name.is_empty() && (!call.id.is_empty() || is_long) {
            self.announce(at, each);
        }
    }

    /// The answer is over: closes everything.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        self.close_voice(each);
        self.close_calls(each);
        self.say_late(each);
    }

    /// Which call a piece belongs to: that of its index, else of its id, else the last. Upstreams
    /// that number all calls 0 tell them apart by their ids, and those without ids by their names.
    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        let at = if piece.index.is_some() {
            self.calls.iter().rposition(|call| call.index == piece.index)
        } else if !piece.id.is_empty() {
            self.calls.iter().rposition(|call| call.id == piece.id)
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

    fn announce(&mut self, at: usize, each: &mut dyn FnMut(Event<'_>)) {
        self.close_voice(each);
        let key = self.take_key();
        let Some(call) = self.calls.get_mut(at) else { return };
        call.key = Some(key);
        self.called = true;
        let (id, name) = (call.id.borrowed(), call.name.borrowed());
        each(Event::PartStart { key, part: PartKind::Call { id, name, kind: call.kind } });
        let held = std::mem::take(&mut call.held);
        if !held.is_empty() {
            each(Event::Delta { key, text: held });
        }
        if let Some(signature) = call.signature.take() {
            each(Event::Signature { key, signature });
        }
    }

    /// Calls without a name cannot be called, and are left out.
    fn close_calls(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        for at in 0..self.calls.len() {
            let waits = |call: &OpenCall| call.key.is_none() && !call.name.is_empty();
            if self.calls.get(at).is_some_and(waits) {
                self.announce(at, each);
            }
        }
        for key in self.calls.drain(..).filter_map(|call| call.key) {
            each(Event::PartStop { key });
        }
    }

    fn say_late(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        for (voice, text) in std::mem::take(&mut self.late) {
            self.say(voice, &text, each);
        }
        self.close_voice(each);
    }

    /// The key of the open part of that kind, which is opened if need be.
    fn voice(&mut self, voice: Voice, each: &mut dyn FnMut(Event<'_>)) -> u32 {
        if let Some((key, open)) = self.open
            && open == voice
        {
            return key;
        }
        self.close_voice(each);
        let key = self.take_key();
        self.open = Some((key, voice));
        self.before = self.said;
        let part = match voice {
            Voice::Thought => PartKind::Thinking,
            Voice::Text => PartKind::Text,
            Voice::Refusal => PartKind::Refusal,
        };
        each(Event::PartStart { key, part });
        key
    }

    fn close_voice(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        if let Some((key, voice)) = self.open.take() {
            if voice == Voice::Text {
                self.tell_tokens(key, each);
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
