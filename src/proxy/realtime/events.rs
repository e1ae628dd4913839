//! The events of the surface, as far as they are read and written here.

use serde_json::json;

use crate::dialect::json as scan;

/// Returns which of these events a frame is, as any reader may see it: its type may contain escapes, or occur twice.
pub(super) fn kind_among(frame: &[u8], kinds: &[&'static str]) -> Option<&'static str> {
    let mut found = None;
    // Invalid JSON after the type is left to the other end to judge.
    let _ = scan::members(std::str::from_utf8(frame).ok()?, |member| {
        if member.key == "type"
            && let Some(kind) = scan::string(member.value)
        {
            found = kinds.iter().find(|known| **known == kind).copied().or(found);
        }
    });
    found
}

/// Returns the id of the response that a part belongs to.
pub(super) fn response_of_part(frame: &str) -> Option<String> {
    let mut found = None;
    let _ = scan::members(frame, |member| {
        if member.key == "response_id" {
            found = scan::string(member.value);
        }
    });
    found
}

/// Writes an error event.
pub(super) fn error_event(kind: &str, code: &str, message: &str) -> String {
    let error = json!({ "type": kind, "code": code, "message": message, "param": null, "event_id": null });
    json!({ "type": "error", "event_id": format!("event_{}", crate::uuid::random_hex()), "error": error })
        .to_string()
}
