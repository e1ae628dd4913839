//! The byte order mark, which some editors, shells and servers write before UTF-8 text (RFC 3629, section 6).

pub const CHAR: char = '\u{feff}';
pub const BYTES: &[u8] = "\u{feff}".as_bytes();

/// Returns the text without the mark before it.
pub fn strip(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTES).unwrap_or(text)
}
