//! Counts the responses of a speech conversation.
//!
//! A response is an attempt of its own, with a row in the log and its cost; the first one uses the attempt of the opening. It
//! is admitted as a request when the client asks for it, or when the upstream begins it by itself because somebody spoke.

use std::mem;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dialect::errors;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, usage};
use crate::http::websocket::CloseReason;
use crate::limits::RetryAfterSeconds;
use crate::proxy::Proxy;
use crate::sync::lock;
use crate::time::{monotonic_ms, now_ms};

use super::events::error_event;
use crate::proxy::attempt::{Attempt, Choice, Slots};
use crate::proxy::auth::AuthRefusal;
use crate::proxy::call::Call;
use crate::proxy::key::over_limit::refused_by;
use crate::proxy::key::quota::{self, Admission, AdmissionRefusal};
use crate::proxy::socket_opener::SocketOpener;
use crate::proxy::trace::redact;

/// The base64 bytes of 16-bit samples at 24 kHz for one token; OpenAI counts 20 tokens a second.
const BYTES_PER_TOKEN_OF_SPEECH: u64 = 3200;

/// The responses of one conversation, of which one at a time is counted.
pub(super) struct Responses {
    proxy: Arc<Proxy>,
    call: Arc<Call>,
    opener: Arc<SocketOpener>,
    choice: Choice,
    current: Mutex<CurrentResponse>,
    /// Held while a response is admitted, because both sides may begin the same one.
    beginning: tokio::sync::Mutex<()>,
    /// Told when the client has been sent the end of a response.
    done: Notify,
}

/// The response under way.
#[derive(Default)]
struct CurrentResponse {
    /// The attempt of the response; `None` between two responses.
    attempt: Option<Box<Attempt>>,
    /// When the response was requested or began, or the upstream's last frame in it came; `None` before.
    last_sign: Option<Instant>,
    /// The estimated number of its tokens that the client has received.
    heard: u64,
}

/// The refusal of a response.
pub(super) struct Refusal {
    /// The status that an HTTP request would have got.
    status: u16,
    code: &'static str,
    message: String,
}

impl Responses {
    /// Begins to count; the attempt that opened the socket becomes that of the first response.
    pub(super) fn new(
        proxy: Arc<Proxy>,
        call: Arc<Call>,
        opener: Arc<SocketOpener>,
        choice: Choice,
        mut opening: Box<Attempt>,
    ) -> Self {
        opening.idle();
        Self {
            proxy,
            call,
            opener,
            choice,
            current: Mutex::new(CurrentResponse { attempt: Some(opening), ..CurrentResponse::default() }),
            beginning: tokio::sync::Mutex::default(),
            done: Notify::new(),
        }
    }

    pub(super) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// Admits a response that the client asks for.
    pub(super) async fn request(&self) -> Result<(), Refusal> {
        self.check_key()?;
        self.begin().await
    }

    /// Admits a response that the upstream has begun, perhaps by itself.
    pub(super) async fn begun(&self) -> Result<(), Refusal> {
        self.begin().await?;
        if let Some(attempt) = &mut lock(&self.current).attempt {
            attempt.first_byte();
        }
        Ok(())
    }

    /// Begins a response, unless one is under way: every response but the first is admitted as a request.
    async fn begin(&self) -> Result<(), Refusal> {
        let _one_at_a_time = self.beginning.lock().await;
        if self.is_under_way() {
            return Ok(());
        }
        self.check_key()?;
        {
            let mut current = lock(&self.current);
            if let Some(attempt) = &mut current.attempt {
                attempt.reenter().map_err(Refusal::of)?;
                // Until now nobody spoke, and that time is not the upstream's.
                attempt.restart_clock();
                current.last_sign = Some(Instant::now());
                return Ok(());
            }
        }
        let rates = &self.proxy.core.rates;
        rates.admit_frame(&self.opener.rates, monotonic_ms()).map_err(Refusal::too_many)?;
        let admission = match &self.call.caller.key {
            None => Admission::default(),
            Some(key) => quota::admit(&self.proxy.core, key, &self.call.model).await.map_err(Refusal::of)?,
        };
        let mut attempt = self.attempt();
        attempt.hold(admission);
        *lock(&self.current) =
            CurrentResponse { attempt: Some(attempt), last_sign: Some(Instant::now()), heard: 0 };
        Ok(())
    }

    fn attempt(&self) -> Box<Attempt> {
        let mut attempt = Attempt::begin(&self.proxy, &self.call, &self.choice, 0, Slots::default());
        attempt.via("/v1/realtime");
        attempt
    }

