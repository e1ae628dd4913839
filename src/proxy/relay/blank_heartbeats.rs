//! Heartbeats for Google's SDKs for JavaScript, which Gemini CLI uses, too: many of their releases look for `data: ` at the
//! very place where an event may begin, and fail at a comment there (`processStreamResponse` of `@google/genai` 1.x,
//! `getResponseStream` of `@google/generative-ai`).
//!
//! ```text
//! heartbeat   heartbeat   event               what every client reads
//! "data: "    " "         "   {…}\n\n"        data:    {…}
//! ```
//!
//! So the next event is begun early, and each further heartbeat is a blank before its JSON, which may begin with blanks
//! (RFC 8259, 2). Where no event follows, an empty one ends what was begun.

use bytes::Bytes;
use hyper::HeaderMap;

use crate::dialect::{Dialect, sse};
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody};

use super::rewritten::{Rewrite, rewritten};

/// The beginning of an event.
const BEGIN: &[u8] = b"data: ";
/// The end of an event that was begun, and says nothing.
const EMPTY: &[u8] = b"{}\n\n";

/// Whether a client of this dialect may be one that fails at comments.
pub(in crate::proxy) fn are_needed(dialect: Dialect, headers: &HeaderMap) -> bool {
    let names_sdk = |sdk: &str| {
        sdk.contains("genai-js/") || sdk.contains("google-genai-sdk/") && sdk.contains("gl-node/")
    };
    dialect == Dialect::Gemini
        && headers.get("x-goog-api-client").and_then(|sdk| sdk.to_str().ok()).is_some_and(names_sdk)
}

/// Writes the comments of a streamed answer as blanks.
pub(in crate::proxy) fn in_place_of_comments(mut response: Response) -> Response {
    if matches!(response.body(), ResponseBody::Stream(_)) {
        let body = std::mem::replace(response.body_mut(), ResponseBody::empty());
        *response.body_mut() = rewritten(body, BlankHeartbeats { has_begun: false });
    }
    response
}

struct BlankHeartbeats {
    /// Whether the next event has been begun.
    has_begun: bool,
}

impl Rewrite for BlankHeartbeats {
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated> {
        if piece == sse::KEEP_ALIVE {
            let is_first = !std::mem::replace(&mut self.has_begun, true);
            return Ok(Bytes::from_static(if is_first { BEGIN } else { b" " }));
        }
        if !std::mem::take(&mut self.has_begun) {
            return Ok(piece);
        }
        Ok(match piece.strip_prefix(b"data:") {
            Some(rest) => piece.slice_ref(rest),
            None => Bytes::from([EMPTY, &piece].concat()),
        })
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        Ok(Bytes::from_static(if std::mem::take(&mut self.has_begun) { EMPTY } else { b"" }))
    }

    fn is_idle(&self) -> bool {
        !self.has_begun
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::{Body, Frame};
    use http_body_util::BodyExt;

    use super::*;

    struct Pieces(VecDeque<&'static [u8]>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Truncated;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
            let piece = self.get_mut().0.pop_front();
            Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece)))))
        }
    }

    async fn sent(pieces: &[&'static [u8]]) -> String {
        let body = ResponseBody::stream(Pieces(pieces.iter().copied().collect()));
        let response = in_place_of_comments(Response::new(body));
        let Ok(collected) = response.into_body().collect().await else { panic!("it is whole") };
        String::from_utf8(collected.to_bytes().to_vec()).expect("text")
    }

    #[tokio::test]
    async fn a_heartbeat_is_a_blank_of_the_next_event() {
        const BEAT: &[u8] = sse::KEEP_ALIVE;
        let event: &[u8] = b"data: {\"a\":1}\n\n";
        assert_eq!(sent(&[event, event]).await, "data: {\"a\":1}\n\ndata: {\"a\":1}\n\n");
        assert_eq!(sent(&[BEAT, BEAT, event]).await, "data:   {\"a\":1}\n\n");
        assert_eq!(sent(&[event, BEAT, event]).await, "data: {\"a\":1}\n\ndata:  {\"a\":1}\n\n");
        assert_eq!(sent(&[BEAT, b"data:{}\r\n\r\n"]).await, "data: {}\r\n\r\n");
        assert_eq!(sent(&[event, BEAT]).await, "data: {\"a\":1}\n\ndata: {}\n\n");
        assert_eq!(sent(&[BEAT, b": an upstream's own\n\n"]).await, "data: {}\n\n: an upstream's own\n\n");
    }

    #[test]
    fn googles_sdks_for_javascript_are_known_by_their_header() {
        let needed = |dialect, sdk: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-goog-api-client", http::HeaderValue::from_static(sdk));
            are_needed(dialect, &headers)
        };
        for (sdk, is_needed) in [
            ("google-genai-sdk/1.30.0 gl-node/v20.20.2", true),
            ("genai-js/0.24.1", true),
            ("google-genai-sdk/1.50.0 gl-python/3.11.7", false),
            ("gl-node/20.20.2 auth/9.15", false),
        ] {
            assert_eq!(needed(Dialect::Gemini, sdk), is_needed, "{sdk}");
        }
        assert!(!needed(Dialect::Chat, "genai-js/0.24.1"));
    }
}
