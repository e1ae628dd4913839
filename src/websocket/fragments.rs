//! Parts long frames into fragments (RFC 6455 §5.4), both ways. The codec keeps a buffer of the length of its longest frame
//! for as long as the socket is open, in each direction; a message in fragments is put together in memory of its own.

use std::future::poll_fn;
use std::io::{self, Cursor};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Sink, SinkExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::BUFFER;

/// The length of a fragment, in bytes: a multiple of the length of a mask, so that each fragment begins with its first byte.
pub const FRAGMENT: usize = 64 * 1024;

/// A transport from which the codec reads long frames as fragments.
pub struct Fragmented<T> {
    transport: T,
    /// The longest frame that is parted. The codec refuses longer ones when it reads their heads.
    longest: u64,
    /// The bytes that have been read and not been passed on.
    input: BytesMut,
    /// The head of a fragment, which goes before all other bytes.
    head: Bytes,
    /// How many of the next bytes are passed on as they are.
    unchanged: u64,
    /// The head and the length of what remains of a long frame after these.
    rest: Option<(FrameHeader, u64)>,
}

/// The rest of a message that a socket has not taken. Only control frames may be sent before it.
pub struct Unsent {
    opcode: OpCode,
    payload: Bytes,
}

impl Unsent {
    /// Begins a message.
    pub fn new(kind: Data, payload: Bytes) -> Self {
        Self { opcode: OpCode::Data(kind), payload }
    }
}

/// Feeds a message into the sink of a socket, a long one in fragments. A caller that stops waiting before the end leaves the
/// message incomplete: only control frames may follow it.
///
/// # Errors
/// When the socket is closed.
pub async fn feed<S>(sink: &mut S, kind: Data, payload: Bytes) -> Result<(), Error>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    feed_unsent(sink, &mut Some(Unsent::new(kind, payload))).await
}

/// Does the same with a message of which `message` keeps the rest if the caller stops waiting.
///
/// # Errors
/// When the socket is closed.
pub async fn feed_unsent<S>(sink: &mut S, message: &mut Option<Unsent>) -> Result<(), Error>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    while let Some(Unsent { opcode, payload }) = message {
        poll_fn(|context| sink.poll_ready_unpin(context)).await?;
        let piece = payload.split_to(payload.len().min(FRAGMENT));
        let is_last = payload.is_empty();
        sink.start_send_unpin(Message::Frame(Frame::message(piece, *opcode, is_last)))?;
        *opcode = OpCode::Data(Data::Continue);
        if is_last {
            *message = None;
        }
    }
    Ok(())
}

// === impl Fragmented ===

impl<T> Fragmented<T> {
    /// Wraps a transport, of which `input` has been read already. The longest message has `longest` bytes.
    pub fn new(transport: T, input: BytesMut, longest: usize) -> Self {
        let longest = longest as u64;
        Self { transport, longest, input, head: Bytes::new(), unchanged: 0, rest: None }
    }

    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Begins the next frame or fragment. Returns false while its head is not complete.
    fn begin(&mut self) -> bool {
        let Some((header, length)) = self.rest.take() else { return self.begin_frame() };
        self.begin_fragment(header, length);
        true
    }

    fn begin_frame(&mut self) -> bool {
        let mut head = Cursor::new(&self.input[..]);
        match FrameHeader::parse(&mut head) {
            Ok(None) => return false,
            Ok(Some((header, length))) => {
                let head_length = head.position();
                let is_data = matches!(header.opcode, OpCode::Data(_));
                if is_data && length > FRAGMENT as u64 && length <= self.longest {
                    self.input.advance(head_length as usize);
                    self.begin_fragment(header, length);
                } else {
                    self.unchanged = length.saturating_add(head_length);
                }
            }
            // The codec finds the same error.
            Err(_) => self.unchanged = u64::MAX,
        }
        true
    }

