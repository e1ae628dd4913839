//! A client's frame and what it asks for.

use std::borrow::Cow;

use crate::dialect::json;
use crate::dialect::tree::Node;

use super::refusal::FrameRefusal;

/// A frame that asks for a turn.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) body: Node<'a>,
    /// Whether it goes on from the last turn without naming it: the older form of a later turn.
    pub(super) appends: bool,
    /// The id of the response that it goes on from.
    pub(super) previous: Option<Cow<'a, str>>,
    /// Whether it is only kept for the next turn.
    pub(super) is_warm_up: bool,
}

/// Reads a frame. The members of the request itself are checked when the whole request is read.
pub(super) fn read(text: &str) -> Result<Frame<'_>, FrameRefusal> {
    let body = Node::parse(text).map_err(|error| {
        let message = format!("The frame must be a JSON object: {} at byte {}", error.what, error.at);
        FrameRefusal::invalid(None, message)
    })?;
    if !body.is_object() {
        return Err(FrameRefusal::invalid(None, "The frame must be a JSON object"));
    }
    if body.get("stream_id").is_some() {
        let message = "stream_id is not supported: a WebSocket carries one response at a time";
        return Err(FrameRefusal::invalid(Some("stream_id"), message));
    }
    let appends = match body.str_at("type").as_ref() {
        "response.create" => false,
        "response.append" => true,
        "response.cancel" => {
            let message = "There is no response to cancel";
            return Err(FrameRefusal::invalid(Some("type"), message).code("response_cancel_not_active"));
        }
        _ => return Err(FrameRefusal::invalid(Some("type"), "type must be response.create")),
    };
    if body.get("input").is_some_and(|input| !input.is_array() && !input.is_string()) {
        return Err(FrameRefusal::invalid(Some("input"), "input must be an array or a string"));
    }
    let previous = match body.get("previous_response_id").map(Node::str) {
        None => None,
        Some(Some(id)) => Some(id),
        Some(None) => {
            let message = "previous_response_id must be a string";
            return Err(FrameRefusal::invalid(Some("previous_response_id"), message));
        }
    };
    let is_warm_up = body.bool_at("generate") == Some(false);
    Ok(Frame { body, appends, previous, is_warm_up })
}

/// Whether a frame cancels the turn under way. Checked apart from [`read`], because a cancel may not wait in line.
pub(super) fn cancels(text: &[u8]) -> bool {
    /// The length of the longest cancel, in bytes: it contains an id and an event's name, and little else.
    const LONGEST: usize = 1024;
    let text = if text.len() > LONGEST { None } else { std::str::from_utf8(text).ok() };
    let kind = text.and_then(|text| json::member(text, "type")).and_then(json::string);
    kind.as_deref() == Some("response.cancel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_whether_it_goes_on_with_what_was() {
        let of = |text: &str| {
            let frame = read(text).unwrap();
            (frame.appends, frame.previous.map(Cow::into_owned), frame.is_warm_up)
        };
        assert_eq!(of(r#"{"type":"response.create"}"#), (false, None, false));
        assert_eq!(of(r#"{"type":"response.append","input":[]}"#), (true, None, false));
        assert_eq!(
            of(r#"{"type":"response.create","previous_response_id":"r","input":"x"}"#),
            (false, Some("r".to_owned()), false)
        );
        assert_eq!(
            of(r#"{"type":"response.create","previous_response_id":null,"generate":false}"#),
            (false, None, true)
        );
    }

    #[test]
    fn what_is_no_frame_is_refused_with_the_member_at_fault() {
        for (text, param) in [
            ("{", None),
            ("[]", None),
            ("1", None),
            ("{}", Some("type")),
            (r#"{"type":"session.update"}"#, Some("type")),
            (r#"{"type":"response.cancel"}"#, Some("type")),
            (r#"{"type":7}"#, Some("type")),
            (r#"{"type":"response.create","stream_id":"s"}"#, Some("stream_id")),
            (r#"{"type":"response.create","input":{}}"#, Some("input")),
            (r#"{"type":"response.create","input":1}"#, Some("input")),
            (r#"{"type":"response.create","previous_response_id":1}"#, Some("previous_response_id")),
        ] {
            let frame = read(text).unwrap_err().frame();
            let frame: serde_json::Value = serde_json::from_str(&frame).unwrap();
            assert_eq!((&frame["type"], &frame["status"]), (&"error".into(), &400.into()), "{text}");
            assert_eq!(frame["error"]["type"], "invalid_request_error", "{text}");
            assert_eq!(frame["error"]["param"].as_str(), param, "{text}");
        }
    }

    #[test]
    fn a_cancel_is_known_before_its_turn() {
        assert!(cancels(br#"{"event_id":"e","type":"response.cancel"}"#));
        for text in [r#"{"type":"response.create"}"#, "{", "", r#"{"input":"response.cancel"}"#] {
            assert!(!cancels(text.as_bytes()), "{text}");
        }
    }
}
