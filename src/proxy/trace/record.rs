//! The debug trace of a call, which shows an operator why the call went as it did.
//!
//! ```text
//! begin ─▶ channel_selected ─▶ request_sent ─▶ response_started | request_failed ─▶ channel_failed ┄▶ response_sent
//!                              └──────── once per upstream request ───────────┘
//! ```
//!
//! When the last holder drops a trace, it goes to the writer. While tracing is off a [`Trace`] is empty, and every method
//! returns at once. While it is on, the answers' bodies are captured as they pass, as far as the rules want
//! them. Everything is redacted ([`redact`](super::redact)) before it leaves this file.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use serde_json::json;

use crate::dialect::Dialect;
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody, is_event_stream};
use crate::routing::{BaseUrl, Channel, SelectionReason};
use crate::settings::TraceRules;
use crate::store::Telemetry;
use crate::store::debug_traces::{DebugAttempt, DebugTrace};
use crate::sync::lock;
use crate::time::now_ms;
use crate::upstream::{self, AnswerHead, UpstreamBody};

use super::redact::Secrets;

/// The trace of one call; empty when the call is not recorded.
#[derive(Clone, Default)]
pub(in crate::proxy) struct Trace(Option<Arc<Recording>>);

struct Recording {
    rules: Arc<TraceRules>,
    telemetry: Telemetry,
    draft: Mutex<Draft>,
}

/// The trace so far, not yet redacted.
#[derive(Default)]
struct Draft {
    trace: DebugTrace,
    secrets: Secrets,
    request: CapturedBody,
    /// The channels that were tried, and the outcome of each.
    tried: Vec<serde_json::Value>,
    attempts: Vec<Exchange>,
    answer: CapturedBody,
    /// Whether the answer broke off after the client had begun to read it.
    is_broken: bool,
}

/// One request to an upstream, with its answer.
#[derive(Default)]
struct Exchange {
    attempt: DebugAttempt,
    sent: CapturedBody,
    received: CapturedBody,
}

/// The beginning of a captured body, and the length of all of it in bytes.
#[derive(Default)]
struct CapturedBody {
    wanted: bool,
    beginning: Vec<u8>,
    total: usize,
}

impl Trace {
    /// Begins the trace of a call from what is known so far. `body` is the call's body.
    pub(in crate::proxy) fn begin(
        rules: Arc<TraceRules>,
        telemetry: Telemetry,
        trace: DebugTrace,
        secrets: Secrets,
        body: &[u8],
    ) -> Self {
        let mut request = CapturedBody::wanted(rules.bodies);
        request.push(body, secrets.window(rules.max_body_bytes));
        let draft = Draft { trace, secrets, request, ..Draft::default() };
        Self(Some(Arc::new(Recording { rules, telemetry, draft: Mutex::new(draft) })))
    }

    /// Records the chosen channel, the model's name there, and the reason.
    pub(in crate::proxy) fn channel_selected(&self, channel: &Channel, model: &str, reason: SelectionReason) {
        let Some(recording) = &self.0 else { return };
        let (account, site) = (&channel.account, &channel.account.site);
        let mut draft = recording.draft();
        if let Some(credential) = &channel.credential {
            draft.secrets.add(credential.secret().expose());
        }
        draft.secrets.add_site(site);
        let now = now_ms();
        let cooling = site.endpoints.iter().map(|endpoint| {
            json!({ "address": origin_of(&endpoint.base), "cooling": endpoint.live.is_cooling(now) })
        });
        let trace = &mut draft.trace;
        trace.selected_channel_id = Some(channel.id);
        trace.selected_route_id = Some(channel.route_id);
        trace.selected_account_id = Some(account.id);
        trace.selected_site_id = Some(site.id);
        trace.selected_site_platform = Some(site.platform.id().to_owned());
        trace.endpoint_candidates_json = None;
        trace.endpoint_runtime_state_json = Some(json!(cooling.collect::<Vec<_>>()).to_string());
        draft.tried.push(
            json!({ "channelId": channel.id, "site": site.name, "model": model, "reason": reason.to_string() }),
        );
    }

