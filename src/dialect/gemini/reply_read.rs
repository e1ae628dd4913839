//! Reads a complete answer.

use super::parts_read::{self, Read};
use super::{grounding, member, probabilities, stop};
use crate::dialect::canonical::{Candidate, MAX_CHOICES, Part, Reply, Stop};
use crate::dialect::citation::CitedText;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// Reads a complete answer; an answer that reports a failure is an error.
pub fn read_reply<'a>(body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    let body = stop::opened(body);
    if let Some(error) = stop::failure(body) {
        return Err(error);
    }
    let id = member::get(body, "responseId").and_then(Node::text).unwrap_or_default();
    let candidates = body.items_at("candidates").iter().take(MAX_CHOICES);
    let mut candidates: Vec<_> = candidates.map(candidate).collect();
    if candidates.is_empty() && stop::is_blocked(body) {
        candidates.push(Candidate { stop: Stop::Filtered, ..Candidate::default() });
    }
    if candidates.is_empty() {
        return Err(UpstreamError::new("Upstream's answer has no candidates"));
    }
    Ok(Reply {
        id,
        model: member::get(body, "modelVersion").and_then(Node::text).unwrap_or_default(),
        created: None,
        candidates,
        usage: stop::read_usage(body),
    })
}

fn candidate<'a>(candidate: &Node<'a>) -> Candidate<'a> {
    let nodes = candidate.path(&["content", "parts"]).map_or(&[][..], Node::items);
    let metadata = member::get(candidate, "groundingMetadata");
    let mut parts: Vec<Part<'a>> =
        metadata.into_iter().flat_map(grounding::searches).map(Part::Search).collect();
    let mut texts = Vec::new();
    for (index, part) in (0..).zip(nodes) {
        if let Some(Read::Part(part)) = parts_read::read(part) {
            if matches!(part, Part::Text(_)) {
                texts.push((index, parts.len()));
            }
            parts.push(part);
        }
    }
    let citations = metadata.map(|metadata| {
        let said = texts.iter().filter_map(|(index, place)| {
            let Part::Text(text) = parts.get(*place)? else { return None };
            Some((*index, *place, CitedText::of(text)))
        });
        let said: Vec<_> = said.collect();
        grounding::read(metadata, |index| {
            let own = said.binary_search_by_key(&index, |(own, ..)| *own).ok();
            // Some upstreams do not count thoughts before the text.
            let (_, place, text) = said.get(own.unwrap_or(0))?;
            Some((*place, text))
        })
    });
    let called = parts.iter().any(|part| matches!(part, Part::Call(_)));
    let reason = member::get(candidate, "finishReason").and_then(Node::str).unwrap_or_default();
    let tokens = probabilities::read(candidate).into_iter();
    let logprobs = texts.first().map(|(_, place)| tokens.map(|token| (*place, token)).collect());
    let stop = stop::read(&reason, called);
    let (citations, logprobs) = (citations.unwrap_or_default(), logprobs.unwrap_or_default());
    Candidate { parts, citations, logprobs, stop }
}
