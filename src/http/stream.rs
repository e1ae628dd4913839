//! The client's socket, with the guards that hyper lacks.
//!
//! | case | recognised by | consequence |
//! |---|---|---|
//! | a client that stops reading | a write that the kernel refuses for the idle limit | cut off |
//! | a body that comes too slowly, or not at all | [`BodyPatience`], while hyper waits for it | its reader gets the reason |
//! | a head that is too long, or the oldest of too many | [`Framing`], [`UnfinishedHeads`] | a short answer, then the end |
//! | half a request while the service stops | [`Framing`] | a head ends at once, a body once it is silent |
//! | a head that hyper would accept and must not | [`Framing`] | refused when it is served (`strict`) |
//!
//! No timer is armed unless hyper waits for more of a body, or for a client to take its answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection_state::ConnectionState;
use super::framing::{Framing, HeadFault};
use super::heads::{HeldHead, UnfinishedHeads};
use super::pace::{BodyPatience, SlowBody};
use crate::time::{http_date, now_ms};

/// How long a body may be silent while the service stops.
const SILENCE_AT_STOP: Duration = Duration::from_secs(1);
/// How many bytes, and for how long, to read from a client that still sends after its last answer. If the connection were
/// closed earlier it would be reset, and the answer lost on its way (RFC 9112 §9.6).
const DRAINED: usize = 128 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(5);
const DRAIN_SILENCE: Duration = Duration::from_secs(1);

pub(super) struct ClientStream<S> {
    io: S,
    idle: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
    wire: Arc<ConnectionState>,
    framing: Framing,
    pace: BodyPatience,
    /// Since when hyper has been waiting for more of a body; `patience` ends the wait.
    waiting: Option<Instant>,
    patience: Option<Pin<Box<Sleep>>>,
    heads: Arc<UnfinishedHeads>,
    held: Option<HeldHead>,
    /// Why the incomplete head is not waited for.
    ended: Option<HeadEnded>,
    /// Whether nothing can be read or written any more.
    is_gone: bool,
}

/// Why a connection ended before a head was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadEnded {
    Fault(HeadFault),
    /// The heads of all clients take too much memory, and this one is the oldest.
    Displaced,
    Stopping,
}

// === impl ClientStream ===

impl<S> ClientStream<S> {
    pub(super) fn new(
        io: S,
        idle: Duration,
        wire: Arc<ConnectionState>,
        heads: Arc<UnfinishedHeads>,
    ) -> Self {
        Self {
            io,
            idle,
            blocked: None,
            wire,
            framing: Framing::default(),
            pace: BodyPatience::default(),
            waiting: None,
            patience: None,
            heads,
            held: None,
            ended: None,
            is_gone: false,
        }
    }

