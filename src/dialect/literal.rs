//! Texts and values as JSON writes them.
//!
//! Most of what a conversion moves is text that need not be understood: a message, a piece of a stream, a picture in
//! base64. [`Text`] is such a string as it stands between its quotes, escapes included, so that it is copied and never
//! decoded. That is fast, and it is exact: half of a surrogate pair, which clients and upstreams send when they cut a
//! text, is not Unicode text and would be lost in a `String`, but its escape passes. [`Json`] is the same for any other
//! value: a schema keeps the order of its keys, a number its spelling.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};

use ring::digest::{SHA256, digest};

use crate::hex;

/// The content of a JSON string between its quotes, as written.
///
/// Two literals may be joined, but not cut: a cut could fall into an escape.
#[derive(Clone, Default, Eq)]
pub struct Text<'a>(Cow<'a, str>);

/// The number of times that texts, or bytes that are searched, have been looked at in this thread: the measure of a
/// conversion's cost.
#[cfg(test)]
pub(super) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(in crate::dialect) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Returns the number of looks since the last call.
    pub fn take() -> u64 {
        LOOKS.take()
    }
}

#[cfg(not(test))]
pub(super) mod looks {
    #[inline(always)]
    pub(in crate::dialect) fn count() {}
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        looks::count();
        self.0 == other.0
    }
}

/// Hashes the literal, so that maps can be asked by it.
impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        self.literal()
    }
}

impl<'a> Text<'a> {
    pub const EMPTY: Text<'static> = Text(Cow::Borrowed(""));

