//! The reason why a model stopped, and the error that an upstream reports in an answer.

use crate::dialect::canonical::Stop;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::{UpstreamError, is_error};

/// Reads a `finish_reason`, tolerantly: vendors pass on the words of other dialects. Limits and filters take
/// precedence over calls.
pub(in crate::dialect) fn read(reason: &str, called: bool) -> Stop<'static> {
    let reason = reason.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if says(&["context"]) {
        Stop::ContextFull
    } else if says(&["length", "max", "incomplete"]) {
        Stop::OutputLimit
    } else if says(&["filter", "refusal", "safety", "recitation", "blocklist", "prohibited", "spii"]) {
        Stop::Filtered
    } else if reason == "pause_turn" {
        Stop::Paused
    } else if called {
        Stop::ToolCall
    } else if reason == "stop_sequence" {
        Stop::Sequence(None)
    } else {
        Stop::End
    }
}

/// Returns the `finish_reason` for a stop.
pub(super) fn word(stop: &Stop<'_>, legacy_calls: bool) -> &'static str {
    match stop {
        Stop::ToolCall if legacy_calls => "function_call",
        Stop::End | Stop::Sequence(_) | Stop::Paused | Stop::BrokenCall => "stop",
        Stop::ToolCall => "tool_calls",
        Stop::OutputLimit | Stop::ContextFull => "length",
        Stop::Filtered => "content_filter",
    }
}

/// Whether a `finish_reason`, in JSON, says that the model made calls.
pub(super) fn is_of_calls(reason: &str) -> bool {
    matches!(reason, "\"tool_calls\"" | "\"function_call\"" | "\"tool_use\"")
}

/// Returns the error of an answer or a chunk that is a failure: `{"error":…}`, or a bare error in the place of
/// choices.
pub(super) fn failure(answer: &Node<'_>) -> Option<UpstreamError> {
    let stated = answer.get("error").is_some_and(is_error) || answer.str_at("type") == "error";
    let bare = || {
        let explained = answer.get("message").is_some_and(Node::is_string) && answer.get("code").is_some();
        answer.get("choices").is_none() && explained
    };
    (stated || bare()).then(|| error_of(answer))
}

/// Reads the error from a node that is known to be one.
pub(super) fn error_of(error: &Node<'_>) -> UpstreamError {
    UpstreamError::of(error).unwrap_or_else(|| UpstreamError::new("Upstream reported an error in its answer"))
}
