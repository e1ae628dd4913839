//! Reads the id of an answer that passes through.

use memchr::memmem;

use super::{Dialect, json};

/// The part of an answer, and of its object, in which the id is looked for, in bytes: the id stands in front.
const BEGINNING: usize = 1024;

/// Returns the id in the first bytes of an answer, or of the first event of a stream, from which a client of responses
/// or of messages may continue.
pub fn answer_id(dialect: Dialect, answer: &[u8]) -> Option<String> {
    // In an event the answer is a member.
    let member: &[u8] = if dialect == Dialect::Messages { b"\"message\":" } else { b"\"response\":" };
    let beginning = &answer[..answer.len().min(BEGINNING)];
    let object = match memmem::find(beginning, member) {
        Some(at) if !beginning.starts_with(b"{") => &answer[at + member.len()..],
        _ => answer,
    };
    let text = String::from_utf8_lossy(&object[..object.len().min(BEGINNING)]);
    let mut id = None;
    json::members_before_cut(&text, |member| {
        if id.is_none() && member.key == "id" {
            id = json::string(member.value);
        }
    });
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stands_in_the_object_or_in_its_first_event() {
        let long = "é".repeat(BEGINNING);
        let object =
            format!(r#" {{"id":"resp_1","object":"response","instructions":"{long}","x":{{"id":"no"}}}}"#);
        let event = format!(
            "event: response.created\ndata: {{\"type\":\"response.created\",\"response\":{object}}}\n\n"
        );
        for answer in [object.trim_start(), &event, &event.replace("\"response\":", "\"response\": ")] {
            assert_eq!(
                answer_id(Dialect::Responses, answer.as_bytes()).as_deref(),
                Some("resp_1"),
                "{answer}"
            );
        }
        let message = r#"{"type":"message","id":"msg_1"}"#;
        let event =
            format!("event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{message}}}\n\n");
        for answer in [message, &event] {
            assert_eq!(answer_id(Dialect::Messages, answer.as_bytes()).as_deref(), Some("msg_1"), "{answer}");
        }
        let late = format!(r#"{{"instructions":"{long}","id":"resp_1"}}"#);
        for answer in ["", "{}", "[", ": keepalive\n\n", r#"{"id":7}"#, r#"{"response":{"id":"no"}}"#, &late]
        {
            assert_eq!(answer_id(Dialect::Responses, answer.as_bytes()), None, "{answer}");
        }
    }
}
