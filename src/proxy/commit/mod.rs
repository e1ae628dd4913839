//! Step 9, the commit point: an answer is held until it is known to be good; only then does it go to the client, in the
//! client's form.
//!
//! | the client wants | the upstream streams | the upstream answers in one piece |
//! |---|---|---|
//! | a stream | held to the first output, then [`relay`] | judged, replayed as a stream |
//! | an answer | gathered, judged | judged |
//!
//! If client and upstream speak the same dialect, bytes pass as they are, and events that a site leaves out are added to its
//! streams. Otherwise they are converted on the way. Audio and transcripts, which no dialect can express, are handled
//! by [`media`]; the kind of a body, by its content type and its first bytes, is told by
//! [`media_type`](super::media_type). What the client may later go on from is noted by [`stored_answer`].

mod media;
mod stored_answer;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::header::{self, HeaderValue};
use tokio::time::Instant;

use crate::byte_order_mark;
use crate::dialect::canonical::ReplyContext;
use crate::dialect::convert::{self, Answer, StreamConverter, StreamGatherer};
use crate::dialect::judge::{self, Fault};
use crate::dialect::observe::{Phase, StreamProgress};
use crate::dialect::repair::StreamRepair;
use crate::dialect::{Dialect, embeddings, gemini, responses, video};
use crate::http::{Response, ResponseBody};
use crate::proxy::Proxy;
use crate::proxy::redaction;
use crate::routing::Channel;
use crate::time::now_secs;
use crate::uuid;

use super::attempt::Attempt;
use super::call::Call;
use super::client_answer::ClientAnswer;
use super::failure::Failure;
use super::headers::{self, SecretCheck};
use super::media_type::{is_event_stream, is_json, is_undecided, looks_like_events, looks_like_json};
use super::operation::Operation;
use super::relay::long_reply::LongReply;
use super::relay::unread::UnreadBytes;
use super::relay::{self, HeldStream, HeldStreamRest, LAST_WORDS};
use super::send::{Accepted, Timeouts};
use super::videos::{self, CreatedVideo};

/// The largest preamble of a stream that is held back, in bytes; a longer one is sent on all the same.
const MAX_HELD: usize = 1 << 20;
/// The longest time for which a stream is held back, counted from its first byte, where no heartbeat keeps the
/// client's connection open: after that the client gets what there is.
const MAX_HOLD: Duration = Duration::from_secs(10);
/// The size up to which a complete answer is held and judged, in bytes; a longer one passes through.
const MAX_JUDGED: usize = 2 << 20;
/// The maximum size of a complete answer that must be converted, or gathered from a stream, in bytes.
const MAX_CONVERTED: usize = 64 << 20;

/// The answer that replaces an unreadable answer to a search.
const NOTHING_FOUND: &[u8] = b"{\"data\":[]}";

/// An answer that cannot be committed. Its attempt is not settled yet, because another address may do better.
pub(super) struct Uncommittable {
    pub(super) attempt: Box<Attempt>,
    pub(super) failure: Failure,
}

/// Holds the answer until it is known to be good, then turns it into the client's answer.
pub(super) async fn commit(
    proxy: &Arc<Proxy>,
    call: &Call,
    mut accepted: Box<Accepted>,
    mut attempt: Box<Attempt>,
) -> Result<ClientAnswer, Uncommittable> {
    if call.envelope.stream {
        attempt.keep_lease();
    }
    let mut first = match accepted.next().await {
        Ok(first) => first.unwrap_or_default(),
        Err(failure) => return Err(uncommittable(attempt, failure)),
    };
    attempt.first_byte();
    accepted.timeouts.first_byte = None;
    if call.shape.dialect == Dialect::Audio {
        let answer = StartedResponse { proxy, call, accepted, first, own: true, answer_id: String::new() };
        return Box::pin(answer.media(attempt)).await;
    }
    if is_undecided(&first) {
        first = match decided(first, &mut accepted).await {
            Ok(first) => first,
            Err(failure) => return Err(uncommittable(attempt, failure)),
        };
    }
    // Readers of events skip the mark; readers of JSON do not accept it.
    let unmarked = byte_order_mark::strip(&first);
    let named_stream = accepted.head.headers.get(&header::CONTENT_TYPE).is_some_and(is_event_stream)
        && !looks_like_json(unmarked);
    let streams = named_stream || looks_like_events(unmarked);
    if !streams {
        first = first.slice(first.len() - unmarked.len()..);
    }
    let dialect = accepted.dialect;
    let own = dialect == call.shape.dialect;
    let is_named = !own && call.shape.dialect == Dialect::Responses;
    let answer_id = if is_named { uuid::random_hex() } else { String::new() };
    let answer = StartedResponse { proxy, call, accepted, first, own, answer_id };
    match (call.envelope.stream, streams) {
        // Boxed, so that calls without a stream do not carry it.
        (true, true) => Box::pin(answer.stream(attempt)).await,
        (false, false) if call.operation == Operation::CreateVideo => {
            Box::pin(answer.created_video(attempt)).await
        }
        (false, false) if own => answer.whole(attempt).await,
        (true, false) if !dialect.is_answerable() => answer.whole(attempt).await,
        // An answer of another form than was asked for, or of another dialect: rare and large.
        _ => Box::pin(answer.converted(streams, attempt)).await,
    }
}

