//! The answer on its way to the client: chunks as they come, an observer beside them.
//!
//! ```text
//! upstream ──poll──▶ observer ──▶ (converter) ──▶ client      no task and no channel between: the
//!     │                 │                                     client's connection polls, so it sets
//!     │                 └ usage, phase                        the pace
//!     ├ end after the end event      settled as success
//!     ├ error event                  relayed, settled as failure
//!     ├ break, or silence too long   an error event of our own, settled as failure
//!     └ (the client hangs up)        dropped, which closes the upstream
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::dialect::Dialect;
use crate::dialect::convert::StreamConverter;
use crate::dialect::errors::{self, UpstreamError};
use crate::dialect::observe::{Phase, StreamObserver};
use crate::dialect::sse;
use crate::http::body::Truncated;
use crate::metrics::GaugeGuard;
use crate::upstream::UpstreamBody;

use super::attempt::Attempt;

/// A silent stream gets a comment this often, so that nothing between us and the client drops it
/// (proxy.md 10.3).
const KEEPALIVE: Duration = Duration::from_secs(15);
/// After the last event an upstream gets this long to end its body, so that its connection can be
/// used again; then it is closed.
const LINGER: Duration = Duration::from_millis(100);
/// A converted answer waits this long for the usage that may follow its finish (proxy-conversion.md 9).
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);

/// A stream that has been held until its first output was seen.
pub(super) struct HeldStream {
    /// What is still to come.
    pub(super) upstream: UpstreamBody,
    /// What was read, all of it seen by the observer.
    pub(super) held: Bytes,
    /// When the last of it came.
    pub(super) last_data: Instant,
    pub(super) observer: StreamObserver,
    /// The longest silence.
    pub(super) idle: Duration,
}

/// A streamed answer of which the first output has been seen.
pub(super) struct Relay {
    dialect: Dialect,
    /// `None` when no more is to be read.
    upstream: Option<UpstreamBody>,
    /// To be sent before anything else is read.
    ready: Option<Bytes>,
    observer: StreamObserver,
    /// Where the upstream speaks another dialect than the client.
    converter: Option<Box<StreamConverter>>,
    /// The beginning of an event of which the rest has not come: a client that got it could make nothing
    /// of the stream's break.
    partial: PartialEvent,
    attempt: Box<Attempt>,
    idle: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// When something was read last, as long as it matters: heartbeats behind the finish do not.
    last_data: Instant,
    /// The answer has finished, and its usage may follow.
    finished: bool,
    lingering: bool,
    _stream: GaugeGuard,
}

impl Relay {
    /// The words by which responses clients know a stream without its last event (proxy.md 10.5, 16.4).
    pub(super) const CLOSED_EARLY: &str = "stream closed before response.completed";

    /// `dialect` is the client's; the converter is for an upstream that speaks another.
    pub(super) fn new(
        dialect: Dialect,
        converter: Option<Box<StreamConverter>>,
        stream: HeldStream,
        attempt: Box<Attempt>,
    ) -> Self {
        let HeldStream { upstream, held, last_data, observer, idle } = stream;
        let open = attempt.app().core.metrics.streams.enter();
        let mut relay = Self {
            dialect,
            upstream: Some(upstream),
            ready: None,
            observer,
            converter,
            partial: PartialEvent::default(),
            attempt,
            idle,
            timer: None,
            last_data,
            finished: false,
            lingering: false,
            _stream: open,
        };
        match relay.converter {
            Some(_) => relay.convert(&held),
            None => relay.ready = relay.whole_events(held),
        }
        relay
    }

    /// Takes the next chunk.
    pub(super) fn take(&mut self, bytes: Bytes) {
        if !self.finished {
            self.last_data = Instant::now();
        }
        if self.converter.is_some() {
            self.observer.feed(&bytes);
            return self.convert(&bytes);
        }
        let Phase::Failed(error) = self.observer.feed(&bytes) else {
            self.ready = self.whole_events(bytes);
            return;
        };
        // What came before the error event is the client's; the event itself is written anew.
        let error = without_secrets(error, &self.attempt);
        let cause = format!("stream error: {}", error.message);
        let (keep, begun) =
            self.observer.break_at().map_or((bytes.len(), true), |at| (at.keep, at.error_relayed));
        match begun {
            true if self.partial.relayed => self.end_with(bytes.slice(..keep), None),
            true => self.end_with(Bytes::new(), Some(&error)),
            false => {
                let before = self.partial.before(bytes.slice(..keep));
                self.end_with(before, Some(&error));
            }
        }
        self.attempt.break_off(&cause, Some(&error), self.observer.usage());
    }

