//! Step 8: sends one request, and waits for the head of its answer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout};

use crate::dialect::Dialect;
use crate::dialect::canonical::ReplyContext;
use crate::http::timer::ReusableTimer;
use crate::ids::EndpointId;
use crate::jobs::health_saver::Saver;
use crate::proxy::Proxy;
use crate::routing::limit_windows::{self, LimitWindows};
use crate::routing::{Account, Endpoint, failure};
use crate::settings::Settings;
use crate::time::now_ms;
use crate::upstream::{Answer, AnswerHead, SendError, UpstreamBody};

use super::attempt::Attempt;
use super::compose::outgoing;
use super::compose::{ComposedRequest, Delivery, UpstreamRoute};
use super::failure::Failure;
use super::held_body::HeldBody;
use super::trace::record::Trace;
use super::upstream_socket;

/// The maximum bytes of an upstream's error body that are read, and the maximum time for it.
const MAX_ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum bytes of an object that is read, and the maximum time for it.
const MAX_OBJECT: usize = 2 << 20;
const OBJECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for the head of an answer: a long completion sends nothing until it is done.
const HEAD_TIMEOUT: Duration = Duration::from_secs(900);
/// The longest wait for the rest of an answer that is held until it is complete. One that trickles on for longer
/// has been billed, and would take as long elsewhere: it fails for its client, without blame for the channel.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(900);

/// An upstream's answer whose status is good. Always boxed: it is handed on from step to step, and the future of every
/// step would hold room for it twice.
pub(super) struct Accepted {
    pub(super) head: AnswerHead,
    pub(super) body: UpstreamBody,
    pub(super) timeouts: Timeouts,
    /// The dialect of the answer.
    pub(super) dialect: Dialect,
    /// Whether the upstream stores nothing that a client could refer to.
    pub(super) keeps_nothing: bool,
    /// The context for writing the answer; set when the request was converted.
    pub(super) reply_context: Option<Box<ReplyContext>>,
    /// The address of the site's pool that answered; `None` is the site's own.
    pub(super) endpoint: Option<EndpointId>,
}

/// Records what answers say about the limits of an account.
#[derive(Clone, Copy)]
pub(super) struct LimitRecorder<'a> {
    windows: &'a LimitWindows,
    saver: &'a Saver,
}

impl Accepted {
    /// Reads the next bytes of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.timeouts.wait(self.timeouts.idle, pin!(self.body.data())).await? {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(error)) => Err(Failure::cut(&error)),
        }
    }
}

/// The bounds of waits: the first-byte deadline when there is one, and always an idle limit.
pub(super) struct Timeouts {
    pub(super) first_byte: Option<FirstByteLimit>,
    pub(super) idle: Duration,
    /// The time by which an answer that is held must be complete.
    pub(super) whole: Option<Instant>,
    pub(super) timer: ReusableTimer,
}

/// The longest wait for the first byte of an answer's body.
#[derive(Clone, Copy)]
pub(super) struct FirstByteLimit {
    deadline: Instant,
    /// The time from the request to the deadline.
    total: Duration,
}

impl Timeouts {
    /// Builds the timeouts from the operator's settings.
    pub(super) fn of(proxy: &Proxy, settings: &Settings, timer: ReusableTimer) -> Self {
        let total = settings.first_byte_timeout;
        Self {
            first_byte: (!total.is_zero())
                .then(|| FirstByteLimit { deadline: Instant::now() + total, total }),
            idle: proxy.core.config.proxy.stream_idle_timeout,
            whole: None,
            timer,
        }
    }

    /// Waits for `what`. Reads the clock only when it is not ready yet: chunks mostly are.
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

    /// Returns when a wait that begins now ends, at most `limit` from now.
    fn deadline(&self, limit: Duration) -> Instant {
        match (self.first_byte, self.whole) {
            (Some(first_byte), _) => first_byte.deadline,
            (None, None) => Instant::now() + limit,
            (None, Some(whole)) => whole.min(Instant::now() + limit),
        }
    }

    /// Starts the time in which a held answer must be complete.
    pub(super) fn begin_whole(&mut self) {
        self.whole = Some(Instant::now() + WHOLE_TIMEOUT);
    }

    fn timed_out(&self, limit: Duration) -> Failure {
        match (self.first_byte, self.whole) {
            (Some(first_byte), _) => Failure::first_byte_timeout(first_byte.total),
            (None, Some(whole)) if whole <= Instant::now() => Failure::never_whole(WHOLE_TIMEOUT),
            _ => Failure::silence(limit),
        }
    }
}

// === impl LimitRecorder ===

impl<'a> LimitRecorder<'a> {
    pub(super) fn of(proxy: &'a Proxy, account: &'a Account) -> Self {
        Self { windows: &account.limits, saver: &proxy.jobs.health_saver }
    }
}

