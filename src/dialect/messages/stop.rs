//! The reason why an answer ended, and its usage, in the dialect's words.

use crate::dialect::canonical::Stop;
use crate::dialect::literal::Text;
use crate::dialect::service_tier::ServedTier;
use crate::dialect::tree::Node;
use crate::dialect::usage::{self, Usage};
use crate::dialect::{Dialect, writer::Writer};

/// Reads the members `stop_reason` and `stop_sequence` of `holder`. `called` tells whether tools were called, which a
/// plain end does not tell.
pub(super) fn read<'a>(holder: &Node<'a>, called: bool) -> Stop<'a> {
    match holder.str_at("stop_reason").as_ref() {
        "stop_sequence" => Stop::Sequence(holder.text_at("stop_sequence")),
        "model_context_window_exceeded" => Stop::ContextFull,
        "refusal" | "content_filter" | "safety" => Stop::Filtered,
        "pause_turn" => Stop::Paused,
        // Endpoints that imitate this dialect use words of other dialects.
        word if word.contains("max") || matches!(word, "length" | "incomplete") => Stop::OutputLimit,
        word if word.contains("tool") || word == "function_call" => Stop::ToolCall,
        _ if called => Stop::ToolCall,
        _ => Stop::End,
    }
}

/// Writes both members.
pub(super) fn put(o: &mut Writer, stop: &Stop<'_>, called: bool) {
    let (reason, sequence) = match stop {
        Stop::End | Stop::ToolCall | Stop::BrokenCall if called => ("tool_use", None),
        Stop::End | Stop::ToolCall | Stop::BrokenCall => ("end_turn", None),
        Stop::Sequence(sequence) => ("stop_sequence", sequence.as_ref()),
        Stop::OutputLimit => ("max_tokens", None),
        Stop::ContextFull => ("model_context_window_exceeded", None),
        Stop::Filtered => ("refusal", None),
        Stop::Paused => ("pause_turn", None),
    };
    o.field("stop_reason", reason);
    o.field("stop_sequence", sequence.map(Text::borrowed));
}

// === usage ===

/// Reads a usage record as it is: input excludes tokens that were read from caches or written to them. Records of one
/// stream are merged in this form, because each may hold only a part.
pub(super) fn read_usage(record: &Node<'_>) -> Option<Usage> {
    let tier = ServedTier::read(&record.str_at("service_tier"));
    usage::of_text(Dialect::Messages, record.raw()).map(|usage| Usage { tier, ..usage })
}

/// Counts cached tokens as input, as the canonical form does.
pub(super) fn with_cache(mut usage: Usage) -> Usage {
    if usage.prompt_includes_cache != Some(true) {
        let cached = usage.cache_read.unwrap_or(0).saturating_add(usage.cache_creation.unwrap_or(0));
        usage.prompt = match usage.prompt {
            Some(uncached) => Some(uncached.saturating_add(cached)),
            None => (cached > 0).then_some(cached),
        };
    }
    usage.prompt_includes_cache = Some(true);
    usage.total = None;
    // Merging computes the total anew.
    let mut whole = Usage::default();
    whole.merge(usage);
    whole
}

/// The counts of a usage record of this dialect, where input excludes cached tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub input: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub output: u64,
}

impl Counts {
    pub(super) fn of(usage: &Usage) -> Self {
        let cache_read = usage.cache_read.unwrap_or(0);
        let cache_creation = usage.cache_creation.unwrap_or(0);
        let cached = match usage.prompt_includes_cache {
            Some(false) => 0,
            _ => cache_read.saturating_add(cache_creation),
        };
        let input = usage.prompt.unwrap_or(0).saturating_sub(cached);
        Self { input, cache_read, cache_creation, output: usage.completion.unwrap_or(0) }
    }
}
