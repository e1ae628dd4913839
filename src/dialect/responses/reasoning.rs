//! Reasoning items: the part of a thought that may be shown, and its signature.

use crate::dialect::canonical::Thinking;
use crate::dialect::literal::Text;
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The separator between the parts of a summary that are joined into one text, as the inside of a JSON string.
pub(super) const BETWEEN_PARTS: &str = "\\n\\n";

/// Reads an item. An item that we wrote for another provider's thinking may hold several thoughts; an item without
/// text and without a signature holds none.
pub(super) fn read<'a>(item: &Node<'a>) -> Vec<Thinking<'a>> {
    let summary = texts(item, "summary");
    let shown = match summary.as_slice() {
        [] => Text::join(&texts(item, "content"), ""),
        [only] => only.clone(),
        several => Text::join(several, BETWEEN_PARTS),
    };
    let proof = item.text_at("encrypted_content").filter(|proof| !proof.is_empty());
    let Some(proof) = proof else { return unproved(shown) };
    let Some(mut pieces) = signature::untag(&proof) else {
        let id = item.text_at("id").filter(|id| !super::is_own_id(id));
        return vec![Thinking {
            text: shown,
            signature: Some(Signature::OpenAi { id, encrypted: proof, summary }),
        }];
    };
    if let [(text, signature)] = pieces.as_mut_slice()
        && text.is_empty()
        && !matches!(signature, Signature::AnthropicRedacted(_))
    {
        // The tag holds the signature alone.
        *text = shown.clone().into_owned();
    }
    if pieces.is_empty() {
        return unproved(shown);
    }
    pieces.into_iter().map(|(text, signature)| Thinking { text, signature: Some(signature) }).collect()
}

fn unproved(shown: Text<'_>) -> Vec<Thinking<'_>> {
    if shown.is_empty() { Vec::new() } else { vec![Thinking { text: shown, signature: None }] }
}

/// Returns the texts of a list of parts.
fn texts<'a>(item: &Node<'a>, key: &str) -> Vec<Text<'a>> {
    item.items_at(key).iter().filter_map(|part| part.text_at("text").or_else(|| part.text())).collect()
}

/// Writes thinking for an upstream, which takes back only what its own provider encrypted.
pub(super) fn put_for_upstream(list: &mut Writer, thinking: &Thinking<'_>) {
    let Some(Signature::OpenAi { id, encrypted, summary }) = &thinking.signature else { return };
    if encrypted.is_empty() {
        return;
    }
    list.object(|o| {
        o.field("type", "reasoning");
        o.field_if("id", id.as_ref().filter(|id| !super::is_own_id(id)));
        o.array("summary", |a| {
            if summary.is_empty() {
                put_part(a, &thinking.text);
            }
            summary.iter().for_each(|text| put_part(a, text));
        });
        o.field("encrypted_content", encrypted);
    });
}

/// Writes a part of a summary, unless it is empty.
pub(super) fn put_part(list: &mut Writer, text: &Text<'_>) {
    if !text.is_empty() {
        list.object(|o| {
            o.field("type", "summary_text");
            o.field("text", text);
        });
    }
}

/// Returns the `encrypted_content` for a client to send back: OpenAI's own, or a tag of ours around another
/// provider's signature.
pub(super) fn encrypted_content<'t>(text: &Text<'_>, signature: &'t Signature<'_>) -> Option<Text<'t>> {
    match signature {
        Signature::OpenAi { encrypted, .. } => Some(encrypted.borrowed()).filter(|proof| !proof.is_empty()),
        other => signature::tag(&[(text.borrowed(), other.clone())]),
    }
}
