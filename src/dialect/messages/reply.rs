//! Reads and writes complete answers.

use std::collections::HashMap;

use bytes::Bytes;

use super::blocks::{read_call, read_thinking};
use super::blocks_write::put_call;
use super::stop::{self, Counts};
use super::{citations, searches};
use crate::dialect::canonical::{Call, CallKind, Candidate, Part, Reply, ReplyContext, Thinking};
use crate::dialect::citation::{Citation, CitedText};
use crate::dialect::literal::Text;
use crate::dialect::search::Search;
use crate::dialect::service_tier::ServedTier;
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;
use crate::dialect::writer::Writer;

// === reading ===

/// Reads a complete answer; an answer that reports a failure is an error.
pub fn read_reply<'a>(body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    if let Some(error) = read_error(body) {
        return Err(error);
    }
    if !body.is_object() {
        return Err(UpstreamError::new("Upstream's answer is not a message"));
    }
    let (mut parts, mut cited, mut searched) = (Vec::new(), Vec::new(), HashMap::new());
    if let Some(text) = body.text_at("content") {
        parts.push(Part::Text(text));
    }
    for block in body.items_at("content") {
        match block.str_at("type").as_ref() {
            "text" => {
                let citations = block.items_at("citations").iter().filter_map(citations::read);
                cited.extend(citations.map(|citation| (parts.len(), citation)));
                parts.push(Part::Text(block.text_at("text").unwrap_or_default()));
            }
            "thinking" | "redacted_thinking" => read_thinking(block, &mut parts),
            "tool_use" => {
                parts.extend(Some(read_call(block)).filter(|call| !call.name.is_empty()).map(Part::Call));
            }
            "server_tool_use" if searches::is_search(block) => {
                let input = block.get("input").map_or("", Node::raw);
                let id = block.text_at("id").unwrap_or_default();
                searched.insert(id.clone(), parts.len());
                parts.push(Part::Search(Search { id, query: searches::query(input), found: None }));
            }
            "web_search_tool_result" => {
                let id = block.text_at("tool_use_id").unwrap_or_default();
                if let Some(Part::Search(search)) = searched.get(&id).and_then(|at| parts.get_mut(*at)) {
                    search.found = Some(searches::found(block));
                }
            }
            // Other tools that a server ran are not part of the answer in other dialects.
            _ => {}
        }
    }
    let called = parts.iter().any(|part| matches!(part, Part::Call(_)));
    Ok(Reply {
        id: body.text_at("id").unwrap_or_default(),
        model: body.text_at("model").unwrap_or_default(),
        created: None,
        candidates: vec![Candidate {
            parts,
            citations: cited,
            stop: stop::read(body, called),
            ..Candidate::default()
        }],
        usage: body.get("usage").and_then(stop::read_usage).map(stop::with_cache),
    })
}

/// Returns the failure that a body or an event states.
pub(super) fn read_error(body: &Node<'_>) -> Option<UpstreamError> {
    let states = body.str_at("type") == "error"
        || body.get("error").is_some_and(|error| !error.members().is_empty() || error.is_string());
    if !states {
        return None;
    }
    Some(UpstreamError::of(body).unwrap_or_else(|| UpstreamError::new("Upstream reported an error")))
}

// === writing ===

/// Writes a complete answer.
pub fn write_reply(reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    let nothing = Candidate::default();
    let candidate = reply.candidates.first().unwrap_or(&nothing);
    let mut json = Writer::with_capacity(1024);
    json.object(|o| {
        o.field("id", message_id(&reply.id, context));
        o.field("type", "message");
        o.field("role", "assistant");
        o.field("model", &reply.model);
        let (mut calls, mut searches) = (0, 0);
        o.array("content", |list| {
            for (place, part) in candidate.parts.iter().enumerate() {
                if let Part::Search(search) = part {
                    put_search(list, search, searches);
                    searches += 1;
                }
                let citations: Vec<_> = candidate.citations_of(place).collect();
                put_part(list, part, &citations, &mut calls);
            }
        });
        stop::put(o, &candidate.stop, calls > 0);
        put_usage(o, &reply.usage.unwrap_or_default(), searches);
    });
    json.into_bytes()
}

