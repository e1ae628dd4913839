//! Counts the responses of a speech conversation.
//!
//! A response is an attempt of its own, with a row in the log and its cost; the first one uses the attempt of the opening. It
//! is admitted as a request when the client asks for it, or when the upstream begins it by itself because somebody spoke.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dialect::errors;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, usage};
use crate::http::websocket::CloseReason;
use crate::limits::RetryAfterSeconds;
use crate::mask::Mask;
use crate::proxy::Proxy;
use crate::store;
use crate::sync::lock;
use crate::time::{monotonic_ms, now_ms};

use super::admitted::{Admitted, AdmittedResponse};
use super::events::{error_event, models_in, repeats_what_was_said, response_of_part};
use crate::proxy::admit;
use crate::proxy::attempt::{Attempt, Choice, Slots};
use crate::proxy::auth::{AuthRefusal, Caller};
use crate::proxy::call::Call;
use crate::proxy::key::over_limit::refused_by;
use crate::proxy::key::quota::{self, Admission, AdmissionRefusal};
use crate::proxy::socket_opener::SocketOpener;
use crate::proxy::trace::redact;

/// The base64 bytes of 16-bit samples at 24 kHz for one token; OpenAI counts 20 tokens a second.
const BYTES_PER_TOKEN_OF_SPEECH: u64 = 3200;

/// How many responses of a conversation may be under way at once. Those outside of its default conversation run in
/// parallel, and an upstream may leave requests unanswered.
const MOST_AT_ONCE: usize = 64;

