//! An answer whose form, dialect, or both are converted for the client.

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::time::{Instant, timeout_at};

use crate::dialect::canonical::ReplyContext;
use crate::dialect::convert::{self, Answer, StreamGatherer};
use crate::dialect::judge::{self, Fault};
use crate::dialect::observe::Phase;
use crate::dialect::{Dialect, embeddings, gemini};
use crate::http::ResponseBody;
use crate::proxy::attempt::Attempt;
use crate::proxy::client_answer::ClientAnswer;
use crate::proxy::failure::Failure;
use crate::proxy::headers::{self, SecretCheck};
use crate::proxy::operation::Operation;
use crate::proxy::relay::LAST_WORDS;
use crate::routing::Channel;

use super::{StartedResponse, Uncommittable};

/// The maximum size of a complete answer that must be converted, or gathered from a stream, in bytes.
const MAX_CONVERTED: usize = 64 << 20;

impl StartedResponse<'_> {
    /// Commits an answer whose form, dialect, or both are converted for the client.
    pub(super) async fn converted(
        mut self,
        streams: bool,
        mut attempt: Box<Attempt>,
    ) -> Result<ClientAnswer, Uncommittable> {
        let context = self.reply_context(attempt.model()).await;
        let converted = if streams {
            self.gathered(&context).await
        } else {
            self.converted_whole(&context, attempt.channel()).await
        };
        let Answer { body: answer, usage, signatures } = match converted {
            Ok(converted) => converted,
            Err(failure) => return Err(self.uncommittable(attempt, failure)),
        };
        self.note_stored(&answer, &mut attempt).await;
        let answer = self.finished(answer);
        attempt.store_signatures(signatures);
        let mut reply = self.response(&attempt);
        if self.call.envelope.stream {
            headers::event_stream(reply.headers_mut());
        } else {
            let json = HeaderValue::from_static("application/json");
            reply.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        self.proxy.core.metrics.sent_bytes.add(answer.len() as u64);
        attempt.succeed(usage);
        *reply.body_mut() = ResponseBody::full(answer);
        Ok(ClientAnswer { response: reply, not_stored: self.not_stored() })
    }

    /// Gathers a stream into a complete answer, with the usage as its upstream counts it: the client's dialect may count
    /// cached tokens in another way.
    async fn gathered(&mut self, context: &ReplyContext) -> Result<Answer, Failure> {
        let (from, to) = (self.accepted.dialect, self.call.shape.dialect);
        if !from.is_answerable() {
            return Err(self.judged(Fault::NotJson));
        }
        let mut gatherer = StreamGatherer::new(from, to, context, MAX_CONVERTED);
        let length = self.gather(&mut gatherer).await?;
        let progress = gatherer.progress();
        let usage = progress.usage();
        let is_broken = progress.failure().is_none() && !matches!(progress.phase(), Phase::Ended);
        let room = self.proxy.conversions.answer(length).await;
        let gathered = room.convert(|| {
            let answer = gatherer.finish(context).map_err(Fault::Error)?;
            judge::reply(to, &answer.body, &self.call.settings.judge)?;
            Ok(answer)
        });
        let answer = gathered.map_err(|fault| {
            let failure = self.judged(fault);
            if is_broken { failure.begun() } else { failure }
        })?;
        Ok(Answer { usage: usage.or(answer.usage), ..answer })
    }

    /// Reads a stream to its end event; a failure or silence after that takes nothing from the answer. Returns the number of
    /// bytes read.
    async fn gather(&mut self, gatherer: &mut StreamGatherer) -> Result<usize, Failure> {
        let first = std::mem::take(&mut self.first);
        gatherer.feed(&first);
        self.accepted.timeouts.begin_whole();
        let mut length = first.len();
        let mut last_words_until = None;
        while length <= MAX_CONVERTED {
            let progress = gatherer.progress();
            if progress.is_finished() || progress.failure().is_some() {
                return Ok(length);
            }
            let has_ended = matches!(progress.phase(), Phase::Ended);
            let more = if has_ended {
                let until = *last_words_until.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                timeout_at(until, self.accepted.next()).await.unwrap_or(Ok(None))
            } else {
                self.accepted.next().await
            };
            match more {
                Ok(Some(more)) => {
                    gatherer.feed(&more);
                    length += more.len();
                }
                Err(failure) if !has_ended => return Err(failure),
                Ok(None) | Err(_) => return Ok(length),
            }
        }
        Err(Failure::too_long(MAX_CONVERTED))
    }

    /// Reads a complete answer and converts its form, its dialect, or both.
    async fn converted_whole(
        &mut self,
        context: &ReplyContext,
        channel: &Channel,
    ) -> Result<Answer, Failure> {
        let held = self.hold(self.length(), MAX_CONVERTED).await?;
        if !held.is_whole {
            return Err(Failure::too_long(MAX_CONVERTED));
        }
        let held = held.bytes;
        let room = self.proxy.conversions.answer(held.len()).await;
        room.convert(|| self.convert(&held, context, channel)).map_err(|fault| self.judged(fault))
    }

    fn convert(&self, held: &Bytes, context: &ReplyContext, channel: &Channel) -> Result<Answer, Fault> {
        let (from, to) = (self.accepted.dialect, self.call.shape.dialect);
        if !self.is_own_dialect && [from, to].contains(&Dialect::Embeddings) {
            return self.embedded(held, context);
        }
        let rules = &self.call.settings.judge;
        // A stream without event framing, from an upstream that ignores which form was asked for.
        let events = (from == Dialect::Gemini).then(|| gemini::events_of(held)).flatten();
        let gathered = events
            .as_ref()
            .map(|events| convert::accumulated(from, from, events.as_bytes(), context).map_err(Fault::Error));
        let gathered = gathered.transpose()?;
        let held = gathered.as_ref().map_or(held, |answer| &answer.body);
        if let Some(events) = events.filter(|_| self.is_own_dialect) {
            let usage = judge::reply(from, held, rules)?;
            let body = if self.call.envelope.stream { Bytes::from(events) } else { held.clone() };
            return Ok(Answer { body, usage, signatures: Vec::new() });
        }
        // No model knows the channel's secrets: a text that has one is a site's error.
        if let Some(text) = self.plain_text(held).filter(|_| !SecretCheck::of(channel).repeats(held)) {
            judge::text(text, rules)?;
            return Ok(convert::replayed_text(to, text, context));
        }
        let usage = judge::reply(from, held, rules)?;
        let text = String::from_utf8_lossy(held);
        let convert = if self.call.envelope.stream { convert::replayed } else { convert::reply };
        let answer = convert(from, to, &text, context).map_err(Fault::Error)?;
        Ok(Answer { usage, ..answer })
    }

    /// Converts embeddings to the form of the client.
    fn embedded(&self, held: &Bytes, context: &ReplyContext) -> Result<Answer, Fault> {
        let call = self.call;
        let usage = judge::object(self.accepted.dialect, held)?;
        let told = match call.operation {
            Operation::OfGemini(action) => embeddings::answer_to_gemini(action, held),
            _ => {
                let base64 = embeddings::wants_base64(std::str::from_utf8(&call.body).unwrap_or_default());
                embeddings::answer_to_openai(held, &context.model, base64)
            }
        };
        let body = told.ok_or(Fault::NoAnswer)?;
        Ok(Answer { body, usage, signatures: Vec::new() })
    }

    /// Returns the plain text that an upstream sent where a stream was asked for: it is the answer. Broken JSON or a page is
    /// not.
    fn plain_text<'b>(&self, held: &'b [u8]) -> Option<&'b str> {
        let kind = std::str::from_utf8(self.accepted.head.headers.get(&header::CONTENT_TYPE)?).ok()?;
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let text = std::str::from_utf8(held).ok().filter(|_| kind.eq_ignore_ascii_case("text/plain"))?;
        let is_text = !text.trim_start().starts_with(['{', '[', '<']) && !text.trim().is_empty();
        let is_told = self.call.envelope.stream && self.call.shape.dialect.is_answerable();
        (is_told && is_text).then_some(text)
    }
}
