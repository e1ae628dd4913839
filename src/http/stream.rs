//! The client's socket with two guards hyper does not have.
//!
//! *A client that stops reading* is cut after the idle limit: the timer is armed only while a write
//! is refused by the kernel, so ordinary traffic never touches it. *Ambiguous framing*: hyper
//! removes a Content-Length that stands beside Transfer-Encoding before anyone can see it, so the
//! bytes of a head that speaks of chunks are looked at here (RFC 9112 §6.3).

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How much of a read is looked at for a request head.
const HEAD_WINDOW: usize = 8 * 1024;

/// Set when the bytes last read hold a head with both Content-Length and Transfer-Encoding.
pub(super) type AmbiguousFraming = Arc<AtomicBool>;

pub(super) struct ClientStream<S> {
    io: S,
    idle: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
    ambiguous: AmbiguousFraming,
}

impl<S> ClientStream<S> {
    pub(super) fn new(io: S, idle: Duration, ambiguous: AmbiguousFraming) -> Self {
        Self { io, idle, blocked: None, ambiguous }
    }

    /// Keeps the time of a write that cannot go on.
    fn watch<T>(&mut self, context: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.blocked = None;
            return write;
        }
        let idle = self.idle;
        let timer = self.blocked.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// True when the head at the start of `bytes` names both ways of framing a body.
fn names_both_lengths(bytes: &[u8]) -> bool {
    // Built once: a search costs less than its preparation. Without the first letter, which may be
    // written large.
    static CHUNKED: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("hunked"));
    static END: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("\r\n\r\n"));
    let window = &bytes[..bytes.len().min(HEAD_WINDOW)];
    let head = &window[..END.find(window).unwrap_or(window.len())];
    if CHUNKED.find(head).is_none() {
        return false;
    }
    let has = |name: &[u8]| {
        head.split(|byte| *byte == b'\n')
            .any(|line| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name))
    };
    has(b"content-length:") && has(b"transfer-encoding:")
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) && names_both_lengths(&buffer.filled()[before..]) {
            this.ambiguous.store(true, Ordering::Relaxed);
        }
        read
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

#[cfg(test)]
mod tests {
    use super::names_both_lengths;

    #[test]
    fn both_lengths_are_seen_in_either_order_and_only_in_the_head() {
        for (bytes, both) in [
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", true),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc\ncontent-length: 5\r\n", false),
            ("POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\nchunked", false),
        ] {
            assert_eq!(names_both_lengths(bytes.as_bytes()), both, "{bytes}");
        }
    }
}
