//! Keeps a stream of events open that is silent for a while.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::dialect::{Dialect, errors};
use crate::http::ResponseBody;
use crate::http::body::Truncated;
use crate::settings::Heartbeats;

use super::silence::SilenceTimer;

/// The body of a stream that is kept open.
struct KeptOpen {
    inner: ResponseBody,
    heartbeats: Heartbeats,
    heartbeat: &'static [u8],
    /// The silence after which a heartbeat is sent; `None` for never.
    silence: Option<SilenceTimer>,
    has_begun: bool,
    /// Whether the last event is complete: a long one comes in several pieces.
    is_between_events: bool,
}

/// Adds heartbeats to a stream of events.
pub(in crate::proxy) fn kept_open(
    dialect: Dialect,
    heartbeats: Heartbeats,
    inner: ResponseBody,
) -> ResponseBody {
    ResponseBody::stream(KeptOpen {
        inner,
        heartbeats,
        heartbeat: errors::heartbeat(dialect),
        silence: heartbeats.first.map(SilenceTimer::new),
        has_begun: false,
        is_between_events: true,
    })
}

impl KeptOpen {
    fn heard(&mut self, piece: &[u8]) {
        if !self.has_begun {
            self.has_begun = true;
            self.silence = self.heartbeats.pause.map(SilenceTimer::new);
        }
        if let Some(silence) = &mut self.silence {
            silence.heard();
        }
        self.is_between_events = [&b"\n\n"[..], b"\n\r\n", b"\r\r"].iter().any(|end| piece.ends_with(end));
    }
}

impl Body for KeptOpen {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        if let Poll::Ready(next) = Pin::new(&mut this.inner).poll_frame(context) {
            if let Some(piece) = next.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                this.heard(piece);
            }
            return Poll::Ready(next);
        }
        let Some(silence) = this.silence.as_mut().filter(|_| this.is_between_events) else {
            return Poll::Pending;
        };
        ready!(silence.poll(context));
        let Heartbeats { first, pause } = this.heartbeats;
        this.silence = pause.or(first).map(SilenceTimer::new);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(this.heartbeat)))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
