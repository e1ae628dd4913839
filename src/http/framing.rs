//! Where in its requests a client is, followed byte by byte as they come (RFC 9112 §5 to §7).
//!
//! ```text
//! Head ─ empty line ─▶ Length(n) ─ n bytes ─────────────▶ Head …
//!                 └──▶ Chunked ─ size ⇄ data, trailers ─▶ Head …
//! ```
//!
//! hyper reads the requests. This looks on, because hyper does not tell what the edge has to know: it removes a
//! Content-Length that stands beside Transfer-Encoding before anyone can see it, and it does not say how much of a head
//! or of a body is there. Both must agree on where a request ends. What hyper refuses may be read in any way here, for
//! hyper closes the connection; what is not understood here is a fault of the head that follows, whatever hyper reads in it.
//!
//! Nothing is kept of the bytes but the beginning of a line that may name a length.

use memchr::{memchr, memchr2};

/// The longest head of a request, its request line included. Many servers take no more, so clients keep to it.
pub(super) const MAX_HEAD: usize = 16 * 1024;
/// The most digits of a length.
const MAX_DIGITS: usize = 20;
/// The most that is kept of a line that is not complete: a name, a length, and a blank to each side.
const MAX_LINE: usize = 48;

const CONTENT_LENGTH: &[u8] = b"content-length:";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding:";

/// What is wrong with a head that hyper may take for a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// It names two ways of telling where its body ends.
    TwoLengths,
    /// Where it begins is not certain.
    Unfollowed,
    TargetTooLong,
    TooLong,
}

/// One client's requests so far.
#[derive(Debug, Default)]
pub(super) struct Framing {
    place: RequestPlace,
    head: Head,
    /// How many heads have come to their end.
    heads: u64,
    /// The first head with a fault, counted from 1. No other matters: the connection ends with it.
    fault: Option<(u64, HeadFault)>,
}

#[derive(Debug, Default)]
enum RequestPlace {
    /// In a head, or before one.
    #[default]
    Head,
    /// In a body of which so many bytes are to come.
    Length(u64),
    Chunked(Chunked),
    Lost,
}

/// The state of the head being read.
#[derive(Debug, Default)]
struct Head {
    bytes: usize,
    /// Where the request line ends, if it has.
    request_line: Option<usize>,
    /// The beginning of a line of which the end has not come, if it may name a length. Small letters, blanks joined.
    line: Vec<u8>,
    /// The rest of the line means nothing here.
    skips_line: bool,
    length: Option<u64>,
    is_chunked: bool,
    names_length: bool,
}

/// Where in a chunked body the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunked {
    Start,
    Size(u64),
    /// Blanks behind the size.
    Padding(u64),
    Extension(u64),
    SizeEnd(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// At the beginning of a trailer or of the last line.
    LastLine,
    Trailer,
    TrailerLf,
    LastLf,
}

// === impl Framing ===

impl Framing {
    /// Takes what was read next.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match &mut self.place {
                RequestPlace::Head => self.read_head(bytes),
                RequestPlace::Length(left) => {
                    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= now as u64;
                    if *left == 0 {
                        self.place = RequestPlace::Head;
                    }
                    &bytes[now..]
                }
                RequestPlace::Chunked(state) => match state.read(bytes) {
                    Some((Some(next), rest)) => {
                        *state = next;
                        rest
                    }
                    Some((None, rest)) => {
                        self.place = RequestPlace::Head;
                        rest
                    }
                    None => {
                        self.lose();
                        return;
                    }
                },
                RequestPlace::Lost => return,
            };
        }
    }

    /// The number of the first head that must not be served, and why.
    pub fn fault(&self) -> Option<(u64, HeadFault)> {
        self.fault
    }

    /// How many heads have come to their end.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// How much of a head is there that has not come to its end; 0 between two requests.
    pub fn unfinished_head(&self) -> usize {
        if matches!(self.place, RequestPlace::Head) { self.head.bytes } else { 0 }
    }

    /// Why a head that has not come to its end never will.
    pub fn overlong_head(&self) -> Option<HeadFault> {
        (self.unfinished_head() > MAX_HEAD).then(|| self.head.too_long())
    }

    pub fn is_in_body(&self) -> bool {
        matches!(self.place, RequestPlace::Length(_) | RequestPlace::Chunked(_))
    }

    /// Whether more is to come of a request that has begun.
    pub fn is_in_request(&self) -> bool {
        !matches!(self.place, RequestPlace::Head) || self.head.bytes > 0
    }

    fn read_head<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(end) = memchr(b'\n', bytes) else {
            self.head.bytes += bytes.len();
            if !self.head.begin_line(bytes) {
                self.lose();
            }
            return &[];
        };
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        self.head.bytes += end + 1;
        match self.head.end_line(line) {
            Some(HeadEnd::No) => {}
            Some(HeadEnd::Yes) => self.end_head(),
            None => self.lose(),
        }
        rest
    }

    fn end_head(&mut self) {
        let head = std::mem::take(&mut self.head);
        self.heads += 1;
        if head.bytes > MAX_HEAD {
            self.note(head.too_long());
        } else if head.is_chunked && head.names_length {
            self.note(HeadFault::TwoLengths);
        }
        self.place = match head.length {
            _ if head.is_chunked => RequestPlace::Chunked(Chunked::Start),
            Some(length @ 1..) => RequestPlace::Length(length),
            _ => RequestPlace::Head,
        };
    }

    fn note(&mut self, fault: HeadFault) {
        self.fault.get_or_insert((self.heads, fault));
    }

    fn lose(&mut self) {
        self.place = RequestPlace::Lost;
        self.fault.get_or_insert((self.heads + 1, HeadFault::Unfollowed));
    }
}

