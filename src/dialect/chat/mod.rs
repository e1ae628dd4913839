//! Chat completions (proxy-conversion.md 3, 4, 7, 8), to and from the canonical form.

use bytes::Bytes;

use super::canonical::{Asked, Event, Reply, Request, Target, Unfit};
use super::tree::Node;
use super::upstream_error::UpstreamError;

/// Reads a request body.
pub fn read_request<'a>(body: &Node<'a>) -> Result<Request<'a>, Unfit> {
    let _ = body;
    Err(Unfit::unsupported("dialect"))
}

/// Writes a request body.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Bytes, Unfit> {
    let _ = (request, target);
    Err(Unfit::unsupported("dialect"))
}

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
