//! Edits a body that stays in its client's dialect: each reason to change it makes one edit, and none leaves it as it came.

use std::borrow::Cow;

use memchr::memmem;

use crate::dialect::canonical::ConversionError;
use crate::dialect::data_urls::with_data_urls;
use crate::dialect::edit::edit;
use crate::dialect::envelope::{Thread, splice_model};
use crate::dialect::responses::PREVIOUS;
use crate::dialect::signature::PREFIX_IN_BYTES;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, chat, gemini, json, messages, responses};

use super::outgoing::{
    Destination, NOT_COMPACTED, PreparedBody, always_streams, keeps_threads, platform_edit, quoted,
    streams_only, text, tiered, whole,
};
use crate::proxy::call::Call;
use crate::proxy::client::Family;
use crate::proxy::operation::Operation;

/// Fields of the responses dialect that bridges leave in messages bodies.
const CONTINUATION: [&str; 2] = ["previous_response_id", "prompt_cache_key"];
const REFERENCE: &str = "item_reference";
const ENCRYPTED_REASONING: &str = "[\"reasoning.encrypted_content\"]";

/// A client's body, and its edited text.
struct Edits<'c> {
    call: &'c Call,
    /// The edited body; `None` while it can go as it came, which is nearly always.
    changed: Option<String>,
}

/// Writes a body that stays in the client's dialect.
pub(super) fn unconverted(call: &Call, to: Destination<'_>) -> Result<PreparedBody, ConversionError> {
    let always_streams = always_streams(to.platform, to.dialect);
    if always_streams && call.envelope.has_previous && continues(text(call)) {
        // These upstreams keep no answer that the request could refer to.
        return Err(ConversionError::unsupported(PREVIOUS));
    }
    if always_streams && call.shape.dialect == Dialect::Responses && refers_to_items(call) {
        return Err(ConversionError::unsupported(REFERENCE));
    }
    if call.has_recording {
        return Err(ConversionError::unsupported("document"));
    }
    let pieces = match edited(call, to)? {
        // The path names the model.
        None if to.dialect == Dialect::Gemini => whole(call.body.clone()),
        None => splice_model(&call.body, &call.envelope, to.model),
        Some(body) if to.dialect == Dialect::Gemini => whole(body),
        Some(body) => whole(edit(&body, &[("model", &quoted(to.model))], &[]).into_owned()),
    };
    Ok(PreparedBody::of(pieces, call.envelope.stream || always_streams || streams_only(to)))
}

fn continues(body: &str) -> bool {
    json::member(body, PREVIOUS).is_some_and(|id| id != "null")
}

/// Whether the body refers to items by their ids alone. Items of answers stored here have been inserted before.
fn refers_to_items(call: &Call) -> bool {
    memmem::find(&call.body, REFERENCE.as_bytes()).is_some()
        && Node::parse(text(call)).is_ok_and(|body| responses::refers_to_items(&body))
}

/// Returns the edited body of a Gemini count, or `None` where the client's body goes as it came.
pub(super) fn gemini_count(call: &Call, to: Destination<'_>) -> Option<String> {
    let mut body = Edits { call, changed: None };
    body.edit_gemini(to);
    body.changed
}

/// Returns the body of one of Gemini's other actions with the upstream's name of the model, or `None` where the client's body
/// goes as it came.
pub(super) fn gemini_action(call: &Call, to: Destination<'_>) -> Option<String> {
    let mut body = Edits { call, changed: None };
    body.rename_gemini(to);
    body.changed
}

