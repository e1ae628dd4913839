//! A JSON scanner that checks everything and builds nothing.
//!
//! A request body may be megabytes of conversation of which the gateway wants five fields. A tree
//! of it costs more than all the rest of the request, so this scanner only walks: it verifies the
//! whole text against RFC 8259 and hands out the members of the outermost object as slices.
//!
//! It is stricter than a lazy reader and more lenient than a decoder in one point each: skipped text is still checked,
//! byte for byte; and a `\u` escape that is half of a surrogate pair passes, because it is valid grammar, clients that
//! cut strings send it, and this scanner does not decode it.

mod plain;

use std::borrow::Cow;
use std::ops::Range;

use plain::plain_end;
use serde_json::Value;

/// The deepest nesting of arrays and objects, the outermost counted.
pub const MAX_DEPTH: usize = 128;

/// The place where a text stops being JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte offset of the error.
    pub at: usize,
    pub what: &'static str,
}

/// A member of the outermost object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The decoded key; as written when it does not decode to Unicode text.
    pub key: Cow<'a, str>,
    /// The value as written, without the blanks around it.
    pub value: &'a str,
    /// Byte offset of the value.
    pub at: usize,
}

/// Calls `each` for every member of the object in `text`, in order, duplicates included. Members may have been handed
/// out before an error is found.
pub fn members<'a>(text: &'a str, mut each: impl FnMut(Member<'a>)) -> Result<Object, SyntaxError> {
    walk(text, |scan, key, depth| {
        let at = scan.at;
        let value = scan.literal(depth)?;
        each(Member { key: key.name(), value, at });
        Ok(())
    })
}

/// Calls `each` for the members of the object in `text` up to where it stops being JSON, as in the beginning of a text
/// that was cut off. There are none where it is no object.
pub fn members_before_cut<'a>(text: &'a str, each: impl FnMut(Member<'a>)) {
    let _ = members(text, each);
}

/// Walks over an object like [`members`], for readers that look into values: `each` gets the key, stands before its
/// value and must walk over that, with [`Scan::value`] or [`Scan::object`] and the depth it is handed.
pub(super) fn walk<'a>(
    text: &'a str,
    each: impl FnMut(&mut Scan<'a>, Key<'a>, usize) -> Result<(), Stopped>,
) -> Result<Object, SyntaxError> {
    let mut scan = Scan::new(text);
    scan.blanks();
    let open = scan.at;
    let walked = match scan.peek() {
        Some(b'{') => scan.object(1, each).and_then(|()| scan.end()),
        _ => Err(scan.stop("expected an object")),
    };
    walked.map_err(|Stopped| scan.error())?;
    Ok(Object { open, marks: scan.marks })
}

/// The findings of a walk through an object that concern it as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Byte offset of the opening brace.
    pub open: usize,
    pub marks: Marks,
}

/// The kinds of strings in a text whose beginnings call for a closer look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Whether there is a string that gateways like this one put into answers and find again in later requests.
    pub own: bool,
    /// Whether there is an id of a file that a client stored at such a gateway.
    pub files: bool,
    /// Whether there is the type of an item that holds the output of a call.
    pub outputs: bool,
    /// Whether there is the name of the member that holds a file, `file_data`.
    pub file_data: bool,
    /// Whether there is the name of the member that gives a file's address, `file_url`.
    pub file_urls: bool,
    /// Whether there is the name of a member that holds thinking in the chat dialect.
    pub thinking: bool,
    /// Whether there is the name of the member that holds Gemini's signature in the chat dialect, `thought_signature`.
    pub gemini_signatures: bool,
}

const OWN_MARKS: [&str; 7] = ["sy1:", "metapi:", "msg_sy", "rs_sy", "fc_sy", "ws_sy", "srvtoolu_sy"];
/// The beginnings of the ids of stored files: of ours, and of the gateway that others come from.
pub(super) const FILE_MARKS: [&str; 2] = ["file-sy-", "file-metapi-"];
const OUTPUT_MARKS: [&str; 2] = ["function_call_output", "custom_tool_call_output"];
/// The first three bytes of all marks; each has its own place in [`MARK_STARTS`].
const STARTS: [&[u8; 3]; 13] =
    [b"sy1", b"met", b"msg", b"rs_", b"fc_", b"ws_", b"srv", b"fil", b"fun", b"cus", b"rea", b"thi", b"tho"];
const MARK_STARTS: [u32; 16] = {
    let (mut table, mut index) = ([0; 16], 0);
    while index < STARTS.len() {
        let &[first, second, third] = STARTS[index];
        let start = u32::from_le_bytes([first, second, third, 0]);
        table[mark_place(start)] = start;
        index += 1;
    }
    table
};

