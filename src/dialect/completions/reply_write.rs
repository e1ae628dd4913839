//! Writes a complete answer for a client.

use bytes::Bytes;

use super::logprobs;
use crate::dialect::canonical::{Candidate, Part, Reply, ReplyContext, Stop};
use crate::dialect::chat;
use crate::dialect::literal::Text;
use crate::dialect::writer::Writer;

/// Writes a complete answer.
pub fn write_reply(reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    let mut json = Writer::with_capacity(1024);
    json.object(|o| {
        put_head(o, (&reply.id, &reply.model, reply.created), context);
        o.array("choices", |a| {
            for (index, candidate) in (0..).zip(&reply.candidates) {
                a.object(|o| put_choice(o, index, candidate, context));
            }
        });
        if let Some(usage) = &reply.usage {
            chat::put_usage(o, usage);
        }
    });
    json.into_bytes()
}

/// Writes the members that an answer and each of its chunks begin with.
pub(super) fn put_head(
    o: &mut Writer,
    (id, model, created): (&Text<'_>, &Text<'_>, Option<u64>),
    context: &ReplyContext,
) {
    o.field("id", own_id(id, context));
    o.field("object", "text_completion");
    o.field("created", created.unwrap_or(context.now));
    o.field("model", model);
}

/// Returns the upstream's id in the form of this dialect, or one of our own.
fn own_id(id: &Text<'_>, context: &ReplyContext) -> String {
    let id = id.decode();
    let source = if id.is_empty() { &context.fallback_id } else { id.as_ref() };
    let own = ["chatcmpl-", "cmpl-"].iter().find_map(|prefix| source.strip_prefix(prefix));
    format!("cmpl-{}", own.unwrap_or(source))
}

/// Returns the `finish_reason` for a stop.
pub(super) fn reason(stop: &Stop<'_>) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) | Stop::Paused | Stop::ToolCall | Stop::BrokenCall => "stop",
        Stop::OutputLimit | Stop::ContextFull => "length",
        Stop::Filtered => "content_filter",
    }
}

fn put_choice(o: &mut Writer, index: u64, candidate: &Candidate<'_>, context: &ReplyContext) {
    let said = candidate.parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::Refusal(text) => Some(text),
        _ => None,
    });
    o.field("text", Text::join(context.echo_text.iter().chain(said), ""));
    o.field("index", index);
    let tokens: Vec<_> = candidate.logprobs.iter().map(|(_, token)| token).collect();
    logprobs::put(o, &tokens, 0);
    o.field("finish_reason", reason(&candidate.stop));
}
