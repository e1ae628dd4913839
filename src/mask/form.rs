//! One text of a secret, found however its characters are escaped.
//!
//! Letters and digits stay as they are in every escaped text, so the longest run of them is searched for, and where it stands
//! the text around it is compared character by character: literally, or escaped for an address (`%2F`, in any letter case
//! and for any choice of characters), for JSON (`\/`, `\u002F`) or for HTML (`&#x2F;`, `&amp;`).

use std::ops::Range;

use memchr::memmem;

use crate::subslice::place_in;

/// Minimum length of a secret, in bytes: shorter texts are words, and removing them would tear the text apart.
pub const MIN_SECRET: usize = 4;

/// The longest escape of a byte, in bytes.
const LONGEST_ESCAPE: usize = 10;

/// A text that is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    text: String,
    /// The longest run of letters and digits; the whole text if there is none.
    run: Range<usize>,
}

/// The result of comparing a text with the form from the beginning of both.
#[derive(PartialEq, Eq)]
enum Comparison {
    /// The text begins with the form, which takes this many bytes there.
    Whole(usize),
    /// The text ends within the form.
    Cut,
    Different,
}

impl Form {
    pub(super) fn new(text: String) -> Self {
        let runs = text.split(|c: char| !c.is_ascii_alphanumeric());
        let longest = runs.max_by_key(|run| run.len()).filter(|run| !run.is_empty());
        let run = longest.and_then(|run| place_in(run, text.as_str())).unwrap_or(0..text.len());
        Self { text, run }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the length of the longest spelling, in bytes.
    pub(super) fn longest(&self) -> usize {
        longest_spelling(&self.text)
    }

    /// Returns the first place in a text.
    pub(super) fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        let before = longest_spelling(&self.text[..self.run.start]);
        let finder = memmem::Finder::new(&self.text[self.run.clone()]);
        let mut from = 0;
        // A run may overlap the one that belongs to the form.
        let mut runs = std::iter::from_fn(|| {
            let run = from + finder.find(&text[from..])?;
            from = run + 1;
            Some(run)
        });
        runs.find_map(|run| {
            let nearest = run.checked_sub(self.run.start)?;
            (run.saturating_sub(before)..=nearest).rev().find_map(|start| {
                match self.compare(&text[start..]) {
                    Comparison::Whole(length) => Some(start..start + length),
                    Comparison::Cut | Comparison::Different => None,
                }
            })
        })
    }

    /// Returns the text with `hidden` in all places of the form; `None` where it has none.
    pub(super) fn replace(&self, text: &str, hidden: &str) -> Option<String> {
        let mut replaced: Option<String> = None;
        let mut rest = text;
        while let Some(found) = self.find(rest.as_bytes()) {
            let replaced = replaced.get_or_insert_default();
            replaced.push_str(&rest[..found.start]);
            replaced.push_str(hidden);
            rest = &rest[found.end..];
        }
        replaced.map(|replaced| replaced + rest)
    }

    /// Returns the number of bytes at the end of a text that are the beginning of the form.
    pub(super) fn torn(&self, text: &[u8]) -> usize {
        let lengths = (MIN_SECRET..=self.longest().min(text.len())).rev();
        let mut torn = lengths.filter(|length| self.compare(&text[text.len() - length..]) == Comparison::Cut);
        torn.next().unwrap_or(0)
    }

    fn compare(&self, text: &[u8]) -> Comparison {
        if text.starts_with(self.text.as_bytes()) {
            return Comparison::Whole(self.text.len());
        }
        if self.text.as_bytes().starts_with(text) {
            return Comparison::Cut;
        }
        let mut rest = text;
        let mut is_cut = false;
        for (place, c) in self.text.char_indices() {
            // An escape of which the text has only the beginning may look like a literal character.
            is_cut |= place >= MIN_SECRET && is_cut_escape(rest);
            let literal = rest.starts_with(c.encode_utf8(&mut [0; 4]).as_bytes()).then(|| c.len_utf8());
            let escaped = escaped(rest).filter(|(escaped, _)| *escaped == c).map(|(_, length)| length);
            match escaped.or(literal) {
                Some(length) => rest = &rest[length..],
                None if is_cut => return Comparison::Cut,
                None => return Comparison::Different,
            }
        }
        Comparison::Whole(text.len() - rest.len())
    }
}

fn longest_spelling(text: &str) -> usize {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { 1 } else { LONGEST_ESCAPE }).sum()
}

/// Returns the character that a text begins with in an escaped form, and the length of that form.
fn escaped(text: &[u8]) -> Option<(char, usize)> {
    match text {
        [b'%', ..] => in_percent(text),
        [b'\\', b'u', ..] => in_utf16(text),
        [b'\\', b'n', ..] => Some(('\n', 2)),
        [b'\\', b'r', ..] => Some(('\r', 2)),
        [b'\\', b't', ..] => Some(('\t', 2)),
        [b'\\', c @ (b'"' | b'\\' | b'/'), ..] => Some((char::from(*c), 2)),
        [b'&', rest @ ..] => in_entity(rest),
        [b'+', ..] => Some((' ', 1)),
        _ => None,
    }
}

