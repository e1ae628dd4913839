//! Writes a complete answer.

use bytes::Bytes;

use super::answer::{Head, Item, OutputPart, complete_input};
use super::reasoning;
use super::status::Status;
use crate::dialect::canonical::{Candidate, Part, Reply, ReplyContext, Thinking};
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::writer::Writer;

/// Writes a complete answer from the first candidate: this dialect has only one.
pub fn write_reply(reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    let none = Candidate::default();
    let candidate = reply.candidates.first().unwrap_or(&none);
    let items = items(candidate);
    let status = Status::of(&candidate.stop);
    let head = Head::new(&reply.id, &reply.model, reply.created, context);
    let output = |list: &mut Writer| {
        let last = items.len().saturating_sub(1);
        for (index, item) in items.iter().enumerate() {
            // Only the last item can have been cut off.
            let status = if index == last { item.status(&candidate.stop) } else { Status::Completed };
            let id = head.item_id(item, index);
            list.object(|o| item.put(o, &id, status));
        }
    };
    // The types of the clients' SDKs require counts, known or not.
    let usage = reply.usage.unwrap_or_default();
    let mut json = Writer::with_capacity(2048);
    json.object(|o| head.put(o, status, output, Some(&usage), context));
    json.into_bytes()
}

/// Builds the items of a candidate; consecutive texts and refusals make one message.
fn items<'t>(candidate: &'t Candidate<'_>) -> Vec<Item<'t>> {
    let mut items: Vec<Item<'t>> = Vec::new();
    for (place, part) in candidate.parts.iter().enumerate() {
        match part {
            Part::Text(text) | Part::Refusal(text) if !text.is_empty() => {
                let mut said = OutputPart::new(matches!(part, Part::Refusal(_)), text.borrowed());
                said.citations.extend(candidate.citations_of(place).cloned());
                said.logprobs.extend(candidate.tokens_of(place).cloned());
                match items.last_mut() {
                    Some(Item::Message(parts)) => parts.push(said),
                    _ => items.push(Item::Message(vec![said])),
                }
            }
            Part::Thinking(thinking) => items.extend(reasoning_item(thinking)),
            Part::Call(call) if !call.name.is_empty() => {
                let call_id = if call.id.is_empty() {
                    Text::of(&format!("call_{}", items.len()))
                } else {
                    call.id.borrowed()
                };
                let input = complete_input(call.kind, &call.input);
                items.push(Item::Call { call_id, name: call.name.borrowed(), kind: call.kind, input });
            }
            Part::Search(search) => items.push(Item::Search(search.clone())),
            _ => {}
        }
    }
    items
}

fn reasoning_item<'t>(thinking: &'t Thinking<'_>) -> Option<Item<'t>> {
    let signature = thinking.signature.as_ref();
    let encrypted = signature.and_then(|proof| reasoning::encrypted_content(&thinking.text, proof));
    let (id, summary) = match signature {
        Some(Signature::OpenAi { id, summary, .. }) => {
            (id.as_ref().map(Text::borrowed), summary.iter().map(Text::borrowed).collect())
        }
        _ => (None, Vec::new()),
    };
    let summary = if summary.is_empty() && !thinking.text.is_empty() {
        vec![thinking.text.borrowed()]
    } else {
        summary
    };
    (encrypted.is_some() || !summary.is_empty()).then_some(Item::Reasoning { id, summary, encrypted })
}
