//! Hides secrets in objects that report an error with a success status, such as a failed video, batch or response, and in the
//! text beside the events of a stream. Some sites repeat there what they were sent.

use std::borrow::Cow;

use bytes::Bytes;

use crate::dialect::edit::edit;
use crate::dialect::errors;
use crate::dialect::json;
use crate::mask::Mask;

/// Hides the secrets in an object that no model has written.
pub(super) fn of_object(object: Bytes, secrets: &Mask) -> Bytes {
    match std::str::from_utf8(&object).map(|text| secrets.hide_in(text)) {
        Ok(Cow::Owned(hidden)) => Bytes::from(hidden),
        Ok(Cow::Borrowed(_)) | Err(_) => object,
    }
}

/// Hides the secrets in the `error` of a response. What the model wrote stays as it is.
pub(super) fn of_error(response: Bytes, secrets: impl FnOnce() -> Mask) -> Bytes {
    if !has_error(&response) {
        return response;
    }
    let Ok(text) = std::str::from_utf8(&response) else { return response };
    let Some(error) = json::member(text, "error") else { return response };
    match secrets().hide_in(error) {
        Cow::Owned(hidden) => Bytes::from(edit(text, &[("error", &hidden)], &[]).into_owned()),
        Cow::Borrowed(_) => response,
    }
}

/// Hides the secrets and addresses in whole events of a stream, except in data that is JSON: a model may have written it.
pub(super) fn of_free_text(events: &[u8], secrets: &Mask) -> Bytes {
    let mut out = Vec::with_capacity(events.len());
    let mut is_json = false;
    for line in events.split_inclusive(|byte| *byte == b'\n') {
        let passes = match line.strip_prefix(b"data:") {
            Some(data) => {
                is_json |= matches!(data.trim_ascii_start().first(), Some(b'{' | b'['));
                is_json
            }
            None => line.starts_with(b"event:"),
        };
        is_json &= !line.trim_ascii().is_empty();
        if passes {
            out.extend_from_slice(line);
        } else {
            let line = String::from_utf8_lossy(line);
            out.extend_from_slice(errors::without_addresses(&secrets.hide_in(&line)).as_bytes());
        }
    }
    Bytes::from(out)
}

/// Whether some member `error` is not null. Most responses have one that is, so this saves reading them.
fn has_error(text: &[u8]) -> bool {
    const NAME: &[u8] = b"\"error\"";
    memchr::memmem::find_iter(text, NAME).any(|at| {
        let value = text[at + NAME.len()..].iter().find(|byte| !byte.is_ascii_whitespace() && **byte != b':');
        value.is_some_and(|first| matches!(first, b'{' | b'"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_the_data_of_a_stream_is_cleaned() {
        let mask = Mask::of("sk-secret");
        let json = "event: x\ndata: {\"said\":\ndata: \"sk-secret at https://a.b\"}\n\n";
        let free = ": sk-secret of https://site.example/v1 \r\n\ndata: sk-secret\n\nid: 7\n";
        let shown = of_free_text(format!("{free}{json}{free}").as_bytes(), &mask);
        let hidden = ": [redacted] of [address] \r\n\ndata: [redacted]\n\nid: 7\n";
        assert_eq!(shown, format!("{hidden}{json}{hidden}"));
    }

    #[test]
    fn only_the_error_of_a_response_is_changed() {
        let mask = || Mask::of("sk-secret");
        for (text, expected) in [
            (r#"{"error":null,"output":"sk-secret"}"#, None),
            (
                r#"{"error" : {"message":"key sk-secret"},"output":"sk-secret"}"#,
                Some(r#"key [redacted]"},"output":"sk-secret"}"#),
            ),
            (r#"{"error":"sk-secret"}"#, Some(r#"{"error":"[redacted]"}"#)),
            (r#"{"output":{"error":"sk-secret"}}"#, None),
        ] {
            let shown = of_error(Bytes::from_static(text.as_bytes()), mask);
            let shown = std::str::from_utf8(&shown).unwrap();
            assert!(shown.ends_with(expected.unwrap_or(text)), "{shown}");
        }
    }
}
