//! Reads and writes the usage record of an answer.

use crate::dialect::Dialect;
use crate::dialect::canonical::MAX_CHOICES;
use crate::dialect::service_tier::ServedTier;
use crate::dialect::tree::Node;
use crate::dialect::usage::{self, Usage};
use crate::dialect::writer::Writer;

/// Reads the usage of an answer or a chunk, wherever its vendor puts it; cached input is counted as input.
pub(super) fn read(answer: &Node<'_>) -> Option<Usage> {
    let choices = answer.items_at("choices").iter().take(MAX_CHOICES);
    let record = answer
        .get("usage")
        .or_else(|| choices.clone().find_map(|choice| choice.get("usage")))
        .or_else(|| answer.path(&["x_groq", "usage"]))?;
    let mut usage = usage::of_text(Dialect::Chat, record.raw())?;
    // Some sites pass on the counts of the messages dialect.
    usage.count_cache_in();
    usage.tier = tier(answer);
    Some(usage)
}

/// Reads the tier by which an answer, or the answer of a chunk, was served.
pub(super) fn tier(answer: &Node<'_>) -> Option<ServedTier> {
    ServedTier::read(&answer.str_at("service_tier"))
}

/// Writes the record as a member.
pub(in crate::dialect) fn write(o: &mut Writer, usage: &Usage) {
    let (prompt, completion) = (usage.prompt.unwrap_or(0), usage.completion.unwrap_or(0));
    o.object_at("usage", |o| {
        o.field("prompt_tokens", prompt);
        o.field("completion_tokens", completion);
        o.field("total_tokens", usage.total.unwrap_or(0).max(prompt.saturating_add(completion)));
        o.object_at("prompt_tokens_details", |o| {
            o.field("cached_tokens", usage.cache_read.unwrap_or(0));
            // OpenAI and others name this member differently; it is written under both names, and only when it is not
            // zero.
            let written = usage.cache_creation.filter(|written| *written > 0);
            o.field_if("cache_write_tokens", written);
            o.field_if("cache_creation_tokens", written);
        });
        o.object_at("completion_tokens_details", |o| {
            o.field("reasoning_tokens", usage.reasoning.unwrap_or(0));
        });
    });
}