/// Returns the place of a mark's first bytes in the table, a different one for each of `STARTS`.
const fn mark_place(start: u32) -> usize {
    (start.wrapping_mul(0x1ebb_3ef7) >> 28) as usize
}

/// Whether a string with these first bytes may begin with a mark. It has no branch for each mark, since none could be
/// predicted.
fn may_be_mark(first: u32) -> bool {
    let start = first & 0x00ff_ffff;
    MARK_STARTS[mark_place(start)] == start
}

const FILE_DATA: &[u8] = b"file_data\"";
const FILE_URL: &[u8] = b"file_url\"";
const THINKING: [&str; 5] =
    ["reasoning_content\"", "reasoning\"", "thinking\"", "reasoning_details\"", "reasoning_signature\""];
const GEMINI_SIGNATURE: &[u8] = b"thought_signature\"";

/// Returns the value of the first member called `key`, when `text` is an object that has one.
pub fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut found = None;
    members(text, |member| {
        if found.is_none() && member.key == key {
            found = Some(member.value);
        }
    })
    .ok()?;
    found
}

/// The longest text that is made a tree, in bytes. A tree may take eighty times its text, and the texts looked at as
/// one, errors or answers of a few words, are short.
const MAX_TREE: usize = 1 << 20;

/// Parses a text into a tree that is only looked at, not passed on. A tree cannot hold halves of surrogate pairs, which
/// upstreams send as escapes when they cut a text between the two: where there is one, all escapes of surrogates become
/// U+FFFD. `None` for invalid JSON, and for a text longer than [`MAX_TREE`].
pub(crate) fn tree(text: &[u8]) -> Option<Value> {
    if text.len() > MAX_TREE {
        return None;
    }
    serde_json::from_slice(text).ok().or_else(|| serde_json::from_slice(&without_surrogates(text)?).ok())
}

/// Returns the text with U+FFFD for every escape of a surrogate; `None` where it has none.
fn without_surrogates(text: &[u8]) -> Option<Vec<u8>> {
    // All four digits are checked, because anything may follow an escaped backslash.
    let is_surrogate = |digits: &[u8]| match digits {
        [b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', low @ ..] => {
            low.iter().all(u8::is_ascii_hexdigit)
        }
        _ => false,
    };
    let found: Vec<usize> = memchr::memmem::find_iter(text, b"\\u")
        .map(|at| at + 2)
        .filter(|&at| text.get(at..at + 4).is_some_and(is_surrogate))
        .collect();
    let mut mended = (!found.is_empty()).then(|| text.to_vec())?;
    for at in found {
        mended[at..at + 4].copy_from_slice(b"fffd");
    }
    Some(mended)
}

/// Returns the text of a string literal that a walk has checked; `None` for any other value.
pub fn string(value: &str) -> Option<String> {
    let inside = value.strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(inside.to_owned());
    }
    serde_json::from_str(value).ok()
}

/// A key as it is written. Most keys are only walked over, so its text is cut out when it is asked for.
pub(super) struct Key<'a> {
    text: &'a str,
    /// The range between the quotes, in bytes.
    place: Range<usize>,
    has_escapes: bool,
}

impl<'a> Key<'a> {
    /// Returns the decoded key: `"mod\u0065l"` names the model as well.
    pub(super) fn name(&self) -> Cow<'a, str> {
        let inside = &self.text[self.place.clone()];
        if !self.has_escapes {
            return Cow::Borrowed(inside);
        }
        let literal = &self.text[self.place.start - 1..=self.place.end];
        serde_json::from_str(literal).map_or(Cow::Borrowed(inside), Cow::Owned)
    }
}

/// The walk through a text: everything is checked, nothing is built.
pub(super) struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    marks: Marks,
    stopped_by: &'static str,
}

