//! Bodies in both directions: request bodies, read into one bounded buffer, and answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::body_error::BodyError;
use super::coded::CodedBody;
use super::wire_body::WireBody;
use crate::limits::{FREE_BODY, HeldMemory};

/// The most memory allocated on the word of a Content-Length, in bytes; beyond it the buffer grows as bytes come.
const FIRST_ALLOCATION: usize = 256 * 1024;
/// A body of unknown length reserves this many times the bytes that have come so far.
const STEP: usize = 4;
/// A compressed body reserves this many times its length, because decoding needs a window that may be as long.
const DECODED: usize = 2;

/// The body of a request.
pub enum RequestBody {
    /// Read from a client's connection.
    Wire(WireBody),
    /// Read from a client's connection, and compressed.
    Coded(Box<CodedBody>),
    /// Made by the service itself, or held since it has arrived; taken when read.
    Own(Option<Bytes>),
}

impl RequestBody {
    /// Builds the body of a request with these headers.
    pub fn of(headers: &mut HeaderMap, wire: WireBody) -> Self {
        if !headers.contains_key(CONTENT_ENCODING) || wire.is_end_stream() {
            return Self::Wire(wire);
        }
        CodedBody::new(headers, wire).map_or_else(Self::Wire, |coded| Self::Coded(Box::new(coded)))
    }

    /// Limits a compressed body on the wire and between its codings, in bytes. Whoever reads the decoded bytes counts them,
    /// here and everywhere.
    pub fn bound(&mut self, bytes: usize) {
        if let Self::Coded(coded) = self {
            coded.bound(bytes);
        }
    }

    /// Counts what is held to decode the body as its owner's.
    pub fn count_in(&mut self, memory: &HeldMemory) {
        if let Self::Coded(coded) = self {
            coded.count_in(memory.another());
        }
    }

    /// Returns the memory that was counted for decoding until now. Whoever takes it counts what is held from now on.
    fn take_count(&mut self) -> Option<HeldMemory> {
        if let Self::Coded(coded) = self { coded.take_count() } else { None }
    }

    /// Returns how many bytes are held to decode the body.
    fn held(&self) -> usize {
        if let Self::Coded(coded) = self { coded.held() } else { 0 }
    }

    /// Returns whether the body may turn out longer than `FREE_BODY`.
    pub fn may_be_long(&self) -> bool {
        match self {
            Self::Wire(wire) => wire.size_hint().exact().is_none_or(|length| length > FREE_BODY as u64),
            Self::Coded(_) => true,
            Self::Own(_) => false,
        }
    }

    /// Returns the length, as sent, that the client has announced.
    fn claimed(&self, headers: &HeaderMap) -> Option<usize> {
        match self {
            Self::Coded(coded) => coded.announced(),
            Self::Own(bytes) => bytes.as_ref().map(Bytes::len),
            Self::Wire(_) => headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok(),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Wire(body) => Pin::new(body).poll_frame(context).map_err(BodyError::broken),
            Self::Coded(body) => body.poll_frame(context),
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Wire(body) => body.is_end_stream(),
            Self::Coded(_) => false,
            Self::Own(bytes) => bytes.is_none(),
        }
    }
}

/// What is known of a body's length before it is read.
#[derive(Clone, Copy)]
struct BodyLength {
    /// The length that the client claims; `None` where it claims none.
    claimed: Option<usize>,
    /// The maximum length.
    limit: usize,
}

/// Reads a whole body of at most `limit` bytes into one buffer. A body that came in one piece is passed on without a copy.
/// If `memory` is given, a body longer than [`FREE_BODY`] reserves memory before it is read on.
pub async fn collect(
    body: &mut RequestBody,
    headers: &HeaderMap,
    limit: usize,
    mut memory: Option<&mut HeldMemory>,
) -> Result<Bytes, BodyError> {
    let claimed = body.claimed(headers);
    if claimed.is_some_and(|length| length > limit) {
        return Err(BodyError::TooLarge { limit });
    }
    body.bound(limit);
    // The decoded length of a coded body is not known.
    let claimed = claimed.filter(|_| !matches!(body, RequestBody::Coded(_)));
    let length = BodyLength { claimed, limit };
    if claimed.is_some_and(|length| length > FREE_BODY)
        && let Some(memory) = memory.take()
    {
        // Boxed, so that it does not enlarge the future of a short body.
        return Box::pin(collect_long(body, length, BytesMut::new(), memory)).await;
    }
    let Some(first) = next_data(body).await? else { return Ok(Bytes::new()) };
    if claimed == Some(first.len()) || body.is_end_stream() {
        return if first.len() > limit { Err(BodyError::TooLarge { limit }) } else { Ok(first) };
    }
    let mut buffer = BytesMut::with_capacity(first_capacity(claimed, first.len()));
    buffer.extend_from_slice(&first);
    drop(first);
    while let Some(data) = next_data(body).await? {
        append(&mut buffer, &data, length)?;
        if buffer.len() > FREE_BODY
            && let Some(memory) = memory.take()
        {
            return Box::pin(collect_long(body, length, buffer, memory)).await;
        }
    }
    Ok(buffer.freeze())
}

