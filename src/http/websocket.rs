//! WebSocket (RFC 6455): the handshake, and the socket that the connection becomes.
//!
//! ```text
//! request ─ Upgrade ─▶ Handshake ─ accept ─▶ 101 ─▶ WebSocket ─ split ─▶ Sender, Receiver ─▶ close
//! ```
//!
//! The code shared with the upstream side is in [`crate::websocket`]. Pings are answered and close frames echoed only while
//! the receiver is being read, so it should always be read. A long message reserves memory out of what all bodies share
//! while it comes, and is not read further before. A writer that is faster than the client waits for it, and nothing is read
//! from a client that does not take its pongs; one that stops reading for good is cut off by the connection's own guard
//! (`stream`).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http_body::Body;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::select;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::stop::{StopStage, reached};
use super::upgrade::Upgrade;
use super::{Request, Response, ResponseBody};
use crate::limits::{FREE_BODY, HeldMemory, OutOfBodyMemory};
use crate::sync::lock;
use crate::websocket::{self, BUFFER, Fragmented, PongFirst, Pongs, Unsent, VERSION, accept};

/// A long message reserves this many times the bytes that have come so far.
const STEP: usize = 4;
/// The most bytes that are read of one message, heads of its fragments included, as a multiple of the longest one.
const MOST_READ: usize = 2;
/// The bytes of a client's control frame before its payload (RFC 6455 §5.2).
const CONTROL_HEAD: usize = 6;
/// How long a client may take to close a socket.
const CLOSING: Duration = Duration::from_secs(2);

/// A valid request for a WebSocket.
pub struct Handshake {
    upgrade: Upgrade,
    accept: HeaderValue,
}

/// Why a request for a WebSocket is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHandshake {
    /// No upgrade, or to another protocol.
    NotAsked,
    Method,
    Version,
    Key,
    Body,
}

/// The byte stream below: a client's connection, or a pipe in a test.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

type Stream = WebSocketStream<Metered>;

/// A transport that reads only as long as there is room.
struct Metered {
    transport: PongFirst<Fragmented<Box<dyn Transport>>>,
    meter: Arc<Meter>,
}

/// Counts the bytes read since the last whole message, and the room reserved for the next one.
struct Meter {
    /// The longest message, in bytes.
    longest: usize,
    state: Mutex<MeterState>,
}

struct MeterState {
    read: usize,
    room: usize,
    /// The reading task while it waits for room.
    reader: Option<Waker>,
    /// The task that makes room.
    receiver: Option<Waker>,
}

/// One open socket.
pub struct WebSocket {
    stream: Stream,
    meter: Arc<Meter>,
    pongs: Arc<Pongs>,
    stop: watch::Receiver<StopStage>,
}

/// The sending half, for frames to the client.
pub struct Sender {
    sink: SplitSink<Stream, Message>,
    /// The rest of the last message, if nobody waited for its end.
    unsent: Option<Unsent>,
}

/// The receiving half, for frames of the client.
pub struct Receiver {
    stream: SplitStream<Stream>,
    meter: Arc<Meter>,
    pongs: Arc<Pongs>,
}

/// The stop signal of the service.
pub struct Stopping(watch::Receiver<StopStage>);

/// A message or a control frame of the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole UTF-8 message, however many fragments it came in.
    Text(Bytes),
    Binary(Bytes),
    /// A ping or a pong: the client is alive.
    Alive,
}