    /// What of these bytes the client can have: all but the beginning of an event.
    fn whole_events(&mut self, bytes: Bytes) -> Option<Bytes> {
        let is_whole = self.observer.between_events() || self.observer.is_finished();
        let ready = self.partial.pass(bytes, is_whole);
        (!ready.is_empty()).then_some(ready)
    }

    /// Passes a chunk that the observer has seen through the converter.
    fn convert(&mut self, bytes: &[u8]) {
        let Some(converter) = &mut self.converter else { return };
        let mut out = String::new();
        converter.feed(bytes, &mut out);
        self.attempt.store_signatures(converter.take_signatures());
        let failure = converter.failure().or(match self.observer.phase() {
            Phase::Failed(error) => Some(error),
            _ => None,
        });
        if let Some(error) = failure {
            let error = without_secrets(error, &self.attempt);
            converter.fail(&error, &mut out);
            self.upstream = None;
            let cause = format!("stream error: {}", error.message);
            self.attempt.break_off(&cause, Some(&error), self.observer.usage());
        }
        self.ready = (!out.is_empty()).then(|| Bytes::from(out));
    }

    /// Lets the converter write its end; true when the answer is complete with it.
    fn conclude(&mut self) -> bool {
        let Some(converter) = &mut self.converter else { return true };
        let mut out = String::new();
        let complete = converter.is_ended() || converter.close(&mut out);
        if !out.is_empty() {
            self.ready = Some(Bytes::from(out));
        }
        complete
    }

    /// The upstream's body is over.
    fn closed(&mut self) {
        self.upstream = None;
        if let Some(converter) = &mut self.converter {
            if let Phase::Failed(error) = self.observer.close() {
                // Its last event was an error, which no blank line ended.
                let error = without_secrets(error, &self.attempt);
                let mut out = String::new();
                converter.fail(&error, &mut out);
                let cause = format!("stream error: {}", error.message);
                self.end_with(Bytes::from(out), None);
                return self.attempt.break_off(&cause, Some(&error), self.observer.usage());
            }
            return self.broke("the upstream closed the stream before its end");
        }
        match self.observer.close() {
            Phase::Ended => {
                self.ready = self.partial.rest();
                self.attempt.succeed(self.observer.usage());
            }
            Phase::Failed(error) => {
                // All of the event is here but for the blank line that makes it count.
                let error = without_secrets(error, &self.attempt);
                let cause = format!("stream error: {}", error.message);
                self.end_with(self.separator(), (!self.partial.relayed).then_some(&error));
                self.attempt.break_off(&cause, Some(&error), self.observer.usage());
            }
            Phase::Preamble | Phase::Output => {
                self.broke("the upstream closed the stream before its end");
            }
        }
    }

    /// What ends the event that the client holds half, if it does.
    fn separator(&self) -> Bytes {
        if self.partial.relayed { Bytes::from_static(b"\n\n") } else { Bytes::new() }
    }

    fn broke(&mut self, cause: &str) {
        // Some sites end a stream in the words of another dialect: the converter read them so.
        let ended = self.converter.as_ref().is_some_and(|converter| converter.is_ended());
        if ended || (matches!(self.observer.phase(), Phase::Ended) && self.conclude()) {
            self.upstream = None;
            if self.converter.is_none() {
                self.ready = self.partial.rest();
            }
            self.attempt.succeed(self.observer.usage());
            return;
        }
        let what = match self.dialect {
            Dialect::Responses => Self::CLOSED_EARLY,
            _ => "Upstream stream broke",
        };
        let error = UpstreamError {
            message: format!("{what}: {cause}"),
            kind: Some(UpstreamError::BROKEN_STREAM.to_owned()),
            ..UpstreamError::default()
        };
        if let Some(converter) = &mut self.converter {
            let mut out = String::new();
            converter.fail(&error, &mut out);
            self.end_with(Bytes::from(out), None);
        } else {
            self.end_with(self.separator(), Some(&error));
        }
        self.attempt.break_off(cause, None, self.observer.usage());
    }

