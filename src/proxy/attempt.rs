//! One try on one channel: a value that settles itself.
//!
//! An attempt ends in exactly one of three ways: it succeeds, it fails, or it is dropped because the
//! client went away or this service stopped. Each way books what follows: the log row, the channel's counters and
//! cooldown, the metrics. Whoever holds the attempt cannot forget to settle it.

use std::sync::Arc;
use std::time::Instant;

use hyper::header::HeaderValue;

use crate::dialect::convert::CallSignature;
use crate::dialect::errors::UpstreamError;
use crate::dialect::responses::item_ids;
use crate::dialect::usage::Usage;
use crate::jobs::late_usage::Payer;
use crate::jobs::{late_prices, usage_lookup};
use crate::keys::{Charge, Key};
use crate::mask::Mask;
use crate::metrics::series::AttemptResult;
use crate::money::Usd;
use crate::proxy::Proxy;
use crate::request_id::RequestId;
use crate::routing::{Channel, Conversation, SelectionReason};
use crate::settings::Settings;
use crate::store::amend::RowName;
use crate::store::background_responses::InBackground;
use crate::store::proxy_logs::{LogStatus, ProxyLogRow, UsageSource};
use crate::time::{Millis, measured_ms, millis, monotonic_ms, now_ms};

use super::alerts;
use super::call::Call;
use super::cost;
use super::failure::Failure;
use super::key::quota::{Admission, AdmissionRefusal};
use super::operation::Operation;
use super::responses::background;
use super::responses::id_owners::StoredAt;
use super::responses::name::ResponseName;
use super::responses::owners::{self, Requester};
use super::session::{self, Session};
use super::trace::record::Trace;
use super::trace::redact;

mod booking;
mod cooldown;
mod held;

use booking::{BackgroundResponse, Booking, EstimatedTokens, PartialUsage};
use held::Held;
pub(super) use held::Slots;

/// The status logged for a client that hung up or cancelled its response; nginx uses the same number.
const CLIENT_CLOSED: u16 = 499;
/// The status logged when this service stopped and its grace period was over.
const SERVICE_STOPPED: u16 = 503;

/// The channel that an attempt goes to.
#[derive(Clone)]
pub(super) struct Choice {
    pub(super) channel: Arc<Channel>,
    /// The model's name on that channel.
    pub(super) model: Arc<str>,
    /// The reason for which the channel was chosen.
    pub(super) reason: SelectionReason,
}

pub(super) struct Attempt {
    proxy: Arc<Proxy>,
    channel: Arc<Channel>,
    /// The model's name at the upstream.
    model: Arc<str>,
    started: Instant,
    /// The log row of the attempt; taken when it is settled.
    row: Option<ProxyLogRow>,
    /// The managed key that is charged for the attempt.
    key: Option<Arc<Key>>,
    /// The credential that the client presented.
    presented: Option<HeaderValue>,
    /// The settings at the beginning of the call.
    settings: Arc<Settings>,
    trace: Trace,
    /// The conversation that a success binds to the channel.
    conversation: Option<Conversation>,
    held: Held,
    booking: Booking,
    /// Whether the upstream stores the answer, so that later requests may refer to its items.
    is_stored: bool,
    /// Estimated usage of a stream that ends before its usage is told, where its key is charged for it.
    estimated: Option<EstimatedTokens>,
    /// The number of factory resets when the attempt began.
    resets: u64,
}

impl Attempt {
    /// Begins the attempt with the given number (0 for the first) of a call. Boxed, because it travels with the answer.
    pub(super) fn begin(
        proxy: &Arc<Proxy>,
        call: &Call,
        choice: &Choice,
        number: u32,
        slots: Slots,
    ) -> Box<Self> {
        let Choice { channel, model, reason } = choice;
        let started_at = now_ms();
        proxy.core.metrics.attempts.add(1);
        let row = ProxyLogRow {
            request_id: Some(call.shape.id),
            route_id: Some(channel.route_id),
            channel_id: Some(channel.id),
            account_id: Some(channel.account.id),
            site_id: Some(channel.account.site.id),
            platform: Some(channel.account.site.platform),
            downstream_api_key_id: call.key_id,
            model_requested: Some(call.model.clone()),
            model_actual: Some(model.clone()),
            is_stream: Some(call.envelope.stream),
            downstream_path: Some(call.operation.path(call.shape.dialect)),
            retry_count: number,
            begins_call: number == 0,
            decision: Some(*reason),
            client_family: Some(call.client.family.id()),
            client_app_id: call.client.app.as_ref().map(|app| app.id.clone()),
            client_app_name: call.client.app.as_ref().map(|app| app.name.clone()),
            client_confidence: Some(call.client.confidence.id()),
            session_id: call.client.session.clone(),
            ..ProxyLogRow::new(started_at, LogStatus::Failed)
        };
        let held = Held {
            slots,
            admission: call.admission.clone(),
            at_work: proxy.core.metrics.series.begin(channel.id, model),
            _in_flight: proxy.core.metrics.in_flight.enter(),
        };
        Box::new(Self {
            proxy: proxy.clone(),
            channel: channel.clone(),
            model: model.clone(),
            started: Instant::now(),
            row: Some(row),
            key: call.caller.key.clone(),
            presented: call.presented.clone(),
            settings: call.settings.clone(),
            trace: call.trace.clone(),
            conversation: call.session.as_ref().map(Session::conversation),
            held,
            booking: if call.operation == Operation::CountTokens { Booking::Never } else { Booking::AtEnd },
            is_stored: false,
            estimated: call.estimated_input.map(|input| EstimatedTokens { input, output: 0 }),
            resets: proxy.core.resets(),
        })
    }

