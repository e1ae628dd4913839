//! Finds the words of an error text that its client wrote.
//!
//! Upstreams quote the value that they refuse, and a value may read like a verdict on the upstream ("quota
//! exceeded"). So for each place in the text the length of the longest piece is computed that ends there and also
//! stands in the request. An [`Index`] of all pieces of the text (a suffix automaton) is walked once along the
//! request: the time is linear in both, and only the text, which is short, takes memory.
//!
//! A request is compared as its upstream may have read and repeated it: in any case, with JSON's escapes resolved
//! (also those of JSON inside of strings), and with one blank for any space.

use std::ops::Range;

/// For each byte of a text, the length of the longest piece of the request that ends there.
#[derive(Debug)]
pub struct Echo {
    longest: Vec<u16>,
}

// === impl Echo ===

impl Echo {
    /// Compares a text with the pieces of a request. `text` is in lower case, with one blank between words; bytes
    /// beyond [`Index::MAX_INDEXED`] never count as an echo.
    pub fn of<'r>(text: &str, request: impl IntoIterator<Item = &'r [u8]>) -> Self {
        let mut index = Index::of(text.as_bytes());
        for piece in request {
            index.walk(piece);
        }
        Self { longest: index.longest() }
    }

    /// Returns whether the words at this place of the text stand in the request.
    pub fn covers(&self, place: Range<usize>) -> bool {
        let last = place.end.checked_sub(1).and_then(|last| self.longest.get(last));
        last.is_some_and(|longest| usize::from(*longest) >= place.len())
    }
}

/// All pieces of a text, as a suffix automaton. A state stands for the pieces that end at the same places; its link
/// leads to the state of their shorter endings.
struct Index {
    states: Vec<AutomatonState>,
    /// The states of the beginnings of the text, the shortest first.
    beginnings: Vec<u16>,
}

struct AutomatonState {
    /// The next state by the next byte; 0 is none, because nothing leads back to the first state.
    next: [u16; 256],
    link: u16,
    /// The length of its longest piece.
    length: u16,
    /// The length of its longest piece that stands in the request.
    found: u16,
}

// === impl Index ===

impl Index {
    /// The number of bytes of a text that are indexed: there are up to two states for each byte.
    const MAX_INDEXED: usize = 1024;

    fn of(text: &[u8]) -> Self {
        let text = &text[..text.len().min(Self::MAX_INDEXED)];
        let root = AutomatonState { next: [0; 256], link: 0, length: 0, found: 0 };
        let mut index = Self { states: vec![root], beginnings: Vec::with_capacity(text.len()) };
        let mut last = 0;
        for byte in text {
            last = index.push(last, *byte);
            index.beginnings.push(last);
        }
        index
    }

    /// Adds the byte that follows the text which ends in `last`; returns the state of the longer text.
    fn push(&mut self, last: u16, byte: u8) -> u16 {
        let whole = self.add([0; 256], self.state(last).length + 1);
        let mut at = last;
        while self.next(at, byte) == 0 {
            self.states[usize::from(at)].next[usize::from(byte)] = whole;
            if at == 0 {
                return whole; // Links to the first state: no shorter piece was known.
            }
            at = self.state(at).link;
        }
        let known = self.next(at, byte);
        let length = self.state(at).length + 1;
        let link = if self.state(known).length == length { known } else { self.split(at, byte, length) };
        self.states[usize::from(whole)].link = link;
        whole
    }

    /// Splits the pieces up to this length off the state that `byte` leads to; returns their new state.
    fn split(&mut self, mut at: u16, byte: u8, length: u16) -> u16 {
        let known = self.next(at, byte);
        let shorter = self.add(self.state(known).next, length);
        self.states[usize::from(shorter)].link = self.state(known).link;
        self.states[usize::from(known)].link = shorter;
        while self.next(at, byte) == known {
            self.states[usize::from(at)].next[usize::from(byte)] = shorter;
            if at == 0 {
                break;
            }
            at = self.state(at).link;
        }
        shorter
    }

    fn add(&mut self, next: [u16; 256], length: u16) -> u16 {
        self.states.push(AutomatonState { next, link: 0, length, found: 0 });
        (self.states.len() - 1) as u16 // at most twice MAX_INDEXED
    }

    fn state(&self, at: u16) -> &AutomatonState {
        &self.states[usize::from(at)]
    }

    fn next(&self, at: u16, byte: u8) -> u16 {
        self.state(at).next[usize::from(byte)]
    }

    /// Notes in each state the length of its longest piece that stands in this part of the request.
    fn walk(&mut self, request: &[u8]) {
        let (mut at, mut length) = (0, 0);
        as_repeated(request, |byte| {
            while at != 0 && self.next(at, byte) == 0 {
                at = self.state(at).link;
                length = self.state(at).length;
            }
            let next = self.next(at, byte);
            if next != 0 {
                (at, length) = (next, length + 1);
                let found = &mut self.states[usize::from(at)].found;
                *found = length.max(*found);
            }
        });
    }

