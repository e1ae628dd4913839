//! Writes a complete answer for a client.

use bytes::Bytes;

use super::turns_write::{put_call, put_function, put_gemini_signature};
use super::unknown_members::{ChoiceMembers, UnknownMembers};
use super::{stop, thinking, usage};
use crate::dialect::canonical::{Call, Candidate, Part, Reply, ReplyContext, Stop};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs::{self, Token};
use crate::dialect::service_tier::ServedTier;
use crate::dialect::signature::Signature;
use crate::dialect::writer::Writer;

/// Writes a complete answer.
pub fn write_reply(reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    write_reply_with(reply, context, &UnknownMembers::default())
}

/// Writes a complete answer with the members that the canonical form could not hold.
pub fn write_reply_with(reply: &Reply<'_>, context: &ReplyContext, left: &UnknownMembers) -> Bytes {
    let mut json = Writer::with_capacity(1024);
    json.object(|o| {
        o.field("id", id(&reply.id, context));
        o.field("object", "chat.completion");
        o.field("created", reply.created.unwrap_or(context.now));
        o.field("model", &reply.model);
        o.array("choices", |a| {
            for (index, candidate) in reply.candidates.iter().enumerate() {
                a.object(|o| write_choice(o, index, candidate, context.legacy_calls, left.choice(index)));
            }
        });
        match (left.usage(), &reply.usage) {
            (Some(usage), _) => o.field("usage", usage),
            (None, Some(usage)) => usage::write(o, usage),
            (None, None) => {}
        }
        if !left.tells_tier() {
            o.field_if("service_tier", reply.usage.and_then(|usage| usage.tier).map(ServedTier::word));
        }
        left.put(o);
    });
    json.into_bytes()
}

/// Returns the upstream's id, or one of our own.
pub(super) fn id<'t>(id: &'t Text<'_>, context: &ReplyContext) -> Text<'t> {
    if id.is_empty() { Text::of(&format!("chatcmpl-{}", context.fallback_id)) } else { id.borrowed() }
}

/// Returns the id of a call, or one made from its number.
pub(super) fn call_id<'t>(id: &'t Text<'_>, number: u64) -> Text<'t> {
    if id.is_empty() { Text::of(&format!("call_{number}")) } else { id.borrowed() }
}

fn write_choice(
    o: &mut Writer,
    index: usize,
    candidate: &Candidate<'_>,
    legacy_calls: bool,
    left: Option<&ChoiceMembers>,
) {
    o.field("index", index as u64);
    o.object_at("message", |o| {
        write_message(o, &candidate.parts, legacy_calls);
        match left {
            Some(left) => left.put_in_message(o),
            None => put_citations(o, &all_citations(candidate)),
        }
    });
    match left.and_then(ChoiceMembers::logprobs) {
        Some(logprobs) => o.object_at("logprobs", |o| logprobs.put(o)),
        None => put_logprobs(o, candidate.logprobs.iter().map(|(_, token)| token)),
    }
    // The reason for calls depends on the form that they have in this message, and on whether there are any, whatever the
    // chunks called it.
    let own = left.and_then(ChoiceMembers::reason).filter(|reason| !stop::is_of_calls(reason.as_str()));
    match own.filter(|_| candidate.stop != Stop::ToolCall) {
        Some(reason) => o.field("finish_reason", reason),
        None => o.field("finish_reason", stop::word(&candidate.stop, legacy_calls)),
    }
    left.iter().for_each(|left| left.put(o));
}

/// Collects the citations of all texts. They count the characters of the whole content.
fn all_citations<'c>(candidate: &'c Candidate<'_>) -> Vec<Citation<'c>> {
    let mut from = 0;
    let mut all = Vec::new();
    if candidate.citations.is_empty() {
        return all;
    }
    for (place, part) in candidate.parts.iter().enumerate() {
        if let Part::Text(text) = part {
            let letters = text.char_count();
            all.extend(candidate.citations_of(place).map(|citation| citation.within(from, letters)));
            from += letters;
        }
    }
    all
}

/// Writes `logprobs`; null where there are none.
pub(super) fn put_logprobs<'t>(o: &mut Writer, tokens: impl Iterator<Item = &'t Token<'t>>) {
    let tokens: Vec<_> = tokens.cloned().collect();
    if tokens.is_empty() {
        return o.field("logprobs", ());
    }
    o.object_at("logprobs", |o| {
        logprobs::put(o, "content", &tokens);
        o.field("refusal", ());
    });
}

pub(super) fn put_citations(o: &mut Writer, citations: &[Citation<'_>]) {
    if citations.is_empty() {
        return;
    }
    o.array("annotations", |a| {
        for citation in citations {
            a.object(|o| {
                o.field("type", "url_citation");
                o.object_at("url_citation", |o| citation.put_annotation(o));
            });
        }
    });
}

fn write_message(o: &mut Writer, parts: &[Part<'_>], legacy_calls: bool) {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    let refusals = parts.iter().filter_map(|part| match part {
        Part::Refusal(text) => Some(text),
        _ => None,
    });
    o.field("role", "assistant");
    o.field("content", texts.clone().next().map(|_| Text::join(texts, "")));
    let thought = thinking::joined(parts.iter());
    o.field_if("reasoning_content", Some(thought).filter(|thought| !thought.is_empty()));
    let signatures = parts.iter().filter_map(|part| match part {
        Part::Thinking(thinking) => Some((thinking.text.borrowed(), thinking.signature.clone()?)),
        _ => None,
    });
    o.field_if("reasoning_signature", thinking::to_member(&signatures.collect::<Vec<_>>()));
    let refusal = Text::join(refusals, "");
    o.field_if("refusal", Some(refusal).filter(|refusal| !refusal.is_empty()));
    let mut calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) if !call.name.is_empty() => Some(call),
        _ => None,
    });
    if legacy_calls {
        // The legacy form has a place for only one call.
        if let Some(call) = calls.next() {
            o.object_at("function_call", |o| put_function(o, &call.name, &call.input));
        }
    } else if calls.clone().next().is_some() {
        o.array("tool_calls", |a| {
            (0..).zip(calls).for_each(|(number, call)| a.object(|o| write_call(o, call, number)));
        });
    }
}

fn write_call(o: &mut Writer, call: &Call<'_>, number: u64) {
    o.field("id", call_id(&call.id, number));
    put_call(o, call.kind, &call.name, &call.input);
    if let Some(Signature::Gemini(proof)) = &call.signature {
        put_gemini_signature(o, proof);
    }
}
