//! One HTTP/1.1 connection, driven by the exchange that uses it: the task that wants the answer polls it, and is the
//! only one that it wakes.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hyper::http::{Method, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::error::{BodyError, ErrorKind, SendError};
use super::http1::{AnswerHead, Framing, parse_answer, parse_answer_to_head, write_request};
use super::outgoing::RequestWriter;
use super::repeat::{ExchangeProgress, ReplyKind, SentPart};
use super::request::{Request, RequestBody};
use super::stream::Stream;
use crate::routing::Origin;

/// The bytes that are read at once at first; up to `MAX_READ` where an upstream has more ready.
const READ: usize = 8 * 1024;
const MAX_READ: usize = 64 * 1024;

/// The length in bytes up to which copying is cheaper than allocating a new read buffer.
const COPIED: usize = 4 * 1024;

/// The idle time from which it is worth a system call to ask whether the upstream has hung up; connections that are
/// used at a high rate are used again sooner.
const RESTED_AFTER: Duration = Duration::from_millis(1);

/// The time within which a connection fails that was closed under a request; later than this the upstream was working.
pub(super) const DIES_WITHIN: Duration = Duration::from_secs(2);

/// The longest time that an idle connection is kept, also where the upstream does not say how long it does. Most
/// servers close theirs after 60 to 75 seconds.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// How much sooner than the upstream an idle connection is given up: a request must not meet its closing.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// The most interim responses before the real one; more are taken for an attack.
const MAX_INTERIM: u32 = 64;

pub(crate) struct UpstreamConnection {
    stream: Stream,
    /// The bytes that were read and not yet decoded.
    input: BytesMut,
    /// The room that the next read gets, in bytes.
    next_read: usize,
    /// The most room that the buffer was ever asked for, in bytes: it may still be that large.
    most_room: usize,
    /// Whether the last read filled all the room it had: there may be more.
    has_more: bool,
    outgoing: RequestWriter,
    /// When the exchange began; `written_before` is how much the stream had taken by then.
    started: Instant,
    written_before: u64,
    /// Whether the connection had served another exchange before this one.
    is_kept: bool,
    /// The framing of the answer that is being read.
    framing: Framing,
    /// Whether the answer is to a HEAD request.
    has_no_body: bool,
    interim: u32,
    /// Whether the upstream will take another request.
    keep_alive: bool,
    idle_since: Instant,
    /// How long the idle connection may serve again.
    idle_limit: Duration,
}

/// Why an exchange got no head of an answer.
pub(crate) struct Failure {
    pub(crate) error: SendError,
    /// Whether the body of the request is still here, so that it can be sent again.
    pub(crate) has_body: bool,
}

/// The result of [`UpstreamConnection::poll_body`].
pub(crate) enum Piece {
    Data(Bytes),
    End,
}

impl UpstreamConnection {
    pub(crate) fn new(stream: Stream) -> Box<Self> {
        Box::new(Self {
            stream,
            input: BytesMut::new(),
            next_read: READ,
            most_room: 0,
            has_more: false,
            outgoing: RequestWriter::default(),
            started: Instant::now(),
            written_before: 0,
            is_kept: false,
            framing: Framing::Length(0),
            has_no_body: false,
            interim: 0,
            keep_alive: false,
            idle_since: Instant::now(),
            idle_limit: IDLE_LIMIT,
        })
    }

    /// Begins an exchange. Takes the body out of the request; [`UpstreamConnection::take_body`] gives it back where it is
    /// still there.
    pub(crate) fn start(&mut self, request: &mut Request, origin: &Origin, now: Instant) {
        self.has_no_body = request.method == Method::HEAD;
        self.interim = 0;
        // A new connection cannot be one that the upstream has closed for its idleness.
        (self.started, self.is_kept) = (now, self.keep_alive);
        self.written_before = self.stream.written();
        let body = std::mem::take(&mut request.body);
        let length = body.length();
        self.outgoing.start(|head| write_request(head, request, origin, length), body, self.is_kept);
    }

    /// Returns the body of a request that got no answer.
    pub(crate) fn take_body(&mut self) -> RequestBody {
        self.outgoing.take_body()
    }

