//! What is still to be sent of a request.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::request::RequestBody;
use super::stream::Stream;

/// A request on its way: the head, then the body.
#[derive(Default)]
pub(super) struct Outgoing {
    /// Its room is kept, for the next one is as long.
    head: Vec<u8>,
    body: RequestBody,
    /// So many bytes of both have left.
    sent: usize,
    /// An answer has begun: nobody will want to send the body again.
    is_answered: bool,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Sent,
    Sending,
    /// Nothing more can be sent.
    Failed(io::Error),
}

impl Outgoing {
    /// Begins a request whose head `write` writes.
    pub(super) fn start(&mut self, write: impl FnOnce(&mut Vec<u8>), body: RequestBody) {
        self.head.clear();
        write(&mut self.head);
        (self.body, self.sent, self.is_answered, self.state) = (body, 0, false, State::Sending);
    }

    /// To be called when an answer has begun.
    pub(super) fn answered(&mut self) {
        self.is_answered = true;
        if self.is_sent() {
            self.body = RequestBody::empty();
        }
    }

    /// Takes back the body of a request that has no answer.
    pub(super) fn take_body(&mut self) -> RequestBody {
        std::mem::take(&mut self.body)
    }

    /// Nothing has left.
    pub(super) fn is_untouched(&self) -> bool {
        self.sent == 0
    }

    pub(super) fn is_sent(&self) -> bool {
        matches!(self.state, State::Sent)
    }

    /// Why nothing more can be sent, if so.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        match &self.state {
            State::Failed(error) => Some(error),
            State::Sent | State::Sending => None,
        }
    }

    /// Nothing more is sent.
    pub(super) fn give_up(&mut self, error: io::Error) {
        self.state = State::Failed(error);
    }

    /// Ready when all has left. Fails when the socket takes no more; there may be an answer all the same.
    pub(super) fn poll_send(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !matches!(self.state, State::Sending) {
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
        if self.is_answered {
            self.body = RequestBody::empty();
        }
        self.state = State::Sent;
        Poll::Ready(Ok(()))
    }

    /// What is left of head and body.
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
