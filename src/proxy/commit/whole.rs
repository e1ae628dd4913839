//! A complete answer in the client's dialect: judged, and passed on as it came.

use bytes::Bytes;
use hyper::header::{self, HeaderValue};

use crate::dialect::judge::{self, Fault};
use crate::dialect::{Dialect, video};
use crate::http::ResponseBody;
use crate::proxy::attempt::Attempt;
use crate::proxy::client_answer::ClientAnswer;
use crate::proxy::failure::Failure;
use crate::proxy::headers::SecretCheck;
use crate::proxy::held_body::HeldBody;
use crate::proxy::media_type::is_json;
use crate::proxy::operation::Operation;
use crate::proxy::redaction;
use crate::proxy::relay::long_reply::LongReply;
use crate::proxy::relay::unread::UnreadBytes;
use crate::proxy::send::Accepted;
use crate::proxy::videos::{self, CreatedVideo};

use super::{StartedResponse, Uncommittable};

/// The size up to which a complete answer is held and judged, in bytes; a longer one passes through.
const MAX_JUDGED: usize = 2 << 20;

/// The answer that replaces an unreadable answer to a search.
const NOTHING_FOUND: &[u8] = b"{\"data\":[]}";

impl StartedResponse<'_> {
    /// Commits a complete answer in the client's dialect: reads and judges it, and passes it on as it came.
    pub(super) async fn whole(mut self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, Uncommittable> {
        let length = self.length();
        let mut reply = self.response(&attempt);
        *reply.status_mut() = self.accepted.head.status;
        let json = HeaderValue::from_static("application/json");
        let secrets = SecretCheck::of(attempt.channel());
        // The usual value is not searched for secrets that are as short: that would cost a fifteenth of a short request.
        let is_plain = |value: &HeaderValue| {
            value == json || is_json(value.as_bytes()) && !secrets.repeats(value.as_bytes())
        };
        let content_type = self.accepted.head.headers.value(&header::CONTENT_TYPE).filter(is_plain);
        reply.headers_mut().insert(header::CONTENT_TYPE, content_type.unwrap_or(json));
        let not_stored = self.not_stored();

        let HeldBody { bytes: mut held, is_whole } = match self.hold(length, MAX_JUDGED).await {
            Ok(held) => held,
            Err(failure) => return Err(self.uncommittable(attempt, failure)),
        };
        if !is_whole {
            if let Err(fault) = judge::beginning(&held) {
                return Err(self.uncommittable(attempt, Failure::judged(fault.message())));
            }
            self.note_stored(&held, &mut attempt).await;
            let Accepted { body, timeouts, dialect, .. } = *self.accepted;
            let bytes = UnreadBytes::new(held, body, length, timeouts.idle);
            *reply.body_mut() = ResponseBody::stream(LongReply::new(Some(dialect), bytes, attempt));
            return Ok(ClientAnswer { response: reply, not_stored });
        }
        let settings = &self.call.settings;
        let dialect = self.accepted.dialect;
        // A compaction has no output to be judged by.
        let verdict = match self.call.operation {
            Operation::Answer => judge::reply(dialect, &held, &settings.judge),
            Operation::CountTokens => judge::count(dialect, &held),
            // A search that found nothing may have an answer without any words.
            Operation::Search if judge::object(dialect, &held) == Err(Fault::NotJson) => {
                held = Bytes::from_static(NOTHING_FOUND);
                Ok(None)
            }
            _ => judge::object(dialect, &held),
        };
        match verdict {
            Ok(usage) => {
                self.note_stored(&held, &mut attempt).await;
                let mut held = self.finished(held);
                if dialect == Dialect::Responses {
                    held = redaction::of_error(held, || attempt.secrets());
                }
                self.proxy.core.metrics.sent_bytes.add(held.len() as u64);
                attempt.succeed(usage);
                *reply.body_mut() = ResponseBody::full(held);
                Ok(ClientAnswer { response: reply, not_stored })
            }
            Err(fault) => Err(self.uncommittable(attempt, self.judged(fault))),
        }
    }

    /// Commits a created video: its id is replaced by a public one, which is stored before the client is answered.
    pub(super) async fn created_video(
        mut self,
        mut attempt: Box<Attempt>,
    ) -> Result<ClientAnswer, Uncommittable> {
        let length = self.length();
        let held = match self.hold(length, MAX_JUDGED).await {
            Ok(held) if held.is_whole => redaction::of_object(held.bytes, &attempt.secrets()),
            Ok(_) => return Err(self.uncommittable(attempt, Failure::too_long(MAX_JUDGED))),
            Err(failure) => return Err(self.uncommittable(attempt, failure)),
        };
        let verdict = judge::object(self.accepted.dialect, &held);
        let Some(upstream_id) = video::id(&held) else {
            let without_id = || Failure::judged("Upstream returned a video without an id".to_owned());
            return Err(self
                .uncommittable(attempt, verdict.map_or_else(|fault| self.judged(fault), |_| without_id())));
        };
        let status = self.accepted.head.status;
        let created = CreatedVideo { upstream_id, status, endpoint: self.accepted.endpoint, body: &held };
        let stored = videos::store_mapping(&self.proxy.core.store, self.call, &attempt, created).await;
        // The upstream renders the video and charges for it, whether it was stored here or not.
        attempt.succeed(verdict.unwrap_or_default());
        let body = match stored {
            Ok(body) => body,
            Err(refusal) => return Ok(refusal.into()),
        };
        let mut reply = self.response(&attempt);
        *reply.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        reply.headers_mut().insert(header::CONTENT_TYPE, json);
        self.proxy.core.metrics.sent_bytes.add(body.len() as u64);
        *reply.body_mut() = ResponseBody::full(body);
        Ok(reply.into())
    }
}