// === impl Head ===

enum HeadEnd {
    Yes,
    No,
}

impl Head {
    fn too_long(&self) -> HeadFault {
        let is_for_headers = self.request_line.is_some_and(|end| end <= MAX_HEAD);
        if is_for_headers { HeadFault::TooLong } else { HeadFault::TargetTooLong }
    }

    /// Keeps what may matter of a line that goes on; false if it is a length that no body has.
    fn begin_line(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if self.skips_line || self.line == TRANSFER_ENCODING {
                return true;
            }
            if self.line.starts_with(CONTENT_LENGTH) {
                let is_blank = matches!(byte, b' ' | b'\t');
                if is_blank && matches!(self.line.last(), Some(b':' | b' ')) {
                    continue;
                }
                self.line.push(if is_blank { b' ' } else { byte });
                if self.line.len() > MAX_LINE {
                    return false;
                }
                continue;
            }
            self.line.push(byte.to_ascii_lowercase());
            let may_name_length =
                CONTENT_LENGTH.starts_with(&self.line) || TRANSFER_ENCODING.starts_with(&self.line);
            // With nothing behind it the line is an empty one.
            let may_be_empty = self.line == b"\r";
            if !(may_be_empty || self.request_line.is_some() && may_name_length) {
                (self.skips_line, self.line) = (true, Vec::new());
            }
        }
        true
    }

    /// Takes the last piece of a line, without its line feed; `None` if it is a length that no body has.
    fn end_line(&mut self, piece: &[u8]) -> Option<HeadEnd> {
        let kept;
        let mut line = piece;
        if self.skips_line || !self.line.is_empty() {
            if !self.begin_line(piece) {
                return None;
            }
            kept = std::mem::take(&mut self.line);
            line = &kept;
        }
        let is_skipped = std::mem::take(&mut self.skips_line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_empty = !is_skipped && line.is_empty();
        if self.request_line.is_none() {
            // Empty lines may come before a request (RFC 9112 §2.2).
            self.request_line = (!is_empty).then_some(self.bytes);
            return Some(HeadEnd::No);
        }
        if is_empty {
            return Some(HeadEnd::Yes);
        }
        if starts_with(line, CONTENT_LENGTH) {
            self.names_length = true;
            let digits = line[CONTENT_LENGTH.len()..].trim_ascii();
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() <= MAX_DIGITS)?;
            // Where two differ, hyper refuses them.
            self.length.get_or_insert(digits.parse().ok()?);
        } else if starts_with(line, TRANSFER_ENCODING) {
            // Where it does not end in `chunked`, hyper refuses it.
            self.is_chunked = true;
        }
        Some(HeadEnd::No)
    }
}

fn starts_with(line: &[u8], name: &[u8]) -> bool {
    line.get(name.len() - 1) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name)
}

// === impl Chunked ===

impl Chunked {
    /// Reads on. Gives the next state, none behind the body, and what it has left; `None` where hyper refuses the body.
    fn read(self, bytes: &[u8]) -> Option<(Option<Self>, &[u8])> {
        let (&first, rest) = bytes.split_first()?;
        let next = match (self, first) {
            (Self::Start, b'\r') => return None,
            (Self::Start, _) => Self::Size(digit(first)?),
            (Self::Size(size), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                Self::Size(size.checked_mul(16)?.checked_add(digit(first)?)?)
            }
            (Self::Size(size) | Self::Padding(size), b' ' | b'\t') => Self::Padding(size),
            (Self::Size(size) | Self::Padding(size), b';') => Self::Extension(size),
            (Self::Size(size) | Self::Padding(size) | Self::Extension(size), b'\r') => Self::SizeEnd(size),
            (Self::Extension(size), _) => {
                let end = memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
                let is_broken = bytes.get(end) == Some(&b'\n');
                return (!is_broken).then_some((Some(Self::Extension(size)), &bytes[end..]));
            }
            (Self::SizeEnd(0), b'\n') => Self::LastLine,
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::Data(left), _) => {
                let now = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let left = left - now as u64;
                let next = if left == 0 { Self::DataCr } else { Self::Data(left) };
                return Some((Some(next), &bytes[now..]));
            }
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::Start,
            (Self::LastLine, b'\r') => Self::LastLf,
            (Self::LastLf, b'\n') => return Some((None, rest)),
            (Self::Trailer, b'\r') => Self::TrailerLf,
            (Self::LastLine | Self::Trailer, _) => {
                let end = memchr(b'\r', bytes).unwrap_or(bytes.len());
                return Some((Some(Self::Trailer), &bytes[end..]));
            }
            (Self::TrailerLf, b'\n') => Self::LastLine,
            _ => return None,
        };
        Some((Some(next), rest))
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
