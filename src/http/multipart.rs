//! `multipart/form-data` read as it comes (RFC 7578, RFC 2046 §5.1.1): pieces in, parts out, nothing kept
//! but what may still be a delimiter or a part's head.
//!
//! ```text
//! preamble ─▶ --boundary ─▶ head ─▶ data … ─▶ --boundary ─▶ head … ─▶ --boundary--
//! ```
//!
//! Strict where it protects (a head has a bound, the end must come), lenient where clients differ (blanks
//! after a boundary, a part without a head). It knows no business: what a part is for, the caller says.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;

/// The longest head of a part.
pub(super) const MAX_HEAD: usize = 8 * 1024;
/// The longest boundary (RFC 2046 §5.1.1).
const MAX_BOUNDARY: usize = 70;
/// Blanks that may follow a boundary on its line.
pub(super) const MAX_PADDING: usize = 256;

/// What comes next in a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A part begins.
    Part(PartHead),
    /// Some of its content, never empty.
    Data(Bytes),
    /// The part is complete.
    PartEnd,
    /// The last boundary: whatever follows means nothing.
    End,
}

/// What a part says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The field of the form.
    pub name: String,
    /// Present where the part is a file, and then perhaps empty.
    pub filename: Option<String>,
    pub content_type: Option<String>,
}

/// Why a body is no `multipart/form-data`; a text for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

pub(super) const HEAD_TOO_LONG: Malformed = Malformed("the head of a part is longer than 8 KiB");

/// The state of reading one body.
#[derive(Debug)]
pub struct Reader {
    /// Finds the line end, the two hyphens and the boundary.
    delimiter: memmem::Finder<'static>,
    buffer: BytesMut,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preamble,
    /// Right behind a delimiter.
    Delimiter,
    /// In a head, which begins with the line end of its delimiter.
    Head,
    Data,
    /// Behind the data, its delimiter taken.
    DataEnded,
    Ended,
}

/// The boundary that a `Content-Type` of `multipart/form-data` names.
pub(super) fn boundary(content_type: &str) -> Result<String, Malformed> {
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(Malformed("send multipart/form-data"));
    }
    let boundary = parameter(parameters, "boundary").unwrap_or_default();
    if boundary.is_empty() || boundary.len() > MAX_BOUNDARY {
        return Err(Malformed("multipart/form-data needs a boundary of 1 to 70 characters"));
    }
    Ok(boundary)
}

// === impl Reader ===

impl Reader {
    /// For a `Content-Type` of `multipart/form-data`.
    pub fn new(content_type: &str) -> Result<Self, Malformed> {
        let boundary = boundary(content_type)?;
        let delimiter = memmem::Finder::new(&format!("\r\n--{boundary}")).into_owned();
        // The first boundary needs no line end before it: it begins a line all the same.
        Ok(Self { delimiter, buffer: BytesMut::from("\r\n"), state: State::Preamble })
    }

    /// Takes the next piece of the body. Ask for its [`Self::event`]s until there is none.
    pub fn feed(&mut self, piece: &[u8]) {
        if self.state != State::Ended {
            self.buffer.extend_from_slice(piece);
        }
    }

