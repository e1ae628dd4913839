//! Messages (proxy-conversion.md 4, 5, 7, 8), to and from the canonical form.
//!
//! | | request | answer | stream |
//! |---|---|---|---|
//! | read | [`request_read`], [`blocks`] | [`reply`] | [`stream_read`] |
//! | write | [`request_write`], [`turns`], [`blocks_write`] | [`reply`] | [`stream_write`] |

mod blocks;
mod blocks_write;
mod request_read;
mod request_write;
mod turns;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::canonical::{Asked, Event, Reply};
use super::tree::Node;
use super::upstream_error::UpstreamError;

pub use request_read::read_request;
pub use request_write::write_request;

/// Reads a complete answer; an answer that reports a failure is an error.
pub fn read_reply<'a>(body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    let _ = body;
    Err(UpstreamError::default())
}

/// Writes a complete answer.
pub fn write_reply(reply: &Reply<'_>, asked: &Asked) -> Bytes {
    let _ = (reply, asked);
    Bytes::new()
}

/// Reads a streamed answer, event by event.
#[derive(Debug, Default)]
pub struct StreamReader {}

impl StreamReader {
    /// Reads one SSE event: its name, which may be empty, and its data.
    pub fn read(&mut self, name: &[u8], data: &str, each: &mut dyn FnMut(Event<'_>)) {
        let _ = (name, data, each);
    }

    /// The upstream's body is over. Ends what may end without a last word.
    pub fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        let _ = each;
    }
}

/// Writes a streamed answer.
#[derive(Debug)]
pub struct StreamWriter {}

impl StreamWriter {
    pub fn new(asked: &Asked) -> Self {
        let _ = asked;
        Self {}
    }

    /// Appends to `out` the SSE events that say it.
    pub fn write(&mut self, event: &Event<'_>, asked: &Asked, out: &mut String) {
        let _ = (event, asked, out);
    }
}
