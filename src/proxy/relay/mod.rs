//! Step 10: the answer on its way to the client: chunks pass as they come, and an observer reads along.
//!
//! ```text
//! upstream ──poll──▶ transit ──▶ client          no task and no channel between: the
//!     │                 │                        client's connection polls, so it sets
//!     │                 └ usage, phase           the pace
//!     ├ end after the end event      settled as success
//!     ├ error event                  relayed, settled as failure
//!     ├ break, or silence too long   an error event of our own, settled as failure
//!     ├ silence towards the client   a heartbeat between two events
//!     ├ (the service stops)          an error event of our own at the end of the grace period
//!     └ (the client hangs up)        dropped, which closes the upstream
//! ```
//!
//! A stream of the client's own dialect is [`PassthroughTransit`]; any other is [`ConvertingTransit`]. Either reads each event
//! once, from the first one on, while the stream is still [held](HeldStream). How a stream ends is decided here for both.
//!
//! Beside them: a stream that takes long to begin ([`heartbeats`]) or is taken up later ([`kept_open`]), a whole answer too
//! long to be held ([`long_reply`]), bytes that nobody reads ([`unread`]), answers rewritten as they pass ([`rewritten`]),
//! under another name ([`renamed`]), without usage that the client did not ask for ([`own_usage`]), and how long an upstream
//! may be silent ([`silence`]).

pub(super) mod blank_heartbeats;
mod converted;
pub(super) mod heartbeats;
pub(super) mod kept_open;
pub(super) mod long_reply;
pub(super) mod own_usage;
pub(super) mod passed;
pub(super) mod renamed;
pub(super) mod rewritten;
pub(super) mod silence;
pub(super) mod unread;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::Instant;

use crate::dialect::Dialect;
use crate::dialect::convert::{CallSignature, StreamConverter};
use crate::dialect::errors::{self, UpstreamError};
use crate::dialect::observe::{Phase, StreamProgress};
use crate::dialect::repair::StreamRepair;
use crate::http::ResponseBody;
use crate::http::body::Truncated;
use crate::http::timer::ReusableTimer;
use crate::metrics::GaugeGuard;
use crate::settings::Heartbeats;
use crate::upstream::UpstreamBody;

use super::attempt::Attempt;
use super::redaction;
use converted::ConvertingTransit;
use passed::PassthroughTransit;

/// How long an upstream may take after the last event to end its body, so that its connection can be
/// used again; then the connection is closed.
const LINGER: Duration = Duration::from_millis(100);
/// How long a converted answer waits for the usage that may follow its finish.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// The words by which responses clients recognise a stream without its last event.
pub(super) const CLOSED_EARLY: &str = "stream closed before response.completed";

/// A stream that is held until its first output has been seen.
pub(super) struct HeldStream {
    transit: Box<dyn Transit>,
    /// The part of the answer that is ready for the client.
    pub(super) ready: Bytes,
    /// The error that the upstream has sent, after which nothing comes.
    error: Option<Box<InStreamError>>,
    /// The number of bytes that have been read.
    pub(super) length: usize,
    /// When the last bytes came.
    pub(super) last_data: Instant,
}

/// The rest of a held stream.
pub(super) struct HeldStreamRest {
    pub(super) upstream: UpstreamBody,
    /// The longest silence of the upstream.
    pub(super) idle: Duration,
    /// The timer that was used for the wait so far.
    pub(super) timer: ReusableTimer,
}

/// Returns the error that ends a stream whose rest does not come: what happened, and why.
pub(in crate::proxy) fn broken_stream(what: &str, cause: &str) -> UpstreamError {
    UpstreamError {
        message: format!("{what}: {cause}"),
        kind: Some(UpstreamError::BROKEN_STREAM.to_owned()),
        ..UpstreamError::default()
    }
}

/// Builds the body of a streamed answer whose first output has been seen. `dialect` is the client's.
pub(super) fn body(
    dialect: Dialect,
    held: HeldStream,
    rest: HeldStreamRest,
    mut attempt: Box<Attempt>,
) -> ResponseBody {
    if held.progress().output_seen() {
        attempt.win_trial();
    }
    ResponseBody::stream(Relay::new(dialect, held, rest, attempt))
}

/// The translation of a stream's chunks to what the client gets.
pub(super) trait Transit: Send {
    /// Returns what the events have said about the answer.
    fn progress(&self) -> &StreamProgress;

    /// Counts the text of the answer from now on.
    fn count_text(&mut self);