    /// Settles a response that is done, with the usage in its event.
    pub(super) fn end(&self, text: &str) {
        let event = Node::parse(text).ok();
        let used = event.as_ref().and_then(|event| usage::of_event(Dialect::Responses, event));
        let of_response = |path: &[&str]| event.as_ref()?.get("response")?.path(path);
        let attempt = mem::take(&mut *lock(&self.current)).attempt;
        // Of several responses at once only one was counted as a request; all are paid for.
        let mut attempt = attempt.unwrap_or_else(|| self.attempt());
        attempt.first_byte();
        if of_response(&["status"]).and_then(Node::str).as_deref() == Some("failed") {
            let error = of_response(&["status_details", "error"]).map_or("null", Node::raw);
            let error = errors::read(502, format!(r#"{{"error":{error}}}"#).as_bytes());
            attempt.break_off(&format!("response.done: {}", error.message), Some(&error), used);
        } else {
            attempt.succeed(used);
        }
    }

    /// Notes that the upstream has not begun a response that was asked for. The next one takes its place: it is
    /// admitted already.
    pub(super) fn refused(&self) {
        let mut current = lock(&self.current);
        current.last_sign = None;
        if let Some(attempt) = &mut current.attempt {
            attempt.idle();
        }
    }

    /// Tells that the client has been sent the end of a response, or its refusal.
    pub(super) fn told_done(&self) {
        self.done.notify_one();
    }

    /// Waits until no response is under way.
    pub(super) async fn all_done(&self) {
        while self.is_under_way() {
            self.done.notified().await;
        }
    }

    /// Charges for the transcript in an event, if it tells its usage. It is no request of the client's, so it is counted as
    /// none, but it costs.
    pub(super) fn transcribed(&self, text: &str) -> Result<(), Refusal> {
        self.check_key()?;
        if let Some(used) = usage::of_reply(Dialect::Responses, text.as_bytes()) {
            let mut attempt = self.attempt();
            attempt.hold(Admission::of_uncounted(self.call.caller.key.as_deref(), &self.call.model));
            attempt.succeed(Some(used));
        }
        Ok(())
    }

    /// Counts a part of the response, in an event of this type and of this many bytes.
    pub(super) fn hear(&self, event_type: &str, bytes: u64) {
        let is_speech = event_type.ends_with("audio.delta");
        let tokens = if is_speech { bytes.div_ceil(BYTES_PER_TOKEN_OF_SPEECH) } else { 1 };
        lock(&self.current).heard += tokens;
    }

    /// Records a frame of the upstream in the response under way.
    pub(super) fn sign(&self) {
        let last_sign = &mut lock(&self.current).last_sign;
        *last_sign = last_sign.map(|_| Instant::now());
    }

    /// Whether a response has been requested or has begun, and is not done.
    pub(super) fn is_under_way(&self) -> bool {
        self.last_sign().is_some()
    }

    /// Returns when the response under way was asked for, or gave its last sign.
    pub(super) fn last_sign(&self) -> Option<Instant> {
        lock(&self.current).last_sign()
    }

    /// Settles the first or the current response as failed.
    pub(super) fn break_off(&self, why: &str) {
        let attempt = mem::take(&mut *lock(&self.current)).attempt;
        if let Some(mut attempt) = attempt {
            attempt.break_off(why, None, None);
        }
    }

    /// Settles the response under way when the sockets are closed.
    pub(super) fn settle(self, reason: CloseReason) {
        let current = mem::take(&mut *lock(&self.current));
        let is_under_way = current.last_sign().is_some();
        let Some(mut attempt) = current.attempt else { return };
        match (is_under_way, reason) {
            (false, _) => attempt.succeed(None),
            (true, CloseReason::Failed(why)) => attempt.break_off(why, None, None),
            // Dropped, like any call whose client has gone: its key pays for what the client has received.
            (true, _) => attempt.presume_output(current.heard),
        }
    }

    /// Hides the credentials of the channel in an upstream's words.
    pub(super) fn hide_secrets(&self, text: &mut String) {
        redact::sent(&self.choice.channel, None).hide(text);
    }

    /// Whether the key may still be used: it may have been revoked, or its totals used up, since the socket was opened.
    fn check_key(&self) -> Result<(), Refusal> {
        match self.opener.caller(&self.proxy.core) {
            Ok(_) => Ok(()),
            Err(refused) => Err(Refusal::rejected(&refused)),
        }
    }
}

impl CurrentResponse {
    fn last_sign(&self) -> Option<Instant> {
        self.last_sign.filter(|_| self.attempt.is_some())
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

    /// Writes the refusal as an error event.
    pub(super) fn event(&self) -> String {
        error_event(errors::kind_of(self.status), self.code, &self.message)
    }
}
