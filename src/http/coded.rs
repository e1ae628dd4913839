//! Request bodies that come compressed: decoded while they are read (proxy.md 17), so that every limit counts what they
//! unfold to, and a small body that unfolds into gigabytes is too large long before.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue};

use super::body::BodyError;
use crate::codings::Decoder;

/// So many pieces (of 32 KiB) are given in one go; then other requests have their turn.
const TURN: u8 = 32;

/// A body with a `Content-Encoding`.
pub struct CodedBody {
    wire: Incoming,
    reading: Reading,
    /// How many pieces were given since others had their turn.
    given: u8,
}

enum Reading {
    Decoded(Box<Decoder>),
    /// As it came: nobody wants it but to be through with it.
    Raw,
    Refused(BodyError),
}

impl CodedBody {
    /// The body, if its codings change anything; else it is given back. The headers of one that is decoded do not
    /// speak of the codings any more.
    pub(super) fn new(headers: &mut HeaderMap, wire: Incoming) -> Result<Self, Incoming> {
        let reading = match Decoder::new(headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes))
        {
            Ok(None) => return Err(wire),
            Ok(Some(decoder)) => {
                headers.remove(CONTENT_LENGTH);
                headers.remove(CONTENT_ENCODING);
                Reading::Decoded(Box::new(decoder))
            }
            Err(unknown) => Reading::Refused(unknown.into()),
        };
        Ok(Self { wire, reading, given: 0 })
    }

    /// Gives what is still to come as it comes.
    pub(super) fn stop_decoding(&mut self) {
        self.reading = Reading::Raw;
    }

    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let decoder = match &mut self.reading {
            Reading::Decoded(decoder) => decoder,
            Reading::Raw => return Pin::new(&mut self.wire).poll_frame(context).map_err(BodyError::broken),
            Reading::Refused(error) => return Poll::Ready(Some(Err(error.clone()))),
        };
        if self.given == TURN {
            self.given = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            match decoder.pull() {
                Ok(data) if !data.is_empty() => {
                    self.given += 1;
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(_) if decoder.is_finished() => return Poll::Ready(None),
                Ok(_) => {}
                Err(error) => {
                    let error = BodyError::from(error);
                    self.reading = Reading::Refused(error.clone());
                    return Poll::Ready(Some(Err(error)));
                }
            }
            match ready!(Pin::new(&mut self.wire).poll_frame(context)) {
                Some(Ok(frame)) => decoder.push(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::broken(error)))),
                None => decoder.push_end(),
            }
        }
    }
}
