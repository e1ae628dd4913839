//! Shared by both ends of a WebSocket (RFC 6455): the proof of the handshake, and the limits of frames.
//!
//! Extensions are never offered: a deflated frame may grow a thousandfold while it is read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::http::HeaderValue;
use ring::digest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// The only protocol version.
pub const VERSION: &str = "13";
/// The read and write buffer of one socket, in bytes; a longer message is buffered apart while it passes.
pub const BUFFER: usize = 16 * 1024;
/// The text that RFC 6455 §1.3 has every server append to the client's key.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the proof to the client that a server of this protocol has read its key.
pub fn accept(key: &[u8]) -> Option<HeaderValue> {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(KEY_SUFFIX);
    HeaderValue::from_str(&BASE64.encode(context.finish())).ok()
}

/// Returns the configuration of a socket that receives messages of up to `max_received` bytes and sends up to
/// `max_sent`.
pub fn config(max_received: usize, max_sent: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        // Every message is flushed before the next, so this only stops messages that are too long.
        .max_write_buffer_size(max_sent.saturating_add(4 * BUFFER))
        .max_message_size(Some(max_received))
        .max_frame_size(Some(max_received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_standard_is_accepted_with_its_answer() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ==").unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
