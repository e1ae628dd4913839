//! The body of a request to an upstream.

use std::error::Error as StdError;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

type BoxError = Box<dyn StdError + Send + Sync>;
type BoxBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>;

/// Up to three pieces of bytes, sent one after the other without being copied together: a body whose `model` value was
/// replaced is the bytes before it, the new value, and the bytes after it. Or any stream.
pub struct RequestBody(Content);

enum Content {
    Pieces([Bytes; 3]),
    Stream(BoxBody),
}

impl RequestBody {
    pub fn empty() -> Self {
        Self::from([Bytes::new(), Bytes::new(), Bytes::new()])
    }

    /// A body of unknown source, such as the client's upload while it arrives. It cannot be sent twice.
    pub fn stream<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Content::Stream(Box::pin(BoxedErrors(Box::pin(body)))))
    }

    /// The bytes of a body that is not a stream.
    pub fn pieces(&self) -> &[Bytes] {
        match &self.0 {
            Content::Pieces(pieces) => pieces,
            Content::Stream(_) => &[],
        }
    }

    /// The bytes themselves; or the body as it was, where it is a stream.
    pub(super) fn into_pieces(self) -> Result<[Bytes; 3], Self> {
        match self.0 {
            Content::Pieces(pieces) => Ok(pieces),
            stream @ Content::Stream(_) => Err(Self(stream)),
        }
    }

    /// The same bytes again, which costs three reference counts; `None` for a stream.
    pub fn try_clone(&self) -> Option<Self> {
        match &self.0 {
            Content::Pieces(pieces) => Some(Self(Content::Pieces(pieces.clone()))),
            Content::Stream(_) => None,
        }
    }
}

impl From<[Bytes; 3]> for RequestBody {
    fn from(pieces: [Bytes; 3]) -> Self {
        Self(Content::Pieces(pieces))
    }
}

impl From<(Bytes, Bytes, Bytes)> for RequestBody {
    fn from((first, second, third): (Bytes, Bytes, Bytes)) -> Self {
        Self::from([first, second, third])
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self::from([bytes, Bytes::new(), Bytes::new()])
    }
}

impl From<()> for RequestBody {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Pieces(pieces) => {
                let next = pieces.iter_mut().find(|piece| !piece.is_empty());
                Poll::Ready(next.map(|piece| Ok(Frame::data(mem::take(piece)))))
            }
            Content::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Pieces(pieces) => pieces.iter().all(Bytes::is_empty),
            Content::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Content::Stream(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestBody({:?} bytes)", self.size_hint().exact())
    }
}

struct BoxedErrors<B>(Pin<Box<B>>);

impl<B> Body for BoxedErrors<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(self.0.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
