//! Reads the frames that come over a WebSocket as the bytes of a body.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use futures_util::{Sink, Stream as _};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::error::BodyError;
use super::kept_sockets::{Socket, SocketHome};
use crate::dialect::responses::socket::{Event, event};

/// The frames of an upstream as the stream events of a body.
pub(crate) struct FrameBody {
    /// The socket, until the last event or a failure.
    socket: Option<Box<Socket>>,
    /// Data that was read before the answer was handed on.
    first: Option<Bytes>,
    /// Where the socket is kept after the answer; `None` closes it.
    home: Option<SocketHome>,
}

// === impl FrameBody ===

impl FrameBody {
    pub(crate) fn new(socket: Box<Socket>, home: Option<SocketHome>) -> Self {
        Self { socket: Some(socket), first: None, home }
    }

    /// Begins the body with this event, which was read already.
    pub(crate) fn begin_with(&mut self, event: Event) {
        self.take(&event);
        self.first = Some(Bytes::from(event.text));
    }

    /// Makes these bytes the whole body; nothing more is read.
    pub(crate) fn end_with(&mut self, whole: Bytes) {
        self.end();
        self.first = Some(whole);
    }

    /// Polls for the next event; `None` after the last one.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        while self.socket.is_some() {
            match ready!(self.poll_text(cx)) {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(text) => {
                    if let Some(event) = event(&text) {
                        self.take(&event);
                        return Poll::Ready(Some(Ok(Bytes::from(event.text))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }

    /// Whether nothing more comes.
    pub(crate) fn is_ended(&self) -> bool {
        self.socket.is_none() && self.first.is_none()
    }

    /// Drops the connection.
    pub(crate) fn fail(&mut self) {
        (self.socket, self.first) = (None, None);
    }

    fn take(&mut self, event: &Event) {
        match (event.is_last, self.home.take_if(|_| event.is_last && !event.is_error)) {
            (false, _) => {}
            (true, None) => self.end(),
            (true, Some(home)) => {
                if let Some(socket) = self.socket.take() {
                    home.keep(socket);
                }
            }
        }
    }

    /// Sends a close frame, as far as the connection takes it at once.
    fn end(&mut self) {
        let Some(mut socket) = self.socket.take() else { return };
        let mut socket = Pin::new(&mut *socket);
        let mut cx = Context::from_waker(Waker::noop());
        if socket.as_mut().start_send(Message::Close(None)).is_ok() {
            let _ = socket.poll_flush(&mut cx);
        }
    }

    /// Polls for the next frame with a text.
    pub(crate) fn poll_text(&mut self, cx: &mut Context<'_>) -> Poll<Result<Utf8Bytes, BodyError>> {
        let cut = "the upstream closed its WebSocket in the middle of its answer";
        let error = loop {
            let Some(socket) = &mut self.socket else { break BodyError::closed(cut) };
            match ready!(Pin::new(&mut **socket).poll_next(cx)) {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Ok(text)),
                Some(Ok(Message::Ping(_))) => socket.get_ref().pongs().ping_received(),
                Some(Ok(Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    let why = frame.map(|frame| format!(" ({})", u16::from(frame.code))).unwrap_or_default();
                    break BodyError::closed(format!("{cut}{why}"));
                }
                None => break BodyError::closed(cut),
                Some(Ok(Message::Binary(_))) => {
                    break BodyError::protocol(
                        "the upstream sent a binary frame over its WebSocket instead of text",
                    );
                }
                Some(Err(error @ (Error::Capacity(_) | Error::Utf8(_)))) => {
                    break BodyError::protocol(format!("the upstream's WebSocket is malformed ({error})"));
                }
                Some(Err(error)) => break BodyError::closed(format!("{cut} ({error})")),
            }
        };
        self.fail();
        Poll::Ready(Err(error))
    }
}