    /// Returns the part of a chunk that the client can have.
    ///
    /// # Errors
    /// Fails when the upstream has sent an error: nothing follows it.
    fn take(&mut self, chunk: Bytes) -> Result<Bytes, Box<InStreamError>>;

    /// Takes the signatures of calls that have come since, for which the client has no place.
    fn take_signatures(&mut self) -> Vec<CallSignature>;

    /// Ends the stream when the upstream's body is over; returns the rest of a last event that no blank line ended.
    ///
    /// # Errors
    /// Fails when that event is an error.
    fn finish(&mut self) -> Result<Bytes, Box<InStreamError>>;

    /// Returns the rest of a complete answer, after which nothing more comes.
    ///
    /// # Errors
    /// Fails when the answer is not complete, with what goes before the error that says so.
    fn conclude(&mut self) -> Result<Bytes, Bytes>;

    /// Writes an error as an event of the client's dialect. Nothing may follow. `id` is that of a response of which nothing
    /// has been told.
    fn error(&mut self, error: &UpstreamError, id: &str) -> Bytes;

    /// Whether only usage can follow the end of the answer.
    fn is_followed_by_usage_alone(&self) -> bool;

    /// Whether the client has no partial event, so that an event of our own may be inserted.
    fn is_between_events(&self) -> bool;

    /// Whether the parts taken since the last call contain text that no model wrote. A converted stream has none.
    fn take_free_text(&mut self) -> bool {
        false
    }

    /// Adds missing events from now on. A stream that is converted lacks none.
    fn set_repair(&mut self, _: StreamRepair) {}
}

/// An error that the upstream sent in its stream.
pub(super) struct InStreamError {
    pub(super) error: UpstreamError,
    /// The bytes that go to the client before the error.
    pub(super) before: Bytes,
    /// Whether `before` contains the error in the upstream's own words.
    pub(super) is_relayed: bool,
}

impl HeldStream {
    /// Holds a stream of the client's own dialect. `counts_text` is whether its text may have to be paid for although its
    /// usage is not told, `is_repairable` whether missing events may be added.
    pub(super) fn passed(dialect: Dialect, counts_text: bool, is_repairable: bool) -> Self {
        let transit = if is_repairable {
            PassthroughTransit::repairable(dialect)
        } else {
            PassthroughTransit::new(dialect)
        };
        Self::new(Box::new(transit), counts_text)
    }

    /// Holds a stream that is converted.
    pub(super) fn converted(converter: StreamConverter, counts_text: bool) -> Self {
        Self::new(Box::new(ConvertingTransit(converter)), counts_text)
    }

    /// Adds the events that the upstream left out, to all that has been read as well.
    pub(super) fn repaired(mut self, mut repair: StreamRepair) -> Self {
        self.ready = repair.feed(&self.ready);
        self.transit.set_repair(repair);
        self
    }

    fn new(mut transit: Box<dyn Transit>, counts_text: bool) -> Self {
        if counts_text {
            transit.count_text();
        }
        Self { transit, ready: Bytes::new(), error: None, length: 0, last_data: Instant::now() }
    }

    /// Reads the next chunk.
    pub(super) fn take(&mut self, chunk: Bytes) {
        self.last_data = Instant::now();
        self.length += chunk.len();
        let taken = self.transit.take(chunk);
        self.hold(taken);
    }

    /// Ends the stream when the upstream's body is over.
    pub(super) fn finish(&mut self) {
        let last = self.transit.finish();
        self.hold(last);
    }

