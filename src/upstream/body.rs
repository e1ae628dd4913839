//! The body of an answer, and the connection that it arrives on.
//!
//! The body owns the connection and reads from it when it is polled. Chunks that are ready together leave as one frame, so
//! that a burst of small events costs one write to the client instead of one each.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use super::connection::{Piece, UpstreamConnection};
use super::error::BodyError;
use super::pool::Pool;
use super::socket_body::FrameBody;
use crate::codings::{Decoder, Pulled};
use crate::dialect::code_assist::EnvelopeOpener;
use crate::routing::Origin;

/// The size in bytes up to which chunks are joined into one frame.
const JOIN_BELOW: usize = 32 * 1024;

/// The size in bytes from which a chunk is worth a write of its own: one write less would not pay for copying it.
const LARGE: usize = 8 * 1024;

/// The body of an upstream's answer. Dropping it before its end closes the connection at once; at its end the connection
/// goes back to the pool.
pub struct UpstreamBody {
    raw: Source,
    decoder: Option<Box<Decoder>>,
    tap: Option<Tap>,
    /// Takes the data out of the envelope that the answer comes in.
    opener: Option<Box<EnvelopeOpener>>,
}

/// A function that is called with every piece of a body that is read.
type Tap = Box<dyn FnMut(&Bytes) + Send>;

impl UpstreamBody {
    pub(crate) fn new(raw: RawBody, decoder: Option<Box<Decoder>>) -> Self {
        Self { raw: Source::Http(raw), decoder, tap: None, opener: None }
    }

    /// Builds the body of an answer that comes over a WebSocket.
    pub(crate) fn of_frames(frames: FrameBody) -> Self {
        Self { raw: Source::Frames(Box::new(frames)), decoder: None, tap: None, opener: None }
    }