    /// Sends `before`, then an error event when one is wanted, and nothing more.
    fn end_with(&mut self, before: Bytes, error: Option<&UpstreamError>) {
        self.upstream = None;
        let mut out = BytesMut::from(before);
        if let Some(error) = error {
            out.extend_from_slice(&self.observer.failure_event(error));
        }
        self.ready = (!out.is_empty()).then(|| out.freeze());
    }

    /// Nothing is there yet: ends, keeps the client's connection awake, or gives up, in their time.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.observer.is_finished() {
            return self.linger(context);
        }
        // Of several answers the others may still be on their way.
        let of_one = self.converter.as_ref().is_some_and(|converter| !converter.is_of_several());
        if !self.finished && of_one && matches!(self.observer.phase(), Phase::Ended) {
            // What is still to come has its own time, however long the wait before.
            self.finished = true;
            self.timer = None;
        }
        let idle = if self.finished { LAST_WORDS.min(self.idle) } else { self.idle };
        loop {
            let pause = KEEPALIVE.min(idle);
            let due = self.last_data + pause;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let silence = self.last_data.elapsed();
            let (due, told) = if silence >= idle {
                let cause = format!("nothing came for {} s", idle.as_secs());
                self.broke(&cause);
                (None, true)
            } else if silence >= KEEPALIVE && !self.partial.relayed {
                let started = self.converter.as_ref().map(|converter| converter.is_started());
                let started = started.unwrap_or_else(|| self.observer.message_started());
                let keepalive = errors::keepalive(self.dialect, started);
                self.ready = Some(Bytes::from_static(keepalive));
                (Some(pause), true)
            } else {
                (Some(pause.saturating_sub(silence).max(Duration::from_millis(10))), false)
            };
            if let (Some(due), Some(timer)) = (due, &mut self.timer) {
                timer.as_mut().reset(Instant::now() + due);
            }
            if told {
                return Poll::Ready(());
            }
        }
    }

    /// The client has everything; only the end of the upstream's body is missing.
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.attempt.succeed(self.observer.usage());
        if !self.lingering {
            self.conclude();
            self.lingering = true;
            self.timer = Some(Box::pin(tokio::time::sleep(LINGER)));
            if self.ready.is_some() {
                return Poll::Ready(());
            }
        }
        let over = self.timer.as_mut().is_none_or(|timer| timer.as_mut().poll(context).is_ready());
        if over {
            self.upstream = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Relay {
    /// Unless the attempt is settled the client hung up, or the service stopped. The usage reported until then is booked.
    fn drop(&mut self) {
        self.attempt.abandon(self.observer.usage());
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
                this.attempt.app().core.metrics.sent_bytes.add(bytes.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let Some(upstream) = &mut this.upstream else { return Poll::Ready(None) };
            match upstream.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => this.take(bytes),
                Poll::Ready(Some(Err(error))) => {
                    this.broke(error.message());
                }
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

/// The beginning of an event.
#[derive(Default)]
struct PartialEvent {
    held: Bytes,
    /// It grew so long that the client has it.
    relayed: bool,
}

/// The longest beginning of an event that is held back.
const MAX_PARTIAL: usize = 64 * 1024;

impl PartialEvent {
    /// What is held, with these bytes behind it; nothing is held any more.
    fn before(&mut self, bytes: Bytes) -> Bytes {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return bytes;
        }
        Bytes::from([held, bytes].concat())
    }

    fn rest(&mut self) -> Option<Bytes> {
        Some(std::mem::take(&mut self.held)).filter(|held| !held.is_empty())
    }

    /// Takes the next bytes and gives what can be sent. `is_whole` says that no event is half in them.
    fn pass(&mut self, bytes: Bytes, is_whole: bool) -> Bytes {
        let mut bytes = self.before(bytes);
        if is_whole {
            self.relayed = false;
            return bytes;
        }
        let end = sse::last_end(&bytes);
        if end.is_none() && (self.relayed || bytes.len() > MAX_PARTIAL) {
            self.relayed = true;
            return bytes;
        }
        self.relayed = false;
        self.held = bytes.split_off(end.unwrap_or(0));
        bytes
    }
}

/// What an upstream said, less the secrets of its request, which some repeat.
fn without_secrets(error: &UpstreamError, attempt: &Attempt) -> UpstreamError {
    let (mut error, secrets) = (error.clone(), attempt.secrets());
    error.hide(|text| secrets.hide(text));
    error
}
