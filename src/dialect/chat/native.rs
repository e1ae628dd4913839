//! Adapts bodies that go from a client of this dialect to an upstream of this dialect without conversion.
//!
//! A conversation may have begun with another provider, whose signatures the client sends back as tags of ours. No
//! chat upstream can read them, and data of one provider is not sent to another, so they are removed; every other
//! message stays as it was written. Google's models require the signatures that their calls came with; a call without
//! one gets a placeholder.

use bytes::Bytes;

use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text};
use crate::dialect::signature::{self, NO_GEMINI_SIGNATURE};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

use super::calls;
use super::turns_write::put_gemini_signature;

/// Returns the body without tagged signatures; `None` when it has none.
pub fn without_foreign_signatures(body: &Node<'_>) -> Option<Bytes> {
    let is_tagged = |message: &&Node<'_>| {
        message.text_at("reasoning_signature").is_some_and(|proof| signature::untag(&proof).is_some())
    };
    let mut out = String::new();
    let mut copied = 0;
    for message in body.items_at("messages").iter().filter(is_tagged) {
        let start = message.raw().as_ptr() as usize - body.raw().as_ptr() as usize;
        out.push_str(&body.raw()[copied..start]);
        out.push_str(&edit(message.raw(), &[], &["reasoning_signature"]));
        copied = start + message.raw().len();
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
