//! Writes a complete answer for a client.

use bytes::Bytes;

use super::contents_write::{put_call, put_thought};
use super::grounding::{self, Cited};
use super::images::image_as_text;
use super::{probabilities, stop};
use crate::dialect::canonical::{Candidate, Image, Part, Reply, ReplyContext, Source, Thinking};
use crate::dialect::literal::Text;
use crate::dialect::signature::{Provider, Signature, tag_in_bytes};
use crate::dialect::writer::Writer;

/// Writes a complete answer.
pub fn write_reply(reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    let mut json = Writer::with_capacity(1024);
    json.object(|o| {
        o.array("candidates", |a| {
            for (index, candidate) in reply.candidates.iter().enumerate() {
                a.object(|o| write_candidate(o, index, candidate));
            }
        });
        if let Some(usage) = &reply.usage {
            stop::write_usage(o, usage);
        }
        o.field("modelVersion", &reply.model);
        o.field("responseId", id(&reply.id, context));
    });
    json.into_bytes()
}

pub(super) fn id<'t>(id: &'t Text<'_>, context: &ReplyContext) -> Text<'t> {
    if id.is_empty() { Text::of(&context.fallback_id) } else { id.borrowed() }
}

fn write_candidate(o: &mut Writer, index: usize, candidate: &Candidate<'_>) {
    let mut cited = Vec::new();
    o.object_at("content", |o| {
        o.field("role", "model");
        let mut calls = 0;
        o.array("parts", |a| {
            let mut written = 0;
            let mut carried = Vec::new();
            for (place, part) in candidate.parts.iter().enumerate() {
                let before = a.len();
                write_part(a, part, &mut calls, &mut carried);
                if let Part::Text(text) = part {
                    let citations = candidate.citations_of(place).collect();
                    cited.push(Cited { part: Some(written), text, citations });
                }
                written += u64::from(a.len() > before);
            }
            if let Some(tag) = tag_in_bytes(&carried) {
                a.object(|o| put_carrier(o, &tag));
            }
        });
    });
    o.field("finishReason", stop::word(&candidate.stop));
    let queries = candidate.parts.iter().filter_map(|part| match part {
        Part::Search(search) => Some(search.query.borrowed()),
        _ => None,
    });
    grounding::put(o, &queries.collect::<Vec<_>>(), &cited);
    probabilities::put(o, &candidate.logprobs.iter().map(|(_, token)| token).collect::<Vec<_>>());
    o.field("index", index as u64);
}

/// Returns the id of a call, or one made from its number: clients send it back with the result.
pub(super) fn call_id<'t>(id: &'t Text<'_>, number: u64) -> Text<'t> {
    if id.is_empty() { Text::of(&format!("call_{number}")) } else { id.borrowed() }
}

/// Writes a part. The thoughts of another provider's model go with the call that follows, in the place of Google's
/// own signatures, which every client sends back.
fn write_part<'t>(
    list: &mut Writer,
    part: &'t Part<'_>,
    calls: &mut u64,
    carried: &mut Vec<(Text<'t>, Signature<'t>)>,
) {
    if let Part::Thinking(Thinking { text, signature: Some(signature) }) = part
        && is_carried(signature)
    {
        carried.push((text.borrowed(), signature.clone()));
    }
    match part {
        Part::Text(text) | Part::Refusal(text) => list.object(|o| o.field("text", text)),
        Part::Thinking(thinking) if !thinking.text.is_empty() => list.object(|o| {
            put_thought(o, &thinking.text, thinking.signature.as_ref().and_then(own_signature));
        }),
        Part::Call(call) if !call.name.is_empty() => list.object(|o| {
            put_call(o, &call_id(&call.id, *calls), &call.name, &call.input);
            *calls += 1;
            let own = call.signature.as_ref().and_then(own_signature).map(Text::borrowed);
            o.field_if("thoughtSignature", own.or_else(|| tag_in_bytes(&std::mem::take(carried))));
        }),
        Part::Image(Image { source: Source::Inline { mime, data }, .. }) => list.object(|o| {
            o.object_at("inlineData", |o| {
                o.field("mimeType", mime);
                o.field("data", data);
            });
        }),
        Part::Image(image) => {
            if let Some(text) = image_as_text(image) {
                list.object(|o| o.field("text", text));
            }
        }
        _ => {}
    }
}

/// Returns whether a signature is another provider's, which is carried as a tag.
pub(super) fn is_carried(signature: &Signature<'_>) -> bool {
    matches!(signature.provider(), Some(Provider::Anthropic | Provider::OpenAi))
}

/// Writes an empty text with a signature, as Google does at the end of an answer without a call.
pub(super) fn put_carrier(o: &mut Writer, tag: &Text<'_>) {
    o.field("text", "");
    o.field("thoughtSignature", tag);
}

/// Returns Google's own signature, which its clients take as it is.
pub(super) fn own_signature<'s, 'a>(signature: &'s Signature<'a>) -> Option<&'s Text<'a>> {
    match signature {
        Signature::Gemini(proof) => Some(proof),
        _ => None,
    }
}
