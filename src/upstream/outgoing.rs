//! What is still to be sent of a request.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Body;
use tokio::io::AsyncWrite;

use super::http1::RequestLength;
use super::request::RequestBody;
use super::stream::Stream;

/// A request on its way: `head` and `pieces` first, then what `upload` still gives.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The request's head, or the line that a chunk begins with. Kept, for the next one is as long.
    head: Vec<u8>,
    pieces: [Bytes; 3],
    /// So many bytes of them have left.
    sent: usize,
    upload: Option<Upload>,
    /// Nothing of the upload has been asked for, and nothing at all has left.
    untouched: bool,
    state: State,
}

/// A body that arrives while it is sent.
struct Upload {
    body: RequestBody,
    /// How much of it is still due; `None` where it goes in chunks.
    due: Option<u64>,
}

#[derive(Default)]
enum State {
    #[default]
    Sent,
    Sending,
    /// Nothing more can be sent.
    Failed(io::Error),
}

/// Why a request cannot be sent to its end.
pub(super) enum Failure {
    /// The socket takes no more; there may be an answer all the same.
    Socket(io::Error),
    /// The body itself broke off.
    Body(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl Outgoing {
    /// Begins a request whose head `write` writes.
    pub(super) fn start(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.head.clear();
        write(&mut self.head);
        (self.sent, self.untouched, self.state) = (0, true, State::Sending);
    }

    /// The body of the request just begun.
    pub(super) fn set_body(&mut self, body: RequestBody, length: RequestLength) {
        (self.pieces, self.upload) = match body.into_pieces() {
            Ok(pieces) => (pieces, None),
            Err(body) => {
                let due = match length {
                    RequestLength::Exact(length) => Some(length),
                    RequestLength::Chunked => None,
                };
                (Default::default(), Some(Upload { body, due }))
            }
        };
    }

    /// Takes back the body of a request that [is untouched](Self::is_untouched).
    pub(super) fn take_body(&mut self) -> RequestBody {
        let pieces = std::mem::take(&mut self.pieces);
        self.upload.take().map_or_else(|| RequestBody::from(pieces), |upload| upload.body)
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.untouched
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

    /// Ready when all has left.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        if !matches!(self.state, State::Sending) {
            return Poll::Ready(Ok(()));
        }
        loop {
            while let Some((slices, count)) = self.rest() {
                let sent = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count]))?;
                if sent == 0 {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
                }
                self.untouched = false;
                self.sent += sent;
            }
            if self.upload.is_none() {
                ready!(Pin::new(&mut *stream).poll_flush(cx))?;
                self.pieces = Default::default();
                self.state = State::Sent;
                return Poll::Ready(Ok(()));
            }
            if self.poll_upload(cx)? {
                continue;
            }
            // Nothing to send before more arrives: what was sent so far must not wait for it.
            ready!(Pin::new(&mut *stream).poll_flush(cx))?;
            return Poll::Pending;
        }
    }

    /// What is left of head and pieces.
    fn rest(&self) -> Option<([IoSlice<'_>; 4], usize)> {
        let mut slices = [IoSlice::new(&[]); 4];
        let (mut count, mut skip) = (0, self.sent);
        for part in [&self.head[..], &self.pieces[0], &self.pieces[1], &self.pieces[2]] {
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

    /// Takes the next piece of the upload, or its end; false when it has not arrived yet.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let Some(upload) = &mut self.upload else { return Ok(true) };
        self.untouched = false;
        let data = match Pin::new(&mut upload.body).poll_frame(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Some(Err(error))) => {
                return Err(Failure::Body(format!("the request's body ended early: {error}")));
            }
            Poll::Ready(Some(Ok(frame))) => Some(frame.into_data().unwrap_or_default()),
            Poll::Ready(None) => None,
        };
        self.head.clear();
        self.sent = 0;
        let Some(data) = data else {
            match upload.due {
                None => self.head.extend_from_slice(b"0\r\n\r\n"),
                Some(0) => {}
                Some(_) => {
                    return Err(Failure::Body("the request's body is shorter than it said".to_owned()));
                }
            }
            self.pieces = Default::default();
            self.upload = None;
            return Ok(true);
        };
        match &mut upload.due {
            // An empty chunk would end the body.
            None if data.is_empty() => self.pieces = Default::default(),
            None => {
                // Writing to memory cannot fail.
                let _ = write!(self.head, "{:x}\r\n", data.len());
                self.pieces = [data, Bytes::from_static(b"\r\n"), Bytes::new()];
            }
            Some(due) => match due.checked_sub(data.len() as u64) {
                Some(left) => {
                    *due = left;
                    self.pieces = [data, Bytes::new(), Bytes::new()];
                }
                None => return Err(Failure::Body("the request's body is longer than it said".to_owned())),
            },
        }
        Ok(true)
    }
}
