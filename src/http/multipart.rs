//! Parses `multipart/form-data` as it comes (RFC 7578, RFC 2046 §5.1.1): takes pieces, returns parts, and keeps nothing but
//! a possible delimiter or a part's head.
//!
//! ```text
//! preamble ─▶ --boundary ─▶ head ─▶ data … ─▶ --boundary ─▶ head … ─▶ --boundary--
//! ```
//!
//! A form that is read here before another parser reads it must be read in the same way: a field that only one of them sees
//! bypasses the rules about it. So everything that known parsers read differently is refused: parameters given twice or in
//! pieces (`name*=`, `name*0=`), escapes, lines that are folded or end in a bare line feed, headers given twice, encoded
//! contents, blanks after a boundary. The parser has no business logic: its caller decides what a part is for.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;

/// The longest head of a part, in bytes.
pub(super) const MAX_HEAD: usize = 8 * 1024;
const BOUNDARY: &str = "boundary";
/// The longest boundary, in characters (RFC 2046 §5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The most parameters of a header's value: each is compared with those before it, and no client sends more than three.
const MAX_PARAMETERS: usize = 16;

/// The next event of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A part begins.
    Part(PartHead),
    /// A piece of its content, never empty.
    Data(Bytes),
    /// The part is complete.
    PartEnd,
    /// The last boundary has come; anything after it is ignored.
    End,
}

/// The headers of a part.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The name of the form's field.
    pub name: String,
    /// Present if the part is a file, and then perhaps empty.
    pub filename: Option<String>,
    pub content_type: Option<String>,
}

/// Why a body is not valid `multipart/form-data`, as a message for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

pub(super) const UNENDED: Malformed = Malformed("a boundary is followed by other text on its line");
pub(super) const HEAD_TOO_LONG: Malformed = Malformed("the headers of a part are longer than 8 KiB");

/// The parser of one body.
#[derive(Debug)]
pub struct Reader {
    /// Finds the line end, two hyphens and boundary.
    delimiter: memmem::Finder<'static>,
    buffer: BytesMut,
    state: ReadState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Preamble,
    /// Right after a delimiter.
    Delimiter,
    /// In a head, which begins with the line end of its delimiter.
    Head,
    Data,
    /// After the data and its delimiter.
    DataEnded,
    Ended,
}

/// Returns the boundary in a `Content-Type` of `multipart/form-data`.
pub(super) fn boundary(content_type: &str) -> Result<String, Malformed> {
    let (essence, rest) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(Malformed("send multipart/form-data"));
    }
    // Parsers that look for the word alone would read a boundary out of another parameter's value.
    let lower = rest.to_ascii_lowercase();
    let is_named = |at: usize| lower[at + BOUNDARY.len()..].trim_start().starts_with('=');
    if lower.match_indices(BOUNDARY).filter(|(at, _)| is_named(*at)).count() > 1 {
        return Err(Malformed("the boundary is given twice"));
    }
    let boundary = Parameters::read(rest)?.take(BOUNDARY).unwrap_or_default();
    if boundary.is_empty() || boundary.len() > MAX_BOUNDARY {
        return Err(Malformed("multipart/form-data needs a boundary of 1 to 70 characters"));
    }
    let may_stand = |c: char| c.is_ascii_alphanumeric() || "'()+_,-./:=? ".contains(c);
    if !boundary.chars().all(may_stand) || boundary.ends_with(' ') {
        return Err(Malformed("the boundary has a character that is not allowed in one"));
    }
    Ok(boundary)
}

// === impl Reader ===

impl Reader {
    /// Creates the parser for a `Content-Type` of `multipart/form-data`.
    pub fn new(content_type: &str) -> Result<Self, Malformed> {
        let boundary = boundary(content_type)?;
        let delimiter = memmem::Finder::new(&format!("\r\n--{boundary}")).into_owned();
        // The first boundary begins a line, but needs no line end before it.
        Ok(Self { delimiter, buffer: BytesMut::from("\r\n"), state: ReadState::Preamble })
    }

