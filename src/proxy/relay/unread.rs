//! Bytes of an upstream on their way to a client, unchanged and unread.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::SizeHint;

use crate::upstream::UpstreamBody;

use super::silence::SilenceTimer;

/// What was read of an answer already, then the rest as it comes: nothing is buffered, and nothing read faster than the
/// client takes it. Dropped, it hangs up at the upstream.
pub(in crate::proxy) struct UnreadBytes {
    held: Option<Bytes>,
    /// `None` when it has ended.
    upstream: Option<UpstreamBody>,
    /// What the client still gets. Exact when the upstream gave a length.
    left: Option<u64>,
    silence: SilenceTimer,
}

impl UnreadBytes {
    /// `held` is the beginning, `length` that of the whole answer, `idle` the longest silence of the upstream.
    pub(in crate::proxy) fn new(
        held: Bytes,
        upstream: UpstreamBody,
        length: Option<u64>,
        idle: Duration,
    ) -> Self {
        let held = Some(held).filter(|held| !held.is_empty());
        Self { held, upstream: Some(upstream), left: length, silence: SilenceTimer::new(idle) }
    }

    /// What comes next; `None` at the end, and why it broke off, which nothing follows.
    pub(in crate::proxy) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, String>>> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(Some(Ok(self.heard(held))));
        }
        let Some(upstream) = &mut self.upstream else { return Poll::Ready(None) };
        let why = match upstream.poll_data(context) {
            Poll::Ready(Some(Ok(bytes))) => return Poll::Ready(Some(Ok(self.heard(bytes)))),
            Poll::Ready(Some(Err(error))) => Some(error.message().to_owned()),
            Poll::Ready(None) => None,
            Poll::Pending => {
                ready!(self.silence.poll(context));
                Some("nothing came for too long".to_owned())
            }
        };
        self.upstream = None;
        Poll::Ready(why.map(Err))
    }

    fn heard(&mut self, bytes: Bytes) -> Bytes {
        self.silence.heard();
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        bytes
    }

    /// Nothing is left of the length: whoever sends by it does not ask for the end any more.
    pub(in crate::proxy) fn is_all(&self) -> bool {
        self.left == Some(0)
    }

    pub(in crate::proxy) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
