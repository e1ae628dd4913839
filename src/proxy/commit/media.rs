//! Audio answers: the client has chosen one of many forms.
//!
//! | the upstream sends | what becomes of it |
//! |---|---|
//! | events | a stream like any other, observed to its last event |
//! | JSON, or any answer to a client that wants a transcript as JSON | held and judged: it may be an error |
//! | a page, or text where speech was asked for | a failure |
//! | anything else: audio, text, subtitles | passed on as it comes |
//!
//! The kind is told by `Content-Type` alone: any bytes may be the beginning of audio.

use hyper::header::{self, HeaderValue};

use crate::dialect::judge::Fault;
use crate::http::ResponseBody;

use super::super::attempt::Attempt;
use super::super::client_answer::ClientAnswer;
use super::super::failure::Failure;
use super::super::headers::SecretCheck;
use super::super::operation::Operation;
use super::super::send::Accepted;
use super::{StartedResponse, Uncommittable, judged};
use crate::proxy::media_type::{is_event_stream, is_json, is_page, is_text, looks_like_json};
use crate::proxy::relay::long_reply::LongReply;
use crate::proxy::relay::unread::UnreadBytes;

/// The content type of an answer that names none.
const UNKNOWN: HeaderValue = HeaderValue::from_static("application/octet-stream");

impl StartedResponse<'_> {
    /// Commits an answer of the audio surfaces.
    pub(super) async fn media(self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, Uncommittable> {
        // The answer lasts as long as the speech in it.
        attempt.keep_lease();
        let headers = &self.accepted.head.headers;
        let is = |test: fn(&[u8]) -> bool| headers.get(&header::CONTENT_TYPE).is_some_and(test);
        if is(is_event_stream) && !looks_like_json(&self.first) {
            return self.stream(attempt).await;
        }
        let content_type = headers.value(&header::CONTENT_TYPE);
        let is_object = self.call.envelope.wants_json_transcript
            || headers.get(&header::CONTENT_TYPE).map_or_else(|| looks_like_json(&self.first), is_json);
        if is_object {
            return self.whole(attempt).await;
        }
        if is(is_page) {
            return Err(self.uncommittable(attempt, judged(Fault::Html(String::new()))));
        }
        if is(is_text) && self.call.operation == Operation::Speak {
            let failure = Failure::judged("Upstream returned a text in place of speech".to_owned());
            return Err(self.uncommittable(attempt, failure.refused()));
        }
        if self.first.is_empty() && self.call.operation == Operation::Speak {
            return Err(self.uncommittable(attempt, Failure::judged(Fault::Empty.message())));
        }
        Ok(self.passed(content_type, attempt).into())
    }

    /// Passes the bytes on as they come. They contain no usage.
    fn passed(self, content_type: Option<HeaderValue>, mut attempt: Box<Attempt>) -> crate::http::Response {
        let length = self.length();
        let mut reply = self.response(&attempt);
        *reply.status_mut() = self.accepted.head.status;
        let secrets = SecretCheck::of(attempt.channel());
        let content_type = content_type.filter(|value| !secrets.repeats(value.as_bytes()));
        reply.headers_mut().insert(header::CONTENT_TYPE, content_type.unwrap_or(UNKNOWN));
        if self.first.is_empty() {
            // A recording of silence may have an empty transcript.
            attempt.succeed(None);
            return reply;
        }
        let Accepted { body, timeouts, .. } = *self.accepted;
        let bytes = UnreadBytes::new(self.first, body, length, timeouts.idle);
        *reply.body_mut() = ResponseBody::stream(LongReply::new(None, bytes, attempt));
        reply
    }
}
