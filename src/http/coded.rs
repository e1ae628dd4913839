//! Compressed request bodies: decoded while they are read, so that every limit counts the decoded bytes and a small body
//! that would unfold into gigabytes is refused long before. The limit also applies to the bytes on the wire and to the
//! output of each coding, since neither need show in the final output.
//!
//! Decoding that takes more than one turn waits in line for the next one: however many bodies are decoded at once, a thread
//! that serves connections meets at most one of them between two connections.

use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::body_error::BodyError;
use super::wire_body::WireBody;
use crate::codings::{Decoder, Pulled, Side};

/// Permits for bodies whose decoding takes more than one turn: half of the cores are left to others.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// A body with a `Content-Encoding`.
pub struct CodedBody {
    wire: WireBody,
    reading: Reading,
    turn: Turn,
    /// The bytes received over the wire.
    received: usize,
    /// The most bytes to receive, and the most that any coding may produce.
    limit: usize,
}

/// Whether a body may be decoded now.
enum Turn {
    /// The body's first turn, which needs no permit.
    First,
    /// The body waits for a permit.
    Next(Pin<Box<dyn Future<Output = Option<SemaphorePermit<'static>>> + Send + Sync>>),
    Now {
        _turn: Option<SemaphorePermit<'static>>,
    },
}

enum Reading {
    Decoded(Box<Decoder>),
    Refused(BodyError),
}

impl Turn {
    fn next() -> Self {
        // The semaphore is never closed.
        Self::Next(Box::pin(async { TURNS.acquire().await.ok() }))
    }

    /// Returns the permit: waiting for the client, or for the body's reader, must not keep others in line.
    fn end(&mut self) {
        if let Self::Now { .. } = self {
            *self = Self::next();
        }
    }
}

impl CodedBody {
    /// Decodes a body, unless its codings change nothing; then the body is returned as the error. Removes the headers that
    /// describe the coding and the encoded length.
    pub(super) fn new(headers: &mut HeaderMap, wire: WireBody) -> Result<Self, WireBody> {
        let codings = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
        let reading = match Decoder::new(Side::Client, codings) {
            Ok(None) => return Err(wire),
            Ok(Some(decoder)) => {
                headers.remove(CONTENT_LENGTH);
                headers.remove(CONTENT_ENCODING);
                Reading::Decoded(Box::new(decoder))
            }
            Err(unknown) => Reading::Refused(unknown.into()),
        };
        Ok(Self { wire, reading, turn: Turn::First, received: 0, limit: usize::MAX })
    }

    /// Limits the bytes received and the bytes of each coding's output.
    pub(super) fn bound(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns how many encoded bytes are still to come, if the client has announced it.
    pub(super) fn announced(&self) -> Option<usize> {
        usize::try_from(self.wire.size_hint().exact()?).ok()
    }

    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match ready!(self.poll_data(context)) {
            Ok(data) => Poll::Ready(data.map(|data| Ok(Frame::data(data)))),
            Err(error) => {
                self.reading = Reading::Refused(error.clone());
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let limit = self.limit;
        let within = |bytes: usize| if bytes > limit { Err(BodyError::TooLarge { limit }) } else { Ok(()) };
        let decoder = match &mut self.reading {
            Reading::Decoded(decoder) => decoder,
            Reading::Refused(error) => return Poll::Ready(Err(error.clone())),
        };
        loop {
            if let Turn::Next(next) = &mut self.turn {
                self.turn = Turn::Now { _turn: ready!(next.as_mut().poll(context)) };
            }
            let pulled = decoder.pull()?;
            within(decoder.unfolded())?;
            match pulled {
                Pulled::Data(data) => {
                    self.turn.end();
                    return Poll::Ready(Ok(Some(data)));
                }
                Pulled::Later => {
                    self.turn = Turn::next();
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Pulled::Empty if decoder.is_finished() => return Poll::Ready(Ok(None)),
                Pulled::Empty => {}
            }
            let Poll::Ready(frame) = Pin::new(&mut self.wire).poll_frame(context) else {
                self.turn.end();
                return Poll::Pending;
            };
            match frame {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.received = self.received.saturating_add(data.len());
                    within(self.received)?;
                    decoder.push(&data);
                }
                Some(Err(error)) => return Poll::Ready(Err(BodyError::broken(error))),
                None => decoder.push_end(),
            }
        }
    }
}
