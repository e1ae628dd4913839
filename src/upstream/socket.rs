//! An open WebSocket to an upstream over which both ends send whole messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::client::Client;
use super::error::SendError;
use super::kept_sockets::Socket;
use super::request::Request;
use super::upgrade::{RefusedUpgrade, upgrade};
use crate::routing::Origin;
use crate::websocket::{Pongs, feed};

/// The longest message that is accepted from an upstream, in bytes.
const LONGEST_MESSAGE: usize = 16 << 20;
/// The longest time for sending a close frame.
const CLOSING: Duration = Duration::from_secs(2);

/// An open WebSocket to an upstream.
pub struct UpstreamSocket(Socket);

/// Why no socket was opened.
#[derive(Debug)]
pub enum OpenError {
    /// No connection to the upstream could be made.
    Unreachable(SendError),
    /// The upstream opens no socket. Holds the answer that came instead, if one did.
    Refused(Option<Box<RefusedUpgrade>>),
}

/// The sending half of a socket.
pub struct SocketSender(SplitSink<Socket, Message>);

/// The receiving half of a socket. Pings are answered while it is read.
pub struct SocketReceiver {
    stream: SplitStream<Socket>,
    pongs: Arc<Pongs>,
}

/// A message from an upstream, or the end of its messages.
#[derive(Debug)]
pub enum FromUpstream {
    Text(String),
    Binary(Bytes),
    /// The upstream has closed the socket in order.
    Closed,
    /// Nothing more comes, for this reason, which is for the log.
    Broken(String),
}

/// The error of sending to an upstream that is gone.
#[derive(Debug)]
pub struct UpstreamGone;

impl Client {
    /// Opens a WebSocket over which both ends send.
    pub async fn open_socket(
        &self,
        origin: &Arc<Origin>,
        request: Request,
    ) -> Result<UpstreamSocket, OpenError> {
        // A proxy that forwards single requests does not forward frames.
        if origin.forwarder().is_some() {
            return Err(OpenError::Refused(None));
        }
        let stream = self.open(origin).await.map_err(OpenError::Unreachable)?;
        let upgraded = upgrade(stream, origin, request).await.map_err(OpenError::Refused)?;
        Ok(UpstreamSocket(upgraded.into_socket(LONGEST_MESSAGE).await))
    }
}

// === impl UpstreamSocket ===

impl UpstreamSocket {
    pub fn split(self) -> (SocketSender, SocketReceiver) {
        let pongs = self.0.get_ref().pongs().clone();
        let (sink, stream) = self.0.split();
        (SocketSender(sink), SocketReceiver { stream, pongs })
    }
}

// === impl SocketSender ===

impl SocketSender {
    /// Sends a text, and waits until the connection has taken it.
    pub async fn send(&mut self, text: Bytes) -> Result<(), UpstreamGone> {
        self.send_as(Data::Text, text).await
    }

    /// Sends bytes that are no text, and waits until the connection has taken them.
    pub async fn send_binary(&mut self, bytes: Bytes) -> Result<(), UpstreamGone> {
        self.send_as(Data::Binary, bytes).await
    }

    async fn send_as(&mut self, kind: Data, payload: Bytes) -> Result<(), UpstreamGone> {
        feed(&mut self.0, kind, payload).await.map_err(|_| UpstreamGone)?;
        self.0.flush().await.map_err(|_| UpstreamGone)
    }

    /// Sends a close frame.
    pub async fn close(&mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::from_static("") };
        let _ = timeout(CLOSING, self.0.send(Message::Close(Some(frame)))).await;
    }
}

// === impl SocketReceiver ===

impl SocketReceiver {
    /// Returns the next message, or the end.
    pub async fn next(&mut self) -> FromUpstream {
        loop {
            return match self.stream.next().await {
                Some(Ok(Message::Text(text))) => FromUpstream::Text(text.as_str().to_owned()),
                Some(Ok(Message::Ping(_))) => {
                    self.pongs.ping_received();
                    continue;
                }
                Some(Ok(Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Ok(Message::Binary(bytes))) => FromUpstream::Binary(bytes),
                Some(Ok(Message::Close(frame))) => match frame {
                    Some(frame) if frame.code != CloseCode::Normal && frame.code != CloseCode::Away => {
                        let code = u16::from(frame.code);
                        FromUpstream::Broken(format!(
                            "the upstream closed its WebSocket ({code} {})",
                            frame.reason
                        ))
                    }
                    _ => FromUpstream::Closed,
                },
                Some(Err(error)) => {
                    FromUpstream::Broken(format!("the upstream closed its WebSocket ({error})"))
                }
                None => FromUpstream::Broken("the upstream closed its WebSocket".to_owned()),
            };
        }
    }
}