/// Why a socket ends (RFC 6455 §7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed it, or is gone.
    Theirs,
    Done,
    GoingAway,
    ProtocolError,
    NoBinary,
    NotUtf8,
    Policy(&'static str),
    TooBig,
    /// There is no memory for a long message.
    NoRoom,
    /// The task that the socket was opened for failed.
    Failed(&'static str),
}

/// The error of writing to a client that is gone.
#[derive(Debug)]
pub struct ClientGone;

// === impl Handshake ===

impl Handshake {
    /// Returns whether a request asks for a WebSocket at all, even incorrectly.
    pub fn is_asked(request: &Request) -> bool {
        request.upgrade.is_some() && names(&request.headers, header::UPGRADE, "websocket")
    }

    /// Checks the client's side of the handshake (RFC 6455 §4.2.1).
    pub fn of(request: &mut Request) -> Result<Self, BadHandshake> {
        if !Self::is_asked(request) || !names(&request.headers, header::CONNECTION, "upgrade") {
            return Err(BadHandshake::NotAsked);
        }
        if request.method != hyper::Method::GET {
            return Err(BadHandshake::Method);
        }
        let is_version = |value: &HeaderValue| value.as_bytes().trim_ascii() == VERSION.as_bytes();
        if !request.headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(is_version) {
            return Err(BadHandshake::Version);
        }
        if !request.body.is_end_stream() {
            return Err(BadHandshake::Body);
        }
        let key = request.headers.get(header::SEC_WEBSOCKET_KEY).map(|key| key.as_bytes().trim_ascii());
        let key = key.filter(|key| BASE64.decode(key).is_ok_and(|nonce| nonce.len() == 16));
        let accept = key.and_then(accept).ok_or(BadHandshake::Key)?;
        let upgrade = request.upgrade.take().ok_or(BadHandshake::NotAsked)?;
        Ok(Self { upgrade, accept })
    }

    /// Builds the answer that grants the request. `serve` runs with the socket once the answer is sent. A message of the
    /// client may be up to `max_message` bytes long.
    pub fn accept<F>(
        self,
        max_message: usize,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Upgrade { socket, upgrade_slot } = self.upgrade;
        let stop = upgrade_slot.stop();
        upgrade_slot.set(async move {
            match socket.await {
                Ok(upgraded) => {
                    let transport = Box::new(TokioIo::new(upgraded));
                    serve(WebSocket::new(transport, max_message, stop).await).await;
                }
                Err(error) => log::debug!("a WebSocket could not be opened: {error}"),
            }
        });
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        response
    }
}

/// Returns whether a header that lists tokens contains this one.
pub fn names(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    headers.get_all(name).iter().any(|value| {
        let value = value.to_str().unwrap_or_default();
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token))
    })
}

// === impl BadHandshake ===

impl BadHandshake {
    pub fn status(self) -> u16 {
        match self {
            Self::NotAsked | Self::Version => 426,
            Self::Method | Self::Key | Self::Body => 400,
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::NotAsked => "Send Connection: Upgrade and Upgrade: websocket",
            Self::Method => "Use GET to open a WebSocket",
            Self::Version => "The only supported WebSocket version is 13",
            Self::Key => "Sec-WebSocket-Key must be 16 bytes in base64",
            Self::Body => "A request to open a WebSocket must have no body",
        }
    }

    /// Adds the header that tells the client what to send on its next try (RFC 6455 §4.4).
    pub fn advise(self, headers: &mut HeaderMap) {
        if self == Self::Version {
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        }
    }
}

// === impl WebSocket ===

impl WebSocket {
    async fn new(
        transport: Box<dyn Transport>,
        max_message: usize,
        stop: watch::Receiver<StopStage>,
    ) -> Self {
        let config = websocket::config(max_message);
        let meter = Arc::new(Meter::new(max_message));
        let transport = PongFirst::new(Fragmented::new(transport, BytesMut::new(), max_message));
        let pongs = transport.pongs().clone();
        let transport = Metered { transport, meter: meter.clone() };
        let stream = WebSocketStream::from_raw_socket(transport, Role::Server, Some(config)).await;
        Self { stream, meter, pongs, stop }
    }

    /// Creates the gateway's end of a pipe.
    #[cfg(test)]
    pub async fn on(pipe: tokio::io::DuplexStream, stop: watch::Receiver<StopStage>) -> Self {
        Self::new(Box::new(pipe), 1 << 20, stop).await
    }

    pub fn split(self) -> (Sender, Receiver, Stopping) {
        let (sink, stream) = self.stream.split();
        (
            Sender { sink, unsent: None },
            Receiver { stream, meter: self.meter, pongs: self.pongs },
            Stopping(self.stop),
        )
    }
}