    /// Replaces what the call holds of the key's limits, where that is shared beyond the call.
    pub(super) fn set_admission(&mut self, admission: Admission) {
        self.held.admission = admission;
    }

    /// Gives the key's slot to other calls while nothing is asked of the upstream.
    pub(super) fn release_key_slot(&mut self) {
        self.held.admission.release_slot();
    }

    /// Takes a slot of the key again, which may have been changed since: from now on it pays by its present limits.
    pub(super) fn retake_key_slot(
        &mut self,
        key: Option<&Arc<Key>>,
        model: &str,
    ) -> Result<(), AdmissionRefusal> {
        let admission = Admission::of_counted(key.map(|key| &**key), model)?;
        self.charge_to(key.cloned(), admission);
        Ok(())
    }

    /// Charges this key in place of the one that began the call.
    pub(super) fn charge_to(&mut self, key: Option<Arc<Key>>, admission: Admission) {
        if let Some(row) = &mut self.row {
            row.downstream_api_key_id = key.as_ref().map(|key| key.id);
        }
        self.key = key;
        self.held.admission = admission;
    }

    /// Restarts the measured time of the attempt; `at` is the present time.
    pub(super) fn restart_clock(&mut self, at: Millis) {
        self.started = Instant::now();
        if let Some(row) = &mut self.row {
            row.created_at = at;
        }
    }

    pub(super) fn proxy(&self) -> &Arc<Proxy> {
        &self.proxy
    }

    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Returns the model's name at the upstream.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Stores the signatures of tool calls for which the client has no place.
    pub(super) fn store_signatures(&self, signatures: Vec<CallSignature>) {
        let key = self.key.as_ref().map(|key| key.id);
        for (call, signature) in signatures {
            self.proxy.call_signatures.keep(key, call, signature, now_ms());
        }
    }

    /// Builds the mask of the secrets that the request carried. It is made anew each time, for use when something went wrong.
    pub(super) fn secrets(&self) -> Mask {
        redact::sent(&self.channel, self.presented.as_ref())
    }

    /// Returns the settings at the beginning of the call: later changes apply to later calls.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns when the attempt began, while it is not settled.
    pub(super) fn began_at(&self) -> Option<Millis> {
        self.row.as_ref().map(|row| row.created_at)
    }

