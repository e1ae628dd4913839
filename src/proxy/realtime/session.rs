//! Passes the frames of a speech conversation both ways, and counts its responses.
//!
//! ```text
//! client ─▶ pass_up ── response.create: admitted first ──▶ upstream
//! client ◀── pass_down ◀── response.created: a turn begins; response.done: it is settled with its usage
//! ```
//!
//! Each direction holds one frame, and reads the next one when that is sent: a slow reader slows the other end down. A
//! response is an attempt of its own, with a row in the log and its cost; the first one uses the attempt of the opening.
//! A response that the upstream began by itself, because somebody spoke, is counted when it begins. When either direction
//! ends, both sockets are closed; when the service stops, the response under way is still sent.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::select;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};

use crate::background;
use crate::dialect::errors;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, json as scan, usage};
use crate::http::websocket::{self, CloseReason, Received, Receiver, Sender, Stopping, WebSocket};
use crate::limits::RetryAfterSeconds;
use crate::proxy::Proxy;
use crate::sync::lock;
use crate::time::{monotonic_ms, now_ms};
use crate::upstream::{FromUpstream, SocketReceiver, SocketSender, UpstreamSocket};

use crate::proxy::attempt::{Attempt, Choice, Slots};
use crate::proxy::auth::AuthRefusal;
use crate::proxy::call::Call;
use crate::proxy::key::over_limit::refused_by;
use crate::proxy::key::quota::{self, AdmissionRefusal};
use crate::proxy::socket_opener::SocketOpener;
use crate::proxy::trace::redact;

/// How often a client is pinged, and how long it may answer nothing.
const HEARTBEAT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(600);
/// How long a conversation may go on: twice as long as at OpenAI.
const LIFETIME: Duration = Duration::from_secs(7200);
/// How long an upstream may take to accept a frame.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
const GONE: &str = "the upstream closed its WebSocket";
const DEAF: &str = "the upstream does not read its WebSocket";
const SILENT: &str = "the upstream has fallen silent";
/// How long sending the last frame may take.
const LAST_FRAME: Duration = Duration::from_secs(2);

/// The upstream events that are read: the course of a response, its parts in text and in speech, and transcripts.
const LOOKED_AT: [&str; 9] = [
    "response.created",
    "response.done",
    "error",
    "response.output_text.delta",
    "response.text.delta",
    "response.function_call_arguments.delta",
    "response.output_audio.delta",
    "response.audio.delta",
    TRANSCRIBED,
];
/// What the client has said, in words: the model that hears it is charged apart from responses.
const TRANSCRIBED: &str = "conversation.item.input_audio_transcription.completed";
/// The base64 bytes of 16-bit samples at 24 kHz for one token; OpenAI counts 20 tokens a second.
const BYTES_PER_TOKEN_OF_SPEECH: u64 = 3200;

/// A conversation, which lasts while both sockets are open.
pub(in crate::proxy) struct Session {
    pub(in crate::proxy) proxy: Arc<Proxy>,
    pub(in crate::proxy) call: Arc<Call>,
    pub(in crate::proxy) opener: Arc<SocketOpener>,
    pub(in crate::proxy) choice: Choice,
    /// The slots at the site and the channel, held to the end.
    pub(in crate::proxy) slots: Slots,
    /// Held while a response is admitted, because both sides may begin the same one.
    pub(in crate::proxy) beginning: tokio::sync::Mutex<()>,
    /// Told when a response is done.
    pub(in crate::proxy) done: Notify,
}

/// The response under way.
#[derive(Default)]
struct Turn {
    /// The attempt of the response; `None` between two responses.
    attempt: Option<Box<Attempt>>,
    /// When the response was requested or began, or the upstream's last frame in it came; `None` before.
    last_sign: Option<Instant>,
    /// The estimated number of its tokens that the client has received.
    heard: u64,
}

/// The refusal of a response.
struct Refusal {
    /// The status that an HTTP request would have got.
    status: u16,
    code: &'static str,
    message: String,
}

