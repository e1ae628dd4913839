//! Keeps a stream open that passes whole events and is silent for a while.

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
    heartbeat: &'static [u8],
    silence: SilenceTimer,
    /// Whether heartbeats may be sent: the operator may want none before the first event.
    has_begun: bool,
}

/// Adds heartbeats to a stream each of whose pieces ends with an event.
pub(in crate::proxy) fn kept_open(
    dialect: Dialect,
    heartbeats: Heartbeats,
    inner: ResponseBody,
) -> ResponseBody {
    let Some(pause) = heartbeats.pause else { return inner };
    ResponseBody::stream(KeptOpen {
        inner,
        heartbeat: errors::heartbeat(dialect),
        silence: SilenceTimer::new(pause),
        has_begun: heartbeats.first.is_some(),
    })
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
            this.silence.heard();
            this.has_begun = true;
            return Poll::Ready(next);
        }
        if !this.has_begun {
            return Poll::Pending;
        }
        ready!(this.silence.poll(context));
        this.silence.heard();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(this.heartbeat)))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