    /// Sends what is due and reads until the head of the answer is there, even while the request is still being sent.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<AnswerHead, Failure>> {
        if let Err(failure) = self.send(cx) {
            return Poll::Ready(Err(failure));
        }
        loop {
            let parsed = if self.input.is_empty() {
                Ok(None)
            } else if self.has_no_body {
                parse_answer_to_head(&self.input)
            } else {
                parse_answer(&self.input)
            };
            match parsed {
                Ok(Some((head, length))) => {
                    self.input.advance(length);
                    let is_interim =
                        head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS;
                    if self.is_goodbye(&head) {
                        let what = "the upstream closed the idle connection (408) as it was used again";
                        return Poll::Ready(Err(self.failed(
                            ReplyKind::Goodbye,
                            ErrorKind::Closed,
                            what.to_owned(),
                        )));
                    }
                    if !is_interim {
                        return Poll::Ready(Ok(self.begin(head)));
                    }
                    self.interim += 1;
                    if self.interim > MAX_INTERIM {
                        return Poll::Ready(Err(self.invalid("it has only interim responses")));
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(self.invalid(error))),
            }
            match ready!(self.read(cx)) {
                Ok(0) => return Poll::Ready(Err(self.unanswered(None))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(self.unanswered(Some(&error)))),
            }
        }
    }

    fn begin(&mut self, mut head: AnswerHead) -> AnswerHead {
        self.outgoing.answered();
        self.keep_alive = head.keep_alive;
        self.idle_limit = idle_limit(head.idle_limit);
        self.framing = std::mem::replace(&mut head.framing, Framing::Length(0));
        head
    }

