//! The bytes of something that an upstream keeps, streamed with back-pressure: nothing is buffered, nothing read faster than
//! the client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::http::body::Truncated;
use crate::limits::Lease;
use crate::proxy::Proxy;
use crate::upstream::UpstreamBody;

use super::relay::silence::SilenceTimer;
use super::resource_upstream::UpstreamResponse;

/// Bytes from their upstream. Dropped, it hangs up there.
pub(super) struct Download {
    proxy: Arc<Proxy>,
    upstream: Option<UpstreamBody>,
    /// What was read of it already.
    first: Option<Bytes>,
    /// Exact when the upstream gave a length.
    left: Option<u64>,
    silence: SilenceTimer,
    /// At the site that is asked.
    _slot: Lease,
}

/// Marks bytes of others that are to be saved, never shown: a page or a picture with scripts would run as one of ours.
pub(super) fn never_shown(headers: &mut HeaderMap) {
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

impl Download {
    /// The rest of an answer; the slot is at the site that is asked.
    pub(super) fn new(proxy: &Arc<Proxy>, answer: UpstreamResponse, slot: Lease) -> Self {
        Self {
            proxy: proxy.clone(),
            left: answer.body.size_hint().exact(),
            upstream: Some(answer.body),
            first: None,
            silence: SilenceTimer::new(answer.idle),
            _slot: slot,
        }
    }

    /// The rest of an answer of which this was read.
    pub(super) fn behind(mut self, first: Bytes) -> Self {
        self.left = self.left.map(|left| left.saturating_add(first.len() as u64));
        self.first = Some(first).filter(|first| !first.is_empty());
        self
    }

    fn sent(&mut self, bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.proxy.core.metrics.sent_bytes.add(bytes.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn cut(&mut self, why: &'static str) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.upstream = None;
        Poll::Ready(Some(Err(Truncated(why))))
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            return this.sent(first);
        }
        let Some(upstream) = &mut this.upstream else { return Poll::Ready(None) };
        match upstream.poll_data(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.silence.heard();
                this.sent(bytes)
            }
            Poll::Ready(Some(Err(error))) => {
                log::info!("what an upstream keeps broke off on its way: {}", error.message());
                this.cut("the upstream's answer broke off")
            }
            Poll::Ready(None) => {
                this.upstream = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(this.silence.poll(context));
                this.cut("nothing came for too long")
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
