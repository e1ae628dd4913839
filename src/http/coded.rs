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
use crate::limits::{FREE_BODY, HeldMemory};

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
    /// The memory in which the decoder is counted; `None` where the body's reader counts it.
    memory: Option<HeldMemory>,
    /// The number of bytes up to which the reader knows what is held: an empty piece gives it the occasion to look again.
    told: usize,
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
    /// Everything is decoded, and the decoder's memory is given back.
    Ended,
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
        Ok(Self { wire, reading, turn: Turn::First, received: 0, memory: None, told: 0, limit: usize::MAX })
    }

    /// Limits the bytes received and the bytes of each coding's output.
    pub(super) fn bound(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Counts the decoder in this memory: a few bytes may unfold into a window of many megabytes that nothing comes out of.
    pub(super) fn count_in(&mut self, memory: HeldMemory) {
        self.memory = Some(memory);
    }

    pub(super) fn take_count(&mut self) -> Option<HeldMemory> {
        self.memory.take()
    }

    /// Returns how many bytes the decoder holds.
    pub(super) fn held(&self) -> usize {
        if let Reading::Decoded(decoder) = &self.reading { decoder.held() } else { 0 }
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
            Reading::Ended => return Poll::Ready(Ok(None)),
            Reading::Refused(error) => return Poll::Ready(Err(error.clone())),
        };
        loop {
            if let Turn::Next(next) = &mut self.turn {
                self.turn = Turn::Now { _turn: ready!(next.as_mut().poll(context)) };
            }
            let pulled = decoder.pull()?;
            within(decoder.unfolded())?;
            let held = decoder.held();
            let is_told = match &mut self.memory {
                Some(memory) if held > FREE_BODY.max(memory.bytes()) => {
                    memory.grow_at_once(held + held / 2).or_else(|_| memory.grow_at_once(held))?;
                    true
                }
                Some(_) => true,
                None => held <= FREE_BODY.max(self.told),
            };
            match pulled {
                Pulled::Data(data) => {
                    self.turn.end();
                    return Poll::Ready(Ok(Some(data)));
                }
                Pulled::Later | Pulled::Empty if !is_told && !decoder.is_finished() => {
                    self.told = held + held / 2;
                    self.turn.end();
                    return Poll::Ready(Ok(Some(Bytes::new())));
                }
                Pulled::Later => {
                    self.turn = Turn::next();
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Pulled::Empty if decoder.is_finished() => {
                    (self.reading, self.memory) = (Reading::Ended, None);
                    return Poll::Ready(Ok(None));
                }
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
