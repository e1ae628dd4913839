//! Writes a stream of events as one growing JSON array, for Gemini clients that do not ask for events.
//!
//! ```text
//! data: {…}⏎⏎  data: {…}⏎⏎       becomes       [{…},⏎{…}⏎]
//! ```

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use crate::dialect::convert::MAX_EVENT;
use crate::dialect::sse::Scanner;
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody, is_event_stream};

use crate::proxy::relay::rewritten::{Rewrite, buffer_for, rewritten};

/// Turns an answer's events into an array; leaves an answer that is no stream as it is.
pub(in crate::proxy) fn of(mut answer: Response) -> Response {
    if is_event_stream(answer.headers()) {
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, json);
        let events = std::mem::replace(answer.body_mut(), ResponseBody::empty());
        *answer.body_mut() = rewritten(events, Array { scanner: Scanner::new(MAX_EVENT), begun: false });
    }
    answer
}

struct Array {
    scanner: Scanner,
    begun: bool,
}

impl Rewrite for Array {
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated> {
        let mut out = buffer_for(&piece);
        // A comment between events keeps a connection open, and so does a blank line between the array's items.
        let Self { scanner, begun } = self;
        scanner.rewrite(&piece, b"\n", &mut out, |data, out| put(data, begun, out))?;
        Ok(Bytes::from(out))
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        let mut out = Vec::new();
        let Self { scanner, begun } = self;
        scanner.rewrite_last(&mut out, |data, out| put(data, begun, out))?;
        out.extend_from_slice(if *begun { b"\n]" } else { b"[]" });
        Ok(Bytes::from(out))
    }
}

fn put(data: &[u8], begun: &mut bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if std::mem::replace(begun, true) { b",\n" } else { b"[" });
    out.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_kept_whole_breaks_the_array() {
        let mut array = Array { scanner: Scanner::new(64), begun: false };
        let written = array.feed(Bytes::from_static(b"data: {\"a\":1}\n\n"));
        assert_eq!(written.expect("it is short"), "[{\"a\":1}");
        let long = format!("data: {{\"a\":\"{}\"}}\n\n", "x".repeat(1000));
        let mut pieces = long.as_bytes().chunks(50);
        assert!(pieces.any(|piece| array.feed(Bytes::copy_from_slice(piece)).is_err()));
    }
}
