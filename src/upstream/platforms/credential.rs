//! Credentials as people paste them, and model names that repeat them.

use crate::mask::Mask;

/// Returns a credential without the word `Bearer` that people and sites put before it.
pub fn bare_credential(credential: &str) -> &str {
    let text = credential.trim();
    let word = text.get(..7).filter(|word| word.eq_ignore_ascii_case("bearer "));
    word.map_or(text, |word| text[word.len()..].trim())
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
pub(super) fn leave_out(names: &mut Vec<String>, mask: &Mask) {
    let listed = names.len();
    names.retain(|name| !mask.is_in_name(name));
    if names.len() < listed {
        log::warn!(
            "{} listed models are left out because their names contain a credential",
            listed - names.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_left_out_by_a_credential_and_not_by_a_word() {
        for (key, kept) in [("ollama", true), ("sk-0123456789", false)] {
            let mut names = vec!["qwen".to_owned(), format!("{key}/qwen")];
            leave_out(&mut names, &Mask::of(key));
            assert_eq!(names.len() == 2, kept, "{key}: {names:?}");
        }
    }
}
