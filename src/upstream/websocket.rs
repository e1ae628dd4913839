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

use bytes::Bytes;
use futures_util::SinkExt;
use hyper::StatusCode;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

use super::body::UpstreamBody;
use super::client::{Answer, Client};
use super::connection::DIES_WITHIN;
use super::error::{ErrorKind, SendError};
use super::http1::{AnswerHead, parse_answer};
use super::kept_sockets::{Socket, SocketHome, SocketKey};
use super::repeat::{ExchangeProgress, ReplyKind, RetryScope, SentPart};
use super::request::Request;
use super::socket_body::FrameBody;
use super::upgrade::upgrade;
use crate::dialect::convert::MAX_EVENT;
use crate::dialect::responses::socket::{self, Refusal};
use crate::routing::Origin;
use crate::websocket;

/// The most headers of an answer that are taken from frames; `MAX_FRAME_HEADER_BYTES` bounds their bytes.
const MAX_FRAME_HEADERS: usize = 64;
const MAX_FRAME_HEADER_BYTES: usize = 32 * 1024;

/// The result of an attempt to send a request over a WebSocket.
#[derive(Debug)]
pub enum SocketOutcome {
    Answer(Answer),
    /// The upstream opens none, or not now, and was asked nothing yet. Has its status, where it gave one.
    Refused(Option<StatusCode>),
}

impl Client {
    /// Sends `text` over the WebSocket of a conversation, or over one that is opened with the target and the headers of
    /// `request`. Returns the answer once the first frame that says something is there.
    ///
    /// # Errors
    /// When there is no connection, or it ended after the text was sent.
    pub async fn converse(
        &self,
        origin: &Arc<Origin>,
        request: Request,
        text: String,
        conversation: Option<SocketKey>,
    ) -> Result<SocketOutcome, SendError> {
        // A proxy that forwards single requests does not forward frames.
        if origin.forwarder().is_some() {
            return Ok(SocketOutcome::Refused(None));
        }
        let text = Utf8Bytes::from(text);
        let home = |opened| {
            let sockets = Arc::clone(&self.sockets);
            conversation.clone().map(|key| SocketHome { sockets, key, opened })
        };
        let began = Instant::now();
        let kept = conversation.as_ref().and_then(|key| self.sockets.checkout(key, began));
        if let Some((socket, opened)) = kept {
            let turn = Turn { home: home(opened), headers: Vec::new(), is_first: false };
            match turn.go(socket, text.clone()).await {
                Ok(answer) => return Ok(SocketOutcome::Answer(answer)),
                Err(error) if error.progress().retry_scope(request.work) == RetryScope::Here => {}
                // It was most likely closed because it was idle.
                Err(error) if began.elapsed() < DIES_WITHIN => return Err(error.expired()),
                Err(error) => return Err(error),
            }
        }
        let stream = self.open(origin).await?;
        let upgraded = match upgrade(stream, origin, request).await {
            Ok(upgraded) => upgraded,
            Err(refused) => return Ok(SocketOutcome::Refused(refused.map(|refused| refused.status))),
        };
        let headers = upgraded.headers.iter().filter_map(socket::header).collect();
        let turn = Turn { home: home(Instant::now()), headers, is_first: true };
        let socket = upgraded.into_socket(MAX_EVENT).await;
        turn.go(Box::new(socket), text).await.map(SocketOutcome::Answer)
    }
}

/// Builds a head as it would have come by HTTP.
fn head(status: u16, content_type: &str, headers: &[(String, String)]) -> Result<AnswerHead, SendError> {
    let mut text = format!("HTTP/1.1 {status} -\r\ncontent-type: {content_type}\r\n");
    for (name, value) in headers.iter().take(MAX_FRAME_HEADERS) {
        if text.len() + name.len() + value.len() < MAX_FRAME_HEADER_BYTES {
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
    /// The headers of the upgrade's answer that an answer by HTTP would have.
    headers: Vec<(String, String)>,
    /// Whether nothing was asked over the socket before.
    is_first: bool,
}

impl Turn {
    async fn go(self, mut socket: Box<Socket>, text: Utf8Bytes) -> Result<Answer, SendError> {
        let Self { home, headers, is_first } = self;
        let sent = async {
            websocket::feed(&mut *socket, Data::Text, Bytes::from(text)).await?;
            socket.flush().await
        };
        sent.await.map_err(|error| {
            let message = format!("the upstream closed its WebSocket before the request was sent ({error})");
            let progress = ExchangeProgress { written: SentPart::Part, came: ReplyKind::Nothing };
            SendError::new(ErrorKind::Closed, message).after(progress)
        })?;
        answer(FrameBody::new(socket, home), headers, is_first).await
    }
}

/// Waits for the first frame that is part of the answer. Limits that the upstream tells before it become headers, as
/// they are by HTTP.
async fn answer(
    mut body: FrameBody,
    mut headers: Vec<(String, String)>,
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
        if let Some(refusal) = refusal {
            headers.extend(refusal.headers);
            body.end_with(Bytes::from(refusal.body));
            let head = head(refusal.status, "application/json", &headers)?;
            return Ok(Answer { head, body: UpstreamBody::of_frames(body) });
        }
        match socket::event(&text) {
            None if headers.len() < MAX_FRAME_HEADERS => headers.extend(socket::limits(&text)),
            None => {}
            Some(event) => {
                body.begin_with(event);
                let head = head(200, "text/event-stream", &headers)?;
                return Ok(Answer { head, body: UpstreamBody::of_frames(body) });
            }
        }
    }
}