    /// Returns the id of the call, while the attempt is not settled.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        self.row.as_ref()?.request_id
    }

    /// Registers the answer with this id as made in the background: it stays at work, and its usage is not booked, until its
    /// end is known. Returns what identifies the row of this attempt.
    pub(super) fn continue_in_background(&mut self, answer_id: &str) -> Option<InBackground> {
        let row = self.row.as_ref()?;
        let at = StoredAt {
            account: self.channel.account.id,
            token: self.channel.token_id,
            model: row.model_requested.clone(),
        };
        let name = ResponseName::new(row.downstream_api_key_id, answer_id);
        let admission = self.held.admission.clone();
        let cancellation = self.proxy.background_responses.begin(name, at, row.created_at, admission);
        let in_background = InBackground {
            created_at: row.created_at,
            request_id: row.request_id?,
            retry_count: row.retry_count,
            model_actual: self.model.clone(),
        };
        self.booking = Booking::WithResponse(BackgroundResponse { id: answer_id.to_owned(), cancellation });
        Some(in_background)
    }

    /// Leaves the usage unbooked when the attempt is settled. Returns the name of the row, under which it is booked later.
    pub(super) fn book_later(&mut self) -> Option<RowName> {
        let row = self.row.as_ref()?;
        self.booking = Booking::Later;
        RowName::of(row)
    }

    /// Records the path that the upstream is asked at.
    pub(super) fn set_upstream_path(&mut self, path: &'static str) {
        if let Some(row) = &mut self.row {
            row.upstream_path = Some(path);
        }
    }

    /// Keeps the site's slot while the upstream streams, for as long as that takes.
    pub(super) fn keep_lease(&mut self) {
        self.held.slots.site.keep_alive();
    }

    /// Records that the first byte of the answer's body has arrived.
    pub(super) fn first_byte(&mut self) {
        let latency = self.elapsed_ms();
        if let Some(row) = &mut self.row {
            row.first_byte_latency_ms.get_or_insert(latency);
        }
    }

    /// Builds a log row for a dialect that the upstream refused, for when it is asked in another dialect. That is no failure
    /// of the channel.
    pub(super) fn refusal_row(&self, failure: &Failure) -> Option<Box<ProxyLogRow>> {
        let row = self.row.as_ref()?;
        Some(Box::new(ProxyLogRow {
            http_status: Some(failure.status),
            latency_ms: Some(self.elapsed_ms()),
            usage_source: Some(UsageSource::Unknown),
            error_message: Some(failure.text.clone()),
            begins_call: false,
            ..row.clone()
        }))
    }

    /// Goes on with a channel whose refused token was renewed; the refusal is logged, and is no failure of the channel.
    pub(super) fn continue_with(&mut self, fresh: &Arc<Channel>, refusal: &Failure) {
        if let Some(row) = self.refusal_row(refusal) {
            self.proxy.core.store.telemetry().log(*row);
        }
        self.channel = fresh.clone();
    }

    /// Settles the attempt as a success: the client has its answer, or will get it.
    pub(super) fn succeed(&mut self, reported: Option<Usage>) {
        let Some(mut row) = self.take_row() else { return };
        let latency = self.elapsed_ms();
        row.status = LogStatus::Success;
        row.http_status = Some(200);
        row.latency_ms = Some(latency);
        let usage = reported.filter(|_| !self.booking.is_with_response());
        self.note_usage(&mut row, usage);
        let bill = match self.booking {
            Booking::AtEnd => cost::bill(&self.channel, &row, usage.as_ref()),
            Booking::Later | Booking::WithResponse(_) | Booking::Never => cost::empty_bill(),
        };
        row.estimated_cost = bill.cost;
        row.is_priced = bill.is_priced;
        row.billing_details = cost::details(bill.details.as_ref());
        let now = row.created_at.saturating_add(latency);
        if !self.booking.is_never() {
            self.record_success(&row, bill.cost, now);
        }
        // Only after the channel has recovered: until then only one request at a time may try it.
        self.held.release();
        self.charge(row.created_at, usage.as_ref(), bill.cost, now);
        self.measure(&row, usage.as_ref());
        if let Some(conversation) = self.conversation {
            self.bind(conversation, now);
        }
        self.log_success(row, usage.as_ref(), bill.is_priced);
        self.leave_to_background(reported);
    }

    /// Settles the attempt of a conversation in which nothing was asked.
    pub(super) fn succeed_unused(&mut self) {
        self.booking = Booking::Never;
        self.succeed(None);
    }

    /// Records the success in the health of the site and the counters of the channel, and ends the limits of its account.
    fn record_success(&self, row: &ProxyLogRow, cost: Usd, now: Millis) {
        let latency = row.latency_ms.unwrap_or_default();
        // A site is not slow because its answer is long.
        let waited = row.first_byte_latency_ms.unwrap_or(latency).unsigned_abs();
        self.channel.account.site.health.succeed(&self.model, waited, now);
        let was_limited = self.channel.live.is_limited();
        let cached = row.cached();
        for live in std::iter::once(&self.channel.live).chain(self.channel.whole()) {
            live.record_cached(cached.input.unsigned_abs(), cached.read.unsigned_abs());
            self.save(live, live.record_success(now, latency.unsigned_abs(), cost));
        }
        if was_limited && !self.channel.live.has_cooled_since(row.created_at, now) {
            self.end_limits(row.created_at, now);
        }
    }

    /// Logs the success. A cost that is booked now, and that the site's own log or price list will tell later, is looked up
    /// then.
    fn log_success(&self, row: ProxyLogRow, usage: Option<&Usage>, is_priced: bool) {
        let payer = || Some(Payer::new(self.key.clone()?, self.held.admission.budgets()));
        let is_in_log = cost::is_in_log(&self.channel, usage);
        let model = row.model_actual.as_deref().unwrap_or_default();
        let awaits_prices = !is_priced && late_prices::may_tell(&self.proxy.jobs, &self.channel, model);
        let settled = match self.booking {
            Booking::AtEnd if is_in_log || awaits_prices => {
                cost::settled_request(&self.channel, payer(), &row, usage, is_priced)
            }
            _ => None,
        };
        self.proxy.core.store.telemetry().log(row);
        match settled {
            Some(request) if is_in_log => usage_lookup::enqueue(&self.proxy.jobs, request),
            Some(request) => late_prices::enqueue(&self.proxy.jobs, request),
            None => {}
        }
    }

    /// Leaves a response that goes on, with its usage so far, to whoever books it.
    fn leave_to_background(&mut self, reported: Option<Usage>) {
        if let Booking::WithResponse(response) = std::mem::take(&mut self.booking) {
            let key_id = self.key.as_ref().map(|key| key.id);
            background::book_or_watch(&self.proxy, ResponseName::new(key_id, response.id), reported);
        }
    }

    /// Settles the attempt as failed: there is no answer.
    pub(super) fn fail(&mut self, failure: &Failure) {
        self.end_failed(failure.status, failure.text.clone(), PartialUsage::default(), |attempt| {
            if failure.refuses_credential() && attempt.has_former_credential() {
                // The credential that is in use now was not refused.
                return;
            }
            if failure.is_channel_fault() && !attempt.booking.is_never() {
                attempt.cool(failure);
            }
            if failure.leaves_the_channel() && !attempt.booking.is_never() {
                attempt.unbind();
            }
            alerts::refused(&attempt.proxy.core, &attempt.channel, failure);
        });
    }

    /// Settles the attempt whose answer broke off after the client had begun to read it, perhaps with an upstream's error.
    pub(super) fn break_off(&mut self, cause: &str, error: Option<&UpstreamError>, usage: Option<Usage>) {
        self.trace.answer_broken(cause);
        if self.booking.is_cancelled() {
            return self.abandon(usage);
        }
        let failure = Failure::broken(cause, error);
        let estimated = self.estimated.filter(|estimated| estimated.output > 0);
        let usage = PartialUsage { reported: usage, estimated };
        self.end_failed(200, cause.to_owned(), usage, |attempt| {
            if failure.is_channel_fault() {
                attempt.cool(&failure);
                attempt.unbind();
            }
        });
    }

    /// Whether the text of a streamed answer may have to be paid for although its usage is not told.
    pub(super) fn counts_text(&self) -> bool {
        self.estimated.is_some()
    }

    /// Records about how many tokens the model has written: the answer may end before the upstream tells the usage.
    pub(super) fn estimate_output(&mut self, tokens: u64) {
        if let Some(estimated) = &mut self.estimated {
            estimated.output = tokens;
        }
    }

    /// Settles the attempt that the client hung up on or cancelled, or that this service cut off as it stopped. That is no
    /// fault of the channel.
    pub(super) fn abandon(&mut self, usage: Option<Usage>) {
        let (status, text) = if self.proxy.core.is_cutting() {
            (SERVICE_STOPPED, "service_stopped: cut off at the end of the grace period of a stop")
        } else if self.booking.is_cancelled() {
            (CLIENT_CLOSED, "client_cancelled")
        } else {
            (CLIENT_CLOSED, "client_closed")
        };
        let estimated = self.estimated.filter(|estimated| status == CLIENT_CLOSED && estimated.output > 0);
        self.end_failed(status, text.to_owned(), PartialUsage { reported: usage, estimated }, |attempt| {
            if status == SERVICE_STOPPED {
                attempt.trace.answer_broken(text);
            }
        });
    }

    fn end_failed(&mut self, status: u16, text: String, used: PartialUsage, book: impl FnOnce(&Self)) {
        let Some(mut row) = self.take_row() else { return };
        row.http_status = Some(status);
        row.latency_ms = Some(self.elapsed_ms());
        row.error_message = Some(text);
        let booked = if self.booking.is_with_response() { PartialUsage::default() } else { used };
        self.note_usage(&mut row, booked.reported);
        if let Some(charged) = &booked.charged() {
            // The upstream charges what it had sent before the break, so the key is charged too. The row costs
            // nothing, like every failure, but shows how much that was.
            let partial = cost::bill(&self.channel, &row, Some(charged));
            row.billing_details = cost::details(partial.details.as_ref());
            row.charged = Some(Box::new(cost::charged(charged, partial.cost)));
            self.charge(row.created_at, Some(charged), partial.cost, now_ms());
        }
        book(self);
        // Only after the channel cools, or whoever waits for a slot would go on to it.
        self.held.release();
        self.proxy.core.metrics.attempt_failures.add(1);
        self.measure(&row, booked.reported.as_ref());
        self.proxy.core.store.telemetry().log(row);
        self.leave_to_background(used.reported);
    }

    /// Records that the upstream stores the answer.
    pub(super) fn note_stored(&mut self) {
        self.is_stored = true;
    }

    /// Binds requests that go on from the answer with this id to this channel: no other channel has stored it.
    pub(super) fn bind_answer(&self, answer_id: &str) {
        let key_id = self.key.as_ref().map(|key| key.id);
        self.bind(session::opened_by(&self.proxy.core, key_id, answer_id), now_ms());
    }

    /// Binds the items of a complete answer. Those of a stream are told as it passes.
    pub(super) fn bind_items_of(&self, answer: &[u8]) {
        let items = item_ids(&String::from_utf8_lossy(answer));
        self.bind_items(items.iter().map(String::as_str));
    }

    /// Binds the items of an answer to the caller's key, if the upstream stores the answer and the attempt is not settled.
    pub(super) fn bind_items<'i>(&self, ids: impl IntoIterator<Item = &'i str>) {
        if let Some(row) = self.row.as_ref().filter(|_| self.is_stored) {
            let requested = row.model_requested.clone().unwrap_or_else(|| self.model.clone());
            let requester = Requester { key_id: row.downstream_api_key_id, model: &requested };
            owners::bind_items(&self.proxy, requester, &self.channel, ids);
        }
    }

    /// Binds the conversation to this channel, for the sticky time from now on.
    fn bind(&self, conversation: Conversation, now: Millis) {
        if let Some(ttl) = self.settings.sticky_ttl {
            let expires = now.saturating_add(millis(ttl));
            self.proxy.core.affinity.bind(conversation, self.channel.key(), expires);
        }
    }

    /// Releases the conversation from this channel.
    fn unbind(&self) {
        if let Some(conversation) = self.conversation {
            self.proxy.core.affinity.unbind(conversation, self.channel.key());
        }
    }

    /// Adds the cost and tokens of a request to what the caller's key has used.
    fn charge(&self, began: Millis, usage: Option<&Usage>, cost: Usd, now: Millis) {
        let Some(key) = self.key.as_ref().filter(|key| cost > Usd::ZERO || key.limits.is_some()) else {
            return;
        };
        let tokens = usage.map_or(0, Usage::all);
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let charge = Charge { cost, tokens, began, now, ticks: monotonic_ms() };
        self.proxy.core.charge(key, self.held.admission.budgets(), &charge);
    }

    fn note_usage(&self, row: &mut ProxyLogRow, usage: Option<Usage>) {
        let count = |tokens: Option<u64>| tokens.and_then(|tokens| i64::try_from(tokens).ok());
        row.usage_source = Some(if usage.is_some() { UsageSource::Upstream } else { UsageSource::Unknown });
        let Some(usage) = usage else { return };
        let [input, ..] = usage.by_kind();
        row.prompt_tokens = count(usage.prompt);
        row.completion_tokens = count(usage.completion);
        row.total_tokens = count(usage.total);
        row.input_tokens = count(usage.prompt.map(|_| input));
        row.cache_read_tokens = count(usage.cache_read);
        row.cache_creation_tokens = count(usage.cache_creation);
        self.proxy.core.metrics.prompt_tokens.add(input);
        self.proxy.core.metrics.completion_tokens.add(usage.completion.unwrap_or(0));
    }

    /// Adds a settled row to the metrics of its channel and model.
    fn measure(&self, row: &ProxyLogRow, usage: Option<&Usage>) {
        self.held.at_work.end(&AttemptResult {
            status: row.http_status.unwrap_or(0),
            is_failure: !row.status.is_success(),
            first_byte_ms: row.first_byte_latency_ms.map(i64::unsigned_abs),
            duration_ms: row.latency_ms.unwrap_or(0).unsigned_abs(),
            cost: row.estimated_cost,
            tokens: usage.map(Usage::by_kind).unwrap_or_default(),
        });
    }

    /// Takes the row to settle the attempt, once. One that a factory reset has overtaken leaves no trace.
    fn take_row(&mut self) -> Option<ProxyLogRow> {
        self.row.take().filter(|_| self.proxy.core.resets() == self.resets)
    }

    fn elapsed_ms(&self) -> i64 {
        measured_ms(self.started.elapsed())
    }
}

impl Drop for Attempt {
    /// Settles an attempt that nobody settled: the client hung up before there was an answer, or the service stopped.
    fn drop(&mut self) {
        self.abandon(None);
    }
}
