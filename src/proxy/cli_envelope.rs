//! What Gemini's command line puts around requests and answers: `/v1internal:{action}`.
//!
//! ```text
//! {"model":"m","project":"p","request":{…}}   ─▶   the request alone, with the model beside it and without
//!                                                  the `session_id` that only its own service reads
//! {"response":{…}}                            ◀─   the answer, or each event of a stream
//! ```
//!
//! Its streams are events, whether it says so or not. What counts tokens, and what failed, is answered as
//! it is.

use std::borrow::Cow;

use bytes::Bytes;

use crate::dialect::convert::MAX_EVENT;
use crate::dialect::edit::edit;
use crate::dialect::json;
use crate::dialect::sse::{Event, Scanner};
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody, is_event_stream};

use super::array_stream::TOO_LONG;
use super::rewritten::{Rewrite, rewritten};

/// Names the command line's session, inside the request. Google's API refuses names that it does not know.
const SESSION: &str = "session_id";
const OPEN: &[u8] = b"{\"response\":";
const CLOSE: &[u8] = b"}";

/// A request out of its envelope.
pub(super) struct Opened {
    pub(super) model: String,
    pub(super) body: Bytes,
}

/// Opens the envelope; says what is wrong with one that cannot be opened, and with which field.
pub(super) fn open(body: &Bytes) -> Result<Opened, (Option<&'static str>, &'static str)> {
    let text = std::str::from_utf8(body).map_err(|_| (None, "The request body is not valid UTF-8"))?;
    let (mut model, mut request) = (None, None);
    let read = json::members(text, |member| match member.key.as_ref() {
        "model" => model = json::string(member.value),
        "request" => request = Some((member.at, member.value)),
        _ => {}
    });
    read.map_err(|_| (None, "The request body is not a JSON object"))?;
    let request = request.filter(|(_, request)| request.starts_with('{'));
    let (at, request) = request.ok_or((Some("request"), "request is required and must be an object"))?;
    // Who counts tokens names the model inside.
    let model = model.or_else(|| json::member(request, "model").and_then(json::string)).unwrap_or_default();
    let name = model.trim().strip_prefix("models/").unwrap_or(model.trim());
    if name.is_empty() {
        return Err((Some("model"), "model is required"));
    }
    let body = match edit(request, &[], &[SESSION]) {
        Cow::Borrowed(_) => body.slice(at..at + request.len()),
        Cow::Owned(edited) => Bytes::from(edited),
    };
    Ok(Opened { model: name.to_owned(), body })
}

/// The answer in its envelope; a refusal as it is.
pub(super) fn seal(mut answer: Response) -> Response {
    if !answer.status().is_success() {
        return answer;
    }
    let is_stream = is_event_stream(answer.headers());
    let inner = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match inner {
        ResponseBody::Full(bytes) if !is_stream => {
            ResponseBody::full(Bytes::from([OPEN, &bytes.unwrap_or_default(), CLOSE].concat()))
        }
        inner => {
            let scanner = is_stream.then(|| Scanner::new(MAX_EVENT));
            rewritten(inner, Sealed { scanner, begun: false })
        }
    };
    answer
}

struct Sealed {
    /// `None` where the answer is one object, of which the length is not known yet.
    scanner: Option<Scanner>,
    begun: bool,
}

impl Rewrite for Sealed {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Truncated> {
        let begun = std::mem::replace(&mut self.begun, true);
        match &mut self.scanner {
            Some(scanner) => {
                // A comment between events keeps a connection awake.
                if bytes.starts_with(b":") && scanner.between_events() {
                    out.extend_from_slice(b": keepalive\n\n");
                }
                let mut is_whole = true;
                scanner.feed(bytes, |event| is_whole &= put(&event, out));
                return if is_whole { Ok(()) } else { Err(TOO_LONG) };
            }
            None => {
                out.extend_from_slice(if begun { b"" } else { OPEN });
                out.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Truncated> {
        match &mut self.scanner {
            Some(scanner) => {
                let mut is_whole = true;
                scanner.finish(|event| is_whole &= put(&event, out));
                return if is_whole { Ok(()) } else { Err(TOO_LONG) };
            }
            None if self.begun => out.extend_from_slice(CLOSE),
            None => {}
        }
        Ok(())
    }
}

/// An event, sealed; one that tells a failure is no answer. False where it was too long to be kept whole.
fn put(event: &Event<'_>, out: &mut Vec<u8>) -> bool {
    let data = event.data;
    if event.cut || data.is_empty() {
        return !event.cut;
    }
    let text = std::str::from_utf8(data).unwrap_or_default();
    let is_failure = json::member(text, "error").is_some();
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(if is_failure { b"" } else { OPEN });
    // Lines of one event are one object.
    data.split(|byte| *byte == b'\n').for_each(|line| out.extend_from_slice(line));
    out.extend_from_slice(if is_failure { b"" } else { CLOSE });
    out.extend_from_slice(b"\n\n");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_kept_whole_breaks_the_stream() {
        let mut sealed = Sealed { scanner: Some(Scanner::new(64)), begun: false };
        let mut out = Vec::new();
        assert!(sealed.feed(b"data: {\"a\":1}\n\n", &mut out).is_ok());
        assert_eq!(out, b"data: {\"response\":{\"a\":1}}\n\n");
        let long = format!("data: {{\"a\":\"{}\"}}\n\n", "x".repeat(1000));
        let mut pieces = long.as_bytes().chunks(50);
        assert!(pieces.any(|piece| sealed.feed(piece, &mut out).is_err()));
    }

    #[test]
    fn an_envelope_is_opened_or_says_what_it_lacks() {
        for (body, wanted) in [
            (r#"{"model":"m","project":"p","request":{"contents":[1]}}"#, Ok(("m", r#"{"contents":[1]}"#))),
            (r#"{"request":{"model":"models/m","a":1}}"#, Ok(("m", r#"{"model":"models/m","a":1}"#))),
            (r#"{"model":" models/m ","request":{}}"#, Ok(("m", "{}"))),
            (r#"{"model":"m","request":{"a":1,"session_id":"s","b":2}}"#, Ok(("m", r#"{"a":1,"b":2}"#))),
            (r#"{"model":"m"}"#, Err(Some("request"))),
            (r#"{"model":"m","request":[]}"#, Err(Some("request"))),
            (r#"{"model":" ","request":{}}"#, Err(Some("model"))),
            (r#"{"model":5,"request":{}}"#, Err(Some("model"))),
            ("[]", Err(None)),
            ("{", Err(None)),
        ] {
            let opened = open(&Bytes::from(body));
            let opened =
                opened.as_ref().map(|it| (it.model.as_str(), std::str::from_utf8(&it.body).unwrap()));
            assert_eq!(opened.map_err(|(field, _)| *field), wanted, "{body}");
        }
    }
}
