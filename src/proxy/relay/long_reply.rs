//! A complete answer too long to be held, or that nobody can judge: it passes as it comes, and its usage is read from its
//! end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::dialect::{Dialect, usage};
use crate::http::body::Truncated;
use crate::upstream::UpstreamBody;

use super::silence::SilenceTimer;
use crate::proxy::attempt::Attempt;
use crate::proxy::tail::Tail;

/// A complete answer that is not held: what was read of it, then the rest as it comes.
pub(in crate::proxy) struct LongReply {
    /// Whose usage its end tells; `None` where it tells none.
    dialect: Option<Dialect>,
    upstream: Option<UpstreamBody>,
    held: Option<Bytes>,
    tail: Tail,
    /// Exact when the upstream gave a length.
    length: Option<u64>,
    attempt: Box<Attempt>,
    silence: SilenceTimer,
}

impl LongReply {
    /// `length` is that of the whole answer, `held` its beginning, `idle` the longest silence of the upstream.
    pub(in crate::proxy) fn new(
        dialect: Option<Dialect>,
        upstream: UpstreamBody,
        held: Bytes,
        length: Option<u64>,
        attempt: Box<Attempt>,
        idle: Duration,
    ) -> Self {
        Self {
            dialect,
            upstream: Some(upstream),
            held: Some(held),
            tail: Tail::default(),
            length,
            attempt,
            silence: SilenceTimer::new(idle),
        }
    }

    fn cut(&mut self, cause: &str) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.upstream = None;
        self.attempt.break_off(cause, None, None);
        Poll::Ready(Some(Err(Truncated("the upstream's answer broke off"))))
    }

    fn settle(&mut self) {
        let usage = self.dialect.and_then(|dialect| usage::of_tail(dialect, self.tail.bytes()));
        self.attempt.succeed(usage);
    }

    fn send(&mut self, bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.silence.heard();
        self.tail.push(&bytes);
        self.attempt.proxy().core.metrics.sent_bytes.add(bytes.len() as u64);
        if let Some(length) = &mut self.length {
            *length = length.saturating_sub(bytes.len() as u64);
            if *length == 0 {
                // Whoever sends by the length does not ask for the end any more.
                self.settle();
            }
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Body for LongReply {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        if let Some(bytes) = this.held.take() {
            return this.send(bytes);
        }
        let Some(upstream) = &mut this.upstream else { return Poll::Ready(None) };
        match upstream.poll_data(context) {
            Poll::Ready(Some(Ok(bytes))) => this.send(bytes),
            Poll::Ready(Some(Err(error))) => this.cut(error.message()),
            Poll::Ready(None) => {
                this.upstream = None;
                this.settle();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(this.silence.poll(context));
                this.cut("nothing came for too long")
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
