//! Request bodies that come compressed: decoded while they are read, so that every limit counts what they
//! unfold to, and a small body that unfolds into gigabytes is too large long before. The limit holds for what each
//! coding gives, and for what comes over the wire, too: neither need show in what is given out in the end.
//!
//! What takes more than one turn of its decoder waits for the next in line with all others: however many bodies are
//! decoded at once, a thread that serves connections meets one of them at most between two that it serves.

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
use crate::codings::{Decoder, Pulled, Sender};

/// Those that may be decoded at one time, as far as they take more than one turn: half of the cores are left to others.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// A body with a `Content-Encoding`.
pub struct CodedBody {
    wire: WireBody,
    reading: Reading,
    turn: Turn,
    /// How much came over the wire.
    received: usize,
    /// How much that may be, and what any of its codings gives.
    limit: usize,
}

/// Whether a body may be decoded now.
enum Turn {
    /// It has just begun.
    First,
    /// It waits in line.
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
        // Never closed.
        Self::Next(Box::pin(async { TURNS.acquire().await.ok() }))
    }

    /// Nobody waits in line for this body's client, or for who reads it.
    fn end(&mut self) {
        if let Self::Now { .. } = self {
            *self = Self::next();
        }
    }
}

impl CodedBody {
    /// The body, if its codings change anything; else it is given back. The headers of one that is decoded do not
    /// speak of the codings any more.
    pub(super) fn new(headers: &mut HeaderMap, wire: WireBody) -> Result<Self, WireBody> {
        let codings = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
        let reading = match Decoder::new(Sender::Client, codings) {
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

    /// Nothing beyond this is read, or unfolded.
    pub(super) fn bound(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// How much is still to come, if the client has said so.
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
