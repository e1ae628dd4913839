//! Reads a complete answer.

use super::inline::{Inline, TextKind};
use super::{calls, content, stop, thinking, usage};
use crate::dialect::canonical::{Candidate, MAX_CHOICES, Part, Reply, Thinking};
use crate::dialect::citation::{self, Citation};
use crate::dialect::events::error_of_choice;
use crate::dialect::literal::Text;
use crate::dialect::logprobs;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// Reads a complete answer; an answer that reports a failure is an error.
pub fn read_reply<'a>(body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    if let Some(error) = stop::failure(body) {
        return Err(error);
    }
    let choices = body.items_at("choices").iter().take(MAX_CHOICES);
    let candidates: Result<Vec<_>, _> = choices.map(candidate).collect();
    let candidates = candidates?;
    if candidates.is_empty() {
        return Err(UpstreamError::new("Upstream's answer has no choices"));
    }
    Ok(Reply {
        id: body.text_at("id").unwrap_or_default(),
        model: body.text_at("model").unwrap_or_default(),
        created: body.u64_at("created"),
        candidates,
        usage: usage::read(body),
    })
}

fn candidate<'a>(choice: &Node<'a>) -> Result<Candidate<'a>, UpstreamError> {
    let reason = choice.str_at("finish_reason");
    if reason == "error" {
        return Err(error_of_choice(choice));
    }
    let message = choice.get("message").or(choice.get("delta")).unwrap_or(choice);
    let mut parts: Vec<_> = thinking::pieces(message).into_iter().map(Part::Thinking).collect();
    let thought = !parts.is_empty();
    match message.get("content").or(message.get("text")) {
        Some(text) if text.is_string() => push_text(text.text().unwrap_or_default(), thought, &mut parts),
        Some(content) => {
            let shown = |part: &Part<'_>| {
                matches!(part, Part::Text(_) | Part::Thinking(_) | Part::Refusal(_) | Part::Image(_))
            };
            parts.extend(content::read(content).unwrap_or_default().into_iter().filter(shown));
        }
        None => {}
    }
    parts.extend(content::images(message).map(Part::Image));
    parts.extend(message.text_at("refusal").filter(|text| !text.is_empty()).map(Part::Refusal));
    let calls = calls::of_message(message).filter(|call| !call.name.is_empty());
    parts.extend(calls.map(|call| Part::Call(call.into_call())));
    let called = parts.iter().any(|part| matches!(part, Part::Call(_)));
    let citations = citations(message, &parts);
    let said = parts.iter().position(|part| matches!(part, Part::Text(_)));
    let tokens = choice.get("logprobs").map(|logprobs| logprobs::read(logprobs.items_at("content")));
    // The log probabilities are those of the content, which is one text with all but odd upstreams.
    let logprobs = said.map(|said| tokens.into_iter().flatten().map(|token| (said, token)).collect());
    let logprobs = logprobs.unwrap_or_default();
    Ok(Candidate { parts, citations, logprobs, stop: stop::read(&reason, called) })
}

/// Reads the citations. They count the characters of the whole content, including thinking at its beginning.
fn citations<'a>(message: &Node<'a>, parts: &[Part<'_>]) -> Vec<(usize, Citation<'a>)> {
    let annotations = message.items_at("annotations");
    if annotations.is_empty() {
        return Vec::new();
    }
    let texts = parts.iter().enumerate().filter_map(|(place, part)| match part {
        Part::Text(text) => Some((place, text.char_count())),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    let said: u64 = texts.iter().map(|(_, letters)| letters).sum();
    let content = message.text_at("content").map_or(said, |content| content.char_count());
    let annotations = annotations.iter().filter_map(Citation::of_annotation);
    // The thinking that was taken out of the content stood before the rest.
    citation::spread(annotations.map(|it| it.counted_from(content.saturating_sub(said))), &texts)
}

/// Adds a text, taking out the thinking that it begins with.
fn push_text<'a>(text: Text<'a>, thought: bool, parts: &mut Vec<Part<'a>>) {
    if thought || !Inline::may_begin(text.literal()) {
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        return;
    }
    let (mut thoughts, mut said) = (Text::EMPTY, Text::EMPTY);
    let mut take = |kind: TextKind, literal: &str| match kind {
        TextKind::Thinking => thoughts.push(&Text::inside(literal)),
        _ => said.push(&Text::inside(literal)),
    };
    let mut inline = Inline::default();
    inline.feed(text.literal(), &mut take);
    inline.finish(&mut take);
    if !thoughts.is_empty() {
        parts.push(Part::Thinking(Thinking { text: thoughts, signature: None }));
    }
    if !said.is_empty() {
        parts.push(Part::Text(said));
    }
}
