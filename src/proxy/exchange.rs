//! One attempt: build the upstream request, try the site's addresses and at each the dialects it
//! may take, until one answers with a good status. What the answer is worth, [`commit`] judges.
//!
//! ```text
//! channel ─▶ address ─▶ dialect ─▶ commit     a refused dialect gives way to the next, a broken address
//!               ▲          │         │        to the next, and what is neither ends the attempt
//!               └──────────┴─────────┴─▶ failure
//! ```
//!
//! No channel gets twice what it may be at work on already: [`Failure::may_repeat`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::Method;
use hyper::header;
use hyper::http::uri::PathAndQuery;
use tokio::time::{Instant, timeout};

use super::state::Proxy as App;
use crate::dialect::canonical::{ConversionError, ReplyContext};
use crate::dialect::{Dialect, messages};
use crate::http::Response;
use crate::http::timer::ReusableTimer;
use crate::limits::Overloaded;
use crate::routing::{Channel, Credential, CredentialHeaders, Endpoint, path_segments, pool};
use crate::settings::Settings;
use crate::store::proxy_logs::ProxyLogRow;
use crate::time::{Millis, now_ms};
use crate::upstream::{self, Answer, AnswerHead, Repeat, RequestBody, SendError, UpstreamBody};

use super::attempt::{Attempt, Choice, Slots};
use super::cache_key;
use super::call::{Call, Operation};
use super::commit;
use super::failure::Failure;
use super::formats::{self, Formats, MemoryKey};
use super::headers;
use super::outgoing::{self, Destination, Outgoing};
use super::recovery::{self, Recovery};
use super::response_owners;
use super::trace::Trace;

/// How much of an upstream's error body is read (proxy.md 17), and for how long.
const MAX_ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the head of an answer: a long completion sends nothing until it is done.
const HEAD_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest wait for the rest of an answer that is held until it is whole. One that trickles on for longer
/// has been billed, and would take as long elsewhere: it fails for its client alone.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(900);

/// An upstream's answer of which the status has been found good. Always boxed: it is handed on from
/// step to step, and the future of every step would have room for it twice.
pub(super) struct Accepted {
    pub(super) head: AnswerHead,
    pub(super) body: UpstreamBody,
    pub(super) timeouts: Timeouts,
    /// The dialect it answers in.
    pub(super) format: Dialect,
    /// It stores nothing that a client could refer to.
    pub(super) keeps_nothing: bool,
    /// Set when the request was converted.
    pub(super) reply_context: Option<Box<ReplyContext>>,
    /// Which address of the site's pool gave it; `None` is the site's own.
    pub(super) endpoint: Option<i64>,
}

impl Accepted {
    /// The next bytes of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.timeouts.wait(self.timeouts.idle, pin!(self.body.data())).await? {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(error)) => Err(Failure::cut(&error)),
        }
    }
}

/// Waits bounded by the first-byte deadline when there is one, and by an idle limit always.
pub(super) struct Timeouts {
    pub(super) first_byte: Option<(Instant, Duration)>,
    pub(super) idle: Duration,
    /// When an answer that is held has to be whole.
    pub(super) whole: Option<Instant>,
    timer: ReusableTimer,
}

impl Timeouts {
    /// As the operator wants it.
    pub(super) fn of(app: &App, settings: &Settings, timer: ReusableTimer) -> Self {
        let first_byte = settings.first_byte_timeout;
        Self {
            first_byte: (!first_byte.is_zero()).then(|| (Instant::now() + first_byte, first_byte)),
            idle: app.core.config.proxy.stream_idle_timeout,
            whole: None,
            timer,
        }
    }