    /// Calls `tap` with every piece that is read.
    pub fn with_tap(mut self, tap: Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Makes the body take the answer out of the envelope that it comes in.
    pub fn opened(mut self) -> Self {
        self.opener = Some(Box::default());
        self
    }

    /// Polls for the next bytes, as they come from the socket in one go; `None` at the end.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let Some(mut opener) = self.opener.take() else { return self.poll_read(cx) };
        loop {
            let Poll::Ready(read) = self.poll_read(cx) else {
                self.opener = Some(opener);
                return Poll::Pending;
            };
            let mut out = Vec::new();
            let opened = match &read {
                Some(Ok(bytes)) => opener.feed(bytes, &mut out),
                Some(Err(_)) => return Poll::Ready(read),
                None => opener.finish(&mut out),
            };
            if let Err(error) = opened {
                return Poll::Ready(Some(Err(self.raw.fail(BodyError::protocol(error.to_string())))));
            }
            let is_over = read.is_none();
            if is_over {
                return Poll::Ready((!out.is_empty()).then(|| Ok(out.into())));
            }
            if !out.is_empty() {
                self.opener = Some(opener);
                return Poll::Ready(Some(Ok(out.into())));
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let data = self.poll_decoded(cx);
        if let (Some(tap), Poll::Ready(Some(Ok(bytes)))) = (&mut self.tap, &data) {
            tap(bytes);
        }
        data
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let Some(decoder) = &mut self.decoder else {
            return self.raw.poll_data(cx);
        };
        loop {
            match decoder.pull() {
                Ok(Pulled::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(Pulled::Later) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Pulled::Empty) if decoder.is_finished() => return Poll::Ready(None),
                Ok(Pulled::Empty) => {}
                Err(error) => {
                    self.decoder = None;
                    return Poll::Ready(Some(Err(self.raw.fail(error.into()))));
                }
            }
            match ready!(self.raw.poll_data(cx)) {
                Some(Ok(data)) => decoder.push(&data),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.raw.has_failed() => return Poll::Ready(None),
                None => decoder.push_end(),
            }
        }
    }

    /// Returns the next bytes, as they come from the socket in one go; `None` at the end.
    pub async fn data(&mut self) -> Option<Result<Bytes, BodyError>> {
        std::future::poll_fn(|cx| self.poll_data(cx)).await
    }
}

impl fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamBody").field("raw", &self.raw).finish_non_exhaustive()
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let data = ready!(self.get_mut().poll_data(cx));
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.decoder.is_none() && self.opener.is_none() && self.raw.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.decoder, &self.opener) {
            (None, None) => self.raw.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

/// The source of a body's bytes.
enum Source {
    Http(RawBody),
    Frames(Box<FrameBody>),
}

impl Source {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match self {
            Self::Http(raw) => raw.poll_data(cx),
            Self::Frames(frames) => frames.poll_data(cx),
        }
    }

    /// Gives the connection up, for this reason, and returns the reason.
    fn fail(&mut self, error: BodyError) -> BodyError {
        match self {
            Self::Http(raw) => raw.fail(error),
            Self::Frames(frames) => {
                frames.fail();
                error
            }
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self, Self::Http(raw) if raw.failed)
    }

    /// Whether neither bytes nor a failure are still to come.
    fn is_over(&self) -> bool {
        match self {
            Self::Http(raw) => raw.is_ended() && raw.error.is_none(),
            Self::Frames(frames) => frames.is_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http(raw) => raw.size_hint(),
            Self::Frames(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(raw) => raw.fmt(f),
            Self::Frames(frames) => f.debug_struct("Frames").field("ended", &frames.is_ended()).finish(),
        }
    }
}

/// The body as the upstream sent it, without its transfer coding.
pub(crate) struct RawBody {
    /// The connection, until the body has ended or failed.
    wire: Option<Box<UpstreamConnection>>,
    pool: Arc<Pool>,
    origin: Arc<Origin>,
    failed: bool,
    /// A failure found behind data that had to be given out first.
    error: Option<BodyError>,
}

impl RawBody {
    pub(crate) fn new(wire: Box<UpstreamConnection>, pool: Arc<Pool>, origin: Arc<Origin>) -> Self {
        let is_ended = wire.is_body_ended();
        let mut body = Self { wire: Some(wire), pool, origin, failed: false, error: None };
        if is_ended {
            body.end();
        }
        body
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_ended()
    }

    fn is_ended(&self) -> bool {
        self.wire.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.wire.as_ref().map_or(Some(0), |wire| wire.exact_left());
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut joined = Joined::default();
        while let Some(wire) = &mut self.wire {
            match wire.poll_body(cx, joined.len() == 0) {
                Poll::Ready(Ok(Piece::Data(data))) => {
                    let is_large = data.len() >= LARGE;
                    joined.push(data);
                    if wire.is_body_ended() {
                        self.end();
                    } else if is_large || joined.len() >= JOIN_BELOW {
                        break;
                    }
                }
                Poll::Ready(Ok(Piece::End)) => self.end(),
                Poll::Ready(Err(error)) => self.error = Some(self.fail(error)),
                Poll::Pending if joined.len() > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        match joined.into_bytes() {
            Some(data) => Poll::Ready(Some(Ok(data))),
            None => Poll::Ready(self.error.take().map(Err)),
        }
    }

    /// Ends the body: the whole answer has been read, so the connection may serve again.
    fn end(&mut self) {
        let Some(mut wire) = self.wire.take() else { return };
        if wire.is_reusable() {
            self.pool.keep(&self.origin, wire);
        }
    }

    fn fail(&mut self, error: BodyError) -> BodyError {
        self.failed = true;
        self.wire = None;
        error
    }
}

impl Drop for RawBody {
    /// Reads once more without waiting. A reader that stopped at the last event has often not read the end of the body,
    /// which says nothing more. If the end has arrived, the connection is as good as any; if not, it is closed.
    fn drop(&mut self) {
        if !self.is_ended() && !std::thread::panicking() {
            let _ = self.poll_data(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl std::fmt::Debug for RawBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawBody")
            .field("ended", &self.is_ended())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Chunks that leave as one frame. A single chunk is passed on as it is.
#[derive(Default)]
enum Joined {
    #[default]
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Joined {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        match self {
            Self::Nothing => *self = Self::One(chunk),
            Self::One(first) => {
                let mut bytes = BytesMut::with_capacity(((first.len() + chunk.len()) * 2).max(1024));
                bytes.extend_from_slice(&mem::take(first));
                bytes.extend_from_slice(&chunk);
                *self = Self::Many(bytes);
            }
            Self::Many(bytes) => bytes.extend_from_slice(&chunk),
        }
    }

    fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::Nothing => None,
            Self::One(bytes) => Some(bytes),
            Self::Many(bytes) => Some(bytes.freeze()),
        }
    }
}
