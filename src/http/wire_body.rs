//! The body of a request on its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::EXPECT;

use super::connection_state::ConnectionState;
use super::unread::Unread;

/// The body of a request on its connection. When dropped, it hands its unread rest back to the connection.
pub struct WireBody {
    /// `None` once it is handed back.
    incoming: Option<Incoming>,
    wire: Arc<ConnectionState>,
    /// Whether the client waits to be asked for the body, and has not been.
    is_unasked: bool,
    is_broken: bool,
    is_ended: bool,
}

impl WireBody {
    pub(super) fn new(incoming: Incoming, headers: &HeaderMap, wire: Arc<ConnectionState>) -> Self {
        let is_ended = incoming.is_end_stream();
        let is_unasked = !is_ended && headers.contains_key(EXPECT);
        Self { incoming: Some(incoming), wire, is_unasked, is_broken: false, is_ended }
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        this.is_unasked = false;
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        let frame = Pin::new(incoming).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Err(_))) => this.is_broken = true,
            Poll::Ready(None) => this.is_ended = true,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended || self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for WireBody {
    fn drop(&mut self) {
        if self.is_end_stream() {
            return;
        }
        let rest = self.incoming.take().filter(|_| !self.is_broken && !self.is_unasked);
        self.wire.keep_unread(rest.map_or(Unread::Lost, Unread::Rest));
    }
}
