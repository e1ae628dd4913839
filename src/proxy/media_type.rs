//! The kind of an answer's body: by its content type, and by its first bytes where an upstream names the wrong type.

use crate::byte_order_mark;

/// The beginnings of events.
const EVENT_FIELDS: [&[u8]; 5] = [b"data:", b"event:", b":", b"id:", b"retry:"];

/// Whether the content type is that of events.
pub(super) fn is_event_stream(content_type: &[u8]) -> bool {
    begins_with(content_type, b"text/event-stream")
}

/// Whether the content type is that of a page, which comes from something in front of the upstream.
pub(super) fn is_page(content_type: &[u8]) -> bool {
    begins_with(content_type, b"text/html")
}

/// Whether the content type is that of plain text.
pub(super) fn is_text(content_type: &[u8]) -> bool {
    begins_with(content_type, b"text/plain")
}

/// Whether the content type is any JSON type. JSON is passed on under whatever name it came; SDKs go by the name.
pub(super) fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b"json"))
}

/// Whether a body begins like a stream of events: some upstreams stream under another content type.
pub(super) fn looks_like_events(first: &[u8]) -> bool {
    let text = first.trim_ascii_start();
    EVENT_FIELDS.iter().any(|field| text.starts_with(field))
}

/// Whether a body may be events or anything else, as far as it has come. An empty one has not begun.
pub(super) fn is_undecided(begun: &[u8]) -> bool {
    let text = byte_order_mark::strip(begun).trim_ascii_start();
    let is_begun = |whole: &[u8]| whole.len() > text.len() && whole.starts_with(text);
    !begun.is_empty()
        && (is_begun(byte_order_mark::BYTES) || EVENT_FIELDS.iter().any(|field| is_begun(field)))
}

/// Whether a body begins like JSON: some upstreams answer in one piece under a stream's type. No event begins like this.
pub(super) fn looks_like_json(first: &[u8]) -> bool {
    matches!(first.trim_ascii_start().first(), Some(b'{' | b'['))
}

fn begins_with(content_type: &[u8], media_type: &[u8]) -> bool {
    let start = content_type.trim_ascii_start().get(..media_type.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(media_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_undecided_until_its_first_word_has_come() {
        for begun in ["\n", " ", "\u{feff}", "\u{feff}\n", "d", "data", "event", "\nret", "i"] {
            assert!(is_undecided(begun.as_bytes()), "{begun:?}");
        }
        assert!(is_undecided(b"\xef\xbb"));
        for begun in ["", "{", "\n[", "data:", "\u{feff}data: x", ": ping", "dat{", "Hello", "<"] {
            assert!(!is_undecided(begun.as_bytes()), "{begun:?}");
        }
    }
}