    /// Limits the time of a write that cannot go on.
    fn watch<T>(&mut self, context: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &write {
            Poll::Ready(written) => {
                self.is_gone |= written.is_err();
                if self.blocked.take().is_some() && self.framing.unfinished_head() > 0 {
                    // The decision about an incomplete head was put off until the answer before it is sent.
                    context.waker().wake_by_ref();
                }
                return write;
            }
            Poll::Pending => {}
        }
        let idle = self.idle;
        let timer = self.blocked.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                self.is_gone = true;
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns why the head that hyper waits for will never be served, if so. hyper asks for more of a head only when
    /// nothing else is under way on the connection.
    fn end_of_head(&self) -> Option<HeadEnded> {
        if self.framing.unfinished_head() == 0 || self.blocked.is_some() {
            return None;
        }
        if let Some(fault) = self.framing.overlong_head() {
            return Some(HeadEnded::Fault(fault));
        }
        if self.wire.is_stopping.load(Ordering::Relaxed) {
            return Some(HeadEnded::Stopping);
        }
        self.held.as_ref().is_some_and(HeldHead::is_displaced).then_some(HeadEnded::Displaced)
    }

    /// Records the bytes that were read.
    fn follow(&mut self, bytes: &[u8], context: &Context<'_>) {
        let heads = self.framing.heads();
        if let Some(since) = self.waiting.take() {
            self.pace.waited(since.elapsed());
        }
        self.framing.feed(bytes);
        if self.framing.heads() != heads {
            self.pace = BodyPatience::default();
        }
        self.pace.received(bytes.len());
        if let Some(head) = self.framing.faulty() {
            self.wire.faulty.get_or_init(|| head);
        }
        match self.framing.unfinished_head() {
            0 => self.held = None,
            held => match &self.held {
                Some(head) => head.grow(held, context.waker()),
                None => self.held = Some(self.heads.hold(held, context.waker())),
            },
        }
    }

    /// Ends the wait for more of a body that is too slow.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let since = *self.waiting.get_or_insert_with(Instant::now);
        let (mut left, mut why) = (self.pace.remaining(), SlowBody::TooSlow);
        if self.idle < left {
            (left, why) = (self.idle, SlowBody::Silent(self.idle));
        }
        if SILENCE_AT_STOP < left && self.wire.is_stopping.load(Ordering::Relaxed) {
            (left, why) = (SILENCE_AT_STOP, SlowBody::Stopping);
        }
        let deadline = since + left;
        let timer = self.patience.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientStream<S> {
    /// Ends a connection that hyper is done with: sends the reason if nothing was answered, and closes so that the client
    /// can read its last answer, whatever it still sends. `is_answered` says that there may be such an answer.
    pub(super) async fn end(mut self, is_answered: bool, has_unread: bool) {
        let words = self.ended.and_then(HeadEnded::words);
        if self.is_gone || !is_answered && words.is_none() {
            return;
        }
        let mut is_sending = has_unread || self.framing.is_in_request();
        let mut buffer = vec![0; 16 * 1024];
        let closing = async {
            if let Some(words) = words {
                self.io.write_all(words.as_bytes()).await?;
            }
            self.io.shutdown().await?;
            let mut left = DRAINED;
            while left > 0 {
                let patience = if is_sending { DRAIN_SILENCE } else { Duration::ZERO };
                let Ok(read) = tokio::time::timeout(patience, self.io.read(&mut buffer)).await else { break };
                match read? {
                    0 => break,
                    read => (left, is_sending) = (left.saturating_sub(read), true),
                }
            }
            Ok::<_, io::Error>(())
        };
        // The time limit is a bound like `DRAINED`, and a client that is gone needs nothing more.
        drop(tokio::time::timeout(DRAIN_TIME, closing).await);
    }
}

impl HeadEnded {
    /// Builds the answer for a client that no handler can tell the reason.
    fn words(self) -> Option<String> {
        let status = match self {
            Self::Fault(HeadFault::TargetTooLong) => "414 URI Too Long",
            Self::Fault(_) => "431 Request Header Fields Too Large",
            Self::Displaced => "408 Request Timeout",
            Self::Stopping => return None,
        };
        let date = http_date(now_ms());
        Some(format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: {date}\r\n\r\n"))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.wire.is_upgraded.load(Ordering::Relaxed) {
            return Pin::new(&mut this.io).poll_read(context, buffer);
        }
        if let Some(ended) = this.end_of_head() {
            this.ended = Some(ended);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the connection is closed before the request head is complete",
            )));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut this.io).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                let read = &buffer.filled()[before..];
                this.is_gone |= read.is_empty();
                this.follow(read, context);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                this.is_gone = true;
                Poll::Ready(Err(error))
            }
            Poll::Pending if this.framing.is_in_body() => this.wait(context),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let write = Pin::new(&mut this.io).poll_write(context, bytes);
        this.watch(context, write)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let write = Pin::new(&mut this.io).poll_write_vectored(context, slices);
        this.watch(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flush = Pin::new(&mut this.io).poll_flush(context);
        this.watch(context, flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}