    /// Takes the next piece of the body. Call [`Self::event`] until it returns none.
    pub fn feed(&mut self, piece: &[u8]) {
        if self.state != ReadState::Ended {
            self.buffer.extend_from_slice(piece);
        }
    }

    /// Returns the next event; `None` when more of the body is needed.
    pub fn event(&mut self) -> Result<Option<Event>, Malformed> {
        loop {
            match self.state {
                ReadState::Preamble => match self.delimiter.find(&self.buffer) {
                    Some(at) => {
                        self.buffer.advance(at + self.delimiter.needle().len());
                        self.state = ReadState::Delimiter;
                    }
                    None => {
                        self.buffer.advance(self.settled());
                        return Ok(None);
                    }
                },
                ReadState::Delimiter => match self.behind_delimiter()? {
                    Some(ReadState::Ended) => {
                        (self.state, self.buffer) = (ReadState::Ended, BytesMut::new());
                        return Ok(Some(Event::End));
                    }
                    Some(state) => self.state = state,
                    None => return Ok(None),
                },
                ReadState::Head => {
                    let end = memmem::find(&self.buffer, b"\r\n\r\n");
                    if end.unwrap_or(self.buffer.len()) > MAX_HEAD {
                        return Err(HEAD_TOO_LONG);
                    }
                    let Some(end) = end else { return Ok(None) };
                    let head = PartHead::parse(&self.buffer[..end])?;
                    self.buffer.advance(end + 4);
                    self.state = ReadState::Data;
                    return Ok(Some(Event::Part(head)));
                }
                ReadState::Data => {
                    let ready = match self.delimiter.find(&self.buffer) {
                        Some(0) => {
                            self.buffer.advance(self.delimiter.needle().len());
                            self.state = ReadState::DataEnded;
                            continue;
                        }
                        Some(at) => at,
                        None => self.settled(),
                    };
                    return Ok((ready > 0).then(|| Event::Data(self.buffer.split_to(ready).freeze())));
                }
                ReadState::DataEnded => {
                    self.state = ReadState::Delimiter;
                    return Ok(Some(Event::PartEnd));
                }
                ReadState::Ended => return Ok(None),
            }
        }
    }

    /// Returns whether the body came to its proper end.
    pub fn is_ended(&self) -> bool {
        self.state == ReadState::Ended
    }

    /// Returns how many bytes of the buffer cannot be the beginning of an incomplete delimiter.
    fn settled(&self) -> usize {
        self.buffer.len().saturating_sub(self.delimiter.needle().len() - 1)
    }

    /// Returns the state after a delimiter: two hyphens end the body; otherwise the line ends and a head begins.
    fn behind_delimiter(&mut self) -> Result<Option<ReadState>, Malformed> {
        match &self.buffer[..] {
            [b'-', b'-', ..] => Ok(Some(ReadState::Ended)),
            [b'\r', b'\n', ..] => Ok(Some(ReadState::Head)),
            [] | [b'\r'] | [b'-'] => Ok(None),
            _ => Err(UNENDED),
        }
    }
}

// === impl PartHead ===

impl PartHead {
    pub(super) fn parse(head: &[u8]) -> Result<Self, Malformed> {
        let head = std::str::from_utf8(head).map_err(|_| Malformed("the headers of a part are not UTF-8"))?;
        let mut parsed = Self::default();
        let mut has_disposition = false;
        for line in head.split("\r\n").filter(|line| !line.is_empty()) {
            if line.contains(|c: char| c.is_control() && c != '\t') {
                return Err(Malformed(
                    "a header line of a part has a control character or a line end that is not CR LF",
                ));
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(Malformed("a header line of a part has no colon"));
            };
            // Some parsers would take a line with blanks around its name for a continuation of the line before.
            if !is_token(name) {
                return Err(Malformed("a header line of a part does not begin with a valid name"));
            }
            let value = value.trim();
            let is_twice = match name.to_ascii_lowercase().as_str() {
                "content-type" => parsed.content_type.replace(value.to_owned()).is_some(),
                "content-disposition" => {
                    parsed.read_disposition(value)?;
                    std::mem::replace(&mut has_disposition, true)
                }
                "content-transfer-encoding" => {
                    let is_plain = ["7bit", "8bit", "binary"].iter().any(|it| value.eq_ignore_ascii_case(it));
                    if !is_plain {
                        return Err(Malformed(
                            "the content of a part is encoded: send it without Content-Transfer-Encoding",
                        ));
                    }
                    false
                }
                _ => false,
            };
            if is_twice {
                return Err(Malformed("a header of a part is given twice"));
            }
        }
        Ok(parsed)
    }

