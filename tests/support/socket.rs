//! A blocking WebSocket client (RFC 6455), written independently of the gateway's implementation, so that a shared mistake
//! shows. It masks and frames by itself, so a test may send any bytes.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Answer, Caller, Request};

pub const CONTINUED: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
const PONG: u8 = 10;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// An open socket.
pub struct Socket {
    reader: BufReader<TcpStream>,
    /// The kind of the message whose fragments are being read, and its payload so far.
    begun: Option<(u8, Vec<u8>)>,
    /// The answer that opened it.
    pub opened: Answer,
}

/// A frame from the gateway, or the end of the connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    Text(Value),
    Binary(Vec<u8>),
    Ping,
    Pong(Vec<u8>),
    /// A close frame with its code; 1005 if it has none.
    Close(u16),
    /// The connection has been closed.
    End,
}

impl Caller {
    /// Builds the request that opens a socket; the key is the one in RFC 6455 §1.3.
    pub fn socket_ask(path: &str) -> Request {
        Request::new("GET", path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    /// Opens a socket at `/v1/responses`.
    #[track_caller]
    pub fn socket(&self) -> Socket {
        self.try_socket(Self::socket_ask("/v1/responses")).unwrap_or_else(|answer| panic!("{answer:?}"))
    }

    /// Opens a socket, or returns the answer that refused it.
    pub fn try_socket(&self, ask: Request) -> Result<Socket, Answer> {
        let mut connection = self.connect();
        connection.write(&self.bytes(ask)).expect("sent");
        let opened = connection.read_answer(false).expect("an answer");
        if opened.status != 101 {
            return Err(opened);
        }
        Ok(Socket { reader: connection.into_reader(), begun: None, opened })
    }
}

impl Socket {
    // === sending ===

    pub fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string());
    }

    pub fn send_text(&mut self, text: &str) {
        self.frame(true, TEXT, text.as_bytes());
    }

    /// Sends a `response.create` with these members.
    pub fn create(&mut self, members: &Value) {
        let mut frame = members.clone();
        frame["type"] = json!("response.create");
        self.send(&frame);
    }

    pub fn close(&mut self, code: u16) {
        self.frame(true, CLOSE, &code.to_be_bytes());
    }

    /// Sends several frames in one write.
    pub fn send_at_once(&mut self, frames: &[Value]) {
        let bytes = frames.iter().flat_map(|frame| masked(true, TEXT, frame.to_string().as_bytes()));
        self.write(&bytes.collect::<Vec<u8>>());
    }

    /// Sends one frame, masked as the standard requires.
    pub fn frame(&mut self, is_last: bool, kind: u8, payload: &[u8]) {
        self.write(&masked(is_last, kind, payload));
    }

    /// Sends literal bytes. An error is ignored: after a close frame, nobody may read any more.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Sends whole frames of this kind until they are `most` bytes, or the gateway takes no more for a second.
    pub fn flood(&mut self, kind: u8, payload: &[u8], most: usize) {
        self.flood_with(true, kind, payload, most);
    }

    /// Does the same with whole frames or fragments.
    pub fn flood_with(&mut self, is_last: bool, kind: u8, payload: &[u8], most: usize) {
        let frames = masked(is_last, kind, payload).repeat(512);
        let stream = self.reader.get_mut();
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a time-out");
        let mut sent = 0;
        while sent < most && stream.write_all(&frames).is_ok() {
            sent += frames.len();
        }
    }