// === impl Meter ===

impl Meter {
    fn new(longest: usize) -> Self {
        let state = MeterState { read: 0, room: FREE_BODY, reader: None, receiver: None };
        Self { longest, state: Mutex::new(state) }
    }

    /// Starts counting anew, for the next message or the rest of one.
    fn begin(&self) {
        let mut state = lock(&self.state);
        (state.read, state.room) = (0, FREE_BODY);
    }

    /// Subtracts bytes that turned out not to belong to the message.
    fn pass(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.read = state.read.saturating_sub(bytes);
    }

    /// Waits until all the room is taken; returns how much has been read by then.
    async fn is_full(&self) -> usize {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if state.read >= state.room {
                return Poll::Ready(state.read);
            }
            state.receiver = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn make_room(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.room = bytes;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

// === impl Metered ===

impl AsyncRead for Metered {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { transport, meter } = self.get_mut();
        {
            let mut state = lock(&meter.state);
            if state.read >= state.room {
                state.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        let before = buffer.filled().len();
        ready!(Pin::new(transport).poll_read(context, buffer))?;
        let mut state = lock(&meter.state);
        state.read += buffer.filled().len() - before;
        if state.read >= state.room
            && let Some(receiver) = state.receiver.take()
        {
            receiver.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(context)
    }
}

impl Stopping {
    /// Waits until the service stops.
    pub async fn requested(&mut self) {
        reached(&mut self.0, StopStage::Draining).await;
    }

    /// Waits until the grace period of the stop is over.
    pub async fn grace_over(&mut self) {
        reached(&mut self.0, StopStage::Cutting).await;
    }
}

// === impl Sender ===

impl Sender {
    /// Sends texts, one message each, and waits until the connection has taken them.
    pub async fn texts(&mut self, texts: impl IntoIterator<Item = String>) -> Result<(), ClientGone> {
        for text in texts {
            self.feed(Data::Text, Bytes::from(text)).await?;
        }
        self.sink.flush().await.map_err(gone)
    }

    /// Sends binary data, and waits until the connection has taken it.
    pub async fn binary(&mut self, bytes: Bytes) -> Result<(), ClientGone> {
        self.feed(Data::Binary, bytes).await?;
        self.sink.flush().await.map_err(gone)
    }

    /// Feeds one message, after the rest of the last one.
    async fn feed(&mut self, kind: Data, payload: Bytes) -> Result<(), ClientGone> {
        websocket::feed_unsent(&mut self.sink, &mut self.unsent).await.map_err(gone)?;
        self.unsent = Some(Unsent::new(kind, payload));
        websocket::feed_unsent(&mut self.sink, &mut self.unsent).await.map_err(gone)
    }

    pub async fn ping(&mut self) -> Result<(), ClientGone> {
        self.sink.send(Message::Ping(Bytes::new())).await.map_err(gone)
    }
}

fn gone(error: Error) -> ClientGone {
    log::debug!("a WebSocket cannot be written to: {error}");
    ClientGone
}

// === impl Receiver ===

impl Receiver {
    /// Returns the next message or control frame, or why the socket ends. A message longer than `FREE_BODY` reserves its
    /// space in `memory` while it comes.
    pub async fn next(&mut self, memory: &mut HeldMemory) -> Result<Received, CloseReason> {
        loop {
            let Self { stream, meter, pongs } = self;
            select! {
                biased;
                message = stream.next() => {
                    if matches!(message, Some(Ok(Message::Ping(_)))) {
                        pongs.ping_received();
                    }
                    match &message {
                        // It may have come within a long message.
                        Some(Ok(Message::Ping(said) | Message::Pong(said))) => meter.pass(said.len() + CONTROL_HEAD),
                        _ => meter.begin(),
                    }
                    return received(message);
                }
                read = meter.is_full() => {
                    // The heads of fragments are not held, and only so many of them are read.
                    if read > meter.longest.saturating_mul(MOST_READ) {
                        return Err(CloseReason::TooBig);
                    }
                    let held = read.saturating_mul(STEP).min(meter.longest);
                    // Boxed, so that the wait for memory does not enlarge the future of every idle socket.
                    Box::pin(memory.grow_to(held)).await.map_err(|OutOfBodyMemory| CloseReason::NoRoom)?;
                    meter.make_room(held.max(read + BUFFER));
                }
            }
        }
    }
}

fn received(message: Option<Result<Message, Error>>) -> Result<Received, CloseReason> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Received::Text(Bytes::from(text))),
        Some(Ok(Message::Binary(bytes))) => Ok(Received::Binary(bytes)),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(Received::Alive),
        Some(Ok(Message::Close(_))) | None => Err(CloseReason::Theirs),
        Some(Err(error)) => {
            log::debug!("a WebSocket cannot be read: {error}");
            Err(match error {
                Error::Capacity(_) => CloseReason::TooBig,
                Error::Utf8(_) => CloseReason::NotUtf8,
                Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => CloseReason::Theirs,
                Error::Protocol(_) | Error::AttackAttempt => CloseReason::ProtocolError,
                _ => CloseReason::Theirs,
            })
        }
    }
}

// === impl CloseReason ===

impl CloseReason {
    fn frame(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            Self::Theirs => return None,
            Self::Done => (CloseCode::Normal, ""),
            Self::GoingAway => (CloseCode::Away, "the service is stopping"),
            Self::ProtocolError => (CloseCode::Protocol, "the frames are not valid by RFC 6455"),
            Self::NoBinary => (CloseCode::Unsupported, "only text frames are supported"),
            Self::NotUtf8 => (CloseCode::Invalid, "a text frame is not UTF-8"),
            Self::Policy(reason) => (CloseCode::Policy, reason),
            Self::Failed(reason) => (CloseCode::Error, reason),
            Self::TooBig => (CloseCode::Size, "the message is too big"),
            Self::NoRoom => (CloseCode::Again, "no memory is free for the message, try again later"),
        };
        Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) })
    }
}

