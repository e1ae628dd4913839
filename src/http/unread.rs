//! What a handler has left of the body of its request.
//!
//! The next request of a client begins where this one's body ends. A rest that is small is read over, and the connection
//! goes on; otherwise it cannot, and the answer has to say so: a client that took the connection for a good one would lose
//! its next request on it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::EXPECT;

use super::stream::Wire;

/// The most of a body that is read over, and for how long.
const SMALL: usize = 64 * 1024;
const SMALL_TIME: Duration = Duration::from_secs(2);

/// The body of a request on its connection, to which its end, or what is left of it, comes back.
pub struct WireBody {
    /// Until it is given back.
    incoming: Option<Incoming>,
    wire: Arc<Wire>,
    /// The client sends it when it is asked for it, and that has not happened.
    is_unasked: bool,
    is_broken: bool,
    is_ended: bool,
}

/// The rest of a body.
pub(super) enum Unread {
    Rest(Incoming),
    /// It may never come, or cannot be found.
    Lost,
}

impl WireBody {
    pub(super) fn new(incoming: Incoming, headers: &HeaderMap, wire: Arc<Wire>) -> Self {
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

impl Unread {
    /// Reads it over if it is small; false if it is not, or does not come.
    pub async fn read_over(self) -> bool {
        let Self::Rest(mut incoming) = self else { return false };
        let is_small = |length: Option<u64>| length.is_none_or(|length| length <= SMALL as u64);
        if !is_small(incoming.size_hint().exact()) {
            return false;
        }
        let to_its_end = async {
            let mut taken = 0;
            while let Some(frame) = incoming.frame().await {
                let Ok(frame) = frame else { return false };
                taken += frame.data_ref().map_or(0, Bytes::len);
                if taken > SMALL {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(SMALL_TIME, to_its_end).await.unwrap_or(false)
    }
}
