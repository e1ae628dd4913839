//! Shared by both ends of a WebSocket (RFC 6455): the proof of the handshake, the limits of frames, fragments, and pongs.
//!
//! Extensions are never offered: a deflated frame may grow a thousandfold while it is read.

mod fragments;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::http::HeaderValue;
use ring::digest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::sync::lock;

pub use fragments::{FRAGMENT, Fragmented, Unsent, feed, feed_unsent};

/// The only protocol version.
pub const VERSION: &str = "13";
/// The read and write buffer of one socket, in bytes; each grows to the length of its longest frame.
pub const BUFFER: usize = 16 * 1024;
/// The text that RFC 6455 §1.3 has every server append to the client's key.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A transport that is not read on while a pong waits until the peer takes it. Each ping that is read adds a pong to the
/// write buffer, so a peer that sends pings and takes nothing would fill it.
pub struct PongFirst<T> {
    transport: T,
    pongs: Arc<Pongs>,
}

/// Whether a pong waits to be taken. Held by both the transport and the reader of its frames, who alone knows pings.
#[derive(Default)]
pub struct Pongs(Mutex<PongState>);

#[derive(Default)]
struct PongState {
    /// Whether a ping was read since the last look.
    is_owed: bool,
    /// Whether the peer has not taken all that was written.
    is_blocked: bool,
    /// The reading task while it waits.
    reader: Option<Waker>,
}

/// Returns the proof to the client that a server of this protocol has read its key.
pub fn accept(key: &[u8]) -> Option<HeaderValue> {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(KEY_SUFFIX);
    HeaderValue::from_str(&BASE64.encode(context.finish())).ok()
}

/// Returns the configuration of a socket that receives messages of up to `max_received` bytes. The length of those that it
/// sends is bounded elsewhere.
pub fn config(max_received: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        // Each fragment waits until the one before is written, so this only holds pongs off.
        .max_write_buffer_size(FRAGMENT + 4 * BUFFER)
        .max_message_size(Some(max_received))
        .max_frame_size(Some(max_received))
}

// === impl PongFirst ===

impl<T> PongFirst<T> {
    pub fn new(transport: T) -> Self {
        Self { transport, pongs: Arc::default() }
    }

    pub fn transport(&self) -> &T {
        &self.transport
    }

    pub fn pongs(&self) -> &Arc<Pongs> {
        &self.pongs
    }
}

impl Pongs {
    /// Records that a ping was read. Its pong is written before the next read.
    pub fn ping_received(&self) {
        lock(&self.0).is_owed = true;
    }

    /// Waits until the peer has taken the pong that it is owed.
    fn poll_taken(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if state.is_owed && state.is_blocked {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.is_owed = false;
        Poll::Ready(())
    }

    fn set_blocked(&self, is_blocked: bool) {
        let mut state = lock(&self.0);
        state.is_blocked = is_blocked;
        if !is_blocked && let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PongFirst<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { transport, pongs } = self.get_mut();
        ready!(pongs.poll_taken(context));
        Pin::new(transport).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PongFirst<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { transport, pongs } = self.get_mut();
        let written = Pin::new(transport).poll_write(context, bytes);
        if written.is_pending() {
            pongs.set_blocked(true);
        }
        written
    }

    /// Only called once everything is written.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { transport, pongs } = self.get_mut();
        let flushed = Pin::new(transport).poll_flush(context);
        pongs.set_blocked(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_standard_is_accepted_with_its_answer() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ==").unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
