//! Video objects of upstreams: their id, a snapshot of their state, and the same object under another id.
//!
//! Only the outermost object's members count, and everything but the id stays as it was written.

use std::fmt::Write;

use bytes::Bytes;

use super::json;

/// The longest id accepted, in bytes.
const MAX_ID: usize = 512;
/// The members of a snapshot: the state of a video, never its prompt.
const SNAPSHOT_FIELDS: [&str; 9] =
    ["object", "status", "progress", "created_at", "completed_at", "expires_at", "seconds", "size", "error"];
/// The longest value in a snapshot, in bytes; longer ones are left out.
const MAX_FIELD: usize = 2048;

/// Returns the id: a string, or a number as it is written. `None` where there is none, or one that could not stand in a
/// path.
pub fn id(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let mut id = None;
    // The last of several members with the same name counts, as for most readers.
    json::members(text, |member| {
        if member.key == "id" {
            id = Some(member.value);
        }
    })
    .ok()?;
    let literal = id?;
    let is_number = !literal.is_empty() && literal.bytes().all(|byte| byte.is_ascii_digit());
    let id = if is_number { literal.to_owned() } else { json::string(literal)? };
    let is_name = !id.trim().is_empty() && id.len() <= MAX_ID && !matches!(id.as_str(), "." | "..");
    is_name.then_some(id)
}

/// Returns the body with this id in place of its own and every other byte as it was; a body without an id gets one. A
/// body that is not an object stays as it is.
pub fn with_id(body: &Bytes, id: &str) -> Bytes {
    let Ok(text) = std::str::from_utf8(body) else { return body.clone() };
    let (mut count, mut places) = (0, Vec::new());
    let walked = json::members(text, |member| {
        count += 1;
        if member.key == "id" {
            places.push(member.at..member.at + member.value.len());
        }
    });
    let Ok(object) = walked else { return body.clone() };
    let literal = serde_json::Value::from(id).to_string();
    let mut out = String::with_capacity(text.len() + literal.len() + 8);
    let mut copied = 0;
    if places.is_empty() {
        copied = object.open + 1;
        let comma = if count > 0 { "," } else { "" };
        out.push_str(&text[..copied]);
        // Writing to a String cannot fail.
        let _ = write!(out, "\"id\":{literal}{comma}");
    }
    for place in places {
        out.push_str(&text[copied..place.start]);
        out.push_str(&literal);
        copied = place.end;
    }
    out.push_str(&text[copied..]);
    Bytes::from(out)
}

/// Returns the state of the video as a JSON object of its own; `None` when the body is not an object.
pub fn snapshot(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let mut out = String::from("{");
    json::members(text, |member| {
        if SNAPSHOT_FIELDS.contains(&member.key.as_ref()) && member.value.len() <= MAX_FIELD {
            let comma = if out.len() > 1 { "," } else { "" };
            let _ = write!(out, "{comma}\"{}\":{}", member.key, member.value);
        }
    })
    .ok()?;
    out.push('}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_a_text_or_a_number_of_the_outermost_object() {
        for (body, expected) in [
            (r#"{"id":"video_1"}"#, Some("video_1")),
            (r#" { "x":{"id":"no"}, "id" : "a\/b" } "#, Some("a/b")),
            (r#"{"id":1234567890123456789}"#, Some("1234567890123456789")),
            (r#"{"id":"first","\u0069d":"last"}"#, Some("last")),
            (r#"{"id":" "}"#, None),
            (r#"{"id":""}"#, None),
            (r#"{"id":".."}"#, None),
            (r#"{"id":null}"#, None),
            (r#"{"id":-1}"#, None),
            (r#"{"id":{"id":"x"}}"#, None),
            (r#"{"status":"queued"}"#, None),
            (r#"{"id":"cut"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(id(body.as_bytes()).as_deref(), expected, "{body}");
        }
        assert_eq!(id(format!("{{\"id\":\"{}\"}}", "x".repeat(600)).as_bytes()), None);
    }

    #[test]
    fn only_the_id_changes() {
        for (body, expected) in [
            (
                "{\n \"id\" : \"up\",\t\"x\":{\"id\":\"up\"}, \"n\":1.50 }\n",
                "{\n \"id\" : \"vid_1\",\t\"x\":{\"id\":\"up\"}, \"n\":1.50 }\n",
            ),
            (r#"{"id":7,"id":"up","o":"up"}"#, r#"{"id":"vid_1","id":"vid_1","o":"up"}"#),
            (r#" {"o":1}"#, r#" {"id":"vid_1","o":1}"#),
            ("{ }", "{\"id\":\"vid_1\" }"),
            ("[1]", "[1]"),
        ] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            assert_eq!(with_id(&body, "vid_1"), expected, "{body:?}");
        }
    }

    #[test]
    fn a_snapshot_holds_the_state_and_not_the_prompt() {
        let body = r#"{"id":"up","prompt":"secret","status":"in_progress","progress":40,"error":null}"#;
        let kept = r#"{"status":"in_progress","progress":40,"error":null}"#;
        assert_eq!(snapshot(body.as_bytes()).as_deref(), Some(kept));
        let long = format!("{{\"status\":\"failed\",\"error\":\"{}\"}}", "x".repeat(MAX_FIELD));
        assert_eq!(snapshot(long.as_bytes()).as_deref(), Some(r#"{"status":"failed"}"#));
        assert_eq!(snapshot(b"<html>"), None);
    }
}