/// Serves both sockets to their end.
pub(in crate::proxy) async fn serve(
    session: Session,
    opening: Box<Attempt>,
    upstream: UpstreamSocket,
    client: WebSocket,
) {
    let _open = session.proxy.core.metrics.sockets.enter();
    if let Err(panic) = background::catch_panic(converse(session, opening, upstream, client)).await {
        log::error!("a realtime WebSocket panicked: {panic}");
    }
}

async fn converse(mut session: Session, opening: Box<Attempt>, upstream: UpstreamSocket, client: WebSocket) {
    session.slots.site.keep_alive();
    let turn = Mutex::new(Turn { attempt: Some(opening), ..Turn::default() });
    let (mut sender, mut receiver, mut stopping) = client.split();
    let (mut to_upstream, mut from_upstream) = upstream.split();
    let reason = {
        let (refused, mut refusals) = tokio::sync::mpsc::channel(1);
        select! {
            reason = session.pass_up(&turn, &mut receiver, &mut to_upstream, &refused) => reason,
            reason = session.pass_down(&turn, &mut from_upstream, &mut sender, &mut refusals) => reason,
            reason = session.stop(&turn, &mut stopping) => reason,
        }
    };
    to_upstream.close().await;
    std::mem::take(&mut *lock(&turn)).settle(reason);
    drop(session);
    websocket::close(sender, receiver, reason).await;
}

impl Session {
    /// Waits until the service stops and no response is under way.
    async fn stop(&self, turn: &Mutex<Turn>, stopping: &mut Stopping) -> CloseReason {
        stopping.requested().await;
        while lock(turn).is_under_way() {
            self.done.notified().await;
        }
        CloseReason::GoingAway
    }

    /// Passes the client's frames up until none come any more. An error event for the client goes through `refused`.
    async fn pass_up(
        &self,
        turn: &Mutex<Turn>,
        receiver: &mut Receiver,
        upstream: &mut SocketSender,
        refused: &tokio::sync::mpsc::Sender<String>,
    ) -> CloseReason {
        let mut memory = self.proxy.core.body_memory.body(self.call.caller.body_owner());
        loop {
            let (frame, is_text) = match timeout(SILENCE, receiver.next(&mut memory)).await {
                Ok(Ok(Received::Text(frame))) => (frame, true),
                Ok(Ok(Received::Binary(frame))) => (frame, false),
                Ok(Ok(Received::Alive)) => continue,
                Ok(Err(reason)) => return reason,
                Err(_) => return CloseReason::Theirs,
            };
            self.proxy.core.metrics.received_bytes.add(frame.len() as u64);
            // Some upstreams read binary frames as they do text frames.
            if kind_among(&frame, &["response.create"]).is_some()
                && let Err(refusal) = self.ask(turn).await
            {
                if refused.send(refusal.event()).await.is_err() {
                    return CloseReason::Theirs;
                }
                memory.shrink_to(0);
                continue;
            }
            let send = async {
                if is_text { upstream.send(frame).await } else { upstream.send_binary(frame).await }
            };
            match timeout(TAKEN_WITHIN, send).await {
                Ok(Ok(())) => {}
                Ok(Err(_gone)) => {
                    // Its last words, which `pass_down` reads, say more.
                    sleep(LAST_FRAME).await;
                    return CloseReason::Failed(GONE);
                }
                Err(_late) => return CloseReason::Failed(DEAF),
            }
            memory.shrink_to(0);
        }
    }