/// Closes a socket: sends a close frame if the client has not, and gives the client a moment to see it. Whatever the client
/// still sends is read and discarded, because closing a connection with unread bytes resets it, and the close frame would
/// be lost.
pub async fn close(sender: Sender, receiver: Receiver, reason: CloseReason) {
    let mut sink = sender.sink;
    receiver.meter.make_room(usize::MAX);
    let closing = async {
        let said = match reason.frame() {
            Some(frame) => sink.send(Message::Close(Some(frame))).await,
            None => sink.flush().await,
        };
        let mut transport = match (said, sink.reunite(receiver.stream)) {
            (Ok(()), Ok(stream)) => stream.into_inner(),
            _ => return,
        };
        let mut scrap = vec![0; BUFFER];
        if transport.shutdown().await.is_ok() {
            while let Ok(1..) = transport.read(&mut scrap).await {}
        }
    };
    if timeout(CLOSING, closing).await.is_err() {
        log::debug!("the client of a WebSocket did not complete its close");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_any_case_and_any_line() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, HeaderValue::from_static("keep-alive"));
        headers.append(header::CONNECTION, HeaderValue::from_static("close, uPgRaDe"));
        assert!(names(&headers, header::CONNECTION, "upgrade"));
        assert!(!names(&headers, header::CONNECTION, "grade"));
        assert!(!names(&headers, header::UPGRADE, "websocket"));
    }

    #[tokio::test]
    async fn a_message_that_nobody_waits_for_is_sent_whole_before_the_next() {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (_stop, stopping) = watch::channel(StopStage::Serving);
        let (mut sender, _receiver, _) = WebSocket::on(ours, stopping).await.split();
        let long = "x".repeat(1 << 20);
        assert!(timeout(Duration::ZERO, sender.texts([long.clone()])).await.is_err(), "nobody reads yet");
        tokio::spawn(async move { sender.texts(["short".to_owned()]).await });
        let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
        for text in [long, "short".to_owned()] {
            let message = client.next().await.expect("a message").expect("a message");
            assert!(message == Message::text(text));
        }
    }
}
