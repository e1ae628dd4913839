//! Reads HTTP/1.1 answers from the raw socket.
//!
//! The load generator shares two cores with what it measures, so it does only what it must: requests are bytes made
//! beforehand, answers are parsed in place and compared with the expected bytes. Blocking [`call`]s serve set-up and cold
//! starts.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const READ_BUFFER: usize = 64 << 10;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why an exchange does not count.
#[derive(Debug)]
pub enum Fault {
    Io(io::Error),
    /// The bytes are not HTTP/1.1 as it is parsed here.
    Malformed(&'static str),
    /// A status other than 200, with the beginning of the body.
    Status(u16, String),
    /// The body differs from the one sent, from this byte on.
    Altered(usize),
    /// The body ended after the first number of bytes instead of the second.
    Short(usize, usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(failed) => write!(out, "{failed}"),
            Self::Malformed(what) => write!(out, "malformed answer: {what}"),
            Self::Status(status, body) => write!(out, "status {status}: {body}"),
            Self::Altered(at) => write!(out, "the body was altered at byte {at}"),
            Self::Short(got, wanted) => write!(out, "{got} of {wanted} bytes of body"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(failed: io::Error) -> Self {
        Self::Io(failed)
    }
}

// === impl Answer ===

/// The parser of an answer: takes the socket's bytes and passes on the body without its framing.
#[derive(Default)]
struct Answer {
    status: u16,
    framing: Option<Framing>,
    /// Whether the server will close the connection after this answer.
    closes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked(Chunk),
    UntilClose,
}

/// The position in the chunked coding (RFC 9112 §7.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Size(usize),
    /// The rest of the size line, to its line feed.
    SizeEnd(usize),
    Data(usize),
    /// The line end after the data.
    DataEnd,
    /// A line after the last chunk, of which this many bytes have come.
    Trailer(usize),
    Done,
}

impl Answer {
    /// Parses the head, if all of it has come, and returns its length.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut fields);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Fault::Malformed("head")),
        };
        self.status = head.code.unwrap_or(0);
        let mut framing = Framing::UntilClose;
        for field in head.headers {
            if field.name.eq_ignore_ascii_case("content-length") {
                let value = std::str::from_utf8(field.value).ok().and_then(|text| text.trim().parse().ok());
                framing = Framing::Length(value.ok_or(Fault::Malformed("content-length"))?);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked(Chunk::Size(0));
            } else if field.name.eq_ignore_ascii_case("connection") {
                self.closes = field.value.eq_ignore_ascii_case(b"close");
            }
        }
        self.closes |= framing == Framing::UntilClose;
        self.framing = Some(framing);
        Ok(Some(length))
    }

    fn is_complete(&self) -> bool {
        matches!(self.framing, Some(Framing::Length(0) | Framing::Chunked(Chunk::Done)))
    }

