//! Credentials as people paste them, and model names that repeat them.

use crate::mask::Mask;

/// Returns a credential without the word `Bearer` that people and sites put before it.
pub fn bare_credential(credential: &str) -> &str {
    let text = credential.trim();
    let word = text.get(..7).filter(|word| word.eq_ignore_ascii_case("bearer "));
    word.map_or(text, |word| text[word.len()..].trim())
}

/// Returns a key without the word and the `sk-` that people and sites put before it.
pub fn bare_key(key: &str) -> &str {
    let key = bare_credential(key);
    key.strip_prefix("sk-").unwrap_or(key)
}

/// The longest token, in bytes: longer ones fit into no header.
const MAX_TOKEN: usize = 64 * 1024;

/// Returns the trimmed token if a header can carry it.
pub fn usable_token(token: &str) -> Option<&str> {
    let token = token.trim();
    let is_graphic = token.bytes().all(|byte| byte.is_ascii_graphic());
    (!token.is_empty() && token.len() <= MAX_TOKEN && is_graphic).then_some(token)
}

/// Returns the trimmed key, or mask of one, that a site lists; `None` when no header can carry it or it is only the
/// beginning of every key.
pub(super) fn usable_key(key: &str) -> Option<&str> {
    let key = key.trim();
    // Masks of some sites have bullets.
    let is_usable = usable_token(&key.replace('•', "*")).is_some();
    (is_usable && key != "sk-").then_some(key)
}

/// Whether a credential can only be meant as a cookie line.
pub(super) fn is_cookie(credential: &str) -> bool {
    credential.starts_with("session=")
        || credential.starts_with("token=")
        || credential.split_once('=').is_some_and(|(_, rest)| rest.contains(';'))
}

/// Whether a credential reads as `name=value`. Session cookies are base64, and a value that is pasted without its name may
/// end in the padding.
pub(super) fn is_pair(credential: &str) -> bool {
    credential.trim_end_matches('=').contains('=')
}

/// Leaves out models whose names contain a credential: every client would be told it.
pub(in crate::upstream) fn leave_out(mut names: Vec<String>, mask: &Mask) -> Vec<String> {
    let listed = names.len();
    names.retain(|name| !mask.is_in_name(name));
    if names.len() < listed {
        log::warn!(
            "{} listed models are left out because their names contain a credential",
            listed - names.len()
        );
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_a_header_can_carry() {
        assert_eq!(usable_token(" a.b-c "), Some("a.b-c"));
        for token in ["", " ", "a b", "a\nb", "a\u{7f}", "ä", &"x".repeat(MAX_TOKEN + 1)] {
            assert_eq!(usable_token(token), None, "{token:.20?}");
        }
        assert_eq!(
            (usable_key("ab••yz"), usable_key("sk-"), usable_key("a\nb")),
            (Some("ab••yz"), None, None)
        );
    }

    #[test]
    fn a_model_is_left_out_by_a_credential_and_not_by_a_word() {
        for (key, kept) in [("ollama", true), ("sk-0123456789", false)] {
            let names = leave_out(vec!["qwen".to_owned(), format!("{key}/qwen")], &Mask::of(key));
            assert_eq!(names.len() == 2, kept, "{key}: {names:?}");
        }
    }
}