    /// The next event; `None` when it takes more of the body to tell.
    pub fn event(&mut self) -> Result<Option<Event>, Malformed> {
        loop {
            match self.state {
                State::Preamble => match self.delimiter.find(&self.buffer) {
                    Some(at) => {
                        self.buffer.advance(at + self.delimiter.needle().len());
                        self.state = State::Delimiter;
                    }
                    None => {
                        self.buffer.advance(self.settled());
                        return Ok(None);
                    }
                },
                State::Delimiter => match self.behind_delimiter()? {
                    Some(State::Ended) => {
                        (self.state, self.buffer) = (State::Ended, BytesMut::new());
                        return Ok(Some(Event::End));
                    }
                    Some(state) => self.state = state,
                    None => return Ok(None),
                },
                State::Head => {
                    let end = memmem::find(&self.buffer, b"\r\n\r\n");
                    if end.unwrap_or(self.buffer.len()) > MAX_HEAD {
                        return Err(HEAD_TOO_LONG);
                    }
                    let Some(end) = end else { return Ok(None) };
                    let head = PartHead::parse(&self.buffer[..end])?;
                    self.buffer.advance(end + 4);
                    self.state = State::Data;
                    return Ok(Some(Event::Part(head)));
                }
                State::Data => {
                    let ready = match self.delimiter.find(&self.buffer) {
                        Some(0) => {
                            self.buffer.advance(self.delimiter.needle().len());
                            self.state = State::DataEnded;
                            continue;
                        }
                        Some(at) => at,
                        None => self.settled(),
                    };
                    return Ok((ready > 0).then(|| Event::Data(self.buffer.split_to(ready).freeze())));
                }
                State::DataEnded => {
                    self.state = State::Delimiter;
                    return Ok(Some(Event::PartEnd));
                }
                State::Ended => return Ok(None),
            }
        }
    }

    /// Whether the body came to its proper end.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// How many bytes of the buffer cannot be the beginning of a delimiter that is still to come.
    fn settled(&self) -> usize {
        self.buffer.len().saturating_sub(self.delimiter.needle().len() - 1)
    }

    /// Two hyphens end the body; blanks may follow, then the line ends, and a head begins.
    fn behind_delimiter(&mut self) -> Result<Option<State>, Malformed> {
        const UNENDED: Malformed =
            Malformed("a boundary is followed by something else than the end of its line");
        if self.buffer.starts_with(b"--") {
            return Ok(Some(State::Ended));
        }
        let padding = self.buffer.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if padding > MAX_PADDING {
            return Err(UNENDED);
        }
        match &self.buffer[padding..] {
            [b'\r', b'\n', ..] => {
                self.buffer.advance(padding);
                Ok(Some(State::Head))
            }
            [] | [b'\r'] => Ok(None),
            [b'-'] if padding == 0 => Ok(None),
            _ => Err(UNENDED),
        }
    }
}

// === impl PartHead ===

impl PartHead {
    pub(super) fn parse(head: &[u8]) -> Result<Self, Malformed> {
        let head = std::str::from_utf8(head).map_err(|_| Malformed("the head of a part is not UTF-8"))?;
        let mut parsed = Self::default();
        for line in head.split("\r\n").filter(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once(':') else {
                return Err(Malformed("a line in the head of a part has no colon"));
            };
            if name.trim().eq_ignore_ascii_case("content-type") {
                parsed.content_type = Some(value.trim().to_owned());
            } else if name.trim().eq_ignore_ascii_case("content-disposition") {
                let parameters = value.split_once(';').map_or("", |(_, parameters)| parameters);
                parsed.name = parameter(parameters, "name").unwrap_or_default();
                parsed.filename = parameter(parameters, "filename*")
                    .and_then(|value| extended(&value))
                    .or_else(|| parameter(parameters, "filename"));
            }
        }
        Ok(parsed)
    }
}

/// A parameter of a header's value: a token or a quoted text, in which a backslash escapes a quote or
/// itself. Before anything else it is what it says, as `C:\dir\file` of some clients.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (value, after) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), after)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after;
    }
}

/// What stands before the closing quote, and what behind it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' if chars.peek().is_some_and(|(_, next)| matches!(next, '"' | '\\')) => {
                value.extend(chars.next().map(|(_, escaped)| escaped));
            }
            _ => value.push(c),
        }
    }
    (value, "")
}

/// `UTF-8''caf%C3%A9.pdf` (RFC 8187).
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_language, text) = rest.split_once('\'')?;
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8().ok()?;
    charset.eq_ignore_ascii_case("utf-8").then(|| decoded.into_owned())
}

#[cfg(test)]
#[path = "multipart_tests.rs"]
mod tests;