    /// Passes the body in `bytes` to `sink`.
    fn read_body(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(u16, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let status = self.status;
        match &mut self.framing {
            Some(Framing::Length(left)) => {
                let Some(rest) = left.checked_sub(bytes.len()) else {
                    return Err(Fault::Malformed("more than its content-length"));
                };
                *left = rest;
                sink(status, bytes)
            }
            Some(Framing::Chunked(chunk)) => {
                while let Some((&byte, rest)) = bytes.split_first() {
                    if let Chunk::Data(left) = *chunk {
                        let (data, rest) = bytes.split_at(left.min(bytes.len()));
                        *chunk =
                            if data.len() == left { Chunk::DataEnd } else { Chunk::Data(left - data.len()) };
                        bytes = rest;
                        sink(status, data)?;
                    } else {
                        *chunk = chunk.after(byte)?;
                        bytes = rest;
                    }
                }
                Ok(())
            }
            Some(Framing::UntilClose) | None => sink(status, bytes),
        }
    }

    /// Returns whether the connection may end here.
    fn end(&self) -> Result<(), Fault> {
        match self.framing {
            Some(Framing::UntilClose) => Ok(()),
            _ => Err(Fault::Io(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Chunk {
    /// Returns the state after a byte that is not data.
    fn after(self, byte: u8) -> Result<Self, Fault> {
        Ok(match (self, byte) {
            (Self::Size(0) | Self::SizeEnd(0), b'\n') => Self::Trailer(0),
            (Self::Size(size) | Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::Size(size), b'\r' | b';' | b' ') => Self::SizeEnd(size),
            (Self::Size(size), digit) => {
                let digit = (digit as char).to_digit(16).ok_or(Fault::Malformed("chunk size"))?;
                Self::Size(size.checked_mul(16).ok_or(Fault::Malformed("chunk size"))? + digit as usize)
            }
            (Self::SizeEnd(size), _) => Self::SizeEnd(size),
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::Size(0),
            (Self::DataEnd, _) => return Err(Fault::Malformed("end of a chunk")),
            (Self::Trailer(0), b'\n') => Self::Done,
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(seen), b'\r') => Self::Trailer(seen),
            (Self::Trailer(seen), _) => Self::Trailer(seen + 1),
            (Self::Data(_) | Self::Done, _) => return Err(Fault::Malformed("bytes after the end")),
        })
    }
}

// === impl Connection ===

/// A persistent connection to a target.
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// The body that an exchange must return.
#[derive(Clone, Copy)]
pub struct Expected {
    pub body: &'static [u8],
    /// Where the first content in it ends; for a plain answer, its length.
    pub first_delta: usize,
    /// Whether any digit may take the place of another: rewritten answers contain the time.
    pub digits_vary: bool,
}

impl Expected {
    fn holds(&self, at: usize, data: &[u8]) -> bool {
        let Some(wanted) = self.body.get(at..at + data.len()) else { return false };
        let is_digit_too =
            |(one, other): (&u8, &u8)| one == other || (one.is_ascii_digit() && other.is_ascii_digit());
        wanted == data || (self.digits_vary && wanted.iter().zip(data).all(is_digit_too))
    }
}

/// How long an exchange took, from before its first byte was sent.
#[derive(Clone, Copy)]
pub struct Timing {
    pub first_byte: Duration,
    pub first_delta: Duration,
    pub total: Duration,
    /// Whether the connection can carry another exchange.
    pub reusable: bool,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, buffer: vec![0; READ_BUFFER] })
    }

    /// Sends a request and reads its answer to the end, comparing it byte for byte.
    pub async fn exchange(&mut self, request: &[u8], expected: Expected) -> Result<Timing, Fault> {
        let started = Instant::now();
        self.socket.write_all(request).await?;

        let mut answer = Answer::default();
        let mut first_byte = None;
        let mut first_delta = None;
        let mut matched = 0;
        let mut refusal = Vec::new();
        let mut compare = |status: u16, data: &[u8]| {
            if status != 200 {
                refusal.extend_from_slice(&data[..data.len().min(200)]);
                return Ok(());
            }
            if !expected.holds(matched, data) {
                return Err(Fault::Altered(matched));
            }
            matched += data.len();
            if first_delta.is_none() && matched >= expected.first_delta {
                first_delta = Some(started.elapsed());
            }
            Ok(())
        };

        let mut filled = 0;
        while !answer.is_complete() {
            if filled == self.buffer.len() {
                return Err(Fault::Malformed("head over 64 KiB"));
            }
            let read = self.socket.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                answer.end()?;
                break;
            }
            first_byte.get_or_insert_with(|| started.elapsed());
            let mut bytes = &self.buffer[..filled + read];
            if answer.framing.is_none() {
                match answer.read_head(bytes)? {
                    Some(length) => bytes = &bytes[length..],
                    None => {
                        filled += read;
                        continue;
                    }
                }
            }
            answer.read_body(bytes, &mut compare)?;
            filled = 0;
        }

        let total = started.elapsed();
        if answer.status != 200 {
            return Err(Fault::Status(answer.status, String::from_utf8_lossy(&refusal).into_owned()));
        }
        match (first_byte, first_delta) {
            (Some(first_byte), Some(first_delta)) if matched == expected.body.len() => {
                Ok(Timing { first_byte, first_delta, total, reusable: !answer.closes })
            }
            _ => Err(Fault::Short(matched, expected.body.len())),
        }
    }
}

/// Builds the bytes of a request on a persistent connection.
pub fn request(method: &str, path: &str, bearer: &str, body: &[u8]) -> Vec<u8> {
    render(method, path, bearer, body, "")
}

fn render(method: &str, path: &str, bearer: &str, body: &[u8], more: &str) -> Vec<u8> {
    let mut bytes =
        format!("{method} {path} HTTP/1.1\r\nhost: bench.test\r\nauthorization: Bearer {bearer}\r\n{more}");
    if !body.is_empty() {
        bytes.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    bytes.push_str("accept: */*\r\nuser-agent: switchyard-bench\r\n\r\n");
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Does one blocking exchange on a connection of its own, with a time limit; returns status and body.
pub fn call(port: u16, method: &str, path: &str, bearer: &str, body: &[u8]) -> Result<(u16, Vec<u8>), Fault> {
    call_within(CALL_TIMEOUT, port, method, path, bearer, body)
}

/// Does what [`call`] does, with another limit for silence.
pub fn call_within(
    timeout: Duration,
    port: u16,
    method: &str,
    path: &str,
    bearer: &str,
    body: &[u8],
) -> Result<(u16, Vec<u8>), Fault> {
    let mut socket = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_nodelay(true)?;
    socket.write_all(&render(method, path, bearer, body, "connection: close\r\n"))?;

    let mut answer = Answer::default();
    let mut whole = Vec::new();
    let mut head = Vec::new();
    let mut buffer = vec![0; READ_BUFFER];
    let mut keep = |_, data: &[u8]| {
        whole.extend_from_slice(data);
        Ok(())
    };
    while !answer.is_complete() {
        let read = socket.read(&mut buffer)?;
        if read == 0 {
            answer.end()?;
            break;
        }
        if answer.framing.is_some() {
            answer.read_body(&buffer[..read], &mut keep)?;
        } else {
            head.extend_from_slice(&buffer[..read]);
            if let Some(length) = answer.read_head(&head)? {
                answer.read_body(&head[length..], &mut keep)?;
            }
        }
    }
    Ok((answer.status, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds an answer in pieces of `size` bytes; returns the body, and whether it is complete.
    fn read(answer: &[u8], size: usize) -> Result<(Vec<u8>, bool), Fault> {
        let mut reader = Answer::default();
        let mut body = Vec::new();
        let mut head = Vec::new();
        let mut keep = |_, data: &[u8]| {
            body.extend_from_slice(data);
            Ok(())
        };
        for piece in answer.chunks(size) {
            if reader.framing.is_some() {
                reader.read_body(piece, &mut keep)?;
            } else {
                head.extend_from_slice(piece);
                if let Some(length) = reader.read_head(&head)? {
                    reader.read_body(&head[length..], &mut keep)?;
                }
            }
        }
        let complete = reader.is_complete();
        Ok((body, complete))
    }

    #[test]
    fn a_chunked_body_is_read_however_it_is_cut() {
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\nhello\r\n1a;ext=1\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nx-trailer: 1\r\n\r\n";
        for size in 1..=answer.len() {
            let (body, complete) = read(answer, size).unwrap();
            assert_eq!(body, b"helloabcdefghijklmnopqrstuvwxyz");
            assert!(complete, "pieces of {size}");
        }
    }

    #[test]
    fn a_body_with_a_length_ends_there() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello";
        for size in 1..=answer.len() {
            assert_eq!(read(answer, size).unwrap(), (b"hello".to_vec(), true));
        }
        assert!(read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello!", 999).is_err());
    }

    #[test]
    fn other_digits_are_right_only_where_they_may_vary() {
        let expected = |digits_vary| Expected { body: b"at 17:00", first_delta: 0, digits_vary };
        for (data, exact, loose) in [
            (&b"17:00"[..], true, true),
            (b"18:05", false, true),
            (b"1x:00", false, false),
            (b"17:00 ", false, false),
        ] {
            assert_eq!(expected(false).holds(3, data), exact);
            assert_eq!(expected(true).holds(3, data), loose);
        }
    }

    #[test]
    fn a_broken_chunk_is_a_fault() {
        for body in ["zz\r\n", "1\r\nab\r\n", "0\r\n\r\nx"] {
            let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}");
            assert!(read(answer.as_bytes(), 999).is_err(), "{body:?}");
        }
    }
}
