//! The opening handshake of a WebSocket to an upstream (RFC 6455 §4).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Buf, Bytes, BytesMut};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use hyper::http::Method;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::http1::{AnswerHead, AnswerHeaders, Framing, FramingStep, parse_answer, write_request};
use super::kept_sockets::Socket;
use super::request::Request;
use super::stream::Stream;
use crate::routing::Origin;
use crate::websocket::{self, Fragmented, PongFirst};

/// The time limit for the answer to the upgrade.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// The most interim responses before the real one; more are taken for an attack.
const MAX_INTERIM: usize = 8;

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

/// A connection that the upstream has upgraded.
pub(super) struct Upgraded {
    pub headers: AnswerHeaders,
    stream: Stream,
    /// The bytes that were read behind the head.
    rest: BytesMut,
}

impl Upgraded {
    /// Makes it a WebSocket with messages of up to `longest` bytes from the upstream.
    pub(super) async fn into_socket(self, longest: usize) -> Socket {
        let transport = PongFirst::new(Fragmented::new(self.stream, self.rest, longest));
        WebSocketStream::from_raw_socket(transport, Role::Client, Some(websocket::config(longest))).await
    }
}

/// Upgrades a connection.
///
/// # Errors
/// Returns the answer that came instead of a 101, if there is one.
pub(super) async fn upgrade(
    stream: Stream,
    origin: &Origin,
    request: Request,
) -> Result<Upgraded, Option<Box<RefusedUpgrade>>> {
    timeout(HANDSHAKE, shake_hands(stream, origin, request)).await.unwrap_or(Err(None))
}

async fn shake_hands(
    mut stream: Stream,
    origin: &Origin,
    request: Request,
) -> Result<Upgraded, Option<Box<RefusedUpgrade>>> {
    let key = new_key().ok_or(None)?;
    let request = upgrade_request(request, origin, &key).ok_or(None)?;
    stream.write_all(&request).await.map_err(|_| None)?;
    stream.flush().await.map_err(|_| None)?;
    let mut input = BytesMut::with_capacity(websocket::BUFFER);
    let mut interim = 0;
    loop {
        let Some((mut head, length)) = parse_answer(&input).map_err(|_| None)? else {
            if stream.read_buf(&mut input).await.map_err(|_| None)? == 0 {
                return Err(None);
            }
            continue;
        };
        let _head = input.split_to(length);
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let is_proven = is_proven(&head.headers, &key);
            return if is_proven {
                Ok(Upgraded { headers: head.headers, stream, rest: input })
            } else {
                Err(None)
            };
        }
        interim += 1;
        if !head.status.is_informational() || interim > MAX_INTERIM {
            let body =
                timeout(REFUSAL_TIMEOUT, refusal_body(&mut head, &mut stream, input)).await.ok().flatten();
            let AnswerHead { status, headers, .. } = head;
            let is_whole = body.is_some();
            return Err(Some(Box::new(RefusedUpgrade {
                status,
                headers,
                body: body.unwrap_or_default(),
                is_whole,
            })));
        }
    }
}

/// Makes a `Sec-WebSocket-Key`; `None` where the system has no random numbers.
fn new_key() -> Option<String> {
    let mut nonce = [0; 16];
    SystemRandom::new().fill(&mut nonce).ok()?;
    Some(BASE64.encode(nonce))
}

/// Writes the request for an upgrade.
fn upgrade_request(mut request: Request, origin: &Origin, key: &str) -> Option<Vec<u8>> {
    request.method = Method::GET;
    let headers = &mut request.headers;
    headers.set(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.set(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(websocket::VERSION));
    headers.set(header::SEC_WEBSOCKET_KEY, HeaderValue::from_str(key).ok()?);
    let mut written = Vec::new();
    write_request(&mut written, &request, origin, 0);
    // The written head leaves `Connection` out; here the connection is to go on in another protocol.
    written.truncate(written.len() - b"\r\n".len());
    written.extend_from_slice(b"connection: upgrade\r\n\r\n");
    Some(written)
}

/// Reads the body of an answer that opens no socket; `None` where it cannot be read whole within the limits.
async fn refusal_body(head: &mut AnswerHead, stream: &mut Stream, mut input: BytesMut) -> Option<Bytes> {
    if head.headers.contains(&header::CONTENT_ENCODING) {
        return None;
    }
    let framing = &mut head.framing;
    let (mut body, mut read) = (BytesMut::new(), input.len());
    loop {
        while !input.is_empty() && !framing.is_ended() {
            let FramingStep { coding, data } = framing.step(&input).ok()?;
            input.advance(coding);
            body.extend_from_slice(&input.split_to(data));
        }
        if framing.is_ended() {
            return Some(body.freeze());
        }
        if read > MAX_REFUSAL {
            return None;
        }
        match stream.read_buf(&mut input).await {
            Ok(0) if matches!(framing, Framing::UntilClose) => return Some(body.freeze()),
            Ok(0) | Err(_) => return None,
            Ok(count) => read += count,
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