    fn hold(&mut self, taken: Result<Bytes, Box<InStreamError>>) {
        match taken {
            Ok(bytes) => self.ready = joined(std::mem::take(&mut self.ready), bytes),
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns what the events have said about the answer.
    pub(super) fn progress(&self) -> &StreamProgress {
        self.transit.progress()
    }

    /// Whether nothing has been written for the client yet.
    pub(super) fn is_unwritten(&self) -> bool {
        self.ready.is_empty() && self.error.as_ref().is_none_or(|error| error.before.is_empty())
    }

    /// Returns the error that the upstream has sent, after which nothing comes.
    pub(super) fn failure(&self) -> Option<&UpstreamError> {
        self.error.as_ref().map(|error| &error.error)
    }
}

/// Joins two pieces. Mostly one of them is empty.
pub(super) fn joined(first: Bytes, second: Bytes) -> Bytes {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second,
        (_, true) => first,
        (false, false) => {
            let mut joined = BytesMut::from(first);
            joined.extend_from_slice(&second);
            joined.freeze()
        }
    }
}

/// A streamed answer on its way to the client.
struct Relay {
    /// The client's dialect.
    dialect: Dialect,
    transit: Box<dyn Transit>,
    /// The upstream's body; `None` when nothing more is to be read.
    upstream: Option<UpstreamBody>,
    /// Bytes to be sent before anything else is read.
    ready: Option<Bytes>,
    attempt: Box<Attempt>,
    idle: Duration,
    heartbeats: Heartbeats,
    timer: ReusableTimer,
    /// When the silence must be checked next; `None` where that must be computed anew.
    wake_at: Option<Instant>,
    /// When something was read last, until the answer has finished: heartbeats after that do not count.
    last_data: Instant,
    /// When the client got something last: an upstream's own heartbeats may not reach it.
    last_sent: Instant,
    /// Whether the answer has finished, so that only its usage may follow.
    finished: bool,
    lingering: bool,
    _stream: GaugeGuard,
}

impl Relay {
    fn new(dialect: Dialect, held: HeldStream, rest: HeldStreamRest, attempt: Box<Attempt>) -> Self {
        let HeldStream { transit, ready, error, length: _, last_data } = held;
        let HeldStreamRest { upstream, idle, timer } = rest;
        let heartbeats = attempt.settings().heartbeats;
        let open = attempt.proxy().core.metrics.streams.enter();
        let mut relay = Self {
            dialect,
            transit,
            upstream: Some(upstream),
            ready: None,
            attempt,
            idle,
            heartbeats,
            timer,
            wake_at: None,
            last_data,
            last_sent: Instant::now(),
            finished: false,
            lingering: false,
            _stream: open,
        };
        let taken = match error {
            None => Ok(ready),
            Some(error) => Err(Box::new(InStreamError { before: joined(ready, error.before), ..*error })),
        };
        relay.hand_on(taken);
        relay
    }

    /// Takes the next chunk.
    fn take(&mut self, chunk: Bytes) {
        let now = Instant::now();
        if !self.finished {
            self.last_data = now;
        }
        let taken = self.transit.take(chunk);
        self.hand_on(taken);
        if self.ready.is_some() {
            self.last_sent = now;
        }
    }

    /// Sends on the result of a chunk.
    fn hand_on(&mut self, taken: Result<Bytes, Box<InStreamError>>) {
        self.attempt.store_signatures(self.transit.take_signatures());
        let hides = self.transit.take_free_text();
        let attempt = &self.attempt;
        let without_secrets =
            |bytes: Bytes| if hides { redaction::of_free_text(&bytes, &attempt.secrets()) } else { bytes };
        match taken {
            Ok(bytes) => {
                let bytes = without_secrets(bytes);
                self.send(bytes);
            }
            Err(error) => {
                let before = without_secrets(error.before);
                self.fail(InStreamError { before, ..*error });
            }
        }
    }

    /// Ends with the error that the upstream sent. Some upstreams repeat secrets of the request in it.
    fn fail(&mut self, InStreamError { mut error, before, is_relayed }: InStreamError) {
        let secrets = self.attempt.secrets();
        error.hide(|text| secrets.hide(text));
        let event = if is_relayed { Bytes::new() } else { self.error_event(&error) };
        self.end_with(before, secrets.hide_in(&String::from_utf8_lossy(&event)).as_bytes());
        let cause = format!("stream error: {}", error.message);
        let progress = self.transit.progress();
        self.attempt.estimate_output(progress.output_tokens());
        self.attempt.break_off(&cause, Some(&error), progress.usage());
    }

    /// Ends when the upstream's body is over.
    fn closed(&mut self) {
        match self.transit.finish() {
            Ok(last) => self.conclude(last, "the upstream closed the stream before its end"),
            Err(error) => self.fail(*error),
        }
    }

    /// Ends when nothing more can come from the upstream, for this `cause`.
    fn broke(&mut self, cause: &str) {
        self.conclude(Bytes::new(), cause);
    }

    /// Ends because the service stops and the grace period is over.
    fn cut_off(&mut self) {
        if self.end(Bytes::new(), "Stream cut off", "the service stopped") {
            return self.succeed();
        }
        self.abandon();
    }

    /// Sends the last bytes, and the rest. After the end of the answer the `cause` takes nothing from it.
    fn conclude(&mut self, last: Bytes, cause: &str) {
        if self.end(last, "Upstream stream broke", cause) {
            return self.succeed();
        }
        let progress = self.transit.progress();
        self.attempt.estimate_output(progress.output_tokens());
        self.attempt.break_off(cause, None, progress.usage());
    }