    /// Waits for `what`. The clock is only looked at when it is not there yet: chunks mostly are.
    async fn wait<T>(
        &self,
        limit: Duration,
        mut what: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Failure> {
        let mut until = None;
        let came = poll_fn(|context| {
            if let Poll::Ready(value) = what.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            let until = *until.get_or_insert_with(|| self.deadline(limit));
            self.timer.poll_until(until, context).map(|()| None)
        });
        came.await.ok_or_else(|| self.timed_out(limit))
    }

    /// When a wait of at most `limit` ends that begins now.
    fn deadline(&self, limit: Duration) -> Instant {
        match (self.first_byte, self.whole) {
            (Some((deadline, _)), _) => deadline,
            (None, None) => Instant::now() + limit,
            (None, Some(whole)) => whole.min(Instant::now() + limit),
        }
    }

    /// The answer is held until it is whole, and its time for that begins now.
    pub(super) fn begin_whole(&mut self) {
        self.whole = Some(Instant::now() + WHOLE_TIMEOUT);
    }

    fn timed_out(&self, limit: Duration) -> Failure {
        match (self.first_byte, self.whole) {
            (Some((_, total)), _) => Failure::first_byte_timeout(total),
            (None, Some(whole)) if whole <= Instant::now() => Failure::never_whole(WHOLE_TIMEOUT),
            _ => Failure::silence(limit),
        }
    }
}

/// Tries one channel. The attempt is settled when this gives a failure; with an answer it travels
/// in the answer's body.
pub(super) async fn attempt(
    app: &Arc<App>,
    call: &Call,
    choice: &Choice,
    number: u32,
    slots: Slots,
) -> Result<Response, Failure> {
    call.trace.channel_selected(&choice.channel, &choice.model, choice.reason);
    let mut attempt = Attempt::begin(app, call, choice, number, slots);
    let sending = Sending { app, call, channel: &choice.channel, model: &choice.model };
    let mut search = sending.search(&attempt);
    call.trace.dialects_ordered(&search.formats);
    let failure = loop {
        let (accepted, endpoint) = match sending.answer(&mut search, &mut attempt).await {
            Ok(answered) => answered,
            Err(failure) => break failure.without(&attempt.secrets()),
        };
        let format = accepted.format;
        match commit::commit(app, call, accepted, attempt).await {
            Ok(response) => {
                sending.remember(&search.refused, format);
                return Ok(response);
            }
            Err(useless) => {
                attempt = useless.attempt;
                if !useless.failure.blames_address() {
                    break useless.failure.to(call, &choice.channel, &choice.model);
                }
                let rotates = useless.failure.rotates_address(call.work());
                let failure = search.leave(app, endpoint, useless.failure);
                if !rotates {
                    break failure;
                }
                call.trace.request_failed(&failure, false);
                search.last = Some(Box::new(failure));
            }
        }
    };
    attempt.fail(&failure);
    Err(failure)
}

/// What an address has said to the dialects tried so far: the first of each kind. Of several the one counts that is about
/// more than the dialect, else what no dialect can say.
#[derive(Default)]
struct Refusals {
    /// A failure that another dialect might not meet, and that is not about dialects.
    cause: Option<Box<Failure>>,
    /// The request cannot be said in a dialect.
    unsaid: Option<Box<Failure>>,
    /// A dialect is not taken.
    of_dialect: Option<Box<Failure>>,
}

impl Refusals {
    /// What to tell of dialects that have all been tried.
    fn first(self) -> Option<Failure> {
        self.cause.or(self.unsaid).or(self.of_dialect).map(|failure| *failure)
    }

    /// What to tell when `last` ends the search. Where the last dialect is not taken either, the first one refused is
    /// the client's own, in which it understands why.
    fn or_last(self, last: Failure, is_dialect_refused: bool) -> Failure {
        if is_dialect_refused {
            self.first().unwrap_or(last)
        } else {
            self.cause.map_or(last, |failure| *failure)
        }
    }
}

/// A dialect that was not taken, and the one that the upstream named instead.
type Refused = (Dialect, Option<Dialect>);

/// How far one attempt has come.
struct Search<'a> {
    /// Those that have not been asked.
    addresses: pool::Order<'a>,
    formats: Formats,
    /// The dialects that were refused for good.
    refused: Vec<Refused>,
    /// Why the last address was left.
    last: Option<Box<Failure>>,
    now: Millis,
}

impl Search<'_> {
    /// Lets the address rest that is to blame. While the channel has another one, it is not blamed itself.
    fn leave(&mut self, app: &App, endpoint: &Endpoint, failure: Failure) -> Failure {
        self.now = now_ms();
        if endpoint.live.record_failure(self.now, self.now + pool::COOLDOWN_MS, &failure.text) {
            app.core.store.telemetry().dirty_endpoint(endpoint.live.clone());
        }
        if self.addresses.has_more() { failure.of_one_address() } else { failure }
    }
}