    /// Records the dialects in which the channel is asked, in order, until it accepts one.
    pub(in crate::proxy) fn dialects_ordered(&self, dialects: &[Dialect]) {
        let Some(recording) = &self.0 else { return };
        let ids: Vec<_> = dialects.iter().map(|dialect| dialect.id()).collect();
        recording.draft().trace.endpoint_candidates_json = Some(json!(ids).to_string());
    }

    /// Records members of the request that were left out, because no upstream knows them.
    pub(in crate::proxy) fn members_dropped(&self, members: &[String]) {
        let Some(recording) = self.0.as_ref().filter(|_| !members.is_empty()) else { return };
        if let Some(tried) = recording.draft().tried.last_mut() {
            tried["leftOut"] = json!(members);
        }
    }

    /// Records a request to an upstream's address.
    pub(in crate::proxy) fn request_sent(&self, base: &BaseUrl, path: &str, request: &upstream::Request) {
        let Some(recording) = &self.0 else { return };
        let mut draft = recording.draft();
        let headers = recording.rules.headers.then(|| draft.secrets.headers(&request.headers.to_map()));
        let attempt = DebugAttempt {
            endpoint: path.trim_start_matches("/v1/").to_owned(),
            request_path: path.to_owned(),
            target_url: draft.secrets.text(&super::redact::target(&origin_of(base), request.target.as_str())),
            request_headers_json: headers,
            created_at: now_ms(),
            ..DebugAttempt::default()
        };
        let mut sent = CapturedBody::wanted(recording.rules.bodies);
        let window = draft.secrets.window(recording.rules.max_body_bytes);
        request.body.pieces().iter().for_each(|piece| sent.push(piece, window));
        draft.trace.final_upstream_path = Some(path.to_owned());
        draft.attempts.push(Exchange { attempt, sent, received: CapturedBody::default() });
    }

    /// Records the head of an upstream's answer; returns the body, which is captured from now on.
    pub(in crate::proxy) fn response_started(&self, head: &AnswerHead, body: UpstreamBody) -> UpstreamBody {
        let Some(recording) = &self.0 else { return body };
        let mut draft = recording.draft();
        let all = head.headers.to_map();
        let headers = recording.rules.headers.then(|| draft.secrets.headers(&all));
        let index = draft.attempts.len().saturating_sub(1);
        let Some(exchange) = draft.attempts.last_mut() else { return body };
        exchange.attempt.response_status = Some(i64::from(head.status.as_u16()));
        exchange.attempt.response_headers_json = headers;
        exchange.received.wanted = recording.rules.wants_answer(&all);
        drop(draft);
        let recording = Arc::clone(recording);
        body.with_tap(Box::new(move |bytes| {
            let mut draft = recording.draft();
            let window = draft.secrets.window(recording.rules.max_body_bytes);
            if let Some(exchange) = draft.attempts.get_mut(index) {
                exchange.received.push(bytes, window);
            }
        }))
    }

    /// Records that the request sent last has failed; `gives_way` is whether another dialect follows.
    pub(in crate::proxy) fn request_failed(&self, cause: &str, gives_way: bool) {
        let Some(recording) = &self.0 else { return };
        let mut draft = recording.draft();
        let text = draft.secrets.text(cause);
        let Some(Exchange { attempt, .. }) = draft.attempts.last_mut() else { return };
        attempt.downgrade_decision = gives_way;
        attempt.downgrade_reason = gives_way.then(|| text.clone());
        attempt.raw_error_text = Some(text);
    }

    /// Records that the channel tried last gave no answer.
    pub(in crate::proxy) fn channel_failed(&self, cause: &str) {
        let Some(recording) = &self.0 else { return };
        let mut draft = recording.draft();
        let text = draft.secrets.text(cause);
        if let Some(tried) = draft.tried.last_mut() {
            tried["error"] = text.as_str().into();
        }
        if let Some(exchange) = draft.attempts.last_mut() {
            exchange.attempt.raw_error_text.get_or_insert(text);
        }
    }

    /// Records that the answer broke off after the client had begun to read it.
    pub(in crate::proxy) fn answer_broken(&self, cause: &str) {
        let Some(recording) = &self.0 else { return };
        self.channel_failed(cause);
        recording.draft().is_broken = true;
    }

