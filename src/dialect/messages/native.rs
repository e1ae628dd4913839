//! Adapts bodies that go from a client of this dialect to an upstream of this dialect without conversion.
//!
//! A conversation may have begun with another provider. Its signatures are in the client's thinking blocks as tags of
//! ours, which no messages upstream can read: those of other providers are removed, and Anthropic's own become native
//! again. Searches that another provider ran are removed, too, and the citations of their results. Every other byte
//! is kept.

use std::ops::Range;

use bytes::Bytes;
use ring::digest::{SHA256, digest};

use super::blocks_write::put_thinking;
use super::{citations, searches};
use crate::dialect::canonical::Thinking;
use crate::dialect::edit::edit;
use crate::dialect::literal::Text;
use crate::dialect::signature::{self, Provider, Signature};
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::writer::Writer;
use crate::error_words::requests;
use crate::hex;

/// The prefixes of our tags and of the ids of searches that another provider ran.
const TAGS: [&str; 3] = ["sy1:", "metapi:", "srvtoolu_sy"];

/// Returns the body without the thinking, searches and citations of other providers; `None` when there are none.
pub fn without_foreign_thinking(body: &Node<'_>) -> Option<Bytes> {
    if !TAGS.iter().any(|tag| body.raw().contains(tag)) {
        return None;
    }
    replaced(body, own_blocks).map(Bytes::from)
}

/// Returns whether an upstream refused a request because of thinking in its conversation, or because thinking is
/// missing.
pub fn refuses_thoughts(status: u16, error: &UpstreamError) -> bool {
    status == 400 && requests::is_of_thinking_blocks(&error.message.to_ascii_lowercase())
}