    /// Sends what is left of the request. Fails when none of it was taken, so that there can be no answer; after a part
    /// of it was taken an answer may still come.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.outgoing.is_sent() {
            return Ok(());
        }
        match self.outgoing.poll_send(&mut self.stream, cx) {
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
            Poll::Ready(Err(_)) if self.stream.written() == self.written_before => {
                let what = "the upstream closed the connection before the request was sent";
                Err(self.failed(ReplyKind::Nothing, ErrorKind::Closed, what.to_owned()))
            }
            Poll::Ready(Err(error)) => {
                self.outgoing.give_up(error);
                Ok(())
            }
        }
    }

    fn unanswered(&self, error: Option<&io::Error>) -> Failure {
        let why = error.or(self.outgoing.failure());
        if let Some(error) = why.filter(|error| is_nonsense(error)) {
            return self.invalid(error);
        }
        // A broken pipe is how a system reports a reset that follows an orderly end: when the rest of the request
        // arrived there, the connection was closed. A reset alone does not mean that: it may also come from a process
        // that dies, or from a load balancer that has lost the server at work.
        let left = self.stream.take_error();
        let mut told = why.into_iter().chain(&left);
        let is_closed_before = told.any(|error| error.kind() == io::ErrorKind::BrokenPipe);
        let message = "the upstream closed the connection without an answer";
        let message = why.map_or_else(|| message.to_owned(), |error| format!("{message} ({error})"));
        let came =
            if self.input.is_empty() && self.interim == 0 { ReplyKind::Nothing } else { ReplyKind::Answer };
        let mut failure = self.failed(came, ErrorKind::Closed, message);
        let progress = failure.error.progress();
        if is_closed_before && progress.written == SentPart::Whole {
            failure.error = failure.error.after(ExchangeProgress { written: SentPart::Part, ..progress });
        }
        failure
    }

    /// Whether this head is a server's word that it closes an idle connection. It may have been sent before the
    /// request, or while that was on its way; later it is about the request.
    fn is_goodbye(&self, head: &AnswerHead) -> bool {
        head.status == StatusCode::REQUEST_TIMEOUT
            && !head.keep_alive
            && self.is_kept
            && self.interim == 0
            && self.started.elapsed() < DIES_WITHIN
    }

    fn invalid(&self, why: impl std::fmt::Display) -> Failure {
        let message = format!("the upstream's answer is not valid HTTP ({why})");
        self.failed(ReplyKind::Answer, ErrorKind::Protocol, message)
    }

    fn failed(&self, came: ReplyKind, kind: ErrorKind, message: String) -> Failure {
        let written = match self.stream.written() {
            written if written == self.written_before => SentPart::Nothing,
            _ if self.outgoing.is_sent() => SentPart::Whole,
            _ => SentPart::Part,
        };
        let error = SendError::new(kind, message).after(ExchangeProgress { written, came });
        Failure { error, has_body: self.outgoing.has_body() }
    }

    /// Polls for the next bytes of the body that are there without waiting, or its end. While `may_wait` is false, a
    /// connection is read only if it is known to have more.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        may_wait: bool,
    ) -> Poll<Result<Piece, BodyError>> {
        loop {
            if self.framing.is_ended() {
                return Poll::Ready(Ok(Piece::End));
            }
            let step = self.framing.step(&self.input);
            let step = step.map_err(|error| {
                BodyError::protocol(format!("the upstream's body is malformed ({})", error.0))
            })?;
            self.input.advance(step.coding);
            if step.data > 0 {
                return Poll::Ready(Ok(Piece::Data(self.take(step.data))));
            }
            if !self.input.is_empty() || self.framing.is_ended() {
                continue;
            }
            if !may_wait && !self.has_more {
                return Poll::Pending;
            }
            // The rest of a request whose answer began before all of it was sent.
            let _ = self.send(cx);
            match ready!(self.read(cx)) {
                Ok(1..) => {}
                Ok(0) if matches!(self.framing, Framing::UntilClose) => return Poll::Ready(Ok(Piece::End)),
                Ok(0) => return Poll::Ready(Err(broken("it ends too early"))),
                // Servers that end a body this way seldom say goodbye to TLS. A cut is noticed by the content: JSON
                // that does not parse, a stream without its last event.
                Err(error)
                    if error.kind() == io::ErrorKind::UnexpectedEof
                        && matches!(self.framing, Framing::UntilClose) =>
                {
                    return Poll::Ready(Ok(Piece::End));
                }
                Err(error) if is_nonsense(&error) => {
                    let message = format!("the upstream's body is malformed ({error})");
                    return Poll::Ready(Err(BodyError::protocol(message)));
                }
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
    }

    /// Takes the next bytes of the input. A few are copied, so that the buffer can be used again at once.
    fn take(&mut self, length: usize) -> Bytes {
        if length > COPIED {
            return self.input.split_to(length).freeze();
        }
        let data = Bytes::copy_from_slice(&self.input[..length]);
        self.input.advance(length);
        data
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input.is_empty() || self.input.capacity() - self.input.len() < COPIED {
            self.input.reserve(self.next_read);
            self.most_room = self.most_room.max(self.next_read);
        }
        let room = self.input.capacity() - self.input.len();
        let read = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        self.has_more = read == room;
        if self.has_more {
            self.next_read = (self.next_read * 2).min(MAX_READ);
        } else if read < self.next_read / 4 {
            self.next_read = (self.next_read / 2).max(READ);
        }
        Poll::Ready(Ok(read))
    }

    /// Returns how many bytes of the body are still to come, where its framing tells.
    pub(crate) fn exact_left(&self) -> Option<u64> {
        self.framing.exact_left()
    }

    pub(crate) fn is_body_ended(&self) -> bool {
        self.framing.is_ended()
    }

    /// Whether the last exchange is over on both sides, and the upstream takes another. What it does afterwards is
    /// checked when the connection is to be used again.
    pub(crate) fn is_reusable(&mut self) -> bool {
        // The request may have been sent whole without anybody having polled since.
        let _ = self.send(&mut Context::from_waker(Waker::noop()));
        let takes_another = self.keep_alive && !self.idle_limit.is_zero();
        takes_another && self.outgoing.is_sent() && self.framing.is_ended() && self.input.is_empty()
    }

    /// Whether an idle connection is open and has sent nothing unasked, as far as this process has heard.
    pub(crate) fn is_silent(&mut self) -> bool {
        // Unconstrained, because a task that has done much would be told "not yet" about a connection that is closed.
        let mut read = pin!(tokio::task::unconstrained(self.stream.read_buf(&mut self.input)));
        let is_pending = read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        is_pending && self.input.is_empty()
    }

    /// Whether an idle connection may serve again. The kernel is asked about one that has rested: servers that hang up
    /// after an answer without saying so do it at once, and a request must not be what finds out. It is also asked for
    /// a request that `must_know`, because it cannot be sent again.
    pub(crate) fn is_usable(&mut self, now: Instant, must_know: bool) -> bool {
        let is_fresh = !must_know && self.idle_until(now) < RESTED_AFTER;
        !self.is_overdue(now) && self.is_silent() && (is_fresh || !self.stream.has_news())
    }

    /// Whether the connection has been idle for so long that the upstream may close it any moment.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.idle_until(now) >= self.idle_limit
    }

    /// Notes that the connection is idle from now on, and drops a large buffer.
    pub(crate) fn set_idle(&mut self) {
        self.idle_since = Instant::now();
        self.next_read = READ;
        if self.most_room > READ {
            self.most_room = 0;
            self.input = BytesMut::new();
        }
    }

    pub(crate) fn idle_until(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.idle_since)
    }
}

/// Returns how long an idle connection may serve again when its upstream states this limit.
fn idle_limit(stated: Option<Duration>) -> Duration {
    stated.map_or(IDLE_LIMIT, |stated| (stated - IDLE_MARGIN.min(stated / 2)).min(IDLE_LIMIT))
}

/// Whether bytes arrived that make no sense to TLS or to us.
fn is_nonsense(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
}

fn broken(why: impl std::fmt::Display) -> BodyError {
    BodyError::closed(format!("the upstream closed the connection in the middle of its answer ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_given_up_before_its_upstream_closes_it() {
        for (stated, kept) in
            [(None, 60_000), (Some(75), 60_000), (Some(5), 4_000), (Some(1), 500), (Some(0), 0)]
        {
            let limit = idle_limit(stated.map(Duration::from_secs));
            assert_eq!(limit, Duration::from_millis(kept), "{stated:?}");
        }
    }
}
