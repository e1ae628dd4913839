//! The id of an answer that passes through.

use memchr::memmem;

use crate::dialect::json;

/// How far into an answer, and into its object, the id is looked for: it stands in front.
const BEGINNING: usize = 1024;
const RESPONSE: &[u8] = b"\"response\":";

/// The id that an answer, or the first event of a stream, has in its first bytes.
pub fn answer_id(answer: &[u8]) -> Option<String> {
    let beginning = &answer[..answer.len().min(BEGINNING)];
    let object = match memmem::find(beginning, RESPONSE) {
        Some(at) if !beginning.starts_with(b"{") => &answer[at + RESPONSE.len()..],
        _ => answer,
    };
    let text = String::from_utf8_lossy(&object[..object.len().min(BEGINNING)]);
    let mut id = None;
    // Cut off, it ends as no object does; the members before the cut are read all the same.
    let _ = json::members(&text, |member| {
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
            assert_eq!(answer_id(answer.as_bytes()).as_deref(), Some("resp_1"), "{answer}");
        }
        let late = format!(r#"{{"instructions":"{long}","id":"resp_1"}}"#);
        for answer in ["", "{}", "[", ": keepalive\n\n", r#"{"id":7}"#, r#"{"response":{"id":"no"}}"#, &late]
        {
            assert_eq!(answer_id(answer.as_bytes()), None, "{answer}");
        }
    }
}