/// Reads on until the first bytes tell whether the answer is a stream: the network may have cut them anywhere.
async fn decided(first: Bytes, accepted: &mut Accepted) -> Result<Bytes, Failure> {
    let hold_until = Instant::now() + MAX_HOLD;
    let mut begun = BytesMut::from(first);
    while is_undecided(&begun) && begun.len() < MAX_HELD {
        match tokio::time::timeout_at(hold_until, accepted.next()).await {
            Ok(more) => match more? {
                Some(more) => begun.extend_from_slice(&more),
                None => break,
            },
            Err(_) => break,
        }
    }
    Ok(begun.freeze())
}

/// An answer whose first bytes have arrived.
struct StartedResponse<'a> {
    proxy: &'a Arc<Proxy>,
    call: &'a Call,
    accepted: Box<Accepted>,
    first: Bytes,
    /// Whether the upstream speaks the client's dialect.
    own: bool,
    /// The id for an answer that is converted to the responses dialect; else empty.
    answer_id: String,
}

impl<'a> StartedResponse<'a> {
    /// Commits a stream: it is held until it has shown something that a client would miss.
    async fn stream(mut self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, Uncommittable> {
        let (client, dialect) = (self.call.shape.dialect, self.accepted.dialect);
        let mut held = if self.own {
            HeldStream::passed(dialect, attempt.counts_text(), self.is_repairable())
        } else {
            HeldStream::converted(self.converter(attempt.model()).await, attempt.counts_text())
        };
        held.take(std::mem::take(&mut self.first));
        let hold_until = held.last_data + MAX_HOLD;
        let is_kept_open = attempt.settings().heartbeats.first.is_some();
        while withheld(&held, &attempt) && held.length < MAX_HELD {
            let more = if is_kept_open {
                self.accepted.next().await
            } else {
                match tokio::time::timeout_at(hold_until, self.accepted.next()).await {
                    Ok(more) => more,
                    Err(_) => break,
                }
            };
            let more = match more {
                Ok(more) => more,
                Err(failure) => return Err(self.uncommittable(attempt, failure)),
            };
            let Some(more) = more else {
                held.finish();
                let is_early = matches!(held.progress().phase(), Phase::Preamble | Phase::Output);
                if is_early && held.failure().is_none() {
                    return Err(self.uncommittable(attempt, Failure::closed_early()));
                }
                break;
            };
            held.take(more);
        }
        // A failure after the first output is reported to the client, even where both arrived at once:
        // what the client sees depends on the order of the events, not on how the network cut them.
        let is_unseen = !held.progress().output_seen() || held.is_unwritten();
        if let Some(error) = held.failure().filter(|_| is_unseen) {
            let failure = Failure::said(error.clone(), "stream error");
            return Err(self.uncommittable(attempt, failure));
        }
        if ended_empty(held.progress(), &attempt) {
            return Err(self.uncommittable(attempt, Failure::judged(Fault::Empty.message())));
        }
        let mut response = Response::new(ResponseBody::empty());
        self.put_headers(attempt.channel(), &mut response);
        headers::event_stream(response.headers_mut());
        headers::request_id(client, self.call.shape.id, response.headers_mut());
        let not_stored = self.not_stored();
        if held.failure().is_none() {
            self.note_stored(&held.ready, &mut attempt).await;
            if self.is_repairable()
                && held.progress().lacks_opening()
                && let Some(repair) = StreamRepair::new(dialect, self.reply_context(attempt.model()).await)
            {
                held = held.repaired(repair);
            }
        }
        let Accepted { body, timeouts, .. } = *self.accepted;
        let Timeouts { idle, timer, .. } = timeouts;
        let rest = HeldStreamRest { upstream: body, idle, timer };
        *response.body_mut() = relay::body(client, held, rest, attempt);
        Ok(ClientAnswer { response, not_stored })
    }

    /// Whether missing events may be added to the stream, which must be in the client's own dialect. A stream made in the
    /// background is replayed by its site, event by event with the site's numbers.
    fn is_repairable(&self) -> bool {
        self.own && !self.call.envelope.in_background
    }

    /// Builds the converter that writes a stream in the client's dialect, from its first event on.
    fn converter(&self, model: &str) -> impl Future<Output = StreamConverter> + use<'a> {
        let (from, to) = (self.accepted.dialect, self.call.shape.dialect);
        let reply_context = self.reply_context(model);
        async move { StreamConverter::new(from, to, Arc::new(reply_context.await)) }
    }