/// The sign that the text is not JSON: [`Scan::error`] says where and why. The error is not carried here, so that
/// results fit a register.
#[derive(Debug)]
pub(super) struct Stopped;

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, marks: Marks::default(), stopped_by: "" }
    }

    /// Returns the offset that has been reached.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Returns the text from `start`, an earlier offset, to the current one.
    pub(super) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Walks over `byte` when it comes next; returns whether it did.
    pub(super) fn skip(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// Notes the reason why the walk stops here.
    #[cold]
    fn stop(&mut self, what: &'static str) -> Stopped {
        self.stopped_by = what;
        Stopped
    }

    /// Returns where and why the walk has stopped.
    pub(super) fn error(&self) -> SyntaxError {
        SyntaxError { at: self.at, what: self.stopped_by }
    }

    /// Checks that only blanks follow.
    pub(super) fn end(&mut self) -> Result<(), Stopped> {
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.stop("more text after the end")),
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn blanks(&mut self) {
        // Most texts are written without blanks.
        if self.peek().is_some_and(|byte| byte <= b' ') {
            while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
                self.at += 1;
            }
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<(), Stopped> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => self.object(depth + 1, |scan, _, depth| scan.value(depth)),
            Some(b'[') => self.array(depth + 1, |scan, depth| scan.value(depth)),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.stop("expected a value")),
        }
    }

    /// Walks over the object that comes next, `depth` levels deep with itself. `each` has to walk over the value of
    /// every key.
    pub(super) fn object(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self, Key<'a>, usize) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        self.open(depth)?;
        if self.skip(b'}') {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            each(self, key, depth)?;
            if self.close_or_next(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads a key with its colon, and the blanks up to its value.
    #[inline]
    pub(super) fn key(&mut self) -> Result<Key<'a>, Stopped> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.stop("expected a key"));
        }
        let has_escapes = self.string()?;
        let key = Key { text: self.text, place: start + 1..self.at - 1, has_escapes };
        self.blanks();
        if !self.skip(b':') {
            return Err(self.stop("expected ':'"));
        }
        self.blanks();
        Ok(key)
    }

    /// Walks over the value that comes next and returns it as written.
    pub(super) fn literal(&mut self, depth: usize) -> Result<&'a str, Stopped> {
        let start = self.at;
        self.value(depth)?;
        Ok(self.since(start))
    }

    /// Walks over the array that comes next, `depth` levels deep with itself. `each` has to walk over every element.
    pub(super) fn array(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self, usize) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        self.open(depth)?;
        if self.skip(b']') {
            return Ok(());
        }
        loop {
            each(self, depth)?;
            if self.close_or_next(b']')? {
                return Ok(());
            }
        }
    }

    pub(super) fn open(&mut self, depth: usize) -> Result<(), Stopped> {
        if depth > MAX_DEPTH {
            return Err(self.stop("nested deeper than 128 levels"));
        }
        self.at += 1;
        self.blanks();
        Ok(())
    }

    /// Reads on after a value: true when `close` follows, false when a comma does.
    fn close_or_next(&mut self, close: u8) -> Result<bool, Stopped> {
        self.blanks();
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(true)
            }
            Some(b',') => {
                self.at += 1;
                self.blanks();
                Ok(false)
            }
            _ => Err(self.stop(if close == b'}' { "expected ',' or '}'" } else { "expected ',' or ']'" })),
        }
    }

    /// Walks over a string; returns whether it has escapes.
    fn string(&mut self) -> Result<bool, Stopped> {
        let start = self.at + 1;
        self.at = plain_end(self.bytes, start);
        // Few strings begin like a mark: one look rules most of them out.
        if self.at >= start + 3
            && let Some(first) = self.bytes[start..].first_chunk::<4>()
            && may_be_mark(u32::from_le_bytes(*first))
        {
            self.note_marks(start);
        }
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                Ok(false)
            }
            byte => self.rest_of_string(byte == Some(b'\\')),
        }
    }

    /// Walks over the rest of a string, from the first byte that is not plain.
    #[inline(never)]
    fn rest_of_string(&mut self, has_escapes: bool) -> Result<bool, Stopped> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.stop("control character in a string")),
                None => return Err(self.stop("string without an end")),
            }
            self.at = plain_end(self.bytes, self.at);
        }
    }

    #[inline(never)]
    fn note_marks(&mut self, start: usize) {
        let rest = &self.bytes[start..];
        let has = |marks: &[&str]| marks.iter().any(|mark| rest.starts_with(mark.as_bytes()));
        self.marks.own |= has(&OWN_MARKS);
        self.marks.files |= has(&FILE_MARKS);
        self.marks.outputs |= has(&OUTPUT_MARKS);
        self.marks.file_data |= rest.starts_with(FILE_DATA);
        self.marks.file_urls |= rest.starts_with(FILE_URL);
        self.marks.thinking |= has(&THINKING);
        self.marks.gemini_signatures |= rest.starts_with(GEMINI_SIGNATURE);
    }

    fn escape(&mut self) -> Result<(), Stopped> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.stop("bad \\u escape"));
                }
                6
            }
            _ => return Err(self.stop("bad escape")),
        };
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stopped> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Stopped> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.stop("expected a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Stopped> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.stop("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