/// The responses of one conversation.
pub(super) struct Responses {
    proxy: Arc<Proxy>,
    call: Arc<Call>,
    opener: Arc<SocketOpener>,
    choice: Choice,
    /// The credentials of the channel.
    mask: Mask,
    admitted: Mutex<Admitted>,
    /// Told when the client has been sent the end of a response.
    done: Notify,
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
        opening.release_key_slot();
        let mask = redact::sent(&choice.channel, None);
        Self {
            proxy,
            call,
            opener,
            choice,
            mask,
            admitted: Mutex::new(Admitted::new(AdmittedResponse::new(opening))),
            done: Notify::new(),
        }
    }

    pub(super) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// Checks that the client's key may use the models that a frame asks for.
    pub(super) fn check_models(&self, frame: &[u8]) -> Result<(), Refusal> {
        let core = &self.proxy.core;
        let caller = self.opener.caller(core).map_err(|refused| Refusal::rejected(&refused))?;
        let models = std::str::from_utf8(frame).ok().and_then(|frame| models_in(frame).ok());
        let models = models.ok_or_else(Refusal::no_json)?;
        // The channel's name for the conversation's model is what `session.created` tells the client.
        let others = models.iter().map(String::as_str).filter(|model| **model != *self.choice.model);
        match admit::forbidden_model(core, &caller, others) {
            Some(message) => Err(Refusal::forbidden(message)),
            None => Ok(()),
        }
    }

    /// Admits a response that the client asks for.
    pub(super) async fn request(&self) -> Result<(), Refusal> {
        let response = self.admit().await?;
        lock(&self.admitted).ask(response);
        Ok(())
    }

    /// Records that the upstream has begun a response, in this event. One that the client has not asked for is admitted now.
    pub(super) async fn begin(&self, text: &str) -> Result<(), Refusal> {
        let asked = lock(&self.admitted).take_asked();
        let mut response = match asked {
            Some(response) => response,
            None => self.admit().await?,
        };
        response.attempt.first_byte();
        let id = Node::parse(text)
            .ok()
            .and_then(|event| event.get("response")?.path(&["id"])?.str().map(Into::into));
        lock(&self.admitted).begin(response, id);
        Ok(())
    }

    /// Admits a response as a request of the key, unless one is idle that was admitted before.
    async fn admit(&self) -> Result<AdmittedResponse, Refusal> {
        let caller = self.caller()?;
        let idle = {
            let mut admitted = lock(&self.admitted);
            if admitted.under_way() >= MOST_AT_ONCE {
                return Err(Refusal::too_many_at_once());
            }
            admitted.take_idle()
        };
        if let Some(mut response) = idle {
            if let Err(refused) = response.attempt.retake_key_slot(caller.key.as_ref(), &self.call.model) {
                lock(&self.admitted).put_back_idle(response);
                return Err(Refusal::of(refused));
            }
            // Until now nobody spoke, and that time is not the upstream's.
            response.attempt.restart_clock(lock(&self.admitted).next_start());
            return Ok(response);
        }
        let rates = &self.proxy.core.rates;
        rates.admit_frame(&self.opener.rates, monotonic_ms()).map_err(Refusal::too_many)?;
        let admission = match &caller.key {
            None => Admission::default(),
            Some(key) => quota::admit(&self.proxy.core, key, &self.call.model).await.map_err(Refusal::of)?,
        };
        Ok(AdmittedResponse::new(self.attempt(caller, admission)))
    }

    fn attempt(&self, caller: Caller, admission: Admission) -> Box<Attempt> {
        let mut attempt = Attempt::begin(&self.proxy, &self.call, &self.choice, 0, Slots::default());
        attempt.charge_to(caller.key, admission);
        attempt.restart_clock(lock(&self.admitted).next_start());
        attempt.set_upstream_path("/v1/realtime");
        attempt
    }

    /// Settles a response that is done, with the usage in its event. One that nobody began is not charged.
    pub(super) fn end(&self, text: &str) {
        let event = Node::parse(text).ok();
        let used = event.as_ref().and_then(|event| usage::of_event(Dialect::Responses, event));
        let of_response = |path: &[&str]| event.as_ref()?.get("response")?.path(path);
        let id = of_response(&["id"]).and_then(Node::str);
        let Some(AdmittedResponse { mut attempt, .. }) = lock(&self.admitted).end(id.as_deref()) else {
            return;
        };
        attempt.first_byte();
        if of_response(&["status"]).and_then(Node::str).as_deref() == Some("failed") {
            let error = of_response(&["status_details", "error"]).map_or("null", Node::raw);
            let error = errors::read(502, format!(r#"{{"error":{error}}}"#).as_bytes());
            attempt.break_off(&format!("response.done: {}", error.message), Some(&error), used);
        } else {
            attempt.succeed(used);
        }
    }

    /// Records that the upstream does not begin a response that was asked for. The next one takes its place: it is admitted
    /// already.
    pub(super) fn refused(&self) {
        let mut admitted = lock(&self.admitted);
        if let Some(mut response) = admitted.take_asked() {
            response.attempt.release_key_slot();
            admitted.put_back_idle(response);
        }
    }

    /// Tells that the client has been sent the end of a response, or its refusal.
    pub(super) fn notify_done(&self) {
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
        let caller = self.caller()?;
        if let Some(used) = usage::of_reply(Dialect::Responses, text.as_bytes()) {
            let admission = Admission::of_uncounted(caller.key.as_deref(), &self.call.model);
            self.attempt(caller, admission).succeed(Some(used));
        }
        Ok(())
    }

    /// Counts a part of a response, in an event of this type.
    pub(super) fn hear(&self, event_type: &str, text: &str) {
        let is_speech = event_type.ends_with("audio.delta");
        let tokens = if is_speech { (text.len() as u64).div_ceil(BYTES_PER_TOKEN_OF_SPEECH) } else { 1 };
        lock(&self.admitted).hear(response_of_part(text).as_deref(), tokens);
    }

    /// Records a frame of the upstream.
    pub(super) fn sign(&self) {
        lock(&self.admitted).sign();
    }

    /// Whether a response has been requested or has begun, and is not done.
    pub(super) fn is_under_way(&self) -> bool {
        lock(&self.admitted).under_way() > 0
    }

    /// Returns when a response under way was asked for, or gave the last sign; `None` where none is under way.
    pub(super) fn last_sign(&self) -> Option<Instant> {
        lock(&self.admitted).last_sign()
    }

    /// Settles the responses under way as failed; if there are none, the idle ones.
    pub(super) fn break_off(&self, why: &str) {
        let mut broken = lock(&self.admitted).take_all_under_way();
        if broken.is_empty() {
            broken = lock(&self.admitted).take_all_idle();
        }
        broken.iter_mut().for_each(|response| response.attempt.break_off(why, None, None));
    }

    /// Settles all responses when the sockets are closed.
    pub(super) fn settle(self, reason: CloseReason) {
        let mut admitted = lock(&self.admitted);
        for mut response in admitted.take_all_idle() {
            response.attempt.succeed_unused();
        }
        for mut response in admitted.take_all_under_way() {
            match reason {
                CloseReason::Failed(why) => response.attempt.break_off(why, None, None),
                // Dropped, like any call whose client has gone: its key pays for what the client has received.
                _ => response.attempt.estimate_output(response.heard),
            }
        }
    }

    /// Hides the credentials of the channel in an upstream's words.
    pub(super) fn hide_secrets(&self, text: &mut String) {
        self.mask.hide(text);
    }

    /// Does the same in an event, unless it repeats what was said in the conversation.
    pub(super) fn hide_secrets_of_event(&self, text: &mut String) {
        if self.mask.is_in(text.as_bytes()) && !repeats_what_was_said(text) {
            self.mask.hide(text);
        }
    }

    /// Returns the caller as it is now: its key may have been changed or revoked, or its totals used up, since the socket was
    /// opened.
    fn caller(&self) -> Result<Caller, Refusal> {
        let core = &self.proxy.core;
        let caller = self.opener.caller(core).map_err(|refused| Refusal::rejected(&refused))?;
        match admit::forbidden_model(core, &caller, [&*self.call.model]) {
            Some(message) => Err(Refusal::forbidden(message)),
            None => Ok(caller),
        }
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
            AdmissionRefusal::StorageFull => {
                Self { status: 507, code: "insufficient_storage", message: store::FULL.to_owned() }
            }
            AdmissionRefusal::Unavailable => {
                Self { status: 503, code: "unavailable", message: quota::NOT_COUNTED.to_owned() }
            }
        }
    }

    fn forbidden(message: String) -> Self {
        Self { status: 403, code: "model_not_allowed", message }
    }

    fn no_json() -> Self {
        Self { status: 400, code: "invalid_json", message: "The frame is not valid JSON".to_owned() }
    }

    fn too_many(wait: RetryAfterSeconds) -> Self {
        let message = format!("Too many responses, try again in {} s", wait.0);
        Self { status: 429, code: "rate_limit_exceeded", message }
    }

    fn too_many_at_once() -> Self {
        let message = format!("At most {MOST_AT_ONCE} responses may be under way at once");
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
