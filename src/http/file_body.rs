//! An answer whose body is a file.
//!
//! A file can always be read, and a client on the same machine can always receive, so a task that reads for such an answer
//! would do nothing else. So the file is read at the lowest priority ([`run_on_idle_thread`]), and sent as fast as other
//! work leaves room for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use tokio::sync::mpsc;

use super::body::Truncated;
use super::{Response, ResponseBody};
use crate::idle_thread::{ThreadSpawnError, run_on_idle_thread, yield_thread};

/// The bytes read at once: a file that has just been written is still in memory.
const PIECE: u64 = 64 * 1024;
/// The number of pieces read ahead of the one being sent.
const AHEAD: usize = 2;

/// Answers with a whole file of this media type, sent with its length.
pub fn file(status: StatusCode, kind: &'static str, file: File) -> io::Result<Response> {
    let left = file.metadata()?.len();
    let (pieces, read) = mpsc::channel(AHEAD);
    let reader = Some(Box::pin(run_on_idle_thread(move || read_all(&file, left, &pieces))) as Reader);
    let mut response = Response::new(ResponseBody::stream(FileBody { reader, read, left, is_rested: true }));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

type Reader = Pin<Box<dyn Future<Output = Result<(), ThreadSpawnError>> + Send>>;

struct FileBody {
    /// The reading thread; `None` once it is done.
    reader: Option<Reader>,
    read: mpsc::Receiver<io::Result<Bytes>>,
    /// The bytes that are not sent yet.
    left: u64,
    /// Whether other connections of this worker have had their turn since the last piece.
    is_rested: bool,
}

/// Reads the file in pieces until its end, or until the receiver is gone.
fn read_all(file: &File, length: u64, pieces: &mpsc::Sender<io::Result<Bytes>>) {
    let mut at = 0;
    while at < length {
        yield_thread();
        let mut piece = vec![0; usize::try_from(PIECE.min(length - at)).unwrap_or_default()];
        let read = file.read_exact_at(&mut piece, at).map(|()| Bytes::from(piece));
        at += PIECE;
        if pieces.blocking_send(read).is_err() {
            return;
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        if let Some(reader) = &mut this.reader
            && let Poll::Ready(ended) = reader.as_mut().poll(context)
        {
            this.reader = None;
            if let Err(error) = ended {
                log::warn!("a file could not be sent: {error}");
            }
        }
        if !std::mem::replace(&mut this.is_rested, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match ready!(this.read.poll_recv(context)) {
            Some(Ok(piece)) => {
                this.is_rested = false;
                this.left = this.left.saturating_sub(piece.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Some(Err(_)) | None => {
                this.left = 0;
                Poll::Ready(Some(Err(Truncated("the file of the answer cannot be read"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
