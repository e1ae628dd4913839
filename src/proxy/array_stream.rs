//! A stream of events as one JSON array that grows: what gemini's clients get that do not ask for events
//! (proxy.md 14.8).
//!
//! ```text
//! data: {…}⏎⏎  data: {…}⏎⏎       becomes       [{…},⏎{…}⏎]
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};

use crate::dialect::sse::Scanner;
use crate::http::body::Cut;
use crate::http::{Response, ResponseBody};

/// The longest event, as anywhere else in a conversion.
const MAX_EVENT: usize = 16 << 20;

/// The answer with its events in an array; one that is no stream as it is.
pub(super) fn of(mut answer: Response) -> Response {
    let is_stream = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if is_stream {
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, json);
        let events = std::mem::replace(answer.body_mut(), ResponseBody::empty());
        *answer.body_mut() = ResponseBody::stream(Array {
            events,
            scanner: Scanner::new(MAX_EVENT),
            begun: false,
            ended: false,
        });
    }
    answer
}

struct Array {
    events: ResponseBody,
    scanner: Scanner,
    begun: bool,
    ended: bool,
}

impl Array {
    fn take(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(bytes.len());
        let begun = &mut self.begun;
        self.scanner.feed(bytes, |event| put(event.data, begun, &mut out));
        out.freeze()
    }

    fn finish(&mut self) -> Bytes {
        self.ended = true;
        let mut out = BytesMut::new();
        let begun = &mut self.begun;
        self.scanner.finish(|event| put(event.data, begun, &mut out));
        out.extend_from_slice(if *begun { b"\n]" } else { b"[]" });
        out.freeze()
    }
}

fn put(data: &[u8], begun: &mut bool, out: &mut BytesMut) {
    if data.is_empty() {
        return;
    }
    out.extend_from_slice(if std::mem::replace(begun, true) { b",\n" } else { b"[" });
    out.extend_from_slice(data);
}

impl Body for Array {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let array = self.get_mut();
        loop {
            if array.ended {
                return Poll::Ready(None);
            }
            let bytes = match ready!(Pin::new(&mut array.events).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().map(|bytes| array.take(&bytes)).unwrap_or_default(),
                Some(Err(cut)) => {
                    array.ended = true;
                    return Poll::Ready(Some(Err(cut)));
                }
                None => array.finish(),
            };
            // A comment that keeps a connection awake is nothing here.
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }
}