/// Returns the body without unsigned thinking blocks or, if it has none, without any thinking blocks. If a turn of
/// calls then lacks its thinking, thinking is switched off. `None` when there is nothing to change.
pub fn without_thoughts(body: &Node<'_>) -> Option<Bytes> {
    let is_thinking =
        |block: &Node<'_>| matches!(block.str_at("type").as_ref(), "thinking" | "redacted_thinking");
    let is_unsigned =
        |block: &Node<'_>| block.str_at("type") == "thinking" && block.str_at("signature").is_empty();
    let gone = |goes: &dyn Fn(&Node<'_>) -> bool| replaced(body, |block| goes(block).then(String::new));
    let cut = gone(&is_unsigned).or_else(|| gone(&is_thinking));
    let left = cut.as_deref().unwrap_or(body.raw());
    let node = Node::parse(left).ok()?;
    if !lacks_thinking(&node) {
        return cut.map(Bytes::from);
    }
    // Rules for earlier thinking are accepted only while thinking is on.
    Some(Bytes::from(
        edit(left, &[("thinking", r#"{"type":"disabled"}"#)], &["context_management"]).into_owned(),
    ))
}

/// Returns the body with other ids for calls whose ids the API refuses, as other providers give them
/// (`functions.read:0`): the same in the results. `None` when there are none.
pub fn with_fitting_ids(body: &Node<'_>) -> Option<Bytes> {
    let fitting = |block: &Node<'_>| {
        let key = match block.str_at("type").as_ref() {
            "tool_use" => "id",
            "tool_result" => "tool_use_id",
            _ => return None,
        };
        let id = block.text_at(key).filter(|id| !fits_call_id(&id.decode()))?;
        let other = format!("\"{}\"", call_id_of(&id.decode()));
        Some(edit(block.raw(), &[(key, &other)], &[]).into_owned())
    };
    replaced(body, fitting).map(Bytes::from)
}

/// Whether the API accepts a call's id: `^[a-zA-Z0-9_-]+$`.
pub fn fits_call_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns the id in place of one that does not fit, the same for the same one.
pub fn call_id_of(id: &str) -> String {
    let hash = digest(&SHA256, id.as_bytes());
    format!("call_{}", hex::encode(&hash.as_ref()[..12]))
}

/// Returns whether the upstream would refuse the body for missing thinking: with a thinking budget, an assistant's
/// turn whose calls the client has just answered must begin with a thinking block.
fn lacks_thinking(body: &Node<'_>) -> bool {
    let turns = body.items_at("messages");
    let last = turns.iter().rposition(|turn| turn.str_at("role") == "assistant");
    let begins_with = |turn: &Node<'_>| {
        let first = turn.items_at("content").first();
        first.map(|block| block.str_at("type").into_owned()).unwrap_or_default()
    };
    let is_on = body
        .path(&["thinking", "type"])
        .is_some_and(|kind| kind.text().is_some_and(|kind| kind.is("enabled")));
    is_on
        && last.is_some_and(|last| {
            let answered = turns.get(last + 1).is_none_or(|turn| begins_with(turn) == "tool_result");
            answered && !begins_with(&turns[last]).ends_with("thinking")
        })
}

/// Returns the body with some blocks replaced, or removed where `other` gives an empty text; `None` when all stay.
fn replaced(body: &Node<'_>, other: impl Fn(&Node<'_>) -> Option<String>) -> Option<String> {
    let messages = body.get("messages")?;
    let mut cut = Cut { body: body.raw(), out: String::new(), copied: 0 };
    cut.list(messages, |cut, message| {
        let content = message.get("content").filter(|content| content.is_array());
        let Some(content) = content else { return BlockAction::Kept };
        let goes = |block: &Node<'_>| matches!(other(block), Some(other) if other.is_empty());
        if !content.items().is_empty() && content.items().iter().all(goes) {
            // The API refuses a message without content.
            return BlockAction::Gone;
        }
        cut.list(content, |_, block| match other(block) {
            None => BlockAction::Kept,
            Some(other) if other.is_empty() => BlockAction::Gone,
            Some(other) => BlockAction::Replaced(other),
        });
        BlockAction::Kept
    });
    if cut.copied == 0 {
        return None;
    }
    cut.copy_to(cut.body.len());
    Some(cut.out)
}

/// Returns the native blocks, as JSON, for a block that carries a tag of ours; `None` for every other block.
fn own_blocks(block: &Node<'_>) -> Option<String> {
    if searches::is_own(block) {
        return Some(String::new());
    }
    let proof = match block.str_at("type").as_ref() {
        "text" => return citations::without_own(block),
        "thinking" => block.text_at("signature"),
        "redacted_thinking" => block.text_at("data"),
        _ => None,
    };
    let pieces = signature::untag(&proof?)?;
    let alone = pieces.len() == 1;
    let mut json = Writer::new();
    for (said, signature) in pieces {
        if signature.provider() != Some(Provider::Anthropic) {
            continue;
        }
        // Not every tag repeats the text; without it, a single piece has the block's text.
        let repeats = !alone || !said.is_empty() || matches!(signature, Signature::AnthropicRedacted(_));
        let text = if repeats { said } else { thinking_text(block) };
        json.object(|o| put_thinking(o, &Thinking { text, signature: Some(signature) }));
    }
    Some(json.into_string())
}

fn thinking_text(block: &Node<'_>) -> Text<'static> {
    block.text_at("thinking").unwrap_or_default().into_owned()
}

/// What happens to an element of a list.
enum BlockAction {
    Kept,
    Gone,
    /// Replaced by these elements.
    Replaced(String),
}

/// Copies a body with some elements of its lists changed.
struct Cut<'a> {
    body: &'a str,
    out: String,
    /// The position up to which `body` has been copied to `out` or left out.
    copied: usize,
}

impl<'a> Cut<'a> {
    fn list(&mut self, list: &Node<'a>, fate: impl Fn(&mut Self, &Node<'a>) -> BlockAction) {
        let (body, items) = (self.body, list.items());
        // The end of the last element that stays.
        let mut kept_end = None;
        for (index, item) in items.iter().enumerate() {
            let Some(Range { start, end }) = item.place_in(body) else { continue };
            let next = || items.get(index + 1)?.place_in(body);
            match fate(self, item) {
                BlockAction::Kept => kept_end = Some(end),
                BlockAction::Replaced(elements) => {
                    self.copy_to(start);
                    self.out.push_str(&elements);
                    self.copied = end;
                    kept_end = Some(end);
                }
                BlockAction::Gone => match (kept_end, next()) {
                    // Removed with the comma before it.
                    (Some(kept_end), _) => {
                        self.copy_to(kept_end.max(self.copied));
                        self.copied = end;
                    }
                    // Removed with the comma after it.
                    (None, Some(next)) => {
                        self.copy_to(start);
                        self.copied = next.start;
                    }
                    (None, None) => {
                        self.copy_to(start);
                        self.copied = end;
                    }
                },
            }
        }
    }

    fn copy_to(&mut self, end: usize) {
        self.out.push_str(&self.body[self.copied..end]);
        self.copied = end;
    }
}
