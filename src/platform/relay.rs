//! What those platforms have in common that offer several vendors' models in several dialects.

use crate::dialect::Dialect::{self, Chat, Messages, Responses};

/// Every dialect that is passed on and never converted to.
pub(super) const UNCONVERTED: &[Dialect] =
    &[Dialect::Completions, Dialect::Embeddings, Dialect::Images, Dialect::Audio];

/// Whether a model is one of Anthropic's, by its name.
pub fn names_claude(model: &str) -> bool {
    model.to_ascii_lowercase().contains("claude")
}

/// Claude's models in their own dialect, others in the client's.
pub(super) fn dialects(client: Dialect, model: &str) -> &'static [Dialect] {
    match client {
        _ if names_claude(model) => &[Messages, Chat, Responses],
        Messages => &[Messages, Chat, Responses],
        Responses => &[Responses, Chat, Messages],
        _ => &[Chat, Messages, Responses],
    }
}

/// Chat is the dialect in which a document is taken least.
pub(super) fn document_dialects(_client: Dialect, model: &str) -> Option<[Dialect; 3]> {
    Some(if names_claude(model) { [Messages, Responses, Chat] } else { [Responses, Messages, Chat] })
}
