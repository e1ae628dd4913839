//! Recognises bodies that hold only the end of a conversation.
//!
//! Some bridges send only what is new, with a reference to a conversation that an upstream of the responses dialect
//! keeps. Such a body begins with results of calls that are not in it, which no messages upstream accepts.

use std::collections::HashSet;

use memchr::memmem;

/// Returns whether a tool result of a body names a call that is not in it. The body need not be parsed for this:
/// inside a JSON string quotes are escaped, so a quoted word is a key or a whole value.
pub fn answers_elsewhere(body: &[u8]) -> bool {
    let mut answered = values(body, b"\"tool_use_id\"").peekable();
    if answered.peek().is_none() {
        return false;
    }
    let called: HashSet<&[u8]> = values(body, b"\"id\"").collect();
    answered.any(|id| !called.contains(id))
}

/// Finds the strings that are values of members with this name.
fn values<'a>(body: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(body, name).filter_map(move |at| {
        let value = body[at + name.len()..].trim_ascii_start().strip_prefix(b":")?;
        let inside = value.trim_ascii_start().strip_prefix(b"\"")?;
        Some(&inside[..memchr::memchr(b'"', inside)?])
    })
}

#[cfg(test)]
mod tests {
    use super::answers_elsewhere;

    #[test]
    fn a_result_without_its_call_is_seen() {
        for (body, elsewhere) in [
            (r#"{"messages":[{"content":[{"type":"tool_result","tool_use_id":"t1"}]}]}"#, true),
            (r#"[{"type":"tool_use","id":"t1"},{"type":"tool_result","tool_use_id" : "t1"}]"#, false),
            (r#"[{"type":"tool_use","id":"t11"},{"tool_use_id":"t1"}]"#, true),
            (r#"[{"id":"t1"},{"tool_use_id":"t1"},{"tool_use_id":"t2"}]"#, true),
            (r#"[{"id":"t1"},{"id" : "t2"},{"tool_use_id":"t2"},{"tool_use_id":"t1"}]"#, false),
            (r#"[{"text":"\"tool_use_id\":\"t1\""}]"#, false),
            (r#"[{"tool_use_id":5}]"#, false),
            ("{}", false),
        ] {
            assert_eq!(answers_elsewhere(body.as_bytes()), elsewhere, "{body}");
        }
    }
}
