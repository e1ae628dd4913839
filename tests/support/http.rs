//! A blocking HTTP/1.1 client over one `TcpStream`, made for tests: it sends any bytes it is given and shows any bytes that
//! come back.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::{SOON, description};

/// A client of the gateway: an address, and the headers sent with every request.
#[derive(Clone)]
pub struct Caller {
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

/// One request before it is sent.
#[derive(Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An open connection, which may carry several requests in sequence.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

/// An answer whose body is being read as it comes.
pub struct Stream {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    connection: Connection,
    framing: Framing,
    unread: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    ToTheEnd,
    Ended,
}

// === impl Caller ===

impl Caller {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, headers: Vec::new() }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(Request::new("GET", path))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send(Request::new("DELETE", path))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Request::new("POST", path).json(body))
    }

    pub fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Request::new("PUT", path).json(body))
    }

    /// Sends a request on a fresh connection and reads the whole answer.
    #[track_caller]
    pub fn send(&self, request: Request) -> Answer {
        let what = format!("{} {}", request.method, request.target);
        match self.try_send(request) {
            Ok(answer) => answer,
            Err(error) => panic!("{what}: {error}"),
        }
    }

    pub fn try_send(&self, request: Request) -> std::io::Result<Answer> {
        let head_only = request.method == "HEAD";
        let mut connection = Connection::try_open(self.address)?;
        let asked = description::Asked::of(&request.method, &request.target, &request.body);
        connection.write(&self.bytes(request))?;
        let answer = connection.read_answer(head_only)?;
        asked.hold(&answer);
        Ok(answer)
    }

    /// Sends a request on a fresh connection and reads the answer's head; the caller reads the body.
    #[track_caller]
    pub fn stream(&self, request: Request) -> Stream {
        let mut connection = Connection::open(self.address);
        connection.write(&self.bytes(request)).expect("request sent");
        connection.into_stream()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Returns the bytes of a request, including this caller's headers.
    pub fn bytes(&self, mut request: Request) -> Vec<u8> {
        let own = self.headers.iter().filter(|(name, _)| {
            let given = |(other, _): &(String, String)| other.eq_ignore_ascii_case(name);
            !request.headers.iter().any(given)
        });
        let own: Vec<_> = own.cloned().collect();
        request.headers.extend(own);
        request.bytes(self.address)
    }
}

// === impl Request ===

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.json_text(body.to_string())
    }

    /// Sets a body labelled as JSON, whatever it is.
    pub fn json_text(self, body: impl Into<Vec<u8>>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn bytes(self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let has = |name: &str| self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !has("host") {
            head += &format!("host: {address}\r\n");
        }
        let bodiless = matches!(self.method.as_str(), "GET" | "HEAD" | "DELETE" | "OPTIONS");
        let needs_length = !bodiless || !self.body.is_empty();
        if needs_length && !has("content-length") {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend(self.body);
        bytes
    }
}

// === impl Answer ===

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error} in {} {:?}", self.status, self.text()),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the JSON body of an answer that must have this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

// === impl Connection ===

