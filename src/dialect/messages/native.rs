//! For bodies that go from a client of this dialect to an upstream of this dialect as they are.
//!
//! A conversation may have begun on another provider. Its signatures stand in the client's thinking
//! blocks as tags of ours, which no messages upstream can read: those of
//! others are taken out, and Anthropic's own become native again. Searches that another provider ran
//! go, too, and citations of what they found. Every other byte is kept.

use bytes::Bytes;

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

/// How tags begin.
const TAGS: [&str; 3] = ["sy1:", "metapi:", "srvtoolu_sy"];

/// The body without thinking of other providers; `None` when there is none in it.
pub fn without_foreign_thinking(body: &Node<'_>) -> Option<Bytes> {
    if !TAGS.iter().any(|tag| body.raw().contains(tag)) {
        return None;
    }
    replaced(body, own_blocks).map(Bytes::from)
}

/// Whether an upstream refused a request for the thinking in its conversation, or for want of it.
pub fn refuses_thoughts(status: u16, error: &UpstreamError) -> bool {
    status == 400 && requests::is_of_thinking_blocks(&error.message.to_ascii_lowercase())
}

/// The body without thinking that nobody signed, or else without any; `None` when it has none and asks for
/// none. A turn of calls without its thinking goes on only without thinking.
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
    // What is to become of earlier thinking can be said only with thinking on.
    Some(Bytes::from(
        edit(left, &[("thinking", r#"{"type":"disabled"}"#)], &["context_management"]).into_owned(),
    ))
}

/// Whether the upstream would refuse the body for a missing thought: where a budget for thinking is given, an
/// assistant's turn whose calls the client has just answered must begin with a block of thinking.
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

/// The body with other blocks in place of some; `None` when all stay.
fn replaced(body: &Node<'_>, other: impl Fn(&Node<'_>) -> Option<String>) -> Option<String> {
    let messages = body.get("messages")?;
    let mut cut = Cut { body: body.raw(), out: String::new(), copied: 0 };
    cut.list(messages, |cut, message| {
        let content = message.get("content").filter(|content| content.is_array());
        let Some(content) = content else { return BlockAction::Kept };
        let goes = |block: &Node<'_>| matches!(other(block), Some(other) if other.is_empty());
        if !content.items().is_empty() && content.items().iter().all(goes) {
            // A message of nothing is refused.
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

/// The native blocks, as JSON, for a block that carries a tag of ours; `None` for every other block.
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
    let mut json = Writer::new();
    for (said, signature) in pieces {
        if signature.provider() != Some(Provider::Anthropic) {
            continue;
        }
        // Only some tags repeat the text.
        let repeats = !said.is_empty() || matches!(signature, Signature::AnthropicRedacted(_));
        let text = if repeats { said } else { shown(block) };
        json.object(|o| put_thinking(o, &Thinking { text, signature: Some(signature) }));
    }
    Some(json.into_string())
}

fn shown(block: &Node<'_>) -> Text<'static> {
    block.text_at("thinking").unwrap_or_default().into_owned()
}

/// What becomes of an element of a list.
enum BlockAction {
    Kept,
    Gone,
    /// By these elements.
    Replaced(String),
}

/// Copies a body with some elements of its lists changed.
struct Cut<'a> {
    body: &'a str,
    out: String,
    /// Up to here `body` is in `out`, or left out.
    copied: usize,
}

impl<'a> Cut<'a> {
    fn list(&mut self, list: &Node<'a>, fate: impl Fn(&mut Self, &Node<'a>) -> BlockAction) {
        let items = list.items();
        // Where the last element that stays ended.
        let mut kept_end = None;
        for (index, item) in items.iter().enumerate() {
            let start = self.offset(item);
            let end = start + item.raw().len();
            match fate(self, item) {
                BlockAction::Kept => kept_end = Some(end),
                BlockAction::Replaced(elements) => {
                    self.copy_to(start);
                    self.out.push_str(&elements);
                    self.copied = end;
                    kept_end = Some(end);
                }
                BlockAction::Gone => match (kept_end, items.get(index + 1)) {
                    // With the comma before it.
                    (Some(kept_end), _) => {
                        self.copy_to(kept_end.max(self.copied));
                        self.copied = end;
                    }
                    // With the comma behind it.
                    (None, Some(next)) => {
                        self.copy_to(start);
                        self.copied = self.offset(next);
                    }
                    (None, None) => {
                        self.copy_to(start);
                        self.copied = end;
                    }
                },
            }
        }
    }

    fn offset(&self, node: &Node<'a>) -> usize {
        node.raw().as_ptr() as usize - self.body.as_ptr() as usize
    }

    fn copy_to(&mut self, end: usize) {
        self.out.push_str(&self.body[self.copied..end]);
        self.copied = end;
    }
}