    /// Reads a `Content-Disposition` (RFC 7578 §4.2, RFC 2183).
    fn read_disposition(&mut self, value: &str) -> Result<(), Malformed> {
        let (kind, rest) = value.split_once(';').unwrap_or((value, ""));
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(Malformed("a part is not a form field: send Content-Disposition: form-data"));
        }
        let mut parameters = Parameters::read(rest)?;
        let name = parameters.take("name").ok_or(Malformed("a field has no name"))?;
        // PHP takes single quotes for quotes, and readers of e-mail decode `=?utf-8?Q?…?=` (RFC 2047).
        let is_odd = name.contains('\\') || name.starts_with('\'') || name.contains("=?");
        if is_odd || has_percent_escapes(&name) || name.trim() != name {
            return Err(Malformed(
                "the name of a field begins with a quote, has a backslash, a percent escape or an encoded word, or \
                 begins or ends with a blank",
            ));
        }
        let plain = parameters.take("filename");
        self.name = name;
        self.filename = parameters.take("filename*").and_then(|value| extended(&value)).or(plain);
        Ok(())
    }
}

/// Whether a name has percent escapes other than those that browsers write for quotes and line ends (HTML Living Standard,
/// 4.10.22.8): some readers decode them.
fn has_percent_escapes(name: &str) -> bool {
    let mut escapes = name.match_indices('%').filter_map(|(at, _)| name.get(at + 1..at + 3));
    let is_escape = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    escapes.any(|digits| is_escape(digits) && !["22", "0D", "0A"].contains(&digits))
}

/// The parameters of a header's value, by lower-cased name.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses the text after the first semicolon. Quoted text has no escapes: a backslash is literal, as some clients send
    /// `C:\dir\file`; before a quote, where other parsers take it for an escape, it is refused.
    fn read(text: &str) -> Result<Self, Malformed> {
        const ODD: Malformed = Malformed("a header parameter is not `name=value` or `name=\"value\"`");
        let mut found: Vec<(String, String)> = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or(ODD)?;
            let name = name.to_ascii_lowercase();
            if !is_token(&name) || name.contains('*') && name != "filename*" {
                return Err(Malformed(
                    "a header parameter has an invalid name: only filename* may have an asterisk",
                ));
            }
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => {
                    let (value, after) = quoted.split_once('"').ok_or(ODD)?;
                    if value.ends_with('\\') {
                        return Err(Malformed("a quoted header parameter has an escaped quote"));
                    }
                    (value, after.trim_start())
                }
                None => {
                    let (value, after) = after.split_at(after.find(';').unwrap_or(after.len()));
                    let value = value.trim_end();
                    if !value.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\')) {
                        return Err(ODD);
                    }
                    (value, after)
                }
            };
            if found.len() == MAX_PARAMETERS {
                return Err(Malformed("a header has too many parameters"));
            }
            if found.iter().any(|(known, _)| *known == name) {
                return Err(Malformed("a header parameter is given twice"));
            }
            found.push((name, value.to_owned()));
            rest = match after.strip_prefix(';') {
                Some(next) => next.trim_start(),
                None if after.is_empty() => after,
                None => return Err(ODD),
            };
        }
        Ok(Self(found))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// Returns whether the text is a valid name of a header or parameter (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// Decodes an extended value such as `UTF-8''caf%C3%A9.pdf` (RFC 8187).
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_language, text) = rest.split_once('\'')?;
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8().ok()?;
    charset.eq_ignore_ascii_case("utf-8").then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests;
