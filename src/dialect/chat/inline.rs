//! Finds thinking that a model writes into its answer: `<think>…</think>` at the very start.
//!
//! The chunks of a stream may cut the tags anywhere, and their letters may be written as escapes. Text that may
//! become a tag is held back, and released when it does not. Later in an answer such tags are ordinary text and stay.

const OPEN: &[u8] = b"<think>";
const CLOSE: &[u8] = b"</think>";
/// The most bytes of blanks before the tag that are held back.
const MAX_BLANKS: usize = 64;

/// The kind of a piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Thinking,
    Text,
    Refusal,
}

/// Separates thinking from the rest of a text that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Inline {
    place: TagPlace,
    /// Text that may be the beginning of a tag.
    held: String,
    /// The number of letters of the tag that have been seen.
    matched: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TagPlace {
    #[default]
    Start,
    Inside,
    After,
}

impl Inline {
    /// Takes the next piece of the text, as a JSON literal.
    pub(super) fn feed(&mut self, literal: &str, each: &mut dyn FnMut(TextKind, &str)) {
        let mut rest = literal;
        while !rest.is_empty() {
            rest = match self.place {
                TagPlace::Start => self.at_start(rest),
                TagPlace::Inside => self.inside(rest, each),
                TagPlace::After => {
                    self.release(TextKind::Text, each);
                    each(TextKind::Text, rest);
                    ""
                }
            };
        }
    }

    /// Treats everything from now on as text, because thinking has come in a member of its own.
    pub(super) fn settle(&mut self) {
        self.place = TagPlace::After;
    }

    /// Releases what is held at the end of the text.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(TextKind, &str)) {
        let kind = if self.place == TagPlace::Inside { TextKind::Thinking } else { TextKind::Text };
        self.release(kind, each);
        self.place = TagPlace::After;
    }

    /// Returns whether a complete text may begin with thinking.
    pub(super) fn may_begin(literal: &str) -> bool {
        let mut rest = literal;
        while let Some((letter, length)) = first_letter(rest) {
            if !letter.is_whitespace() {
                return letter == '<';
            }
            rest = &rest[length..];
        }
        false
    }

    fn at_start<'l>(&mut self, literal: &'l str) -> &'l str {
        let mut at = 0;
        while let Some((letter, length)) = first_letter(&literal[at..]) {
            let is_blank = self.matched == 0 && letter.is_whitespace() && self.held.len() + at < MAX_BLANKS;
            if is_next(OPEN, self.matched, letter) {
                self.matched += 1;
            } else if !is_blank {
                self.settle();
                return literal;
            }
            at += length;
            if self.matched == OPEN.len() {
                *self = Self { place: TagPlace::Inside, ..Self::default() };
                return &literal[at..];
            }
        }
        self.held.push_str(literal);
        ""
    }

    fn inside<'l>(&mut self, literal: &'l str, each: &mut dyn FnMut(TextKind, &str)) -> &'l str {
        // The closing tag begins at `tag`, or in what is held.
        let (mut at, mut tag) = (0, 0);
        while let Some((letter, length)) = first_letter(&literal[at..]) {
            if is_next(CLOSE, self.matched, letter) {
                if self.matched == 0 {
                    tag = at;
                }
                self.matched += 1;
                at += length;
                if self.matched == CLOSE.len() {
                    emit_thinking(&literal[..tag], each);
                    *self = Self { place: TagPlace::After, ..Self::default() };
                    return &literal[at..];
                }
            } else if self.matched > 0 {
                // Not the tag after all; this letter may begin one.
                self.release(TextKind::Thinking, each);
            } else {
                at += length;
            }
        }
        let kept = if self.matched > 0 { tag } else { literal.len() };
        emit_thinking(&literal[..kept], each);
        self.held.push_str(&literal[kept..]);
        ""
    }

    fn release(&mut self, kind: TextKind, each: &mut dyn FnMut(TextKind, &str)) {
        self.matched = 0;
        if !self.held.is_empty() {
            each(kind, &std::mem::take(&mut self.held));
        }
    }
}

fn emit_thinking(thought: &str, each: &mut dyn FnMut(TextKind, &str)) {
    if !thought.is_empty() {
        each(TextKind::Thinking, thought);
    }
}

fn is_next(tag: &[u8], matched: usize, letter: char) -> bool {
    tag.get(matched).is_some_and(|wanted| char::from(*wanted) == letter.to_ascii_lowercase())
}

/// Returns the first character of a literal, and the number of bytes that it is written with.
fn first_letter(literal: &str) -> Option<(char, usize)> {
    let first = literal.chars().next()?;
    if first != '\\' {
        return Some((first, first.len_utf8()));
    }
    Some(match literal.as_bytes().get(1)? {
        b'u' => {
            let code = u32::from_str_radix(literal.get(2..6)?, 16).ok()?;
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
        }
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        other => (char::from(*other), 2),
    })
}