impl Connection {
    #[track_caller]
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).expect("connected")
    }

    pub fn try_open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, SOON)?;
        stream.set_nodelay(true)?;
        // Longer than the gateway waits for a site before it says so.
        stream.set_read_timeout(Some(2 * SOON))?;
        stream.set_write_timeout(Some(SOON))?;
        Ok(Self { reader: BufReader::with_capacity(64 << 10, stream) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    pub fn read_answer(&mut self, head_only: bool) -> std::io::Result<Answer> {
        let (status, headers) = self.read_head()?;
        let mut framing = framing(status, &headers, head_only);
        let mut body = Vec::new();
        while let Some(piece) = self.read_piece(&mut framing)? {
            body.extend(piece);
        }
        Ok(Answer { status, headers, body })
    }

    /// Sends literal bytes and reads the answer.
    #[track_caller]
    pub fn exchange(&mut self, bytes: &[u8]) -> Answer {
        // A server that refuses early may close while we still write: only its answer counts.
        let _ = self.write(bytes);
        self.read_answer(false).expect("an answer")
    }

    #[track_caller]
    pub fn into_stream(mut self) -> Stream {
        let (status, headers) = self.read_head().expect("a response head");
        let framing = framing(status, &headers, false);
        Stream { status, headers, connection: self, framing, unread: Vec::new() }
    }

    /// Returns the reader of a connection whose protocol has changed.
    pub(super) fn into_reader(self) -> BufReader<TcpStream> {
        self.reader
    }

    /// Sets how long one read may take.
    pub fn set_timeout(&mut self, limit: Duration) {
        self.reader.get_ref().set_read_timeout(Some(limit)).expect("a time-out");
    }

    /// Returns whether the other side closes within `limit`; bytes that come before are discarded.
    pub fn closes_within(&mut self, limit: Duration) -> bool {
        let _ = self.reader.get_ref().set_read_timeout(Some(limit));
        let mut buffer = [0; 4096];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    fn read_line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn read_head(&mut self) -> std::io::Result<(u16, Vec<(String, String)>)> {
        loop {
            let status_line = self.read_line()?;
            let status = status_line.split(' ').nth(1).and_then(|s| s.parse().ok());
            let status: u16 = status.ok_or(ErrorKind::InvalidData)?;
            let mut headers = Vec::new();
            loop {
                let line = self.read_line()?;
                let Some((name, value)) = line.split_once(':') else {
                    break;
                };
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            if status != 100 {
                return Ok((status, headers));
            }
        }
    }

    /// Returns the next piece of a body as it came: one chunk, or the available bytes.
    fn read_piece(&mut self, framing: &mut Framing) -> std::io::Result<Option<Vec<u8>>> {
        match *framing {
            Framing::Ended | Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                let mut buffer = vec![0; left.min(64 << 10)];
                let read = self.reader.read(&mut buffer)?;
                if read == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                buffer.truncate(read);
                *framing = Framing::Length(left - read);
                Ok(Some(buffer))
            }
            Framing::ToTheEnd => {
                let mut buffer = vec![0; 64 << 10];
                let read = self.reader.read(&mut buffer)?;
                buffer.truncate(read);
                Ok((read > 0).then_some(buffer))
            }
            Framing::Chunked => {
                let line = self.read_line()?;
                let size = line.split(';').next().unwrap_or_default();
                let size = usize::from_str_radix(size, 16).map_err(|_| ErrorKind::InvalidData)?;
                if size == 0 {
                    while !self.read_line()?.is_empty() {}
                    *framing = Framing::Ended;
                    return Ok(None);
                }
                let mut chunk = vec![0; size];
                self.reader.read_exact(&mut chunk)?;
                self.read_line()?;
                Ok(Some(chunk))
            }
        }
    }
}

// === impl Stream ===

impl Stream {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the next piece of the body; `None` at its clean end, an error when it broke off.
    pub fn next_piece(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        self.connection.read_piece(&mut self.framing)
    }

    /// Returns the next server-sent event as it came, with its blank line; `None` at the end.
    pub fn next_event(&mut self) -> std::io::Result<Option<String>> {
        loop {
            if let Some(at) = find(&self.unread, b"\n\n") {
                let event: Vec<u8> = self.unread.drain(..at + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&event).into_owned()));
            }
            match self.next_piece()? {
                Some(piece) => self.unread.extend(piece),
                None if self.unread.is_empty() => return Ok(None),
                None => {
                    let rest = std::mem::take(&mut self.unread);
                    return Ok(Some(String::from_utf8_lossy(&rest).into_owned()));
                }
            }
        }
    }

    /// Returns the rest of the body, and how it ended.
    pub fn rest(mut self) -> (Vec<u8>, std::io::Result<()>) {
        let mut bytes = std::mem::take(&mut self.unread);
        loop {
            match self.next_piece() {
                Ok(Some(piece)) => bytes.extend(piece),
                Ok(None) => return (bytes, Ok(())),
                Err(error) => return (bytes, Err(error)),
            }
        }
    }

    /// Returns the whole answer; its body must end cleanly.
    #[track_caller]
    pub fn whole(self) -> Answer {
        let (status, headers) = (self.status, self.headers.clone());
        let (body, end) = self.rest();
        if let Err(error) = end {
            panic!("{error} after {:?}", String::from_utf8_lossy(&body));
        }
        Answer { status, headers, body }
    }

    /// Sets how long one read may take.
    pub fn set_timeout(&mut self, limit: Duration) {
        self.connection.set_timeout(limit);
    }
}

/// Returns the events of a whole stream, each with its blank line.
pub fn split_events(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    text.split_inclusive("\n\n").map(str::to_owned).collect()
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

fn framing(status: u16, headers: &[(String, String)], head_only: bool) -> Framing {
    if head_only || status == 204 || status == 304 || status < 200 {
        Framing::Ended
    } else if header(headers, "transfer-encoding").is_some() {
        Framing::Chunked
    } else if let Some(length) = header(headers, "content-length") {
        length.parse().map_or(Framing::ToTheEnd, Framing::Length)
    } else {
        Framing::ToTheEnd
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}