    /// Returns, for each byte of the text, the length of the longest piece found that ends there.
    fn longest(mut self) -> Vec<u16> {
        let mut order: Vec<u16> = (1..self.states.len() as u16).collect();
        order.sort_unstable_by_key(|at| self.state(*at).length);
        // If a piece was found, each of its endings was found as well.
        for at in order.iter().rev() {
            let AutomatonState { link, found, .. } = *self.state(*at);
            if found > 0 && link != 0 {
                self.states[usize::from(link)].found = self.state(link).length;
            }
        }
        for at in order {
            let AutomatonState { link, found, .. } = *self.state(at);
            if found == 0 {
                self.states[usize::from(at)].found = self.state(link).found;
            }
        }
        self.beginnings.iter().map(|at| self.state(*at).found).collect()
    }
}

/// Passes on a request's bytes in the form in which an error text may repeat them.
fn as_repeated(request: &[u8], emit: impl FnMut(u8)) {
    let mut plain = Plain { emit, is_blank: false };
    // The state inside of an escape: whether a backslash came, and the digits after `u`.
    let (mut is_escaped, mut hex) = (false, None::<String>);
    for chunk in request.utf8_chunks() {
        let invalid = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        for c in chunk.valid().chars().chain(invalid) {
            if let Some(digits) = &mut hex {
                if c.is_ascii_hexdigit() {
                    digits.push(c);
                    if digits.len() == 4 {
                        let number = u32::from_str_radix(digits, 16).ok();
                        plain.put(number.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                        hex = None;
                    }
                    continue;
                }
                "u".chars().chain(digits.chars()).for_each(|c| plain.put(c));
                hex = None;
            }
            match (is_escaped, c) {
                (_, '\\') => {
                    is_escaped = true;
                    continue;
                }
                (true, 'u') => hex = Some(String::with_capacity(4)),
                (true, 'n' | 't' | 'r' | 'b' | 'f') => plain.put(' '),
                _ => plain.put(c),
            }
            is_escaped = false;
        }
    }
}

struct Plain<F> {
    emit: F,
    /// Whether the last character was a blank.
    is_blank: bool,
}

impl<F: FnMut(u8)> Plain<F> {
    fn put(&mut self, c: char) {
        let is_blank = c.is_whitespace() || c.is_control();
        if is_blank {
            if !self.is_blank {
                (self.emit)(b' ');
            }
        } else {
            let mut room = [0; 4];
            c.to_ascii_lowercase().encode_utf8(&mut room).bytes().for_each(&mut self.emit);
        }
        self.is_blank = is_blank;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(text: &str, words: &str) -> Range<usize> {
        let at = text.find(words).unwrap();
        at..at + words.len()
    }

    #[test]
    fn words_that_the_request_has_are_told_from_the_upstreams_own() {
        let text = "invalid value: 'quota exceeded' for field x; 配额 rate limit";
        for (request, repeated, own) in [
            (r#"{"x":"quota exceeded"}"#, "quota exceeded", "rate limit"),
            (r#"{"x":"QUOTA   Exceeded"}"#, "quota exceeded", "rate limit"),
            (r#"{"x":"\u0071uota\nexceed\u0065d"}"#, "quota exceeded", "rate limit"),
            (r#"{"arguments":"{\"x\":\"\\u0071uota\\nexceeded\"}"}"#, "quota exceeded", "rate limit"),
            ("quota\u{a0}\u{3000}exceeded", "quota exceeded", "rate limit"),
            (r#"{"x":"\u914d额"}"#, "配额", "quota"),
            (r#"{"x":"quota"}"#, "quota", "quota exceeded"),
            (r#"{"x":"rate","y":"limit"}"#, "rate", "rate limit"),
            (r#"{"x":"\uquota"}"#, "quota", "exceeded"),
            ("", "", "quota"),
        ] {
            let echo = Echo::of(text, [request.as_bytes()]);
            assert!(repeated.is_empty() || echo.covers(place(text, repeated)), "{request}");
            assert!(!echo.covers(place(text, own)), "{request}");
        }
    }

    #[test]
    fn pieces_of_a_request_are_not_joined() {
        let echo = Echo::of("rate limit", [b"rate ".as_slice(), b"limit".as_slice()]);
        assert!(echo.covers(0..5) && echo.covers(5..10) && !echo.covers(0..10));
    }

    #[test]
    fn what_lies_beyond_the_indexed_text_is_no_echo() {
        let text = "x".repeat(3 * Index::MAX_INDEXED);
        let echo = Echo::of(&text, [text.as_bytes()]);
        assert!(echo.covers(0..Index::MAX_INDEXED) && !echo.covers(0..Index::MAX_INDEXED + 1));
    }

    proptest! {
        #[test]
        fn a_place_is_covered_exactly_when_its_words_stand_in_the_request(
            text in "[ab ]{0,40}", request in "[ab ]{0,60}", from in 0usize..40, length in 1usize..12,
        ) {
            let single = |text: &str| text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            let (text, request) = (single(&text), single(&request));
            let echo = Echo::of(&text, [request.as_bytes()]);
            let place = from.min(text.len())..(from + length).min(text.len());
            prop_assume!(!place.is_empty());
            prop_assert_eq!(echo.covers(place.clone()), request.contains(&text[place]));
        }

        #[test]
        fn any_bytes_are_read(text in "\\PC{0,30}", request in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = text.to_ascii_lowercase();
            Echo::of(&text, [request.as_slice()]);
        }
    }
}
