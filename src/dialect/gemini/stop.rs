//! Why a model stopped, what it consumed, and how an upstream says that it failed.

use super::member;
use crate::dialect::Dialect;
use crate::dialect::canonical::Stop;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::{self, Usage};
use crate::dialect::writer::Writer;

/// Reads a `finishReason`. A call that the model could not put together (`MALFORMED_FUNCTION_CALL`) ends the answer with
/// what was said before it, as Google bills it; other dialects have no word for that.
pub(super) fn read(reason: &str, called: bool) -> Stop<'static> {
    match reason {
        "MAX_TOKENS" => Stop::OutputLimit,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            Stop::Filtered
        }
        _ if called => Stop::ToolCall,
        _ => Stop::End,
    }
}

/// The `finishReason` for it.
pub(super) fn word(stop: &Stop<'_>) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) | Stop::ToolCall | Stop::Paused => "STOP",
        Stop::OutputLimit | Stop::ContextFull => "MAX_TOKENS",
        Stop::Filtered => "SAFETY",
    }
}

/// The answer within the envelope that Google's CLI endpoints put around it.
pub(in crate::dialect) fn opened<'n, 'a>(answer: &'n Node<'a>) -> &'n Node<'a> {
    answer.get("response").filter(|response| response.is_object()).unwrap_or(answer)
}

/// A question that was refused has no candidates.
pub(super) fn is_blocked(answer: &Node<'_>) -> bool {
    member::path(answer, &["promptFeedback", "blockReason"]).is_some()
}

pub(super) fn failure(answer: &Node<'_>) -> Option<UpstreamError> {
    // Google wraps some errors in a list.
    let error = answer.items().first().unwrap_or(answer);
    error.get("error").filter(|error| !error.members().is_empty() || error.is_string())?;
    Some(error_of(error))
}

/// What something that is known to be an error says.
pub(super) fn error_of(error: &Node<'_>) -> UpstreamError {
    UpstreamError::of(error).unwrap_or_else(|| UpstreamError::new("Upstream reported an error in its answer"))
}

/// What an answer consumed.
pub(super) fn read_usage(answer: &Node<'_>) -> Option<Usage> {
    let record = member::get(answer, "usageMetadata")?;
    usage::of_text(Dialect::Gemini, record.raw()).map(with_cache)
}

/// The input counts here with what was read from a cache.
pub(super) fn with_cache(usage: Usage) -> Usage {
    Usage { prompt_includes_cache: Some(true), ..usage }
}

/// Thoughts count beside the answer here, and within it everywhere else.
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
