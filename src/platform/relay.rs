//! The facts shared by platforms that offer several vendors' models in several dialects.

use crate::dialect::Dialect::{self, Chat, Messages, Responses};

/// All dialects that are passed on and never converted to.
pub(super) const UNCONVERTED: &[Dialect] =
    &[Dialect::Completions, Dialect::Embeddings, Dialect::Images, Dialect::Audio];

/// Returns whether a model is one of Anthropic's, by its name.
pub fn names_claude(model: &str) -> bool {
    model.to_ascii_lowercase().contains("claude")
}

/// Returns the dialects, the best first: for Claude's models their own, for others the client's.
pub(super) fn dialects(client: Dialect, model: &str) -> &'static [Dialect] {
    match client {
        _ if names_claude(model) => &[Messages, Chat, Responses],
        Messages => &[Messages, Chat, Responses],
        Responses => &[Responses, Chat, Messages],
        _ => &[Chat, Messages, Responses],
    }
}

/// Returns the dialects for a request with a document; chat is the last, because it is the one that accepts documents
/// least.
pub(super) fn document_dialects(_client: Dialect, model: &str) -> Option<[Dialect; 3]> {
    Some(if names_claude(model) { [Messages, Responses, Chat] } else { [Responses, Messages, Chat] })
}