/// Whether a text is the beginning of an escape, or empty.
fn is_cut_escape(text: &[u8]) -> bool {
    let begins = matches!(text.first(), None | Some(b'%' | b'\\' | b'&'));
    begins && text.len() < LONGEST_ESCAPE && escaped(text).is_none()
}

/// Reads a character in UTF-8 with an escape for each byte (RFC 3986 §2.1).
fn in_percent(text: &[u8]) -> Option<(char, usize)> {
    let escapes = text.chunks_exact(3).take(4).map_while(|escape| escape.strip_prefix(b"%"));
    let bytes: Vec<u8> = escapes.map_while(hex).map_while(|byte| u8::try_from(byte).ok()).collect();
    let width = bytes.first()?.leading_ones().max(1) as usize;
    let c = std::str::from_utf8(bytes.get(..width)?).ok()?.chars().next()?;
    Some((c, 3 * width))
}

/// Reads a character with an escape for each unit in UTF-16 (RFC 8259 §7).
fn in_utf16(text: &[u8]) -> Option<(char, usize)> {
    let escapes = text.chunks_exact(6).map_while(|escape| escape.strip_prefix(b"\\u"));
    let c = char::decode_utf16(escapes.map_while(hex)).next()?.ok()?;
    Some((c, 6 * c.len_utf16()))
}

fn hex(digits: &[u8]) -> Option<u16> {
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Reads a character reference of HTML after its `&`.
fn in_entity(text: &[u8]) -> Option<(char, usize)> {
    let end = text.iter().take(LONGEST_ESCAPE).position(|byte| *byte == b';')?;
    let c = match std::str::from_utf8(&text[..end]).ok()? {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((c, end + "&;".len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "up/+STREAM=KEY&9f'8<6c";

    #[test]
    fn a_form_is_found_however_it_is_escaped() {
        let form = Form::new(SECRET.to_owned());
        for text in [
            SECRET,
            "up%2F%2BSTREAM%3DKEY%269f%278%3C6c",
            "up%2f%2bSTREAM%3dKEY%269f%278%3c6c",
            "up/+STREAM=KEY&9f'8%3C6c",
            "up/+STREAM=KEY&amp;9f&#x27;8&lt;6c",
            "up&#x2F;&#43;STREAM&#x3d;KEY&amp;9f&#039;8&lt;6c",
            r"up\/\u002BSTREAM=KEY\u00269f\u00278\u003c6c",
        ] {
            for (before, after) in [("", ""), ("key ", " is wrong"), ("STREAM %", "% STREAM")] {
                let whole = format!("{before}{text}{after}");
                let found = form.find(whole.as_bytes());
                assert_eq!(found, Some(before.len()..before.len() + text.len()), "{whole}");
                assert!(text.len() <= form.longest());
            }
        }
        let overlapped = Form::new("aa-b".to_owned());
        assert_eq!(overlapped.find(b"xaaa-b"), Some(2..6));
        let others = ["up/+STREAM=KEY&9f'8<6", "p/+STREAM=KEY&9f'8<6c", "up%STREAM%3DKEY", "STREAM", ""];
        for other in others {
            assert_eq!(form.find(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn characters_beyond_ascii_are_found_as_well() {
        let form = Form::new("pa\u{df}wort \u{1f686}".to_owned());
        for text in [
            "pa\u{df}wort \u{1f686}",
            "pa%C3%9Fwort+%F0%9F%9A%86",
            r"pa\u00dfwort \ud83d\ude86",
            "pa&#223;wort &#x1F686;",
        ] {
            assert_eq!(form.find(text.as_bytes()), Some(0..text.len()), "{text}");
        }
    }

    #[test]
    fn a_form_that_looks_escaped_itself_is_found() {
        for text in ["a%25b%2Fc", "a&amp;b;", r"a\u002Fb\\", "++++", "\u{5bc6}\u{7801}"] {
            assert_eq!(Form::new(text.to_owned()).find(text.as_bytes()), Some(0..text.len()), "{text}");
        }
        let twice = Form::new("a%25b".to_owned()).replace("a%25b, a%2525b, a%b", "-");
        assert_eq!(twice.as_deref(), Some("-, -, a%b"));
    }

    #[test]
    fn the_beginning_of_a_form_is_found_at_the_end_of_a_text() {
        let form = Form::new(SECRET.to_owned());
        for begun in
            ["up/+", "up%2f%2bSTREAM", "up%2F%2BSTREAM%3", "up/+STREAM=KEY&am", r"up\/\u002BSTR", SECRET]
        {
            let torn = if begun == SECRET { 0 } else { begun.len() };
            assert_eq!(form.torn(format!("key {begun}").as_bytes()), torn, "{begun}");
        }
        assert_eq!(form.torn(b"key up/"), 0);
    }
}
