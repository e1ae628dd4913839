//! The reason why a model stopped, its usage, and the error that an upstream reports in an answer.

use super::member;
use crate::dialect::Dialect;
use crate::dialect::canonical::Stop;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::{self, Usage};
use crate::dialect::writer::Writer;

/// Reads a `finishReason`.
pub(super) fn read(reason: &str, called: bool) -> Stop<'static> {
    match reason {
        "MAX_TOKENS" => Stop::OutputLimit,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            Stop::Filtered
        }
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => Stop::BrokenCall,
        _ if called => Stop::ToolCall,
        _ => Stop::End,
    }
}

/// Returns the `finishReason` for a stop.
pub(super) fn word(stop: &Stop<'_>) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) | Stop::ToolCall | Stop::Paused => "STOP",
        Stop::OutputLimit | Stop::ContextFull => "MAX_TOKENS",
        Stop::Filtered => "SAFETY",
        Stop::BrokenCall => "MALFORMED_FUNCTION_CALL",
    }
}

/// Returns the answer inside the envelope of Google's CLI endpoints.
pub(in crate::dialect) fn opened<'n, 'a>(answer: &'n Node<'a>) -> &'n Node<'a> {
    answer.get("response").filter(|response| response.is_object()).unwrap_or(answer)
}

/// Returns whether the question was refused, in which case there are no candidates.
pub(super) fn is_blocked(answer: &Node<'_>) -> bool {
    member::path(answer, &["promptFeedback", "blockReason"]).is_some()
}

pub(super) fn failure(answer: &Node<'_>) -> Option<UpstreamError> {
    // Google wraps some errors in a list.
    let error = answer.items().first().unwrap_or(answer);
    error.get("error").filter(|error| !error.members().is_empty() || error.is_string())?;
    Some(error_of(error))
}

/// Reads the error from a node that is known to be one.
pub(super) fn error_of(error: &Node<'_>) -> UpstreamError {
    UpstreamError::of(error).unwrap_or_else(|| UpstreamError::new("Upstream reported an error in its answer"))
}

/// Reads the usage of an answer.
pub(super) fn read_usage(answer: &Node<'_>) -> Option<Usage> {
    let record = member::get(answer, "usageMetadata")?;
    usage::of_text(Dialect::Gemini, record.raw()).map(with_cache)
}

/// Marks the input as including cached tokens, as this dialect counts it.
pub(super) fn with_cache(usage: Usage) -> Usage {
    Usage { prompt_includes_cache: Some(true), ..usage }
}

/// Writes the usage. Thoughts count apart from the answer here, and as part of it in every other dialect.
pub(super) fn write_usage(o: &mut Writer, usage: &Usage) {
    let (prompt, completion) = (usage.prompt.unwrap_or(0), usage.completion.unwrap_or(0));
    let thoughts = usage.reasoning.filter(|thoughts| *thoughts > 0);
    o.object_at("usageMetadata", |o| {
        o.field("promptTokenCount", prompt);
        o.field_if("cachedContentTokenCount", usage.cache_read.filter(|cached| *cached > 0));
        o.field("candidatesTokenCount", completion.saturating_sub(thoughts.unwrap_or(0)));
        o.field_if("thoughtsTokenCount", thoughts);
        o.field("totalTokenCount", usage.total.unwrap_or(0).max(prompt.saturating_add(completion)));
    });
}
