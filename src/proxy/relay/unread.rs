//! Bytes of an upstream on their way to a client, unchanged and unread.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::SizeHint;

use crate::upstream::UpstreamBody;

use super::silence::SilenceTimer;

/// The bytes that were read of an answer already, then the rest as it comes: nothing is buffered, and nothing is read
/// faster than the client takes it. Dropping it closes the upstream's connection.
pub(in crate::proxy) struct UnreadBytes {
    held: Option<Bytes>,
    /// The upstream's body; `None` when it has ended.
    upstream: Option<UpstreamBody>,
    /// The number of bytes that the client still gets. Exact when the upstream gave a length; else `None`.
    left: Option<u64>,
    silence: SilenceTimer,
}

impl UnreadBytes {
    /// Takes the beginning `held`, the `length` of the whole answer, and the longest silence `idle` of the upstream.
    pub(in crate::proxy) fn new(
        held: Bytes,
        upstream: UpstreamBody,
        length: Option<u64>,
        idle: Duration,
    ) -> Self {
        let held = Some(held).filter(|held| !held.is_empty());
        Self { held, upstream: Some(upstream), left: length, silence: SilenceTimer::new(idle) }
    }

    /// Returns the bytes that were read already and are still to be sent.
    pub(in crate::proxy) fn held(&self) -> &[u8] {
        self.held.as_deref().unwrap_or_default()
    }

    /// Returns the next bytes; `None` at the end, or the reason for a break, after which nothing comes.
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

    /// Whether nothing is left of the length: a sender that goes by the length does not ask for the end any more.
    pub(in crate::proxy) fn is_all(&self) -> bool {
        self.left == Some(0)
    }

    pub(in crate::proxy) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
