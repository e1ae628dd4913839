//! A WebSocket to an upstream (RFC 6455) for requests of the responses dialect. The answers are read as if they came by
//! HTTP.
//!
//! ```text
//! upgrade ─▶ 101 ─▶ one text: the request ─▶ frames ─▶ an answer with a stream of events
//!    │                                          └ first an error with a status ─▶ an answer with that status
//!    └▶ anything else: nothing was asked, the request goes by HTTP
//! ```
//!
//! A socket serves one request at a time. After the last event it waits for the next turn of its conversation
//! ([`KeptSockets`](super::kept_sockets)), or is closed where it belongs to none. Pings are answered while the answer
//! is read.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use hyper::http::Method;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

use super::body::UpstreamBody;
use super::client::{Answer, Client};
use super::connection::DIES_WITHIN;
use super::error::{ErrorKind, SendError};
use super::http1::{AnswerHead, AnswerHeaders, parse_answer, write_request};
use super::kept_sockets::{Socket, SocketHome, SocketKey};
use super::repeat::{ExchangeProgress, ReplyKind, RetryScope, SentPart};
use super::request::Request;
use super::socket::{LONGEST_MESSAGE, UpstreamSocket};
use super::socket_body::FrameBody;
use super::stream::Stream;
use crate::dialect::convert::MAX_EVENT;
use crate::dialect::responses::socket::{self, Refusal};
use crate::routing::Origin;
use crate::websocket::{self, Fragmented, PongFirst};

/// The time limit for the answer to the upgrade.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// The most interim responses before the real one; more are taken for an attack.
const MAX_INTERIM: usize = 8;
/// The most headers of an answer that are taken from frames; `MAX_TOLD_BYTES` bounds their bytes.
const MAX_TOLD: usize = 64;
const MAX_TOLD_BYTES: usize = 32 * 1024;

/// The most bytes of a refusal's body that are read; `REFUSAL_TIMEOUT` bounds the time.
const MAX_REFUSAL: usize = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The answer of an upstream that opens no WebSocket.
#[derive(Debug)]
pub struct RefusedUpgrade {
    pub status: StatusCode,
    pub headers: AnswerHeaders,
    pub body: Bytes,
    /// Whether `body` is the whole body.
    pub is_whole: bool,
}

/// The result of an attempt to send a request over a WebSocket.
#[derive(Debug)]
pub enum Conversation {
    Answer(Answer),
    /// The upstream opens none, or not now, and was asked nothing yet. Has its status, where it gave one.
    Refused(Option<StatusCode>),
}

impl Client {
    /// Sends `text` over the WebSocket of a conversation, or over one that is opened with the target and the headers of
    /// `upgrade`. Returns the answer once the first frame that says something is there.
    ///
    /// # Errors
    /// When there is no connection, or it ended after the text was sent.
    pub async fn converse(
        &self,
        origin: &Arc<Origin>,
        upgrade: Request,
        text: String,
        conversation: Option<SocketKey>,
    ) -> Result<Conversation, SendError> {
        // A proxy that forwards single requests does not forward frames.
        if origin.forwarder().is_some() {
            return Ok(Conversation::Refused(None));
        }
        let text = Utf8Bytes::from(text);
        let home = |opened| {
            let sockets = Arc::clone(&self.sockets);
            conversation.clone().map(|key| SocketHome { sockets, key, opened })
        };
        let began = Instant::now();
        let kept = conversation.as_ref().and_then(|key| self.sockets.checkout(key, began));
        if let Some((socket, opened)) = kept {
            let turn = Turn { home: home(opened), told: Vec::new(), is_first: false };
            match turn.go(socket, text.clone()).await {
                Ok(answer) => return Ok(Conversation::Answer(answer)),
                Err(error) if error.progress().retry_scope(upgrade.work) == RetryScope::Here => {}
                // It was most likely closed because it was idle.
                Err(error) if began.elapsed() < DIES_WITHIN => return Err(error.expired()),
                Err(error) => return Err(error),
            }
        }
        let stream = self.open(origin).await?;
        let shaking = shake_hands(stream, origin, upgrade);
        let (head, stream, rest) = match tokio::time::timeout(HANDSHAKE, shaking).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(refused)) => return Ok(Conversation::Refused(refused.map(|refused| refused.status))),
            Err(_late) => return Ok(Conversation::Refused(None)),
        };
        let stream = upgraded(stream, rest, MAX_EVENT).await;
        let told = head.headers.iter().filter_map(socket::header).collect();
        let turn = Turn { home: home(Instant::now()), told, is_first: true };
        turn.go(Box::new(stream), text).await.map(Conversation::Answer)
    }

    /// Opens a WebSocket over which both ends send. Otherwise returns the answer that came instead, if one did.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn open_socket(
        &self,
        origin: &Arc<Origin>,
        upgrade: Request,
    ) -> Result<Result<UpstreamSocket, Option<Box<RefusedUpgrade>>>, SendError> {
        if origin.forwarder().is_some() {
            return Ok(Err(None));
        }
        let stream = self.open(origin).await?;
        let shaking = shake_hands(stream, origin, upgrade);
        let (_, stream, rest) = match tokio::time::timeout(HANDSHAKE, shaking).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(refused)) => return Ok(Err(refused)),
            Err(_late) => return Ok(Err(None)),
        };
        Ok(Ok(UpstreamSocket::new(upgraded(stream, rest, LONGEST_MESSAGE).await)))
    }
}

