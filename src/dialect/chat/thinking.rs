//! Reads and writes thinking, for which the chat dialect has no standard member: `reasoning_content` is the most
//! common one, and the string beside it, `reasoning_signature`, carries the signatures.

use crate::dialect::canonical::{Part, Thinking};
use crate::dialect::literal::Text;
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;

/// The members of a message that hold thinking, in the order in which they are written.
pub(super) const MEMBERS: [&str; 5] =
    ["reasoning_content", "reasoning", "thinking", "reasoning_details", "reasoning_signature"];

/// Returns the thinking in a message or a delta, under any of the names in use.
pub(super) fn text<'a>(message: &Node<'a>) -> Option<Text<'a>> {
    let named = ["reasoning_content", "reasoning", "thinking"];
    let plain = named.iter().filter_map(|name| message.text_at(name)).find(|text| !text.is_empty());
    plain.or_else(|| {
        let details = message.items_at("reasoning_details");
        let texts: Vec<_> = details.iter().filter_map(|detail| detail.text_at("text")).collect();
        Some(Text::join(&texts, "")).filter(|text| !text.is_empty())
    })
}

/// Returns the thinking of a message with its signatures. A tag tells which text each signature belongs to; if the
/// tag is damaged, only the text is left.
pub(super) fn pieces<'a>(message: &Node<'a>) -> Vec<Thinking<'a>> {
    let text = text(message);
    let proof = message.text_at("reasoning_signature").filter(|proof| !proof.is_empty());
    let signed = proof.map(|proof| from_member(&proof)).unwrap_or_default();
    if signed.is_empty() {
        return text.map(|text| Thinking { text, signature: None }).into_iter().collect();
    }
    let alone = signed.len() == 1;
    let piece = |(own, signature): (Text<'static>, Signature<'static>)| {
        // A single signature without a text of its own belongs to all the thinking that is shown.
        let lacks_text = alone && own.is_empty() && !matches!(signature, Signature::AnthropicRedacted(_));
        let text = if lacks_text { text.clone().unwrap_or_default() } else { own };
        Thinking { text, signature: Some(signature) }
    };
    signed.into_iter().map(piece).collect()
}

/// Reads a `reasoning_signature`: the pieces of a tag, or a signature of an unknown provider.
pub(super) fn from_member(proof: &Text<'_>) -> Vec<(Text<'static>, Signature<'static>)> {
    signature::untag(proof)
        .unwrap_or_else(|| vec![(Text::EMPTY, Signature::Unknown(proof.clone().into_owned()))])
}

/// Joins all thinking among the parts into one text.
pub(super) fn joined<'p>(parts: impl Iterator<Item = &'p Part<'p>>) -> Text<'static> {
    let texts = parts.filter_map(|part| match part {
        Part::Thinking(thinking) => Some(&thinking.text),
        _ => None,
    });
    Text::join(texts, "")
}

/// Builds the `reasoning_signature` for signatures and their texts: a tag, or a signature of an unknown provider as
/// it came.
pub(super) fn to_member(pieces: &[(Text<'_>, Signature<'_>)]) -> Option<Text<'static>> {
    let unknown = pieces.iter().find_map(|(_, signature)| match signature {
        Signature::Unknown(proof) => Some(proof.clone().into_owned()),
        _ => None,
    });
    signature::tag(pieces).or(unknown)
}