/// One call on its way to one channel.
struct Sending<'a> {
    app: &'a Arc<App>,
    call: &'a Call,
    channel: &'a Arc<Channel>,
    /// The model's name there.
    model: &'a str,
}

impl<'a> Sending<'a> {
    fn search(&self, attempt: &Attempt) -> Search<'a> {
        // The first address is asked as the attempt begins; a look at the clock less.
        let now = attempt.began_at().unwrap_or_else(now_ms);
        let addresses = pool::order(&self.channel.account.site.endpoints, now);
        Search { addresses, formats: self.formats(now), refused: Vec::new(), last: None, now }
    }

    /// Asks one address after the other until one gives a good status (routing.md 10.4).
    async fn answer(
        &self,
        search: &mut Search<'a>,
        attempt: &mut Attempt,
    ) -> Result<(Box<Accepted>, &'a Endpoint), Failure> {
        let site = &self.channel.account.site;
        if let Some(reason) = &site.misconfigured {
            return Err(Failure::local(format!("site {} cannot be used: {reason}", site.name)));
        }
        let credential = self.channel.credential.as_ref();
        let Some(values) = credential.and_then(Credential::headers) else {
            return Err(Failure::local(
                "the channel has no credential that can stand in a header".to_owned(),
            ));
        };
        while let Some(endpoint) = search.addresses.next() {
            let live = &endpoint.live;
            let note = |dirty: bool| {
                if dirty {
                    self.app.core.store.telemetry().dirty_endpoint(live.clone());
                }
            };
            note(live.record_selection(search.now));
            let dialects = (&mut search.formats, &mut search.refused);
            let tried = self.ask(endpoint, values, dialects, attempt).await;
            match tried {
                Ok(accepted) => {
                    note(live.record_success());
                    return Ok((accepted, endpoint));
                }
                Err(failure) if !failure.blames_address() => {
                    note(live.record_other_failure(now_ms(), &failure.text));
                    return Err(failure);
                }
                Err(failure) => {
                    let rotates = failure.rotates_address(self.call.work());
                    let failure = search.leave(self.app, endpoint, failure);
                    if !rotates {
                        return Err(failure);
                    }
                    search.last = Some(Box::new(failure));
                }
            }
        }
        Err(match search.last.take() {
            Some(failure) => *failure,
            None => Failure::local(format!("site {} has no address", site.name)),
        })
    }

    /// The dialects to ask in, in order, as far as the site is known.
    fn formats(&self, now: Millis) -> Formats {
        let (site, client) = (&self.channel.account.site, self.call.face.dialect);
        let mut formats = formats::order(site.platform, client, self.model);
        if self.call.operation != Operation::Answer {
            return formats.iter().copied().filter(|format| *format == client).collect();
        }
        let (marks, body) = (self.call.envelope.marks, &self.call.body[..]);
        if formats.first() != Some(&client) {
            formats::order_for_document(&mut formats, site.platform, client, self.model, body);
        }
        if formats.len() > 1
            && let Some(prices) = self.channel.account.prices.load().as_ref()
            && let Some(price) = prices.price(self.model)
        {
            let models = [self.model, self.call.model.as_ref()];
            let listed = &price.labels.endpoint_types;
            formats::prefer_listed(&mut formats, site.platform, client, models, listed);
        }
        if formats.len() > 1 && continues_elsewhere(self.call) {
            formats::prefer(&mut formats, Dialect::Responses);
        }
        formats::keep_address(&mut formats, site.platform, client, (marks, body));
        self.app.formats.apply(&mut formats, self.memory_key(), &self.call.body, now);
        if self.call.settings.single_format {
            formats.truncate(1);
        }
        formats
    }

    /// Asks one address, in one dialect after the other. A dialect that is refused for good leaves
    /// `formats`: the next address is not asked in it.
    async fn ask(
        &self,
        endpoint: &Endpoint,
        values: &CredentialHeaders,
        (formats, refused): (&mut Formats, &mut Vec<Refused>),
        attempt: &mut Attempt,
    ) -> Result<Box<Accepted>, Failure> {
        let (site, client) = (&self.channel.account.site, self.call.face.dialect);
        let mut queue = *formats;
        let mut refusals = Refusals::default();
        // A request in other words.
        let mut again: Option<Box<Outgoing>> = None;
        let mut recovery = Recovery::default();
        let mut operation = self.call.operation;
        let mut downgraded: Option<Box<ProxyLogRow>> = None;
        while let Some(format) = queue.pop_first() {
            let path = operation.upstream_path(site.platform, format);
            // In a block of its own, so that the future has no room for the request.
            let (sending, reply_context) = {
                let prepared = match again.take() {
                    Some(outgoing) => Ok(*outgoing),
                    None => {
                        recovery = Recovery::default();
                        self.prepare_apart(operation, format).await?
                    }
                };
                let outgoing = match prepared {
                    Ok(outgoing) => outgoing,
                    Err(unfit @ ConversionError::Unsupported { .. }) => {
                        formats.remove(format);
                        refusals.unsaid.get_or_insert_with(|| Box::new(Failure::unfit(unfit)));
                        continue;
                    }
                    Err(unfit) => return Err(Failure::unfit(unfit)),
                };
                let target = match self.target(endpoint, (path, format), outgoing.stream) {
                    Ok(target) => target,
                    Err(unfit) => return Err(Failure::unfit(unfit)),
                };
                let (request, reply_context) = self.request((target, format), values, outgoing);
                self.call.trace.request_sent(&endpoint.base, path, &request);
                (self.app.core.client.send_boxed(&endpoint.base.origin, request), reply_context)
            };
            if let Some(row) = downgraded.take() {
                self.app.core.store.telemetry().log(*row);
            }
            attempt.via(path);
            let timeouts = Timeouts::of(self.app, &self.call.settings, self.call.timer.clone());
            let accepted = match answered(pin!(sending), path, &timeouts, &self.call.trace).await {
                Ok((head, body)) => {
                    let keeps_nothing = outgoing::keeps_nothing(site.platform, format);
                    Ok(Box::new(Accepted {
                        head,
                        body,
                        timeouts,
                        format,
                        keeps_nothing,
                        reply_context,
                        endpoint: endpoint.id,
                    }))
                }
                Err(failure) => Err(failure),
            };
            let failure = match accepted {
                Ok(accepted) => return Ok(accepted),
                Err(failure) => failure.without(&attempt.secrets()),
            };
            let failure = failure.to(self.call, self.channel, self.model);
            let prepare = || self.prepare(operation, format).ok();
            let length = if format == client { 0 } else { self.call.body.len() };
            let room = self.app.conversions.answer(length).await;
            let next = || recovery.next(self.call, (site.platform, format), &failure, prepare);
            again = room.convert(next).map(Box::new);
            if again.is_some() && recovery.leaves_out(cache_key::MEMBER) {
                self.app.cache_keys.refused(site.id, now_ms());
            }
            let compacts = operation == Operation::Compact && failure.lacks_compaction();
            if again.is_none() && compacts && self.call.settings.compact_fallback {
                operation = Operation::Answer;
            }
            if again.is_some() || operation != self.call.operation && compacts {
                self.call.trace.request_failed(&failure, true);
                queue.push_first(format);
                continue;
            }
            let failure = if format == client { failure } else { failure.in_other_words() };
            let may_ask = failure.may_repeat(self.call.work()) == Repeat::Here;
            let refusal = formats::downgrade(&failure, format).filter(|_| may_ask);
            let downgrade = refusal.filter(|_| formats.len() > 1);
            self.call.trace.request_failed(&failure, downgrade.is_some());
            let Some(downgrade) = downgrade else {
                return Err(refusals.or_last(failure, refusal.is_some_and(|refusal| refusal.blocks)));
            };
            downgraded = attempt.downgrade(&failure);
            formats::order_for_document(&mut queue, site.platform, client, self.model, &self.call.body);
            if let Some(wanted) = downgrade.to.and_then(|to| queue.iter().position(|own| *own == to)) {
                queue.prefer(wanted);
            }
            if downgrade.blocks {
                formats.remove(format);
                refused.push((format, downgrade.to));
                refusals.of_dialect.get_or_insert_with(|| Box::new(failure));
            } else {
                refusals.cause.get_or_insert_with(|| Box::new(failure));
            }
        }
        let nothing = || Failure::local(format!("site {} takes none of the dialects", site.name));
        Err(refusals.first().unwrap_or_else(nothing))
    }

    /// The site has answered in this dialect what it refused in others, so it was the dialects that it refused.
    fn remember(&self, refused: &[Refused], answered: Dialect) {
        if refused.is_empty() {
            return;
        }
        let (memory, key, now) = (&self.app.formats, self.memory_key(), now_ms());
        for refused in refused {
            memory.refused(key, *refused, now);
        }
        memory.succeeded(key, answered, now);
    }

    /// What experience with the site's dialects is kept under.
    fn memory_key(&self) -> MemoryKey<'_> {
        let site = self.channel.account.site.id;
        MemoryKey { site, client: self.call.face.dialect, model: &self.call.model }
    }

    /// The body in a dialect, converted where that keeps nobody waiting.
    async fn prepare_apart(
        &self,
        operation: Operation,
        format: Dialect,
    ) -> Result<Result<Outgoing, ConversionError>, Failure> {
        if format == self.call.face.dialect {
            return Ok(self.prepare(operation, format));
        }
        let room = self.app.conversions.request(self.call.body.len()).await;
        let room = room.map_err(|Overloaded| Failure::overloaded())?;
        Ok(room.convert(|| self.prepare(operation, format)))
    }

    /// The body in a dialect.
    fn prepare(&self, operation: Operation, format: Dialect) -> Result<Outgoing, ConversionError> {
        let settings = &self.call.settings;
        let account = &self.channel.account;
        let cache_key = self.cache_key(operation, format);
        let destination = Destination {
            platform: account.site.platform,
            format,
            model: self.model,
            account_type: match (account.oauth, account.session_scoped) {
                (true, _) => "oauth",
                (false, true) => "session",
                (false, false) => "apikey",
            },
            rules: settings.payload_rules.as_ref(),
            withheld: response_owners::withheld(&self.app.core, self.call, self.channel),
            tiers: &self.app.core.config.proxy.tier_rules,
            max_parts: self.app.core.config.proxy.max_request_parts,
            cache_key: cache_key.as_deref(),
        };
        outgoing::prepare(self.call, operation, destination)
    }

    /// What OpenAI may find the conversation's cached prompt by, where the client could not say it.
    fn cache_key(&self, operation: Operation, format: Dialect) -> Option<String> {
        let site = &self.channel.account.site;
        let is_converted = operation == Operation::Answer && format != self.call.face.dialect;
        if !is_converted || !cache_key::is_known(site.platform, format) {
            return None;
        }
        let key = cache_key::of(self.call, self.channel.id, self.app.core.store.sealer())?;
        (!self.app.cache_keys.refuses(site.id, now_ms())).then_some(key)
    }

    /// Path and query at one address. The client's query belongs to the dialect that the client speaks.
    fn target(
        &self,
        endpoint: &Endpoint,
        (path, format): (&'static str, Dialect),
        stream: bool,
    ) -> Result<PathAndQuery, ConversionError> {
        let query = if format == self.call.face.dialect { self.call.query.as_str() } else { "" };
        Ok(match query {
            _ if format == Dialect::Gemini => endpoint.base.join(&self.named_path(endpoint, stream, query)?),
            "" => endpoint.base.join_known(path),
            query => endpoint.base.join(&format!("{path}{query}")),
        })
    }

    /// The request as it goes to one address, and what the answer's writer must know of it.
    fn request(
        &self,
        (target, format): (PathAndQuery, Dialect),
        credential: &CredentialHeaders,
        outgoing: Outgoing,
    ) -> (Box<upstream::Request>, Option<Box<ReplyContext>>) {
        let (site, client) = (&self.channel.account.site, self.call.face.dialect);
        let Outgoing { pieces, stream, betas, content_type, bare, reply_context } = outgoing;
        let own = &self.call.headers;
        let less = bare.then(|| recovery::bare(own, site.platform, format));
        let mut request = Box::new(upstream::Request::new(Method::POST, target, RequestBody::from(pieces)));
        request.work = self.call.work();
        request.headers =
            headers::upstream(client, format, stream, site, credential, less.as_ref().unwrap_or(own));
        if let Some(betas) = &betas {
            headers::add_betas(&mut request.headers, betas);
        }
        if let Some(content_type) = content_type {
            request.headers.set(header::CONTENT_TYPE, content_type);
        }
        (request, reply_context)
    }

    /// Gemini's paths name the model and what is to be done. Streams are always asked for as events.
    ///
    /// # Errors
    /// A model's name that cannot stand in a path.
    fn named_path(&self, endpoint: &Endpoint, stream: bool, query: &str) -> Result<String, ConversionError> {
        let (action, query) = match self.call.operation {
            Operation::CountTokens => ("countTokens", query.to_owned()),
            Operation::OfGemini(action) => (action, query.to_owned()),
            _ if stream => ("streamGenerateContent", format!("?alt=sse{}", query.replacen('?', "&", 1))),
            _ => ("generateContent", query.to_owned()),
        };
        let name = path_segments(self.model)
            .map_err(|message| ConversionError::Invalid { field: "model".to_owned(), message })?;
        // Tuned models are a collection of their own beside the base models.
        let collection = if name.starts_with("tunedModels/") { "" } else { "models/" };
        let version = self.call.version.as_deref().filter(|_| !endpoint.base.names_version());
        let version = version.unwrap_or("v1beta");
        Ok(format!("/{version}/{collection}{name}:{action}{query}"))
    }
}

