//! Legacy completions: passed on where an upstream has them, and bridged to the dialects
//! of chats where none has.
//!
//! | module | |
//! |---|---|
//! | `request_read` | a request body, as the question of one user |
//! | `reply_write`, `stream_write` | a complete and a streamed answer, written for a client |
//! | `logprobs` | the tokens of both |
//! | `accumulator` | an answer that changes its form, and not its dialect |
//!
//! No upstream is asked in this dialect for a client of another: there is no way to write a request here,
//! and none to read an answer.

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