/// Returns the edited body, or `None` where the client's body goes as it came.
fn edited(call: &Call, to: Destination<'_>) -> Result<Option<String>, ConversionError> {
    let mut body = Edits { call, changed: None };
    if call.operation == Operation::Compact {
        body.edit(&[], &NOT_COMPACTED);
    }
    match to.dialect {
        Dialect::Messages => body.edit_messages(to),
        Dialect::Gemini => body.edit_gemini(to),
        Dialect::Chat => body.edit_chat(to),
        Dialect::Responses => body.edit_responses(to)?,
        _ => {}
    }
    if call.asks_for_usage {
        body.put(chat::with_usage(body.text()));
    }
    if matches!(to.dialect, Dialect::Chat | Dialect::Responses) && call.envelope.marks.file_data {
        body.rewrite(with_data_urls);
    }
    let last = platform_edit(to, || Cow::Borrowed(body.text()));
    body.put(last);
    Ok(body.changed)
}

// === impl Edits ===

impl Edits<'_> {
    fn text(&self) -> &str {
        self.changed.as_deref().unwrap_or_else(|| text(self.call))
    }

    /// Replaces the body; `None` leaves it as it is.
    fn put(&mut self, changed: Option<String>) {
        self.changed = changed.or_else(|| self.changed.take());
    }

    /// Rewrites the parsed body; leaves it as it is where it cannot be parsed or `write` returns `None`.
    fn rewrite<T: Into<Vec<u8>>>(&mut self, write: impl FnOnce(&Node<'_>) -> Option<T>) {
        let written = Node::parse(self.text()).ok().and_then(|body| write(&body));
        self.put(written.and_then(|body| String::from_utf8(body.into()).ok()));
    }

    /// Sets some members and removes others.
    fn edit(&mut self, set: &[(&str, &str)], removed: &[&str]) {
        self.changed = Some(edit(self.text(), set, removed).into_owned());
    }

    fn edit_messages(&mut self, to: Destination<'_>) {
        if self.call.envelope.marks.own {
            self.rewrite(messages::without_foreign_thinking);
        }
        let is_kept = keeps_threads(to.platform, to.dialect);
        let thread = (self.call.envelope.thread != Thread::None && !is_kept).then_some("thread");
        let envelope = &self.call.envelope;
        if envelope.has_previous || envelope.has_cache_key || thread.is_some() {
            let removed: Vec<&str> = CONTINUATION.into_iter().chain(thread).collect();
            self.edit(&[], &removed);
        }
    }

    /// Names the model as the path does. Removes what Google cannot read: thinking signed by another provider, and OpenAI's
    /// reasoning members.
    fn edit_gemini(&mut self, to: Destination<'_>) {
        self.rename_gemini(to);
        if memmem::find(&self.call.body, PREFIX_IN_BYTES.as_bytes()).is_some() {
            self.rewrite(gemini::without_foreign_thinking);
        }
        if self.call.envelope.has_openai_words {
            self.rewrite(|body| gemini::with_own_thinking(body, to.model));
        }
    }

    /// Writes the upstream's name of the model where the body repeats the one in the client's path: Google refuses another
    /// name than that in the path.
    fn rename_gemini(&mut self, to: Destination<'_>) {
        let asked = self.call.envelope.model.as_str();
        if asked != to.model && memmem::find(&self.call.body, asked.as_bytes()).is_some() {
            self.rewrite(|body| gemini::with_model(body, asked, to.model));
        }
    }

    fn edit_chat(&mut self, to: Destination<'_>) {
        let vendor = to.platform.profile().vendor;
        if chat::may_have_foreign_members(self.call.envelope.marks, vendor) {
            self.rewrite(|body| chat::without_foreign_members(body, vendor, to.model));
        }
        // The chat dialect has no earlier answer to go on from.
        if self.call.envelope.has_previous {
            self.edit(&[], &[PREVIOUS]);
        }
    }

    fn edit_responses(&mut self, to: Destination<'_>) -> Result<(), ConversionError> {
        if self.call.envelope.marks.own {
            self.rewrite(responses::without_own_ids);
        }
        // Codex wants its reasoning back, whether it says so or not.
        if self.call.client.family == Family::Codex && !self.call.envelope.has_include {
            self.edit(&[("include", ENCRYPTED_REASONING)], &[]);
        }
        if self.call.envelope.has_tier {
            self.put(tiered(self.call, to, self.text())?);
        }
        Ok(())
    }
}
