//! Bodies that hold only the end of a conversation (proxy.md 5.1).
//!
//! Some bridges send what is new and a hint to what an upstream of the responses dialect keeps. Such a
//! body begins with results of calls that are not in it, which no messages upstream takes.

use memchr::memmem;

/// Whether the first tool result of a body names a call that is not in it. Inside a JSON string quotes
/// are escaped, so that a quoted word is a key or a whole value: the body need not be read for this.
pub fn answers_elsewhere(body: &[u8]) -> bool {
    const KEY: &[u8] = b"\"tool_use_id\"";
    let Some(at) = memmem::find(body, KEY) else { return false };
    let (before, rest) = body.split_at(at);
    let value =
        rest[KEY.len()..].trim_ascii_start().strip_prefix(b":").unwrap_or_default().trim_ascii_start();
    let Some(inside) = value.strip_prefix(b"\"") else { return false };
    let Some(end) = memchr::memchr(b'"', inside) else { return false };
    // With its quotes, as the call has it for its id.
    memmem::find(before, &value[..end + 2]).is_none()
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
            (r#"[{"text":"\"tool_use_id\":\"t1\""}]"#, false),
            (r#"[{"tool_use_id":5}]"#, false),
            ("{}", false),
        ] {
            assert_eq!(answers_elsewhere(body.as_bytes()), elsewhere, "{body}");
        }
    }
}
