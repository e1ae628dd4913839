//! Credentials as people paste them.

/// A credential without the word `Bearer` that people and sites put before it.
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