    /// Begins a fragment of what remains of a frame: `length` bytes, with this head.
    fn begin_fragment(&mut self, header: FrameHeader, length: u64) {
        let piece = length.min(FRAGMENT as u64);
        let rest = length - piece;
        let is_final = header.is_final && rest == 0;
        let mut head = Vec::new();
        FrameHeader { is_final, ..header.clone() }
            .format(piece, &mut head)
            .expect("a vector can be written to");
        self.head = Bytes::from(head);
        self.unchanged = piece;
        let opcode = OpCode::Data(Data::Continue);
        self.rest = (rest > 0).then_some((FrameHeader { opcode, ..header }, rest));
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Fragmented<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.head.is_empty() {
                let length = this.head.len().min(buffer.remaining());
                buffer.put_slice(&this.head.split_to(length));
                return Poll::Ready(Ok(()));
            }
            if this.unchanged > 0 && !this.input.is_empty() {
                let here = this.input.len().min(buffer.remaining());
                let length = usize::try_from(this.unchanged).map_or(here, |most| most.min(here));
                buffer.put_slice(&this.input.split_to(length));
                this.unchanged -= length as u64;
                return Poll::Ready(Ok(()));
            }
            if this.unchanged == 0 && this.begin() {
                continue;
            }
            this.input.reserve(BUFFER);
            let read = pin!(this.transport.read_buf(&mut this.input)).poll(context);
            if this.input.is_empty() {
                // An idle socket keeps no buffer here.
                this.input = BytesMut::new();
            }
            if ready!(read)? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Fragmented<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

    use super::*;

    const LONGEST: usize = 1 << 20;

    /// Returns the bytes of a frame of a client.
    fn frame(kind: Data, payload: &[u8]) -> Vec<u8> {
        let mut frame = Frame::message(payload.to_vec(), OpCode::Data(kind), true);
        frame.header_mut().mask = Some([1, 2, 3, 4]);
        let mut bytes = Vec::new();
        frame.format(&mut bytes).expect("written");
        bytes
    }

    /// Opens a server's socket that takes no frame longer than a fragment, and writes these bytes to it in pieces.
    async fn server(bytes: Vec<u8>, piece: usize) -> WebSocketStream<Fragmented<DuplexStream>> {
        let (ours, mut theirs) = duplex(BUFFER);
        tokio::spawn(async move {
            for piece in bytes.chunks(piece) {
                theirs.write_all(piece).await.expect("written");
            }
        });
        let config = WebSocketConfig::default().max_frame_size(Some(FRAGMENT));
        let transport = Fragmented::new(ours, BytesMut::new(), LONGEST);
        WebSocketStream::from_raw_socket(transport, Role::Server, Some(config)).await
    }

    #[tokio::test]
    async fn messages_of_any_length_come_whole_in_short_frames() {
        let text = |length| "\u{1f686}".repeat(length / 4 + 1);
        let texts =
            [1, 200, FRAGMENT - 4, FRAGMENT, FRAGMENT + 1, 3 * FRAGMENT - 4, LONGEST - 4, 5].map(text);
        let bytes: Vec<u8> = texts.iter().flat_map(|text| frame(Data::Text, text.as_bytes())).collect();
        for piece in [3, 1000, BUFFER, bytes.len()] {
            let mut server = server(bytes.clone(), piece).await;
            for text in &texts {
                let message = server.next().await.expect("a message").expect("a message");
                assert!(message == Message::text(text.as_str()), "{} bytes, {piece} at once", text.len());
            }
        }
        let sound = vec![7; 2 * FRAGMENT + 1];
        let mut server = server(frame(Data::Binary, &sound), BUFFER).await;
        assert!(server.next().await.expect("a message").expect("a message") == Message::binary(sound));
    }

    #[tokio::test]
    async fn a_frame_over_the_limit_is_refused_by_its_head() {
        let mut head = frame(Data::Text, &vec![0; LONGEST + 1]);
        head.truncate(14);
        let refused = server(head, BUFFER).await.next().await;
        assert!(matches!(refused, Some(Err(Error::Capacity(_)))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_long_message_is_sent_in_short_frames() {
        let (ours, theirs) = duplex(BUFFER);
        let mut client = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        let text = "x".repeat(3 * FRAGMENT + 1);
        let sent = text.clone();
        tokio::spawn(async move {
            feed(&mut client, Data::Text, Bytes::from(sent)).await.expect("fed");
            client.flush().await.expect("sent");
            client.next().await
        });
        let config = WebSocketConfig::default().max_frame_size(Some(FRAGMENT));
        let mut server = WebSocketStream::from_raw_socket(theirs, Role::Server, Some(config)).await;
        let message = server.next().await.expect("a message").expect("a message");
        assert!(message == Message::text(text));
    }
}
