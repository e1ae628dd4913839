//! The part of a request that is still to be sent.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::request::RequestBody;
use super::stream::Stream;

/// The longest body, in bytes, that is kept after it was sent. A longer one fills the buffers on the way: when all of
/// it has left, the other side has been reading.
const MAX_KEPT: u64 = 256 * 1024;

/// A request on its way: the head, then the body.
#[derive(Default)]
pub(super) struct RequestWriter {
    /// Its room is kept, because the next head is about as long.
    head: Vec<u8>,
    body: RequestBody,
    /// How many bytes of head and body have left.
    sent: usize,
    /// Whether the body stays after it was sent: it may have to be sent again.
    is_kept: bool,
    state: SendState,
}

#[derive(Default)]
enum SendState {
    #[default]
    Sent,
    Sending,
    /// Nothing more can be sent.
    Failed(io::Error),
}

impl RequestWriter {
    /// Begins a request whose head `write` writes. With `may_repeat` the body is kept after it was sent, unless it is
    /// long.
    pub(super) fn start(&mut self, write: impl FnOnce(&mut Vec<u8>), body: RequestBody, may_repeat: bool) {
        self.head.clear();
        write(&mut self.head);
        self.is_kept = may_repeat && body.length() <= MAX_KEPT;
        (self.body, self.sent, self.state) = (body, 0, SendState::Sending);
    }

    /// Drops the body once it is sent, because an answer has begun.
    pub(super) fn answered(&mut self) {
        self.is_kept = false;
        if self.is_sent() {
            self.body = RequestBody::empty();
        }
    }

    /// Whether the body is still here.
    pub(super) fn has_body(&self) -> bool {
        self.is_kept || !self.is_sent()
    }

    /// Takes back the body of a request that has no answer.
    pub(super) fn take_body(&mut self) -> RequestBody {
        std::mem::take(&mut self.body)
    }

    pub(super) fn is_sent(&self) -> bool {
        matches!(self.state, SendState::Sent)
    }

    /// Returns why nothing more can be sent, if so.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        match &self.state {
            SendState::Failed(error) => Some(error),
            SendState::Sent | SendState::Sending => None,
        }
    }

    /// Stops sending, for this reason.
    pub(super) fn give_up(&mut self, error: io::Error) {
        self.state = SendState::Failed(error);
    }

    /// Polls until everything has left. Fails when the socket takes no more; there may be an answer all the same.
    pub(super) fn poll_send(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !matches!(self.state, SendState::Sending) {
            return Poll::Ready(Ok(()));
        }
        while let Some((slices, count)) = self.rest() {
            let sent = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        ready!(Pin::new(&mut *stream).poll_flush(cx))?;
        if !self.is_kept {
            self.body = RequestBody::empty();
        }
        self.state = SendState::Sent;
        Poll::Ready(Ok(()))
    }

    /// Returns the parts of head and body that have not been sent.
    fn rest(&self) -> Option<([IoSlice<'_>; 4], usize)> {
        let mut slices = [IoSlice::new(&[]); 4];
        let (mut count, mut skip) = (0, self.sent);
        let [first, second, third] = self.body.pieces();
        for part in [&self.head[..], first, second, third] {
            match part.get(skip..) {
                Some(rest) if !rest.is_empty() => {
                    slices[count] = IoSlice::new(rest);
                    (count, skip) = (count + 1, 0);
                }
                _ => skip = skip.saturating_sub(part.len()),
            }
        }
        (count > 0).then_some((slices, count))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use bytes::Bytes;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn only_a_short_body_that_may_be_sent_again_outlives_its_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        for (length, may_repeat, is_kept) in [(9, true, true), (9, false, false), (300_000, true, false)] {
            let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (mut stream, mut other) =
                (Stream::from(stream.expect("a connection")), accepted.expect("the same").0);
            tokio::spawn(async move { tokio::io::copy(&mut other, &mut tokio::io::sink()).await });
            let body = Bytes::from(vec![b'x'; length]);
            let (mut outgoing, handle) = (RequestWriter::default(), body.clone());
            outgoing.start(|head| head.extend(b"POST"), body.into(), may_repeat);
            assert!(outgoing.has_body());
            std::future::poll_fn(|cx| outgoing.poll_send(&mut stream, cx)).await.expect("it is sent");
            assert_eq!(outgoing.has_body(), is_kept, "{length} {may_repeat}");
            assert_eq!(!handle.is_unique(), is_kept, "{length} {may_repeat}");
            outgoing.answered();
            assert!(!outgoing.has_body() && handle.is_unique());
            assert!(outgoing.poll_send(&mut stream, &mut Context::from_waker(Waker::noop())).is_ready());
        }
    }
}
