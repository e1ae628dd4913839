//! For bodies that go from a client of this dialect to an upstream of this dialect as they are.
//!
//! A conversation may have begun on another provider, whose signatures the client sends back as tags of
//! ours. No chat upstream can read them, and nothing of one provider is sent to another
//! (proxy-conversion.md 1.7): they are taken out, and every other message stays as it was written.

use bytes::Bytes;

use crate::dialect::edit::edit;
use crate::dialect::signature;
use crate::dialect::tree::Node;

/// The body without tagged signatures; `None` when there is none in it.
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