/// Reads on within the memory reserved for the body, and in the end keeps no more of it than the body's length.
async fn collect_long(
    body: &mut RequestBody,
    length: BodyLength,
    mut buffer: BytesMut,
    memory: &mut HeldMemory,
) -> Result<Bytes, BodyError> {
    let BodyLength { claimed, limit } = length;
    let times = if matches!(body, RequestBody::Coded(_)) { DECODED } else { 1 };
    if let Some(decoding) = body.take_count() {
        memory.take_over(decoding);
    }
    let needed = |buffer: &BytesMut, held: usize| (buffer.len() * times).max(buffer.len() + held);
    let wanted = |buffer: &BytesMut, held: usize| {
        (buffer.len().saturating_mul(STEP).min(limit) * times).max(needed(buffer, held))
    };
    memory.grow_to(claimed.unwrap_or_else(|| wanted(&buffer, body.held()))).await?;
    while let Some(data) = next_data(body).await? {
        if buffer.is_empty() && claimed == Some(data.len()) {
            return Ok(data);
        }
        append(&mut buffer, &data, length)?;
        let held = body.held();
        if claimed.is_none() && needed(&buffer, held) > memory.bytes() {
            memory.grow_to(wanted(&buffer, held)).await?;
        }
    }
    memory.shrink_to(buffer.len());
    Ok(buffer.freeze())
}

fn append(buffer: &mut BytesMut, data: &[u8], length: BodyLength) -> Result<(), BodyError> {
    let BodyLength { claimed, limit } = length;
    let needed = buffer.len() + data.len();
    if needed > limit {
        return Err(BodyError::TooLarge { limit });
    }
    if needed > buffer.capacity() {
        // The first allocation is full of real bytes, so now the client's claim is trusted for the rest in one step;
        // doubling would overshoot it.
        let room = if buffer.capacity() == 0 {
            first_capacity(claimed, needed)
        } else {
            claimed.unwrap_or(0).max(needed)
        };
        buffer.reserve(room - buffer.len());
    }
    buffer.extend_from_slice(data);
    Ok(())
}

/// Returns the capacity to allocate once `read` bytes have come: the claimed length, but no more than `FIRST_ALLOCATION` on
/// the client's word alone.
fn first_capacity(claimed: Option<usize>, read: usize) -> usize {
    claimed.unwrap_or(0).min(FIRST_ALLOCATION).max(read)
}

/// Returns the next piece of data; trailers are dropped. The connection limits the wait (`stream`).
pub(super) async fn next_data(body: &mut RequestBody) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Why an answer was cut short after its head was sent; the connection closes.
#[derive(Debug)]
pub struct Truncated(pub &'static str);

impl std::fmt::Display for Truncated {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Truncated {}

/// A body written while it is produced.
type StreamingBody = Pin<Box<dyn Body<Data = Bytes, Error = Truncated> + Send>>;

/// The body of an answer.
pub enum ResponseBody {
    /// One buffer, sent with its length; taken when sent.
    Full(Option<Bytes>),
    /// Produced as it is sent.
    Stream(StreamingBody),
}

impl ResponseBody {
    pub fn full(bytes: Bytes) -> Self {
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }

    pub fn empty() -> Self {
        Self::Full(None)
    }

    pub fn stream(body: impl Body<Data = Bytes, Error = Truncated> + Send + 'static) -> Self {
        Self::Stream(Box::pin(body))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_believed_up_to_a_bound_and_what_was_read_always_fits() {
        for (claimed, read, expected) in [
            (None, 10, 10),
            (Some(1000), 10, 1000),
            (Some(1 << 30), 10, FIRST_ALLOCATION),
            (Some(1 << 30), FIRST_ALLOCATION + 1, FIRST_ALLOCATION + 1),
            (Some(5), 10, 10),
        ] {
            assert_eq!(first_capacity(claimed, read), expected, "{claimed:?} {read}");
        }
    }
}
