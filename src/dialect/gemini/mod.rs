//! Gemini's generateContent, to and from the canonical form.
//!
//! | module | |
//! |---|---|
//! | `request_read`, `tools_read` | a request body |
//! | `request_write`, `contents_write` | the same, written for an upstream |
//! | `whole` | an answer that changes between complete and streamed, but not its dialect |
//! | `native` | what must change in a body that is not converted |
//! | `reply_read`, `reply_write` | a complete answer |
//! | `stream_read`, `stream_write` | a streamed answer, as `alt=sse` asks for it |
//! | `grounding`, `probabilities`, `images` | an answer's sources, log probabilities and pictures |
//! | `parts_read`, `member`, `stop` | the pieces that requests and answers consist of |
//!
//! The model, and whether the answer is streamed, stand in the path of a request, not in its body. A request for what
//! only Google has (cached content, answers in pictures or sound) cannot be converted; safety settings are dropped.

mod contents_write;
mod grounding;
mod images;
pub(super) mod member;
mod native;
mod parts_read;
mod probabilities;
mod reply_read;
mod reply_write;
mod request_read;
mod request_write;
mod stop;
mod stream_read;
mod stream_write;
mod tools_read;
mod whole;

use super::literal::compact;
use super::tree::Node;

#[cfg(test)]
mod tests;

pub use images::{image_as_text, images_to_text};
pub use native::{with_model, with_own_thinking, with_placeholders, without_foreign_thinking};
pub use reply_read::read_reply;
pub use reply_write::write_reply;
pub use request_read::read_request;
pub use request_write::write_request;
pub(super) use stop::{is_blocked, opened, tells_its_end};
pub use stream_read::StreamReader;
pub use stream_write::StreamWriter;
pub use whole::{Accumulator, replay};

/// Turns a streamed answer that came as one array into events, one for each element; `None` for anything else.
pub fn events_of(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let array = Node::parse(text).ok().filter(|node| node.is_array() && !node.items().is_empty())?;
    Some(array.items().iter().map(|chunk| format!("data: {}\n\n", compact(chunk.raw()))).collect())
}