    /// Passes the upstream's frames down until none come any more.
    async fn pass_down(
        &self,
        turn: &Mutex<Turn>,
        upstream: &mut SocketReceiver,
        sender: &mut Sender,
        refusals: &mut tokio::sync::mpsc::Receiver<String>,
    ) -> CloseReason {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut over = pin!(sleep(LIFETIME));
        let longest_silence = self.proxy.core.config.proxy.stream_idle_timeout;
        let mut silence = pin!(sleep(longest_silence));
        // Whether anything but errors has come: an upstream that refuses its client tells it in the open socket.
        let mut has_served = false;
        let mut open_responses = 0_u32;
        loop {
            let came = select! {
                biased;
                Some(refusal) = refusals.recv() => {
                    if sender.texts([refusal]).await.is_err() {
                        return CloseReason::Theirs;
                    }
                    continue;
                }
                came = upstream.next() => came,
                () = &mut over => {
                    let message = format!(
                        "A conversation may last at most {} minutes: open a new WebSocket", LIFETIME.as_secs() / 60);
                    let event = event("invalid_request_error", "session_expired", &message);
                    let _ = timeout(LAST_FRAME, sender.texts([event])).await;
                    return CloseReason::Done;
                }
                () = &mut silence => {
                    let last_sign = lock(turn).under_way_since();
                    if last_sign.is_some_and(|last_sign| last_sign.elapsed() >= longest_silence) {
                        let message =
                            format!("The upstream has sent nothing for {} s", longest_silence.as_secs());
                        let event = event("server_error", "upstream_timeout", &message);
                        let _ = timeout(LAST_FRAME, sender.texts([event])).await;
                        return CloseReason::Failed(SILENT);
                    }
                    silence.set(sleep_until(last_sign.unwrap_or_else(Instant::now) + longest_silence));
                    continue;
                }
                _ = heartbeat.tick() => {
                    if sender.ping().await.is_err() {
                        return CloseReason::Theirs;
                    }
                    continue;
                }
            };
            let (mut text, is_text) = match came {
                FromUpstream::Text(text) => (text, true),
                FromUpstream::Binary(bytes) => match String::from_utf8(bytes.into()) {
                    // Some clients read binary frames as they do text frames.
                    Ok(text) => (text, false),
                    Err(sound) => {
                        has_served = true;
                        lock(turn).sign();
                        self.proxy.core.metrics.sent_bytes.add(sound.as_bytes().len() as u64);
                        if sender.binary(sound.into_bytes().into()).await.is_err() {
                            return CloseReason::Theirs;
                        }
                        continue;
                    }
                },
                FromUpstream::Closed => return self.upstream_ended(turn, sender, None, has_served).await,
                FromUpstream::Broken(why) => {
                    return self.upstream_ended(turn, sender, Some(why), has_served).await;
                }
            };
            self.proxy.core.metrics.sent_bytes.add(text.len() as u64);
            let kind = kind_among(text.as_bytes(), &LOOKED_AT);
            has_served |= kind != Some("error");
            if matches!(kind, Some("response.done" | "error")) {
                self.hide_secrets(&mut text);
            }
            lock(turn).sign();
            let refused = match kind {
                Some("response.created") => {
                    open_responses += 1;
                    self.begun(turn).await.err()
                }
                // One that nobody began would be charged to the key all the same.
                Some("response.done") if open_responses > 0 || lock(turn).is_under_way() => {
                    open_responses = open_responses.saturating_sub(1);
                    self.end_response(turn, &text);
                    None
                }
                Some(TRANSCRIBED) => self.transcribed(&text).err(),
                Some(part) if part.ends_with(".delta") => {
                    lock(turn).hear(part, text.len() as u64);
                    None
                }
                _ => None,
            };
            let sent = if is_text { sender.texts([text]).await } else { sender.binary(text.into()).await };
            if sent.is_err() {
                return CloseReason::Theirs;
            }
            if kind == Some("response.done") {
                self.done.notify_one();
            }
            if let Some(refusal) = refused {
                let _ = timeout(LAST_FRAME, sender.texts([refusal.event()])).await;
                return CloseReason::Policy("a limit of the API key is reached");
            }
        }
    }