/// Makes an upgraded connection, of which `rest` has been read already, a WebSocket with messages of up to `longest` bytes
/// from the upstream.
async fn upgraded(stream: Stream, rest: BytesMut, longest: usize) -> Socket {
    let transport = PongFirst::new(Fragmented::new(stream, rest, longest));
    WebSocketStream::from_raw_socket(transport, Role::Client, Some(websocket::config(longest))).await
}

/// Reads the body of an answer that opens no socket, as far as the limits allow, and returns whether it is whole.
async fn refusal(head: &AnswerHead, stream: &mut Stream, mut input: BytesMut) -> (Bytes, bool) {
    let named = |name| head.headers.get(name).and_then(|value| std::str::from_utf8(value).ok());
    let length = named(&header::CONTENT_LENGTH).and_then(|length| length.trim().parse::<usize>().ok());
    let is_chunked = named(&header::TRANSFER_ENCODING).is_some();
    if named(&header::CONTENT_ENCODING).is_some() {
        return (Bytes::new(), false);
    }
    loop {
        let whole = match length {
            _ if is_chunked => dechunked(&input),
            Some(length) if input.len() >= length => Some(input.split_to(length).freeze()),
            _ => None,
        };
        if let Some(body) = whole {
            return (body, true);
        }
        if input.len() > MAX_REFUSAL {
            return (Bytes::new(), false);
        }
        match stream.read_buf(&mut input).await {
            Ok(0) if length.is_none() && !is_chunked => return (input.freeze(), true),
            Ok(0) | Err(_) => return (Bytes::new(), false),
            Ok(_) => {}
        }
    }
}

