//! Token usage, read where each dialect puts it (proxy.md 13).

use super::Dialect;

/// What an answer says it consumed. `None` is unknown, zero is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens as the dialect counts them: with cached ones on chat and responses, without on messages.
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
    pub total: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_creation: Option<u64>,
    /// Part of `completion`.
    pub reasoning: Option<u64>,
    /// Audio tokens of both sides together; parts of `prompt` and `completion`.
    pub audio: Option<u64>,
    /// Whether `prompt` counts the cached tokens too; `None` when the answer does not tell.
    pub prompt_includes_cache: Option<bool>,
}

/// The usage of a complete answer; `None` when it has none.
pub fn of_reply(_dialect: Dialect, _body: &[u8]) -> Option<Usage> {
    None
}