    /// Tells the client that the upstream has closed its socket. The channel has failed if a response is cut short, or if
    /// nothing but errors came. `why` is the cause where the close was not in order.
    async fn upstream_ended(
        &self,
        turn: &Mutex<Turn>,
        sender: &mut Sender,
        why: Option<String>,
        has_served: bool,
    ) -> CloseReason {
        let is_cut_short = lock(turn).is_under_way();
        if why.is_none() && has_served && !is_cut_short {
            return CloseReason::Done;
        }
        if is_cut_short || !has_served {
            let mut why = why.unwrap_or_else(|| GONE.to_owned());
            self.hide_secrets(&mut why);
            if let Some(mut attempt) = std::mem::take(&mut *lock(turn)).attempt {
                attempt.break_off(&why, None, None);
            }
        }
        let event = event("server_error", "upstream_closed", "The upstream closed its WebSocket");
        let _ = timeout(LAST_FRAME, sender.texts([event])).await;
        CloseReason::Failed(GONE)
    }

    /// Hides the credentials of the channel in an upstream's words.
    fn hide_secrets(&self, text: &mut String) {
        redact::sent(&self.choice.channel, None).hide(text);
    }

    /// Admits a response that the client asks for.
    async fn ask(&self, turn: &Mutex<Turn>) -> Result<(), Refusal> {
        self.check_key()?;
        self.begin(turn).await
    }

    /// Admits a response that the upstream has begun, perhaps by itself.
    async fn begun(&self, turn: &Mutex<Turn>) -> Result<(), Refusal> {
        self.begin(turn).await?;
        if let Some(attempt) = &mut lock(turn).attempt {
            attempt.first_byte();
        }
        Ok(())
    }

    /// Begins a response, unless one is under way: every response but the first is admitted as a request.
    async fn begin(&self, turn: &Mutex<Turn>) -> Result<(), Refusal> {
        let _one_at_a_time = self.beginning.lock().await;
        if lock(turn).is_under_way() {
            return Ok(());
        }
        self.check_key()?;
        {
            let mut turn = lock(turn);
            turn.last_sign = Some(Instant::now());
            if let Some(attempt) = &mut turn.attempt {
                // Until now nobody spoke, and that time is not the upstream's.
                attempt.restart_clock();
                return Ok(());
            }
        }
        let rates = &self.proxy.core.rates;
        rates.admit_frame(&self.opener.rates, monotonic_ms()).map_err(Refusal::too_many)?;
        let admission = match &self.call.caller.key {
            None => quota::Admission::default(),
            Some(key) => quota::admit(&self.proxy.core, key, &self.call.model).await.map_err(Refusal::of)?,
        };
        let mut attempt = Attempt::begin(&self.proxy, &self.call, &self.choice, 0, Slots::default());
        attempt.hold(admission);
        attempt.via("/v1/realtime");
        *lock(turn) = Turn { attempt: Some(attempt), last_sign: Some(Instant::now()), heard: 0 };
        Ok(())
    }

