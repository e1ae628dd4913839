//! Answers to the Gemini CLI, in the envelope that it reads ([`code_assist`](crate::dialect::code_assist)).
//!
//! Its streams are always events, whether it asks for them or not. Token counts and errors are sent without an envelope.

use bytes::Bytes;

use crate::dialect::code_assist::{AROUND, seal_event, seal_whole};
use crate::dialect::convert::MAX_EVENT;
use crate::dialect::sse::{KEEP_ALIVE, Scanner};
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody, is_event_stream};

use crate::proxy::relay::rewritten::{Rewrite, buffer_for, rewritten};

/// Puts an answer into its envelope; leaves a refusal as it is.
pub(in crate::proxy) fn seal(mut answer: Response) -> Response {
    if !answer.status().is_success() {
        return answer;
    }
    let is_stream = is_event_stream(answer.headers());
    let inner = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match inner {
        ResponseBody::Full(bytes) if !is_stream => ResponseBody::full(seal_whole(&bytes.unwrap_or_default())),
        inner => {
            let scanner = is_stream.then(|| Scanner::new(MAX_EVENT));
            rewritten(inner, Sealed { scanner, begun: false })
        }
    };
    answer
}

struct Sealed {
    /// Splits a stream into events; `None` where the answer is one object, whose length is not known yet.
    scanner: Option<Scanner>,
    begun: bool,
}

impl Rewrite for Sealed {
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated> {
        let begun = std::mem::replace(&mut self.begun, true);
        match &mut self.scanner {
            Some(scanner) => {
                let mut out = buffer_for(&piece);
                scanner.rewrite(&piece, KEEP_ALIVE, &mut out, seal_event)?;
                Ok(Bytes::from(out))
            }
            None if begun => Ok(piece),
            None => Ok(Bytes::from([AROUND[0], &piece].concat())),
        }
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        match &mut self.scanner {
            Some(scanner) => {
                let mut out = Vec::new();
                scanner.rewrite_last(&mut out, seal_event)?;
                Ok(Bytes::from(out))
            }
            None if self.begun => Ok(Bytes::from_static(AROUND[1])),
            None => Ok(Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_kept_whole_breaks_the_stream() {
        let mut sealed = Sealed { scanner: Some(Scanner::new(64)), begun: false };
        let written = sealed.feed(Bytes::from_static(b"data: {\"a\":1}\n\n"));
        assert_eq!(written.expect("it is short"), "data: {\"response\":{\"a\":1}}\n\n");
        let long = format!("data: {{\"a\":\"{}\"}}\n\n", "x".repeat(1000));
        let mut pieces = long.as_bytes().chunks(50);
        assert!(pieces.any(|piece| sealed.feed(Bytes::copy_from_slice(piece)).is_err()));
    }
}
