//! A complete answer that is too long to be held, or that cannot be judged: it passes as it comes, and its usage is read
//! from its end, or was read from its beginning.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::dialect::Dialect;
use crate::dialect::usage::{self, Usage};
use crate::http::body::Truncated;

use super::unread::UnreadBytes;
use crate::proxy::attempt::Attempt;
use crate::proxy::tail::Tail;

/// A complete answer that is not held, with the attempt that it settles.
pub(in crate::proxy) struct LongReply {
    /// The dialect of the usage at the end of the answer; `None` where there is none.
    dialect: Option<Dialect>,
    usage_at_start: Option<Usage>,
    bytes: UnreadBytes,
    tail: Tail,
    attempt: Box<Attempt>,
}

impl LongReply {
    pub(in crate::proxy) fn new(dialect: Option<Dialect>, bytes: UnreadBytes, attempt: Box<Attempt>) -> Self {
        let usage_at_start = dialect.and_then(|dialect| usage::of_head(dialect, bytes.held()));
        Self { dialect, usage_at_start, bytes, tail: Tail::default(), attempt }
    }

    fn settle(&mut self) {
        let usage = self.dialect.and_then(|dialect| usage::of_tail(dialect, self.tail.bytes()));
        self.attempt.succeed(usage.or(self.usage_at_start));
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
        Poll::Ready(match ready!(this.bytes.poll_next(context)) {
            Some(Ok(bytes)) => {
                this.tail.push(&bytes);
                this.attempt.proxy().core.metrics.sent_bytes.add(bytes.len() as u64);
                if this.bytes.is_all() {
                    this.settle();
                }
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(cause)) => {
                this.attempt.break_off(&cause, None, None);
                Some(Err(Truncated("the upstream's answer was cut off")))
            }
            None => {
                this.settle();
                None
            }
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}