    /// Makes the literal of a plain text.
    pub fn of(plain: &str) -> Text<'static> {
        // Writing a string cannot fail.
        let mut literal = serde_json::to_string(plain).unwrap_or_default();
        literal.pop();
        literal.drain(..1);
        Text(Cow::Owned(literal))
    }

    /// Makes a literal of plain letters, none of which needs an escape. For names of our own.
    pub const fn plain(word: &'static str) -> Text<'static> {
        Text(Cow::Borrowed(word))
    }

    /// Takes the inside of a string literal that a scanner has checked.
    pub(super) fn inside(literal: &'a str) -> Self {
        Self(Cow::Borrowed(literal))
    }

    /// Returns the literal as written, without the quotes.
    pub fn literal(&self) -> &str {
        looks::count();
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it contains only white space.
    pub fn is_blank(&self) -> bool {
        self.decode().trim().is_empty()
    }

    /// Returns the decoded text. Halves of surrogate pairs become U+FFFD: a decoded text is for looking at, not for
    /// passing on.
    pub fn decode(&self) -> Cow<'_, str> {
        looks::count();
        if !self.0.contains('\\') {
            return Cow::Borrowed(&self.0);
        }
        let quoted = format!("\"{}\"", self.0);
        Cow::Owned(serde_json::from_str(&quoted).unwrap_or_else(|_| self.decode_halves()))
    }

    /// Returns the text if it has at most this many characters, else its SHA-256 hash in hex: for names that an upstream
    /// only compares.
    pub fn or_hash(&self, most: usize) -> Text<'_> {
        let plain = self.decode();
        if plain.chars().count() <= most {
            return self.borrowed();
        }
        Text::of(&hex::encode(digest(&SHA256, plain.as_bytes()).as_ref()))
    }

    /// Decodes like [`decode`](Self::decode) a text in which halves of surrogate pairs stand alone.
    fn decode_halves(&self) -> String {
        let (whole, half) = self.paired();
        let mut text: String = serde_json::from_str(&format!("\"{}\"", whole.0)).unwrap_or_default();
        text.extend(half.map(|_| char::REPLACEMENT_CHARACTER));
        text
    }

    /// Whether the decoded text equals `plain`.
    pub fn is(&self, plain: &str) -> bool {
        self.decode() == plain
    }

    /// Returns the number of characters, an escape counted as the one it stands for. A surrogate pair is one character,
    /// counted with its first half, wherever the text is cut.
    pub fn char_count(&self) -> u64 {
        let mut letters = 0;
        let mut rest = self.0.as_ref();
        while let Some(at) = rest.find('\\') {
            letters += rest[..at].chars().count() as u64;
            let unit = rest.get(at + 1..at + 6).and_then(|escape| escape.strip_prefix('u'));
            let second_half = unit.is_some_and(|unit| {
                u32::from_str_radix(unit, 16).is_ok_and(|unit| (0xdc00..0xe000).contains(&unit))
            });
            letters += u64::from(!second_half);
            rest = rest.get(at + if unit.is_some() { 6 } else { 2 }..).unwrap_or_default();
        }
        letters + rest.chars().count() as u64
    }

    /// Whether it may contain a `\u` escape.
    pub fn has_unit_escape(&self) -> bool {
        memchr::memchr(b'\\', self.0.as_bytes()).is_some_and(|at| self.0[at..].contains("\\u"))
    }

    /// Returns the text with U+FFFD for each half of a surrogate pair that stands alone, and separately a first half at
    /// its end, since the text that follows may begin with the second.
    pub fn paired(&self) -> (Text<'static>, Option<Text<'static>>) {
        let unit_at = |at: usize| {
            let digits = self.0.get(at..at + 6)?.strip_prefix("\\u")?;
            u32::from_str_radix(digits, 16).ok()
        };
        let mut whole = String::with_capacity(self.0.len());
        let mut at = 0;
        while let Some(found) = self.0[at..].find('\\') {
            whole.push_str(&self.0[at..at + found]);
            at += found;
            let length = match unit_at(at) {
                Some(0xd800..0xdc00) => match unit_at(at + 6) {
                    Some(0xdc00..0xe000) => 12,
                    None if at + 6 == self.0.len() => {
                        return (Text(Cow::Owned(whole)), Some(Text(Cow::Owned(self.0[at..].to_owned()))));
                    }
                    _ => 0,
                },
                Some(0xdc00..0xe000) => 0,
                Some(_) => 6,
                None => 2,
            };
            if length == 0 {
                whole.push(char::REPLACEMENT_CHARACTER);
                at += 6;
            } else {
                let end = (at + length).min(self.0.len());
                whole.push_str(&self.0[at..end]);
                at = end;
            }
        }
        whole.push_str(&self.0[at..]);
        (Text(Cow::Owned(whole)), None)
    }

    pub fn push(&mut self, more: &Text<'_>) {
        if !more.is_empty() {
            self.0.to_mut().push_str(&more.0);
        }
    }

    /// Joins texts, with `separator` (plain letters or an escape, as it stands in a literal) between them.
    pub fn join<'t>(texts: impl IntoIterator<Item = &'t Text<'t>>, separator: &str) -> Text<'static> {
        let mut joined = String::new();
        for (index, text) in texts.into_iter().enumerate() {
            if index > 0 {
                joined.push_str(separator);
            }
            joined.push_str(&text.0);
        }
        Text(Cow::Owned(joined))
    }

    pub fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }

    /// Returns the same text without a copy.
    pub fn borrowed(&self) -> Text<'_> {
        Text(Cow::Borrowed(&self.0))
    }
}

/// Writes the literal with its quotes, for tests and logs.
impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Any JSON value, as written.
#[derive(Clone, PartialEq, Eq)]
pub struct Json<'a>(Cow<'a, str>);

