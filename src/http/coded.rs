//! Request bodies that come compressed: decoded while they are read, so that every limit counts what they
//! unfold to, and a small body that unfolds into gigabytes is too large long before. The limit holds for what each
//! coding gives, and for what comes over the wire, too: neither need show in what is given out in the end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue};

use super::body::BodyError;
use super::unread::WireBody;
use crate::codings::{Decoder, Pulled, Sender};

/// A body with a `Content-Encoding`.
pub struct CodedBody {
    wire: WireBody,
    reading: Reading,
    /// How much came over the wire.
    received: usize,
    /// How much that may be, and what any of its codings gives.
    limit: usize,
}

enum Reading {
    Decoded(Box<Decoder>),
    Refused(BodyError),
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
        Ok(Self { wire, reading, received: 0, limit: usize::MAX })
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
            let pulled = decoder.pull()?;
            within(decoder.unfolded())?;
            match pulled {
                Pulled::Data(data) => return Poll::Ready(Ok(Some(data))),
                Pulled::Later => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Pulled::Empty if decoder.is_finished() => return Poll::Ready(Ok(None)),
                Pulled::Empty => {}
            }
            match ready!(Pin::new(&mut self.wire).poll_frame(context)) {
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