fn put_part(list: &mut Writer, part: &Part<'_>, cited: &[&Citation<'_>], calls: &mut usize) {
    match part {
        Part::Text(text) | Part::Refusal(text) if !text.is_empty() => list.object(|o| {
            o.field("type", "text");
            o.field("text", text);
            if !cited.is_empty() {
                let said = CitedText::of(text);
                o.array("citations", |list| {
                    cited.iter().for_each(|citation| list.object(|o| citations::put(o, citation, &said)));
                });
            }
        }),
        Part::Thinking(thinking) => put_thinking(list, thinking),
        Part::Call(call) if !call.name.is_empty() => {
            let id = call_id(&call.id, *calls);
            *calls += 1;
            list.object(|o| match call.kind {
                CallKind::Function => put_call(o, &id, call),
                CallKind::Custom => {
                    let input = Text::of(&format!("{{\"input\":\"{}\"}}", call.input.literal()));
                    put_call(o, &id, &Call { input, ..call.clone() });
                }
            });
        }
        _ => {}
    }
}

fn put_search(list: &mut Writer, search: &Search<'_>, number: usize) {
    let id = searches::own_id(&search.id, number);
    list.object(|o| searches::put_call(o, &id, |o| searches::put_query(o, search)));
    if let Some(found) = &search.found {
        list.object(|o| searches::put_found(o, &id, found));
    }
}

fn put_thinking(list: &mut Writer, thinking: &Thinking<'_>) {
    let proof = ShownSignature::of(thinking.signature.as_ref(), thinking.text.is_empty());
    if !thinking.text.is_empty() || matches!(proof, ShownSignature::Beside(_)) {
        list.object(|o| {
            o.field("type", "thinking");
            o.field("thinking", &thinking.text);
            o.field("signature", proof.beside());
        });
    }
    if let ShownSignature::Instead(data) = &proof {
        list.object(|o| put_redacted(o, data));
    }
}

pub(super) fn put_redacted(o: &mut Writer, data: &Text<'_>) {
    o.field("type", "redacted_thinking");
    o.field("data", data);
}

/// The form in which a client of this dialect gets a signature, so that it sends it back.
#[derive(Debug)]
pub(super) enum ShownSignature<'r> {
    None,
    /// As the `signature` of the thinking block.
    Beside(Text<'r>),
    /// As the `data` of a `redacted_thinking` block.
    Instead(Text<'r>),
}

impl<'r> ShownSignature<'r> {
    /// Chooses the form; `bare` is set when there is no text to show with the signature.
    pub(super) fn of(signature: Option<&'r Signature<'_>>, bare: bool) -> Self {
        match signature {
            Some(Signature::Anthropic(proof)) => Self::Beside(proof.borrowed()),
            Some(Signature::AnthropicRedacted(data)) => Self::Instead(data.borrowed()),
            Some(foreign) => match signature::tag(&[(Text::EMPTY, foreign.clone())]) {
                Some(tag) if bare => Self::Instead(tag),
                Some(tag) => Self::Beside(tag),
                None => Self::None,
            },
            None => Self::None,
        }
    }

    fn beside(&self) -> Text<'_> {
        match self {
            Self::Beside(proof) => proof.borrowed(),
            _ => Text::EMPTY,
        }
    }
}

/// Returns the upstream's id, made to begin with `msg_`; without one, the id is made from the request's id.
pub(super) fn message_id(id: &Text<'_>, context: &ReplyContext) -> Text<'static> {
    let id = id.decode();
    if id.starts_with("msg_") {
        return Text::of(&id);
    }
    let source = if id.is_empty() { &context.fallback_id } else { id.as_ref() };
    let own = ["chatcmpl-", "resp_"].iter().find_map(|prefix| source.strip_prefix(prefix));
    Text::of(&format!("msg_{}", crate::dialect::names::plain(own.unwrap_or(source))))
}

/// Returns the id of a call, or one made from its number.
pub(super) fn call_id<'t>(id: &'t Text<'_>, number: usize) -> Text<'t> {
    if id.is_empty() { Text::of(&format!("call_{number}")) } else { id.borrowed() }
}

fn put_usage(o: &mut Writer, usage: &Usage, searches: usize) {
    let counts = Counts::of(usage);
    o.object_at("usage", |o| {
        o.field("input_tokens", counts.input);
        o.field("cache_creation_input_tokens", counts.cache_creation);
        o.field("cache_read_input_tokens", counts.cache_read);
        o.field("output_tokens", counts.output);
        searches::put_count(o, searches);
        o.field_if("service_tier", usage.tier.map(ServedTier::word_of_messages));
    });
}
