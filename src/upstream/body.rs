//! The body of an answer, and the connection that it arrives on.
//!
//! The body owns the connection and drives it: `poll_frame` polls the connection (which reads the socket and decodes),
//! then takes what it has decoded; [`Wire`] tells when that is worth doing. Chunks that are ready together leave as one
//! frame, so that a burst of small events costs one write to the client instead of one each.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::decode::Decoder;
use super::error::BodyError;
use super::pool::Pool;
use super::wire::Wire;
use crate::routing::Origin;

/// Chunks are joined until a frame has this many bytes.
const JOIN_BELOW: usize = 32 * 1024;

/// A chunk of this size is worth a write of its own: one write less would not pay for copying it.
const LARGE: usize = 8 * 1024;

/// What is cheaper to copy than a read buffer is to allocate.
const SMALL: usize = 1024;

/// The body of an upstream's answer. Dropping it before its end closes the connection at once; at its end the connection
/// goes back to the pool.
pub struct UpstreamBody {
    raw: RawBody,
    decoder: Option<Box<Decoder>>,
    tap: Option<Tap>,
}

/// Is called with every piece of a body that is read.
type Tap = Box<dyn FnMut(&Bytes) + Send>;

impl UpstreamBody {
    pub(crate) fn new(raw: RawBody, decoder: Option<Box<Decoder>>) -> Self {
        Self { raw, decoder, tap: None }
    }

    /// The same body, with `tap` called for every piece that is read.
    pub fn with_tap(mut self, tap: Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    /// The next bytes, as they come from the socket in one go; `None` at the end.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
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
                Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                Ok(_) if decoder.is_finished() => return Poll::Ready(None),
                Ok(_) => {}
                Err(error) => {
                    self.decoder = None;
                    return Poll::Ready(Some(Err(self.raw.fail(error))));
                }
            }
            match ready!(self.raw.poll_data(cx)) {
                Some(Ok(data)) => decoder.push(&data),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.raw.failed => return Poll::Ready(None),
                None => decoder.push_end(),
            }
        }
    }

    /// The next bytes, as they come from the socket in one go; `None` at the end.
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
        self.decoder.is_none() && self.raw.ended && self.raw.error.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.decoder {
            None => self.raw.incoming.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}

/// The body as the upstream sent it, without its transfer coding.
pub(crate) struct RawBody {
    incoming: Incoming,
    /// The connection, until the body has ended or failed.
    wire: Option<Box<Wire>>,
    pool: Arc<Pool>,
    origin: Arc<Origin>,
    ended: bool,
    failed: bool,
    /// A failure found behind data that had to be given out first.
    error: Option<BodyError>,
}

impl RawBody {
    pub(crate) fn new(incoming: Incoming, wire: Box<Wire>, pool: Arc<Pool>, origin: Arc<Origin>) -> Self {
        let mut body =
            Self { incoming, wire: Some(wire), pool, origin, ended: false, failed: false, error: None };
        if body.incoming.is_end_stream() {
            body.end();
        }
        body
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ended
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        // The body gets its data from the connection, which is driven right here: nobody else has to wake us for it.
        let mut quiet = Context::from_waker(Waker::noop());
        let mut joined = Joined::default();
        let mut driven = false;
        while !self.ended {
            match Pin::new(&mut self.incoming).poll_frame(&mut quiet) {
                Poll::Ready(Some(Ok(frame))) => {
                    driven = false;
                    // Trailers are dropped: no dialect has any.
                    let data = frame.into_data().unwrap_or_default();
                    let is_large = data.len() >= LARGE;
                    joined.push(data);
                    if self.incoming.is_end_stream() {
                        self.end();
                    } else if is_large || joined.len() >= JOIN_BELOW {
                        break;
                    }
                }
                Poll::Ready(Some(Err(error))) => self.error = Some(self.fail(BodyError::of_body(&error))),
                Poll::Ready(None) => self.end(),
                Poll::Pending => match &mut self.wire {
                    Some(wire) if wire.is_closed() => self.wire = None, // which makes the body say what it lacks
                    // Once per chunk: a connection that gives nothing and still has news wants the runtime to go on.
                    Some(wire) if !driven && wire.may_have_work() => {
                        joined.let_go();
                        wire.drive();
                        driven = true;
                    }
                    Some(_) if joined.len() > 0 => break,
                    Some(wire) => {
                        wire.wait(cx.waker());
                        return Poll::Pending;
                    }
                    None => {
                        self.error = Some(self.fail(BodyError::closed("the upstream's connection is gone")))
                    }
                },
            }
        }
        match joined.into_bytes() {
            Some(data) => Poll::Ready(Some(Ok(data))),
            None => Poll::Ready(self.error.take().map(Err)),
        }
    }

    /// The whole answer has been read: what it came on may serve again.
    fn end(&mut self) {
        self.ended = true;
        let Some(mut wire) = self.wire.take() else { return };
        if !wire.is_reusable() {
            wire.drive();
        }
        if wire.is_reusable() {
            self.pool.keep(&self.origin, wire);
        }
    }

    fn fail(&mut self, error: BodyError) -> BodyError {
        self.ended = true;
        self.failed = true;
        self.wire = None;
        error
    }
}

impl Drop for RawBody {
    /// A reader that stopped at the last event has often not read the end of the body, which says nothing more. If it
    /// has arrived the connection is as good as any; if not, it is closed.
    fn drop(&mut self) {
        if !self.ended && !std::thread::panicking() {
            let _ = self.poll_data(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl std::fmt::Debug for RawBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawBody")
            .field("ended", &self.ended)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Chunks that leave as one. A chunk alone is passed on as it is.
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

    /// Copies a small chunk out of the buffer that the connection reads into: as long as it is held there, the next
    /// read needs a new buffer, which costs more.
    fn let_go(&mut self) {
        if let Self::One(bytes) = self
            && bytes.len() <= SMALL
        {
            *bytes = Bytes::copy_from_slice(bytes);
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
