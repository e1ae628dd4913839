//! Reads calls of tools, complete or in pieces.

use crate::dialect::canonical::{Call, CallKind};
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::tree::Node;

/// An element of `tool_calls`, or a legacy `function_call`. In a stream it may hold any part of the call; the members
/// that it lacks are empty.
#[derive(Debug, Default)]
pub(super) struct Piece<'a> {
    pub index: Option<u64>,
    pub id: Text<'a>,
    pub name: Text<'a>,
    pub kind: CallKind,
    pub input: Text<'a>,
    pub signature: Option<Signature<'a>>,
}

impl<'a> Piece<'a> {
    pub(super) fn read(piece: &Node<'a>) -> Self {
        let custom = piece.get("custom");
        // A legacy call has its members at the top level.
        let inner = custom.or(piece.get("function")).unwrap_or(piece);
        Self {
            index: piece.u64_at("index"),
            id: piece.get("id").and_then(id).unwrap_or_default(),
            name: inner.text_at("name").filter(|name| !name.is_blank()).unwrap_or_default(),
            kind: if custom.is_some() { CallKind::Custom } else { CallKind::Function },
            input: inner.get("arguments").or(inner.get("input")).map(input).unwrap_or_default(),
            signature: signature(piece),
        }
    }

    pub(super) fn into_call(self) -> Call<'a> {
        Call { id: self.id, name: self.name, kind: self.kind, input: self.input, signature: self.signature }
    }
}

/// Reads all calls of a message or a delta.
pub(super) fn of_message<'n, 'a>(message: &'n Node<'a>) -> impl Iterator<Item = Piece<'a>> + use<'n, 'a> {
    message.items_at("tool_calls").iter().chain(message.get("function_call")).map(Piece::read)
}

/// Reads the id of a call, which is a number on some sites.
fn id<'a>(id: &Node<'a>) -> Option<Text<'a>> {
    id.text().or_else(|| id.u64().map(|number| Text::of(&number.to_string())))
}

/// Reads the input of a call. Arguments are a string that holds JSON, but some upstreams send the JSON itself.
fn input<'a>(input: &Node<'a>) -> Text<'a> {
    input.text().unwrap_or_else(|| Text::of(&input.json().compact()))
}

/// The members of a call that hold Gemini's signature, and the path to it in each: Google's own place in the chat dialect,
/// and that of a widespread proxy.
const SIGNED: [(&str, &[&str]); 2] =
    [("extra_content", &["google", GEMINI_SIGNATURE]), ("provider_specific_fields", &[GEMINI_SIGNATURE])];
pub(super) const GEMINI_SIGNATURE: &str = "thought_signature";

/// Reads Gemini's signature of a call.
pub(super) fn signature<'a>(call: &Node<'a>) -> Option<Signature<'a>> {
    let mut proofs = SIGNED.iter().filter_map(|(holder, path)| call.get(holder)?.path(path));
    proofs.next().and_then(Node::text).map(Signature::Gemini)
}

/// Returns the members of a call, or of a message, that hold a signature of Gemini's.
pub(super) fn signed_members(node: &Node<'_>) -> impl Iterator<Item = &'static str> {
    let is_signed = |holder: &str, path: &[&str]| node.get(holder).is_some_and(|it| it.path(path).is_some());
    SIGNED.iter().filter(move |(holder, path)| is_signed(holder, path)).map(|(holder, _)| *holder)
}
