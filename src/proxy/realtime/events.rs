//! The events of the surface, as far as they are read and written here.

use serde_json::json;

use crate::dialect::json::{self as scan, SyntaxError};
use crate::dialect::tree::Node;

/// The places of models in a session or a response: of speech, and of transcripts in the present and the older form.
const MODEL_PATHS: [&[&str]; 3] =
    [&["model"], &["audio", "input", "transcription", "model"], &["input_audio_transcription", "model"]];

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

/// Returns the models that a frame of the client asks for in its `session` or `response`. Members are found as any reader
/// may see them: in any letter case, and each of several with one name.
///
/// # Errors
/// When the frame is no JSON.
pub(super) fn models_in(frame: &str) -> Result<Vec<String>, SyntaxError> {
    let event = Node::parse(frame)?;
    let mut models = Vec::new();
    for object in ["session", "response"] {
        for path in MODEL_PATHS {
            let path: Vec<&str> = std::iter::once(object).chain(path.iter().copied()).collect();
            add_texts_at(&event, &path, &mut models);
        }
    }
    Ok(models)
}

fn add_texts_at(node: &Node<'_>, path: &[&str], found: &mut Vec<String>) {
    let Some((key, path)) = path.split_first() else {
        found.extend(node.str().map(Into::into));
        return;
    };
    for (_, value) in node.members().iter().filter(|(name, _)| name.eq_ignore_ascii_case(key)) {
        add_texts_at(value, path, found);
    }
}

/// Whether an event repeats what a model or a participant said: parts of an output, and items of the conversation.
pub(super) fn repeats_what_was_said(event: &str) -> bool {
    let mut repeats = false;
    let _ = scan::members(event, |member| {
        if member.key == "type"
            && let Some(kind) = scan::string(member.value)
        {
            let is_part = |part: &str| part.ends_with(".delta") || part.ends_with(".done");
            repeats = kind.strip_prefix("response.").is_some_and(is_part)
                || (kind.starts_with("conversation.item.") && !kind.ends_with(".failed"));
        }
    });
    repeats
}

/// Writes an error event.
pub(super) fn error_event(kind: &str, code: &str, message: &str) -> String {
    let error = json!({ "type": kind, "code": code, "message": message, "param": null, "event_id": null });
    json!({ "type": "error", "event_id": format!("event_{}", crate::uuid::random_hex()), "error": error })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_of_a_session_and_a_response_are_found_in_any_form() {
        for (frame, models) in [
            (r#"{"type":"session.update","session":{"model":"a"}}"#, &["a"][..]),
            (r#"{"session":{"audio":{"input":{"transcription":{"model":"a"}}},"model":"b"}}"#, &["b", "a"]),
            (r#"{"session":{"input_audio_transcription":{"model":"a"}}}"#, &["a"]),
            (r#"{"response":{"Model":"\u0061","model":"b"},"response":{"model":"c"}}"#, &["a", "b", "c"]),
            (r#"{"session":{"model":null,"tools":[{"model":"x"}]},"model":"y","response":{}}"#, &[]),
        ] {
            assert_eq!(models_in(frame).unwrap(), models, "{frame}");
        }
        assert!(models_in(r#"{"session":{"model":"a"},}"#).is_err());
    }

    #[test]
    fn what_was_said_is_told_from_the_upstreams_own_words() {
        for (kind, is_said) in [
            ("response.output_text.delta", true),
            ("response.function_call_arguments.done", true),
            ("conversation.item.input_audio_transcription.completed", true),
            ("conversation.item.input_audio_transcription.failed", false),
            ("response.mcp_call.failed", false),
            ("response.done", false),
            ("error", false),
            ("session.created", false),
        ] {
            assert_eq!(repeats_what_was_said(&json!({ "type": kind }).to_string()), is_said, "{kind}");
        }
        assert!(!repeats_what_was_said("no JSON"));
    }
}