impl<'a> Json<'a> {
    /// Takes a value that a scanner has checked.
    pub(super) fn checked(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub fn of(value: &serde_json::Value) -> Json<'static> {
        Json(Cow::Owned(value.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn f64(&self) -> Option<f64> {
        self.0.parse().ok()
    }

    /// Returns the value without the blanks between its tokens.
    pub fn compact(&self) -> Cow<'_, str> {
        compact(&self.0)
    }

    pub fn into_owned(self) -> Json<'static> {
        Json(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Removes the blanks between the tokens of valid JSON; nothing else changes.
pub fn compact(json: &str) -> Cow<'_, str> {
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    if !json.bytes().any(is_blank) {
        return Cow::Borrowed(json);
    }
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    let (mut from, mut at, mut inside) = (0, 0, false);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => inside = !inside,
            b'\\' => at += 1,
            _ if !inside && is_blank(byte) => {
                out.push_str(&json[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(&json[from..]);
    Cow::Owned(out)
}

/// Writes the letters that valid JSON has as `\u` escapes, as far as they may stand in a string; nothing else changes.
/// Some serializers escape all but ASCII, which a model would have to read.
pub fn with_letters(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let letter = unit(escape).and_then(|first| {
            let second = escape.get(6..).and_then(unit);
            char::decode_utf16([first].into_iter().chain(second)).next()?.ok()
        });
        let length = match letter {
            Some(letter) => 6 * letter.len_utf16(),
            None => 2,
        };
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        match letter.filter(|letter| !letter.is_control() && !matches!(letter, '"' | '\\')) {
            Some(letter) => out.push(letter),
            None => out.push_str(escape),
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_letters_are_written_out_and_other_escapes_stay() {
        for (json, wanted) in [
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            (r#"{"K\u00f6ln":"\ud83d\ude00 \u4e2d"}"#, "{\"K\u{f6}ln\":\"\u{1f600} \u{4e2d}\"}"),
            (
                r#"["\u0022","\u005C","\u0000","\\u00f6","\n\u00e9"]"#,
                "[\"\\u0022\",\"\\u005C\",\"\\u0000\",\"\\\\u00f6\",\"\\n\u{e9}\"]",
            ),
            (r#"["\ud83d","\ud83d\u0041","\ude00x"]"#, r#"["\ud83d","\ud83dA","\ude00x"]"#),
            (r#"["\n    \u003cli\u003e"]"#, r#"["\n    <li>"]"#),
        ] {
            assert_eq!(with_letters(json), wanted);
        }
    }

    proptest::proptest! {
        #[test]
        fn written_letters_mean_what_their_escapes_mean(
            pieces in proptest::collection::vec("[a \u{e9}]|\\\\[nt\"\\\\]|\\\\u00[2-7][0-9a-f]|\\\\ud83d\\\\ude00", 0..12),
        ) {
            let json = format!("\"{}\"", pieces.concat());
            let text = |json: &str| serde_json::from_str::<String>(json).unwrap();
            proptest::prop_assert_eq!(text(&with_letters(&json)), text(&json));
        }
    }

    #[test]
    fn a_literal_says_what_it_says() {
        for (literal, plain) in [
            ("", ""),
            ("plain", "plain"),
            ("a\\\"b\\n\\u00e9\\ud83d\\ude00", "a\"b\né😀"),
            ("half \\ud83d", "half \u{fffd}"),
        ] {
            assert_eq!(Text::inside(literal).decode(), plain);
            assert_eq!(Text::inside(literal).char_count(), plain.chars().count() as u64);
        }
        assert_eq!(Text::of("a\"b\n").literal(), "a\\\"b\\n");
    }

    #[test]
    fn halves_of_a_pair_meet_again() {
        let mut text = Text::inside("\\ud83d");
        text.push(&Text::inside("\\ude00"));
        assert_eq!(text.decode(), "😀");
        assert_eq!(Text::join([&Text::of("a"), &Text::of("b")], "\\n\\n").decode(), "a\n\nb");
    }

    #[test]
    fn compacting_leaves_strings_alone() {
        for (json, wanted) in [
            ("{}", "{}"),
            ("{ \"a b\" : [ 1 ,\n2 ] }", "{\"a b\":[1,2]}"),
            ("\" \\\" \\\\\" ", "\" \\\" \\\\\""),
        ] {
            assert_eq!(compact(json), wanted);
        }
    }
}
