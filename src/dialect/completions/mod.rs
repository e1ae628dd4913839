//! Legacy completions: passed on to an upstream that has them, or else converted to the chat dialects.
//!
//! | module | |
//! |---|---|
//! | `request_read` | a request body, as the question of one user |
//! | `reply_write`, `stream_write` | a complete and a streamed answer, written for a client |
//! | `logprobs` | the log probabilities of both |
//! | `accumulator` | an answer that changes between complete and streamed, but not its dialect |
//!
//! No upstream is asked in this dialect for a client of another one, so nothing here writes a request or reads an
//! answer.

mod accumulator;
mod logprobs;
mod reply_write;
mod request_read;
mod stream_write;

#[cfg(test)]
mod tests;

pub use accumulator::{Accumulator, replay};
pub use reply_write::write_reply;
pub use request_read::{echoed, read_request};
pub use stream_write::StreamWriter;