// === impl Delivery ===

impl Delivery<'_> {
    /// Sends a request to an address.
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        route: UpstreamRoute,
        composed: ComposedRequest,
        attempt: &mut Attempt,
    ) -> Result<Box<Accepted>, Failure> {
        let UpstreamRoute { path, dialect } = route;
        let ComposedRequest { request, reply_context } = composed;
        let Self { proxy, call, channel, .. } = *self;
        call.trace.request_sent(&endpoint.base, path, &request);
        attempt.set_upstream_path(path);
        let upgrade = self.upgrade(endpoint, path, dialect, &request).await;
        let sending = upstream_socket::send(proxy, &endpoint.base.origin, request, upgrade);
        let timeouts = Timeouts::of(proxy, &call.settings, call.timer.clone());
        let limits = Some(LimitRecorder::of(proxy, &channel.account));
        match answered(pin!(sending), path, &timeouts, &call.trace, limits).await {
            Ok((head, body)) => {
                let is_enveloped = channel.account.site.platform.profile().code_assist.is_some();
                let body = if is_enveloped { body.opened() } else { body };
                let keeps_nothing = outgoing::keeps_nothing(channel.account.site.platform, dialect);
                let endpoint = endpoint.id;
                Ok(Box::new(Accepted {
                    head,
                    body,
                    timeouts,
                    dialect,
                    keeps_nothing,
                    reply_context,
                    endpoint,
                }))
            }
            Err(failure) => {
                let failure = self.to_the_call(failure.redacted(&attempt.secrets())).await;
                // For such an operation no other can be asked for instead.
                let may_be_lacking = !dialect.is_convertible() || call.operation.may_be_lacking();
                let failure = if may_be_lacking { failure.of_surface() } else { failure };
                Err(if dialect == call.shape.dialect { failure } else { failure.without_body() })
            }
        }
    }
}

/// Waits for the answer to one request to one address. A status outside 2xx becomes a failure, with its body read. Records
/// what the answer says about the account's limits.
pub(super) async fn answered(
    sending: Pin<&mut impl Future<Output = Result<Answer, SendError>>>,
    path: &'static str,
    timeouts: &Timeouts,
    trace: &Trace,
    limits: Option<LimitRecorder<'_>>,
) -> Result<(AnswerHead, UpstreamBody), Failure> {
    let Answer { head, body } =
        timeouts.wait(HEAD_TIMEOUT, sending).await?.map_err(|error| Failure::unanswered(&error))?;
    if let Some(LimitRecorder { windows, saver }) = limits {
        let seen = limit_windows::read(head.headers.iter(), now_ms());
        if !seen.is_empty() && windows.note(seen) {
            saver.nudge();
        }
    }
    let body = trace.response_started(&head, body);
    if head.status.is_success() {
        return Ok((head, body));
    }
    let status = head.status.as_u16();
    let body = Box::pin(read_some(body, MAX_ERROR_BODY, ERROR_BODY_TIMEOUT)).await;
    let limits = limits.filter(|_| status == 429).map(|limits| limits.windows);
    if let Some(limits) = limits
        && let Some(reset_at) = failure::usage_limit_reset(&body.bytes, now_ms())
    {
        limits.note_reached(reset_at, now_ms());
    }
    let full_until = limits.and_then(|limits| limits.full_until(now_ms()));
    let failure = Failure::status(status, path, &head.headers, body, now_ms());
    Err(failure.or_recovers_at(full_until))
}

/// Reads an object, which must be short.
pub(super) async fn read_object(body: UpstreamBody) -> Result<Bytes, Failure> {
    match read_some(body, MAX_OBJECT, OBJECT_TIMEOUT).await {
        HeldBody { bytes, is_whole: true } => Ok(bytes),
        HeldBody { is_whole: false, .. } => {
            Err(Failure::judged("the answer is too long or was cut off".to_owned()))
        }
    }
}

/// Reads at most `limit` bytes of a body.
async fn read_some(mut body: UpstreamBody, limit: usize, within: Duration) -> HeldBody {
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
    let is_whole = timeout(within, all).await.unwrap_or(false);
    HeldBody { bytes: read.freeze(), is_whole }
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
        assert!(failure.text.contains("not complete within 900 s"), "{}", failure.text);
        assert_eq!(failure.status, 504);
        let may_retry = failure.may_retry(crate::upstream::WorkKind::Text);
        assert!(!failure.is_channel_fault() && !may_retry, "it was answered, and billed");
        let silent = timeouts.wait(Duration::ZERO, pin!(std::future::pending::<()>())).await;
        assert!(silent.is_err());
    }
}