/// Whether a messages body goes on from what only an upstream of the responses dialect may keep
/// (proxy.md 5.1): its results are of calls that it does not have.
fn continues_elsewhere(call: &Call) -> bool {
    let envelope = &call.envelope;
    call.face.dialect == Dialect::Messages
        && (envelope.has_continuation || envelope.user.is_some())
        && messages::answers_elsewhere(&call.body)
}

/// What one request to one address gives. A status outside 2xx is a failure that has been read.
pub(super) async fn answered(
    sending: Pin<&mut impl Future<Output = Result<Answer, SendError>>>,
    path: &'static str,
    timeouts: &Timeouts,
    trace: &Trace,
) -> Result<(AnswerHead, UpstreamBody), Failure> {
    let Answer { head, body } =
        timeouts.wait(HEAD_TIMEOUT, sending).await?.map_err(|error| Failure::unanswered(&error))?;
    let body = trace.response_started(&head, body);
    if head.status.is_success() {
        return Ok((head, body));
    }
    let status = head.status.as_u16();
    let (body, complete) = Box::pin(read_some(body, MAX_ERROR_BODY, ERROR_BODY_TIMEOUT)).await;
    Err(Failure::status(status, path, &head.headers, body, complete, now_ms()))
}

/// At most `limit` bytes of a body, and whether that was all of it.
pub(super) async fn read_some(mut body: UpstreamBody, limit: usize, within: Duration) -> (Bytes, bool) {
    let mut read = BytesMut::new();
    let all = async {
        while let Some(data) = body.data().await {
            let Ok(data) = data else { return false };
            let room = limit - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                return false;
            }
        }
        true
    };
    let complete = timeout(within, all).await.unwrap_or(false);
    (read.freeze(), complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_only_trickles_is_not_waited_for_without_end() {
        let idle = Duration::from_secs(300);
        let timer = ReusableTimer::default();
        let mut timeouts = Timeouts { first_byte: None, idle, whole: None, timer };
        let begun = Instant::now();
        timeouts.begin_whole();
        let failure = loop {
            let ping = tokio::time::sleep(Duration::from_secs(200));
            if let Err(failure) = timeouts.wait(idle, pin!(ping)).await {
                break failure;
            }
        };
        assert_eq!(begun.elapsed(), WHOLE_TIMEOUT);
        assert!(failure.text.contains("not whole within 900 s"), "{}", failure.text);
        assert_eq!(failure.status, 504);
        let may_retry = failure.may_retry(upstream::Work::Text);
        assert!(!failure.is_channel_fault() && !may_retry, "it was answered, and billed");
        let silent = timeouts.wait(Duration::ZERO, pin!(std::future::pending::<()>())).await;
        assert!(silent.is_err());
    }
}