    /// Settles a response that is done, with the usage in its event.
    fn end_response(&self, turn: &Mutex<Turn>, text: &str) {
        let event = Node::parse(text).ok();
        let used = event.as_ref().and_then(|event| usage::of_event(Dialect::Responses, event));
        let of_response = |path: &[&str]| event.as_ref()?.get("response")?.path(path);
        let attempt = std::mem::take(&mut *lock(turn)).attempt;
        // Of several responses at once only one was counted as a request; all are paid for.
        let mut attempt = attempt.unwrap_or_else(|| {
            let mut attempt = Attempt::begin(&self.proxy, &self.call, &self.choice, 0, Slots::default());
            attempt.via("/v1/realtime");
            attempt
        });
        attempt.first_byte();
        if of_response(&["status"]).and_then(Node::str).as_deref() == Some("failed") {
            let error = of_response(&["status_details", "error"]).map_or("null", Node::raw);
            let error = errors::read(502, format!(r#"{{"error":{error}}}"#).as_bytes());
            attempt.break_off(&format!("response.done: {}", error.message), Some(&error), used);
        } else {
            attempt.succeed(used);
        }
    }

    /// Charges for the transcript in an event, if it tells its usage. It is no request of the client's, so it is counted as
    /// none, but it costs.
    fn transcribed(&self, text: &str) -> Result<(), Refusal> {
        self.check_key()?;
        if let Some(used) = usage::of_reply(Dialect::Responses, text.as_bytes()) {
            let mut attempt = Attempt::begin(&self.proxy, &self.call, &self.choice, 0, Slots::default());
            let key = self.call.caller.key.as_deref();
            attempt.hold(quota::Admission::of_uncounted(key, &self.call.model));
            attempt.via("/v1/realtime");
            attempt.succeed(Some(used));
        }
        Ok(())
    }

    /// Whether the key may still be used: it may have been revoked, or its totals used up, since the socket was opened.
    fn check_key(&self) -> Result<(), Refusal> {
        match self.opener.caller(&self.proxy.core) {
            Ok(_) => Ok(()),
            Err(refused) => Err(Refusal::rejected(&refused)),
        }
    }
}

impl Turn {
    /// Settles the response under way when the sockets are closed.
    fn settle(self, reason: CloseReason) {
        let is_under_way = self.is_under_way();
        let Some(mut attempt) = self.attempt else { return };
        match (is_under_way, reason) {
            (false, _) => attempt.succeed(None),
            (true, CloseReason::Failed(why)) => attempt.break_off(why, None, None),
            // Dropped, like any call whose client has gone: its key pays for what the client has received.
            (true, _) => attempt.presume_output(self.heard),
        }
    }

    /// Counts a part of the response, in an event of this many bytes.
    fn hear(&mut self, part: &str, bytes: u64) {
        let is_speech = part.ends_with("audio.delta");
        self.heard += if is_speech { bytes.div_ceil(BYTES_PER_TOKEN_OF_SPEECH) } else { 1 };
    }

    /// Whether a response has been requested or has begun, and is not done.
    fn is_under_way(&self) -> bool {
        self.under_way_since().is_some()
    }

    /// Returns when the response under way was asked for, or gave its last sign.
    fn under_way_since(&self) -> Option<Instant> {
        self.last_sign.filter(|_| self.attempt.is_some())
    }

    /// Records a frame of the upstream in the response under way.
    fn sign(&mut self) {
        self.last_sign = self.last_sign.map(|_| Instant::now());
    }
}

impl Refusal {
    fn of(refused: AdmissionRefusal) -> Self {
        match refused {
            AdmissionRefusal::Over(limit) => {
                let words = refused_by(limit, now_ms());
                Self { status: 429, code: words.code, message: words.message }
            }
            AdmissionRefusal::OverTotal(why) => Self::rejected(&AuthRefusal::Rejected(why)),
            AdmissionRefusal::Unavailable => {
                let message = "The request could not be counted".to_owned();
                Self { status: 503, code: "unavailable", message }
            }
        }
    }

    fn too_many(wait: RetryAfterSeconds) -> Self {
        let message = format!("Too many responses, try again in {} s", wait.0);
        Self { status: 429, code: "rate_limit_exceeded", message }
    }

    fn rejected(refused: &AuthRefusal) -> Self {
        Self { status: refused.status(), code: refused.code(), message: refused.message().into_owned() }
    }

    fn event(&self) -> String {
        event(errors::kind_of(self.status), self.code, &self.message)
    }
}

/// Builds an error event of this surface.
fn event(kind: &str, code: &str, message: &str) -> String {
    let error = json!({ "type": kind, "code": code, "message": message, "param": null, "event_id": null });
    json!({ "type": "error", "event_id": format!("event_{}", crate::uuid::random_hex()), "error": error })
        .to_string()
}

/// Returns which of these events a frame is, as any reader may see it: its type may contain escapes, or occur twice.
fn kind_among(frame: &[u8], kinds: &[&'static str]) -> Option<&'static str> {
    let mut found = None;
    // Invalid JSON after the type is left to the other end to judge.
    let _ = scan::members(std::str::from_utf8(frame).ok()?, |member| {
        if member.key == "type"
            && let Some(kind) = scan::string(member.value)
        {
            found = kinds.iter().find(|known| **known == kind).copied().or(found);
        }
    });
    found
}
