//! Follows a client's requests byte by byte, to know where in a request it is (RFC 9112 §5 to §7).
//!
//! ```text
//! Head ─ empty line ─▶ Length(n) ─ n bytes ─────────────▶ Head …
//!                 └──▶ Chunked ─ size ⇄ data, trailers ─▶ Head …
//! ```
//!
//! hyper parses the requests. This only follows, because hyper does not tell the edge all it must know: hyper removes a
//! Content-Length beside Transfer-Encoding before anyone can see it, and does not say how much of a head or a body has
//! come. Both must agree on where a request ends. Requests that hyper refuses may be followed in any way, since hyper
//! closes the connection. Bytes that cannot be followed here are a fault of the next head, whatever hyper reads in it.
//!
//! It keeps none of the bytes, except the beginning of a line that may name a length.

use memchr::{memchr, memchr2};

/// The longest head of a request including its request line, in bytes. Many servers accept no more, so clients keep to it.
pub(super) const MAX_HEAD: usize = 16 * 1024;
/// The most digits of a length.
const MAX_DIGITS: usize = 20;
/// The most bytes kept of an incomplete line: a name, a length, and a blank on each side.
const MAX_LINE: usize = 48;

const CONTENT_LENGTH: &[u8] = b"content-length:";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding:";

/// Why a head must not be served although hyper may accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// The head has both Content-Length and Transfer-Encoding.
    TwoLengths,
    /// The place where the head begins is not certain.
    Unfollowed,
    TargetTooLong,
    TooLong,
}

/// The first head of a connection that must not be served. Later ones do not matter: the connection ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaultyHead {
    /// The number of the head, counted from 1.
    pub number: u64,
    pub fault: HeadFault,
}

/// The state of one client's requests.
#[derive(Debug, Default)]
pub(super) struct Framing {
    place: RequestPlace,
    head: Head,
    /// The number of complete heads.
    heads: u64,
    faulty: Option<FaultyHead>,
}

#[derive(Debug, Default)]
enum RequestPlace {
    /// The client is in a head, or before one.
    #[default]
    Head,
    /// The client is in a body, of which this many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    Lost,
}

/// The state of the head being read.
#[derive(Debug, Default)]
struct Head {
    bytes: usize,
    /// Where the request line ends, once it has.
    request_line: Option<usize>,
    /// The beginning of an incomplete line, if it may name a length. In lower case, runs of blanks joined.
    line: Vec<u8>,
    /// Whether the rest of the line is irrelevant.
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
    /// In the blanks after the size.
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
    /// Follows the bytes that were read next.
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

    pub fn faulty(&self) -> Option<FaultyHead> {
        self.faulty
    }

    /// Returns the number of complete heads.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Returns the bytes of an incomplete head; 0 between two requests.
    pub fn unfinished_head(&self) -> usize {
        if matches!(self.place, RequestPlace::Head) { self.head.bytes } else { 0 }
    }

    /// Returns the fault of an incomplete head that is already too long.
    pub fn overlong_head(&self) -> Option<HeadFault> {
        (self.unfinished_head() > MAX_HEAD).then(|| self.head.too_long())
    }

    pub fn is_in_body(&self) -> bool {
        matches!(self.place, RequestPlace::Length(_) | RequestPlace::Chunked(_))
    }

    /// Returns whether a request has begun and is not complete.
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
            self.note(self.heads, head.too_long());
        } else if head.is_chunked && head.names_length {
            self.note(self.heads, HeadFault::TwoLengths);
        }
        self.place = match head.length {
            _ if head.is_chunked => RequestPlace::Chunked(Chunked::Start),
            Some(length @ 1..) => RequestPlace::Length(length),
            _ => RequestPlace::Head,
        };
    }

    fn note(&mut self, number: u64, fault: HeadFault) {
        self.faulty.get_or_insert(FaultyHead { number, fault });
    }

    fn lose(&mut self) {
        self.place = RequestPlace::Lost;
        self.note(self.heads + 1, HeadFault::Unfollowed);
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

    /// Keeps the relevant bytes of an incomplete line; false if it holds an impossible length.
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
            // If nothing else follows before the line feed, the line is empty.
            let may_be_empty = self.line == b"\r";
            if !(may_be_empty || self.request_line.is_some() && may_name_length) {
                (self.skips_line, self.line) = (true, Vec::new());
            }
        }
        true
    }

    /// Takes the last piece of a line, without its line feed; `None` if it holds an impossible length.
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
            // If two lengths differ, hyper refuses them.
            self.length.get_or_insert(digits.parse().ok()?);
        } else if starts_with(line, TRANSFER_ENCODING) {
            // If it does not end in `chunked`, hyper refuses it.
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
    /// Follows some bytes. Returns the next state (`None` after the body's end) and the bytes left; `None` for a body that
    /// hyper refuses.
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
mod tests;
