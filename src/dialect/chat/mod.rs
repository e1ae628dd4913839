//! Chat completions, to and from the canonical form.
//!
//! | module | |
//! |---|---|
//! | `request_read`, `turns_read`, `tools_read` | a request body, its messages, its tools |
//! | `request_write`, `turns_write`, `tools_write` | the same, written for an upstream |
//! | `native` | what must be removed from, or added to, a body that is not converted |
//! | `own_usage` | usage that the gateway asks for, and hides from a client that did not ask |
//! | `reply_read`, `reply_write` | a complete answer |
//! | `stream_read`, `parts`, `input_end`, `snapshots`, `inline` | a streamed answer, and the peculiarities of upstreams |
//! | `stream_write`, `chunk` | a streamed answer, written for a client |
//! | `replay`, `unknown_members` | an answer that changes between complete and streamed, but not its dialect |
//! | `content`, `calls`, `thinking`, `stop`, `usage` | the pieces that requests and answers consist of |
//!
//! More vendors speak this dialect than any other, each a little differently. Readers accept every spelling in use.
//! Writers write what OpenAI documents and, beyond that, only `reasoning_content`, which other vendors require, and
//! `reasoning_signature`, which is ours.

mod calls;
mod chunk;
mod content;
mod inline;
mod input_end;
mod native;
mod own_usage;
mod parts;
mod replay;
mod reply_read;
mod reply_write;
mod request_read;
mod request_write;
mod snapshots;
mod stop;
mod stream_read;
mod stream_write;
mod thinking;
mod tools_read;
mod tools_write;
mod turns_read;
mod turns_write;
mod unknown_members;
mod usage;

#[cfg(test)]
mod tests;

pub(super) use chunk::{ChunkHead, chunk_tail};
pub use native::{may_have_foreign_members, with_placeholders, without_foreign_members, without_in_messages};
pub use own_usage::{UsageEvents, leaves_usage_open, with_usage};
pub use replay::replay;
pub use reply_read::read_reply;
pub use reply_write::{write_reply, write_reply_with};
pub use request_read::{read_messages, read_request, read_stop};
pub use request_write::write_request;
pub(super) use stop::read as read_finish_reason;
pub use stream_read::StreamReader;
pub use stream_write::StreamWriter;
pub use tools_read::offers_functions;
pub use unknown_members::UnknownMembers;
pub(super) use usage::write as put_usage;