    /// Commits a complete answer in the client's dialect: reads and judges it, and passes it on as it came.
    async fn whole(mut self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, Uncommittable> {
        let length = self.length();
        let mut reply = self.response(&attempt);
        *reply.status_mut() = self.accepted.head.status;
        let json = HeaderValue::from_static("application/json");
        let secrets = SecretCheck::of(attempt.channel());
        let is_plain = |value: &HeaderValue| is_json(value.as_bytes()) && !secrets.repeats(value.as_bytes());
        let content_type = self.accepted.head.headers.value(&header::CONTENT_TYPE).filter(is_plain);
        reply.headers_mut().insert(header::CONTENT_TYPE, content_type.unwrap_or(json));
        let not_stored = self.not_stored();

        let (mut held, complete) = match self.hold(length, MAX_JUDGED).await {
            Ok(held) => held,
            Err(failure) => return Err(self.uncommittable(attempt, failure)),
        };
        if !complete {
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
    async fn created_video(mut self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, Uncommittable> {
        let length = self.length();
        let held = match self.hold(length, MAX_JUDGED).await {
            Ok((held, true)) => redaction::of_object(held, &attempt.secrets()),
            Ok((_, false)) => return Err(self.uncommittable(attempt, Failure::too_long(MAX_JUDGED))),
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

    /// Commits an answer whose form, dialect, or both are converted for the client.
    async fn converted(
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
                tokio::time::timeout_at(until, self.accepted.next()).await.unwrap_or(Ok(None))
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
        let (held, complete) = self.hold(self.length(), MAX_CONVERTED).await?;
        if !complete {
            return Err(Failure::too_long(MAX_CONVERTED));
        }
        let room = self.proxy.conversions.answer(held.len()).await;
        room.convert(|| self.convert(&held, context, channel)).map_err(|fault| self.judged(fault))
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

    fn convert(&self, held: &Bytes, context: &ReplyContext, channel: &Channel) -> Result<Answer, Fault> {
        let (from, to) = (self.accepted.dialect, self.call.shape.dialect);
        if !self.own && [from, to].contains(&Dialect::Embeddings) {
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
        if let Some(events) = events.filter(|_| self.own) {
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

    /// Rewrites an answer to a compaction call as a compaction: not every upstream distinguishes compactions from answers.
    fn finished(&self, body: Bytes) -> Bytes {
        if self.call.operation != Operation::Compact {
            return body;
        }
        let now = now_secs();
        let text = std::str::from_utf8(&body).unwrap_or_default();
        responses::as_compaction(text, self.call.shape.id.as_str(), now).map_or(body, Bytes::from)
    }

    /// Builds the context in which the answer is written: what must be known of the request, and the model that the upstream
    /// was asked for. A request that was sent unread is read for it now.
    fn reply_context(&self, model: &str) -> impl Future<Output = ReplyContext> + use<'a> {
        let (proxy, call) = (self.proxy, self.call);
        let (known, model) = (self.accepted.reply_context.as_deref().cloned(), model.to_owned());
        let answer_id = Some(self.answer_id.clone()).filter(|id| !id.is_empty());
        async move {
            let read = || {
                convert::context_of(call.shape.dialect, std::str::from_utf8(&call.body).unwrap_or_default())
            };
            let reply_context = match known {
                Some(known) => known,
                None => proxy.conversions.read_through(call.body.len(), read).await,
            };
            ReplyContext {
                now: now_secs(),
                answer_id,
                fallback_id: call.shape.id.as_str().to_owned(),
                model,
                ..reply_context
            }
        }
    }

    /// Turns a fault of the answer into a failure. A model repeats what its client tells it to, so a keyword that the request
    /// contains is nobody's fault.
    fn judged(&self, fault: Fault) -> Failure {
        match fault {
            Fault::Keyword(ref word) if self.call.has_said(word) => judged(fault).by_the_client(),
            fault => judged(fault),
        }
    }

    /// Adds the upstream's headers about its limits, which the client gets even with an unusable answer.
    fn uncommittable(&self, attempt: Box<Attempt>, failure: Failure) -> Uncommittable {
        uncommittable(attempt, failure.answered_with(&self.accepted.head.headers))
    }

    /// Builds a response with the headers that every answer has.
    fn response(&self, attempt: &Attempt) -> Response {
        let mut response = Response::new(ResponseBody::empty());
        self.put_headers(attempt.channel(), &mut response);
        headers::request_id(self.call.shape.dialect, self.call.shape.id, response.headers_mut());
        response
    }

    fn put_headers(&self, channel: &Channel, response: &mut Response) {
        let secrets = SecretCheck::of(channel);
        let upstream = &self.accepted.head.headers;
        headers::downstream(upstream, |value| secrets.repeats(value), response.headers_mut());
    }

    /// Returns the length of the whole answer in bytes, when the upstream gave it.
    fn length(&self) -> Option<u64> {
        http_body::Body::size_hint(&self.accepted.body).exact().map(|rest| rest + self.first.len() as u64)
    }

    /// Reads the answer up to `limit` bytes, and tells whether that is all. One chunk is the usual case, and needs no buffer.
    async fn hold(&mut self, length: Option<u64>, limit: usize) -> Result<(Bytes, bool), Failure> {
        let first = std::mem::take(&mut self.first);
        if length.is_some_and(|length| length > limit as u64) {
            return Ok((first, false));
        }
        let Some(second) = self.accepted.next().await? else { return Ok((first, true)) };
        let begun = first.len() + second.len();
        self.accepted.timeouts.begin_whole();
        let mut buffer = BytesMut::with_capacity(length.map_or(2 * begun, |length| length as usize));
        buffer.extend_from_slice(&first);
        buffer.extend_from_slice(&second);
        while buffer.len() <= limit {
            match self.accepted.next().await? {
                Some(more) => buffer.extend_from_slice(&more),
                None => return Ok((buffer.freeze(), true)),
            }
        }
        Ok((buffer.freeze(), false))
    }
}

/// Turns a fault of an answer with a good status into a failure.
pub(super) fn judged(fault: Fault) -> Failure {
    match fault {
        Fault::Error(error) => Failure::said(error, "an error object with a success status"),
        // A page does not come from the API, but from something in front of it.
        Fault::Html(_) => Failure::judged(fault.message()).refused(),
        fault => Failure::judged(fault.message()),
    }
}

/// Whether the client would miss nothing yet. Where an empty answer counts as a failure, blank text is nothing yet, and an
/// end without output waits for the usage that may follow it.
fn withheld(held: &HeldStream, attempt: &Attempt) -> bool {
    let progress = held.progress();
    match progress.phase() {
        _ if held.failure().is_some() => false,
        Phase::Preamble => true,
        Phase::Ended => !progress.is_finished() && ended_empty(progress, attempt),
        // What has come may be the beginning of something else, which is written later.
        Phase::Output if held.is_unwritten() => true,
        Phase::Output => !progress.words_seen() && attempt.settings().judge.fails_empty(false, None),
        Phase::Failed(_) => false,
    }
}

/// Whether the stream ended without output and the operator's rules call it empty.
fn ended_empty(progress: &StreamProgress, attempt: &Attempt) -> bool {
    matches!(progress.phase(), Phase::Ended)
        && !progress.words_seen()
        && attempt.settings().judge.fails_empty(false, progress.usage())
}

fn uncommittable(attempt: Box<Attempt>, failure: Failure) -> Uncommittable {
    let failure = failure.redacted(&attempt.secrets());
    Uncommittable { attempt, failure }
}
