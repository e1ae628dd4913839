//! The reason why a model stopped, its usage, and the error that an upstream reports in an answer.

use super::member;
use crate::dialect::canonical::Stop;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::{self, Usage};
use crate::dialect::writer::Writer;
use crate::dialect::{Dialect, chat};

/// The reasons for a call that came to nothing.
const BROKEN_CALLS: [&str; 3] =
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"];

/// Reads a `finishReason`, tolerantly: relays pass on the words of other dialects.
pub(super) fn read(reason: &str, called: bool) -> Stop<'static> {
    if BROKEN_CALLS.iter().any(|broken| broken.eq_ignore_ascii_case(reason)) {
        return Stop::BrokenCall;
    }
    chat::read_finish_reason(reason, called)
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
pub(in crate::dialect) fn is_blocked(answer: &Node<'_>) -> bool {
    member::path(opened(answer), &["promptFeedback", "blockReason"]).is_some()
}

/// Returns whether a candidate tells why it ends.
pub(in crate::dialect) fn tells_its_end(answer: &Node<'_>) -> bool {
    let mut candidates = opened(answer).items_at("candidates").iter();
    candidates.any(|candidate| member::get(candidate, "finishReason").is_some())
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

/// Writes the usage in an event before the last one: the tokens of the prompt, 0 until the upstream has told them.
pub(super) fn write_usage_so_far(o: &mut Writer, usage: Option<&Usage>) {
    let prompt = usage.and_then(|usage| usage.prompt).unwrap_or(0);
    o.object_at("usageMetadata", |o| {
        o.field("promptTokenCount", prompt);
        o.field("totalTokenCount", prompt);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_in_every_spelling() {
        for (reason, stop) in [
            ("STOP", Stop::End),
            ("", Stop::End),
            ("FINISH_REASON_UNSPECIFIED", Stop::End),
            ("OTHER", Stop::End),
            ("MAX_TOKENS", Stop::OutputLimit),
            ("max_tokens", Stop::OutputLimit),
            ("MAX_OUTPUT_TOKENS", Stop::OutputLimit),
            ("length", Stop::OutputLimit),
            ("SAFETY", Stop::Filtered),
            ("content_filter", Stop::Filtered),
            ("IMAGE_PROHIBITED_CONTENT", Stop::Filtered),
            ("IMAGE_RECITATION", Stop::Filtered),
            ("SPII", Stop::Filtered),
            ("MALFORMED_FUNCTION_CALL", Stop::BrokenCall),
            ("UNEXPECTED_TOOL_CALL", Stop::BrokenCall),
            ("MISSING_THOUGHT_SIGNATURE", Stop::BrokenCall),
        ] {
            assert_eq!(read(reason, false), stop, "{reason}");
        }
        assert_eq!(read("STOP", true), Stop::ToolCall);
        assert_eq!(read("tool_calls", true), Stop::ToolCall);
    }
}
