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

use crate::dialect::sse::{Event, Scanner};
use crate::http::body::Cut;
use crate::http::{Response, ResponseBody};

/// The longest event, as anywhere else in a conversion.
const MAX_EVENT: usize = 16 << 20;
/// What was left out of an event may have been the middle of a picture: its client would not notice.
pub(super) const TOO_LONG: Cut = Cut("an event of the answer is too long");

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
    fn take(&mut self, bytes: &[u8]) -> Result<Bytes, Cut> {
        let mut is_whole = true;
        let mut out = BytesMut::with_capacity(bytes.len());
        let begun = &mut self.begun;
        self.scanner.feed(bytes, |event| is_whole &= put(&event, begun, &mut out));
        if is_whole { Ok(out.freeze()) } else { Err(TOO_LONG) }
    }

    fn finish(&mut self) -> Result<Bytes, Cut> {
        self.ended = true;
        let mut is_whole = true;
        let mut out = BytesMut::new();
        let begun = &mut self.begun;
        self.scanner.finish(|event| is_whole &= put(&event, begun, &mut out));
        out.extend_from_slice(if *begun { b"\n]" } else { b"[]" });
        if is_whole { Ok(out.freeze()) } else { Err(TOO_LONG) }
    }
}

/// False for an event that was too long to be kept whole.
fn put(event: &Event<'_>, begun: &mut bool, out: &mut BytesMut) -> bool {
    if event.cut || event.data.is_empty() {
        return !event.cut;
    }
    out.extend_from_slice(if std::mem::replace(begun, true) { b",\n" } else { b"[" });
    out.extend_from_slice(event.data);
    true
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
            let read = match ready!(Pin::new(&mut array.events).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().map_or(Ok(Bytes::new()), |bytes| array.take(&bytes)),
                Some(Err(cut)) => Err(cut),
                None => array.finish(),
            };
            match read {
                // A comment that keeps a connection awake is nothing here.
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(cut) => {
                    array.ended = true;
                    return Poll::Ready(Some(Err(cut)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_kept_whole_breaks_the_array() {
        let events = ResponseBody::empty();
        let mut array = Array { events, scanner: Scanner::new(64), begun: false, ended: false };
        assert_eq!(array.take(b"data: {\"a\":1}\n\n").ok().as_deref(), Some(&b"[{\"a\":1}"[..]));
        let long = format!("data: {{\"a\":\"{}\"}}\n\n", "x".repeat(1000));
        let mut pieces = long.as_bytes().chunks(50);
        assert!(pieces.any(|piece| array.take(piece).is_err()));
    }
}
