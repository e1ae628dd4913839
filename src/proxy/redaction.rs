//! Hides secrets in objects that come with a success status and report an error: a failed video, batch or response.
//! Some sites repeat in it what they were sent.

use std::borrow::Cow;

use bytes::Bytes;

use crate::dialect::edit::edit;
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