    /// Sends the last bytes, then the rest of a complete answer, else an error event that says what happened and why. Returns
    /// whether the answer is complete.
    fn end(&mut self, last: Bytes, what: &str, cause: &str) -> bool {
        let before = match self.transit.conclude() {
            Ok(rest) => {
                self.upstream = None;
                self.send(joined(last, rest));
                return true;
            }
            Err(before) => joined(last, before),
        };
        let what = if self.dialect == Dialect::Responses { CLOSED_EARLY } else { what };
        let event = self.error_event(&broken_stream(what, cause));
        self.end_with(before, &event);
        false
    }

    fn succeed(&mut self) {
        let progress = self.transit.progress();
        self.attempt.bind_items(progress.items().iter().map(String::as_str));
        self.attempt.succeed(progress.usage());
    }

    /// Settles an attempt that is not at fault for its end. The usage reported until then is booked; its key is charged by
    /// what has come.
    fn abandon(&mut self) {
        let progress = self.transit.progress();
        self.attempt.estimate_output(progress.output_tokens());
        self.attempt.abandon(progress.usage());
    }

    fn send(&mut self, bytes: Bytes) {
        self.ready = (!bytes.is_empty()).then_some(bytes);
    }

    /// Sends `before`, then the event that tells the error, and nothing more.
    fn end_with(&mut self, before: Bytes, event: &[u8]) {
        self.upstream = None;
        let mut out = BytesMut::from(before);
        out.extend_from_slice(event);
        self.send(out.freeze());
    }

    /// Writes an error as the last event.
    fn error_event(&mut self, error: &UpstreamError) -> Bytes {
        let id = self.attempt.request_id().map(|id| format!("resp_{}", id.as_str()));
        self.transit.error(error, id.as_deref().unwrap_or_default())
    }

    /// Waits for the upstream: lingers, sends a heartbeat to keep the client's connection open, or gives up, when it is time.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let progress = self.transit.progress();
        if progress.is_finished() {
            return self.linger(context);
        }
        if self.attempt.proxy().core.is_cutting() {
            self.cut_off();
            return Poll::Ready(());
        }
        let has_ended = matches!(progress.phase(), Phase::Ended);
        if !self.finished && has_ended && self.transit.is_followed_by_usage_alone() {
            // The rest has its own time limit, however long the wait before.
            self.finished = true;
            self.wake_at = None;
        }
        let idle = if self.finished { LAST_WORDS.min(self.idle) } else { self.idle };
        loop {
            let until = *self.wake_at.get_or_insert_with(|| {
                let broken_at = self.last_data + idle;
                self.heartbeats.pause.map_or(broken_at, |pause| broken_at.min(self.last_sent + pause))
            });
            ready!(self.timer.poll_until(until, context));
            self.wake_at = None;
            let now = Instant::now();
            if now >= self.last_data + idle {
                self.broke(&format!("nothing came for {} s", idle.as_secs()));
                return Poll::Ready(());
            }
            if self.heartbeats.pause.is_some_and(|pause| now >= self.last_sent + pause) {
                // Where no heartbeat may be sent, this is checked again after another pause.
                self.last_sent = now;
                if self.takes_heartbeats() {
                    self.ready = Some(Bytes::from_static(errors::heartbeat(self.dialect)));
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Whether a heartbeat may be sent at this point of the stream. What follows the finish comes soon, so none is sent there.
    fn takes_heartbeats(&self) -> bool {
        let has_begun =
            self.heartbeats.first.is_some() || !matches!(self.transit.progress().phase(), Phase::Preamble);
        has_begun && !self.finished && self.transit.is_between_events()
    }

    /// Waits for the end of the upstream's body after the client has got everything.
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.succeed();
        if !self.lingering {
            let (Ok(rest) | Err(rest)) = self.transit.conclude();
            self.send(rest);
            self.lingering = true;
            self.wake_at = None;
            if self.ready.is_some() {
                return Poll::Ready(());
            }
        }
        let until = *self.wake_at.get_or_insert_with(|| Instant::now() + LINGER);
        ready!(self.timer.poll_until(until, context));
        self.upstream = None;
        Poll::Ready(())
    }
}

impl Drop for Relay {
    /// Settles an attempt whose client hung up, or that the service's stop cut off.
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        loop {
            if let Some(bytes) = this.ready.take() {
                this.attempt.proxy().core.metrics.sent_bytes.add(bytes.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let Some(upstream) = &mut this.upstream else { return Poll::Ready(None) };
            match upstream.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => this.take(bytes),
                Poll::Ready(Some(Err(error))) => this.broke(error.message()),
                Poll::Ready(None) => this.closed(),
                Poll::Pending => {
                    if this.wait(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_none() && self.upstream.is_none()
    }
}
