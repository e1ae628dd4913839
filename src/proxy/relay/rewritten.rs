//! An answer that is rewritten piece by piece on its way.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::dialect::sse::TooLong;
use crate::http::ResponseBody;
use crate::http::body::Truncated;

/// A rewriter of the bytes that pass.
pub(in crate::proxy) trait Rewrite {
    /// Takes the next bytes and returns what may pass; an error ends the answer.
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated>;

    /// Returns what is still to come when the answer is over.
    fn finish(&mut self) -> Result<Bytes, Truncated>;

    /// Whether the answer ends now, although its rest has not come.
    fn is_cut(&self) -> bool {
        false
    }

    /// Returns the end of an answer whose rest is missing; an error cuts the answer off.
    fn end_broken(&mut self, cut: Truncated) -> Result<Bytes, Truncated> {
        Err(cut)
    }

    /// Whether nothing would come if the answer were over now.
    fn is_idle(&self) -> bool {
        false
    }
}

/// Cuts the answer off: a client that reads on would not notice what is missing.
impl From<TooLong> for Truncated {
    fn from(_: TooLong) -> Self {
        Self("an event of the answer is too long")
    }
}

/// Creates a buffer with room for a piece that is rewritten at about its length.
pub(in crate::proxy) fn buffer_for(piece: &Bytes) -> Vec<u8> {
    Vec::with_capacity(piece.len() + 64)
}

/// The body of a rewritten answer. Its length is not known.
struct Rewritten<R> {
    inner: ResponseBody,
    rewrite: R,
    ended: bool,
}

/// Wraps a body so that it is rewritten.
pub(in crate::proxy) fn rewritten(
    inner: ResponseBody,
    rewrite: impl Rewrite + Unpin + Send + 'static,
) -> ResponseBody {
    ResponseBody::stream(Rewritten { inner, rewrite, ended: false })
}

impl<R: Rewrite + Unpin> Body for Rewritten<R> {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        loop {
            if this.ended {
                return Poll::Ready(None);
            }
            let next = match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Pending if this.rewrite.is_cut() => Some(Err(Truncated("the service stopped"))),
                next => ready!(next),
            };
            this.ended = !matches!(next, Some(Ok(_)));
            let written = match next {
                // Answers have no trailers.
                Some(Ok(frame)) => this.rewrite.feed(frame.into_data().unwrap_or_default()),
                Some(Err(cut)) => this.rewrite.end_broken(cut),
                None => this.rewrite.finish(),
            };
            match written {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(cut) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(cut)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.rewrite.is_idle() && self.inner.is_end_stream())
    }
}
