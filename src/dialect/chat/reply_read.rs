//! A complete answer, read (proxy-conversion.md 7, column chat).

use super::inline::{Inline, Voice};
use super::{calls, content, stop, thinking, usage};
use crate::dialect::canonical::{Candidate, Part, Reply, Thinking};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// Reads a complete answer; an answer that reports a failure is an error.
pub fn read_reply<'a>(body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    if let Some(error) = stop::failure(body) {
        return Err(error);
    }
    let candidates: Result<Vec<_>, _> = body.items_at("choices").iter().map(candidate).collect();
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
        return Err(stop::told(choice));
    }
    let message = choice.get("message").or(choice.get("delta")).unwrap_or(choice);
    let mut parts: Vec<_> = thinking::pieces(message).into_iter().map(Part::Thinking).collect();
    let thought = !parts.is_empty();
    match message.get("content").or(message.get("text")) {
        Some(text) if text.is_string() => say(text.text().unwrap_or_default(), thought, &mut parts),
        Some(content) => {
            let shown =
                |part: &Part<'_>| matches!(part, Part::Text(_) | Part::Thinking(_) | Part::Refusal(_));
            parts.extend(content::read(content).unwrap_or_default().into_iter().filter(shown));
        }
        None => {}
    }
    parts.extend(message.text_at("refusal").filter(|text| !text.is_empty()).map(Part::Refusal));
    let calls = calls::of_message(message).filter(|call| !call.name.is_empty());
    parts.extend(calls.map(|call| Part::Call(call.into_call())));
    let called = parts.iter().any(|part| matches!(part, Part::Call(_)));
    Ok(Candidate { parts, stop: stop::read(&reason, called) })
}

/// Takes the thinking out of a text that begins with it.
fn say<'a>(text: Text<'a>, thought: bool, parts: &mut Vec<Part<'a>>) {
    if thought || !Inline::may_begin(text.literal()) {
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        return;
    }
    let (mut thoughts, mut said) = (Text::EMPTY, Text::EMPTY);
    let mut take = |voice: Voice, literal: &str| match voice {
        Voice::Thought => thoughts.push(&Text::inside(literal)),
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