/// Returns the content of a chunked body (RFC 9112 §7.1) that has come to its end; `None` before.
fn dechunked(mut body: &[u8]) -> Option<Bytes> {
    let mut content = BytesMut::new();
    loop {
        let line = memchr::memmem::find(body, b"\r\n")?;
        let size = std::str::from_utf8(&body[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        body = &body[line + 2..];
        if size == 0 {
            return Some(content.freeze());
        }
        content.extend_from_slice(body.get(..size)?);
        body = body.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// Upgrades a connection. Returns the head of the 101, the connection, and what was read behind the head; fails with
/// the other answer, if there is one.
async fn shake_hands(
    mut stream: Stream,
    origin: &Origin,
    mut upgrade: Request,
) -> Result<(AnswerHead, Stream, BytesMut), Option<Box<RefusedUpgrade>>> {
    let mut nonce = [0; 16];
    SystemRandom::new().fill(&mut nonce).map_err(|_| None)?;
    let key = BASE64.encode(nonce);
    upgrade.method = Method::GET;
    let headers = &mut upgrade.headers;
    headers.set(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.set(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(websocket::VERSION));
    headers.set(header::SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key).map_err(|_| None)?);
    let mut asked = Vec::new();
    write_request(&mut asked, &upgrade, origin, 0);
    // The written head leaves `Connection` out; here the connection is to go on in another protocol.
    asked.truncate(asked.len() - b"\r\n".len());
    asked.extend_from_slice(b"connection: upgrade\r\n\r\n");
    stream.write_all(&asked).await.map_err(|_| None)?;
    stream.flush().await.map_err(|_| None)?;
    let mut input = BytesMut::with_capacity(websocket::BUFFER);
    let mut interim = 0;
    loop {
        match parse_answer(&input).map_err(|_| None)? {
            Some((head, length)) => {
                let _head = input.split_to(length);
                if head.status == StatusCode::SWITCHING_PROTOCOLS {
                    return if is_proven(&head.headers, &key) {
                        Ok((head, stream, input))
                    } else {
                        Err(None)
                    };
                }
                interim += 1;
                if !head.status.is_informational() || interim > MAX_INTERIM {
                    let body =
                        tokio::time::timeout(REFUSAL_TIMEOUT, refusal(&head, &mut stream, input)).await;
                    let (body, is_whole) = body.unwrap_or_default();
                    let AnswerHead { status, headers, .. } = head;
                    return Err(Some(Box::new(RefusedUpgrade { status, headers, body, is_whole })));
                }
            }
            None => {
                if stream.read_buf(&mut input).await.map_err(|_| None)? == 0 {
                    return Err(None);
                }
            }
        }
    }
}

/// Whether the answer proves that a WebSocket server has read the key (RFC 6455 §4.1).
fn is_proven(headers: &AnswerHeaders, key: &str) -> bool {
    let upgrades = headers.get(&header::UPGRADE).is_some_and(|to| to.eq_ignore_ascii_case(b"websocket"));
    let proof = headers.get(&header::SEC_WEBSOCKET_ACCEPT).map(<[u8]>::trim_ascii);
    let accept = websocket::accept(key.as_bytes());
    // Extensions and protocols that nobody asked for would change the frames.
    let is_plain = !headers.contains(&header::SEC_WEBSOCKET_EXTENSIONS)
        && !headers.contains(&header::SEC_WEBSOCKET_PROTOCOL);
    upgrades && is_plain && accept.is_some_and(|accept| proof == Some(accept.as_bytes()))
}

/// Builds a head as it would have come by HTTP.
fn head(status: u16, content_type: &str, told: &[(String, String)]) -> Result<AnswerHead, SendError> {
    let mut text = format!("HTTP/1.1 {status} -\r\ncontent-type: {content_type}\r\n");
    for (name, value) in told.iter().take(MAX_TOLD) {
        if text.len() + name.len() + value.len() < MAX_TOLD_BYTES {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str("\r\n");
    let unusable = |why: String| {
        SendError::new(ErrorKind::Protocol, why).after(ExchangeProgress::whole(ReplyKind::Answer))
    };
    match parse_answer(text.as_bytes()) {
        Ok(Some((head, _))) => Ok(head),
        Ok(None) => Err(unusable("the upstream's WebSocket answered without headers".to_owned())),
        Err(error) => {
            Err(unusable(format!("the upstream's WebSocket answered with invalid headers ({error})")))
        }
    }
}

/// One request over a socket.
struct Turn {
    /// Where the socket is kept afterwards.
    home: Option<SocketHome>,
    /// What the upgrade told that an answer by HTTP tells in headers.
    told: Vec<(String, String)>,
    /// Whether nothing was asked over the socket before.
    is_first: bool,
}

impl Turn {
    async fn go(self, mut socket: Box<Socket>, text: Utf8Bytes) -> Result<Answer, SendError> {
        let Self { home, told, is_first } = self;
        let sent = async {
            websocket::feed(&mut *socket, Data::Text, Bytes::from(text)).await?;
            socket.flush().await
        };
        sent.await.map_err(|error| {
            let message = format!("the upstream closed its WebSocket before the request was sent ({error})");
            let progress = ExchangeProgress { written: SentPart::Part, came: ReplyKind::Nothing };
            SendError::new(ErrorKind::Closed, message).after(progress)
        })?;
        answer(FrameBody::new(socket, home), told, is_first).await
    }
}

/// Waits for the first frame that is part of the answer. Limits that the upstream tells before it become headers, as
/// they are by HTTP.
async fn answer(
    mut body: FrameBody,
    mut told: Vec<(String, String)>,
    is_first: bool,
) -> Result<Answer, SendError> {
    loop {
        let frame = std::future::poll_fn(|cx| body.poll_text(cx)).await;
        let text = frame.map_err(|error| {
            SendError::new(error.kind(), error.message()).after(ExchangeProgress::whole(ReplyKind::Nothing))
        })?;
        let refusal = socket::refusal(&text);
        if !is_first && refusal.as_ref().is_some_and(Refusal::is_goodbye) {
            let error = SendError::new(ErrorKind::Closed, "the upstream asks for a new WebSocket".to_owned());
            return Err(error.after(ExchangeProgress::whole(ReplyKind::Goodbye)));
        }
        if let Some(Refusal { status, headers, body: refusal }) = refusal {
            told.extend(headers);
            body.end_with(Bytes::from(refusal));
            let head = head(status, "application/json", &told)?;
            return Ok(Answer { head, body: UpstreamBody::of_frames(body) });
        }
        match socket::event(&text) {
            None if told.len() < MAX_TOLD => told.extend(socket::limits(&text)),
            None => {}
            Some(event) => {
                body.begin_with(event);
                let head = head(200, "text/event-stream", &told)?;
                return Ok(Answer { head, body: UpstreamBody::of_frames(body) });
            }
        }
    }
}