    /// Ends the connection without a close frame.
    pub fn hang_up(self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Both);
    }

    // === receiving ===

    /// Returns the next frame of any kind.
    #[track_caller]
    pub fn next(&mut self) -> Incoming {
        match self.read_message() {
            Ok(incoming) => incoming,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Incoming::End,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Incoming::End,
            Err(error) => panic!("no frame: {error}"),
        }
    }

    /// Returns the next event, skipping pings and pongs.
    #[track_caller]
    pub fn event(&mut self) -> Value {
        loop {
            match self.next() {
                Incoming::Text(event) => return event,
                Incoming::Ping | Incoming::Pong(_) => {}
                other => panic!("no event but {other:?}"),
            }
        }
    }

    /// Returns the events of a turn, up to the one that ends it.
    #[track_caller]
    pub fn turn(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event();
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            events.push(event);
            if matches!(
                kind.as_str(),
                "response.completed" | "response.incomplete" | "response.failed" | "error"
            ) {
                return events;
            }
        }
    }

    /// Returns the code with which the gateway closes; the connection must end after that.
    #[track_caller]
    pub fn closed_with(&mut self) -> u16 {
        let code = match self.next() {
            Incoming::Close(code) => code,
            other => panic!("no close frame but {other:?}"),
        };
        self.frame(true, CLOSE, &code.to_be_bytes());
        assert_eq!(self.next(), Incoming::End);
        code
    }

    /// Returns whether nothing comes within `limit`.
    pub fn is_silent_for(&mut self, limit: Duration) -> bool {
        let socket = self.reader.get_ref();
        let usual = socket.read_timeout().expect("a time-out");
        socket.set_read_timeout(Some(limit)).expect("a time-out");
        let peeked = socket.peek(&mut [0]);
        socket.set_read_timeout(usual).expect("a time-out");
        self.reader.buffer().is_empty()
            && peeked.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Reads a whole message, or a control frame that comes before its last fragment.
    fn read_message(&mut self) -> std::io::Result<Incoming> {
        loop {
            let (is_last, kind, mut payload) = self.read_frame()?;
            let kind = match self.begun.take() {
                begun if kind >= CLOSE => {
                    self.begun = begun;
                    kind
                }
                Some((begun, mut before)) => {
                    assert_eq!(kind, CONTINUED, "a message ends before the next one");
                    before.append(&mut payload);
                    payload = before;
                    begun
                }
                None => kind,
            };
            if is_last {
                return Ok(self.incoming(kind, payload));
            }
            self.begun = Some((kind, payload));
        }
    }

    /// Reads a frame: whether it is the last one of its message, its kind, and its payload.
    fn read_frame(&mut self) -> std::io::Result<(bool, u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.reader.read_exact(&mut head)?;
        assert_eq!(head[0] & 0x70, 0, "no extension was agreed on");
        assert_eq!(head[1] & 0x80, 0, "a server does not mask");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.reader.read_exact(&mut length)?;
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.reader.read_exact(&mut length)?;
                usize::try_from(u64::from_be_bytes(length)).expect("a length")
            }
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        self.reader.read_exact(&mut payload)?;
        Ok((head[0] & 0x80 != 0, head[0] & 0x0f, payload))
    }

    fn incoming(&mut self, kind: u8, payload: Vec<u8>) -> Incoming {
        match kind {
            TEXT => Incoming::Text(serde_json::from_slice(&payload).expect("each frame is one JSON object")),
            BINARY => Incoming::Binary(payload),
            PING => {
                self.frame(true, PONG, &payload);
                Incoming::Ping
            }
            PONG => Incoming::Pong(payload),
            CLOSE => Incoming::Close(match payload[..] {
                [high, low, ..] => u16::from_be_bytes([high, low]),
                _ => 1005,
            }),
            other => panic!("a frame of kind {other}"),
        }
    }
}

fn masked(is_last: bool, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(is_last, kind, payload.len(), true);
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Builds the beginning of a frame, up to its mask.
pub fn head(is_last: bool, kind: u8, length: usize, is_masked: bool) -> Vec<u8> {
    let mask = if is_masked { 0x80 } else { 0 };
    let mut bytes = vec![if is_last { 0x80 } else { 0 } | kind];
    match length {
        0..126 => bytes.push(mask | length as u8),
        126..65536 => {
            bytes.push(mask | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(mask | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes
}
