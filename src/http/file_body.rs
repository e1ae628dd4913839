//! An answer that stands in a file.
//!
//! A file is always ready, and so is a client on the same machine: such an answer would keep its thread for megabytes. So it
//! lets what waits for that thread go first after each piece.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use tokio::task::yield_now;

use super::body::Truncated;
use super::{Response, ResponseBody};

/// What is read at once: a file that has just been written is in memory still.
const PIECE: u64 = 64 * 1024;

/// A whole file as an answer of this media type, sent with its length.
pub fn file(status: StatusCode, kind: &'static str, file: File) -> io::Result<Response> {
    let length = file.metadata()?.len();
    let mut response = Response::new(ResponseBody::stream(FileBody { file, at: 0, length, turn: None }));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

struct FileBody {
    file: File,
    at: u64,
    length: u64,
    /// While others go first.
    turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        if this.at >= this.length {
            return Poll::Ready(None);
        }
        if let Some(turn) = &mut this.turn {
            ready!(turn.as_mut().poll(context));
        }
        this.turn = Some(Box::pin(yield_now()));
        let mut piece = vec![0; usize::try_from(PIECE.min(this.length - this.at)).unwrap_or_default()];
        let read = this.file.read_exact_at(&mut piece, this.at);
        this.at += piece.len() as u64;
        Poll::Ready(Some(match read {
            Ok(()) => Ok(Frame::data(piece.into())),
            Err(_) => {
                this.at = this.length;
                Err(Truncated("the file of the answer cannot be read"))
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.at >= self.length
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length - self.at.min(self.length))
    }
}
