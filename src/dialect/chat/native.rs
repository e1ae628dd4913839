//! Adapts bodies that go from a client of this dialect to an upstream of this dialect without conversion.
//!
//! A conversation may have begun with another provider, whose thinking and signatures the client sends back. Data of
//! one provider is not sent to another, and OpenAI refuses members that it does not know, so these are removed:
//!
//! | member | is removed for |
//! |---|---|
//! | a tagged `reasoning_signature` | every upstream |
//! | thinking of the assistant | OpenAI; several other vendors require it back |
//! | a signature of Gemini's, in a message or a call | upstreams whose model is not Google's |
//!
//! Every other message stays as it was written. Google's models require the signatures that their calls came with; a
//! call without one gets a placeholder.

use bytes::Bytes;

use crate::dialect::canonical::Vendor;
use crate::dialect::edit::edit;
use crate::dialect::json::Marks;
use crate::dialect::literal::{Json, Text};
use crate::dialect::signature::{self, NO_GEMINI_SIGNATURE};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

use super::turns_write::put_gemini_signature;
use super::{calls, thinking};

/// Whether a body with these marks may have members that were given by another provider than the upstream's.
pub fn may_have_foreign_members(marks: Marks, vendor: Vendor) -> bool {
    marks.own || marks.gemini_signatures || vendor == Vendor::OpenAi && marks.thinking
}

/// Returns the body without members that another provider gave; `None` when it has none.
pub fn without_foreign_members(body: &Node<'_>, vendor: Vendor, model: &str) -> Option<Bytes> {
    let may_be_google = match vendor {
        Vendor::Gemini => true,
        Vendor::Other => model.to_ascii_lowercase().contains("gemini"),
        Vendor::OpenAi | Vendor::Anthropic => false,
    };
    let signed = |node: &Node<'_>| calls::signed_members(node).filter(|_| !may_be_google).collect();
    let of_message = |message: &Node<'_>| {
        let mut removed: Vec<_> = signed(message);
        if vendor == Vendor::OpenAi && message.str_at("role") == "assistant" {
            removed.extend(thinking::MEMBERS.into_iter().filter(|name| message.get(name).is_some()));
        } else if has_tagged_signature(message) {
            removed.push("reasoning_signature");
        }
        removed
    };
    without_members(body, of_message, signed)
}

fn has_tagged_signature(message: &Node<'_>) -> bool {
    message.text_at("reasoning_signature").is_some_and(|proof| signature::untag(&proof).is_some())
}

/// Returns the body without a member of messages and of the calls in them; `None` when none has it.
pub fn without_in_messages(body: &Node<'_>, member: &'static str) -> Option<Bytes> {
    let removed = |node: &Node<'_>| node.get(member).map(|_| member).into_iter().collect();
    without_members(body, removed, removed)
}

/// Returns the body without some members of messages and of calls; `None` when there are none of these. All others stay
/// as they were written.
fn without_members(
    body: &Node<'_>,
    of_message: impl Fn(&Node<'_>) -> Vec<&'static str>,
    of_call: impl Fn(&Node<'_>) -> Vec<&'static str>,
) -> Option<Bytes> {
    let mut out = String::new();
    let mut copied = 0;
    for message in body.items_at("messages") {
        let removed = of_message(message);
        let called = message.items_at("tool_calls");
        let mut left = None;
        if called.iter().any(|call| !of_call(call).is_empty()) {
            let mut list = Writer::new();
            let put = |list: &mut Writer, call: &Node<'_>| {
                list.item(Json::checked(&edit(call.raw(), &[], &of_call(call))));
            };
            list.list(|list| called.iter().for_each(|call| put(list, call)));
            left = Some(list.into_string());
        }
        if removed.is_empty() && left.is_none() {
            continue;
        }
        let place = message.place_in(body.raw())?;
        let set = left.as_deref().map(|calls| ("tool_calls", calls));
        out.push_str(&body.raw()[copied..place.start]);
        out.push_str(&edit(message.raw(), set.as_slice(), &removed));
        copied = place.end;
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&body.raw()[copied..]);
    Some(Bytes::from(out))
}

/// Returns the body with a placeholder for each missing Gemini signature; `None` when none is missing. The signature
/// of the first call of a message stands for all its calls.
pub fn with_placeholders(body: &Node<'_>) -> Option<Bytes> {
    let unsigned = |message: &Node<'_>| {
        let first = message.items_at("tool_calls").first();
        first.is_some_and(|call| calls::signature(call).is_none())
    };
    let messages = body.items_at("messages");
    messages.iter().find(|message| unsigned(message))?;
    let mut json = Writer::with_capacity(body.raw().len());
    json.list(|list| {
        for message in messages {
            if !unsigned(message) {
                list.item(message.json());
                continue;
            }
            let mut calls = Writer::new();
            calls.list(|list| {
                for (at, call) in message.items_at("tool_calls").iter().enumerate() {
                    match at {
                        0 => list.object(|o| {
                            let others = call.members().iter().filter(|(key, _)| key != "extra_content");
                            others.for_each(|(key, value)| o.field(key, value.json()));
                            put_gemini_signature(o, &Text::plain(NO_GEMINI_SIGNATURE));
                        }),
                        _ => list.item(call.json()),
                    }
                }
            });
            list.item(Json::checked(&edit(message.raw(), &[("tool_calls", calls.as_str())], &[])));
        }
    });
    Some(Bytes::from(edit(body.raw(), &[("messages", json.as_str())], &[]).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_of_a_message_gets_a_placeholder_where_it_has_no_signature() {
        let body = |extra: &str| {
            format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"x"}},{{"role":"assistant","tool_calls":[{{"id":"a"{extra}}},{{"id":"b"}}],"x":1.0}}],"z":2}}"#
            )
        };
        let proof = |proof: &str| {
            body(&format!(r#","extra_content":{{"google":{{"thought_signature":"{proof}"}}}}"#))
        };
        let placed = |body: &str| {
            with_placeholders(&Node::parse(body).unwrap())
                .map(|body| String::from_utf8(body.to_vec()).unwrap())
        };
        let wanted = Some(proof("skip_thought_signature_validator"));
        assert_eq!(placed(&body("")), wanted);
        assert_eq!(placed(&body(r#","extra_content":null"#)), wanted);
        for body in
            [proof("P"), body(r#","provider_specific_fields":{"thought_signature":"P"}"#), "{}".to_owned()]
        {
            assert_eq!(placed(&body), None, "{body}");
        }
    }
}