    /// Records the answer for the client, and captures its body.
    pub(in crate::proxy) fn response_sent(self, mut response: Response) -> Response {
        let Some(recording) = self.0 else { return response };
        let mut draft = recording.draft();
        let is_success = response.status().is_success();
        draft.trace.final_http_status = Some(i64::from(response.status().as_u16()));
        draft.trace.final_response_headers_json =
            recording.rules.headers.then(|| draft.secrets.headers(response.headers()));
        draft.answer.wanted = recording.rules.wants_answer(response.headers());
        match std::mem::replace(response.body_mut(), ResponseBody::empty()) {
            ResponseBody::Full(bytes) => {
                if let Some(bytes) = &bytes {
                    let window = draft.secrets.window(recording.rules.max_body_bytes);
                    draft.answer.push(bytes, window);
                }
                if is_success {
                    draft.trace.final_status = Some("success");
                }
                *response.body_mut() = ResponseBody::Full(bytes);
            }
            inner @ ResponseBody::Stream(_) => {
                drop(draft);
                *response.body_mut() = ResponseBody::stream(CapturedStream { inner, recording, is_success });
            }
        }
        response
    }
}

impl Recording {
    fn draft(&self) -> MutexGuard<'_, Draft> {
        lock(&self.draft)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let draft = std::mem::take(self.draft.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.telemetry.trace(draft.finish(&self.rules));
    }
}

impl Draft {
    /// Builds the redacted trace as it is stored.
    fn finish(self, rules: &TraceRules) -> DebugTrace {
        let Self { mut trace, secrets, request, tried, attempts, answer, is_broken: _ } = self;
        let most = rules.max_body_bytes;
        trace.request_body_json = request.redacted_or_empty(&secrets, most);
        trace.decision_summary_json = Some(secrets.text(&json!({ "tried": tried }).to_string()));
        trace.final_response_body_json = answer.redacted(&secrets, most);
        trace.updated_at = now_ms();
        trace.attempts = attempts
            .into_iter()
            .map(|Exchange { mut attempt, sent, received }| {
                attempt.request_body_json = sent.redacted_or_empty(&secrets, most);
                attempt.response_body_json = received.redacted(&secrets, most);
                attempt
            })
            .collect();
        trace
    }
}

impl CapturedBody {
    fn wanted(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    fn push(&mut self, bytes: &[u8], window: usize) {
        if !self.wanted {
            return;
        }
        self.total += bytes.len();
        let room = window.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the body to be stored; `None` if it is not wanted or empty.
    fn redacted(&self, secrets: &Secrets, most: usize) -> Option<String> {
        (self.total > 0).then(|| secrets.body(&self.beginning, self.total, most))
    }

    /// Returns the body to be stored, even if it is empty; `None` if it is not wanted.
    fn redacted_or_empty(&self, secrets: &Secrets, most: usize) -> Option<String> {
        self.wanted.then(|| secrets.body(&self.beginning, self.total, most))
    }
}

impl TraceRules {
    /// Whether the body of an answer with these headers is kept.
    fn wants_answer(&self, headers: &HeaderMap) -> bool {
        if is_event_stream(headers) { self.stream_chunks } else { self.bodies }
    }
}

fn origin_of(base: &BaseUrl) -> String {
    let scheme = if base.origin.tls { "https" } else { "http" };
    format!("{scheme}://{}", base.origin.authority)
}

/// A streamed answer that is captured on its way to the client.
struct CapturedStream {
    inner: ResponseBody,
    recording: Arc<Recording>,
    is_success: bool,
}

impl CapturedStream {
    fn ended(&self) {
        let mut draft = self.recording.draft();
        if self.is_success && !draft.is_broken {
            draft.trace.final_status = Some("success");
        }
    }
}

impl Body for CapturedStream {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                let mut draft = this.recording.draft();
                let window = draft.secrets.window(this.recording.rules.max_body_bytes);
                draft.answer.push(frame.data_ref().unwrap_or(&Bytes::new()), window);
                drop(draft);
                if this.inner.is_end_stream() {
                    this.ended();
                }
            }
            Poll::Ready(None) => this.ended(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
