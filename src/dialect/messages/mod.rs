//! Messages, to and from the canonical form.
//!
//! | | request | answer | stream |
//! |---|---|---|---|
//! | read | [`request_read`], [`blocks`], [`client_tools`] | [`reply`] | [`stream_read`] |
//! | write | [`request_write`], [`turns`], [`blocks_write`] | [`reply`] | [`stream_write`] |
//!
//! [`citations`] handles the sources of texts, [`searches`] the searches that the upstream ran. [`mod@replay`] and
//! [`accumulator`] change an answer between complete and streamed, but not its dialect. [`stop`] has the words for
//! the end of an answer and for its usage. [`native`] adapts bodies that are passed on without conversion,
//! [`other_form`] bodies that the model refused in their first form, and [`continued`] recognises bodies that begin
//! in the middle of a conversation.

mod accumulator;
mod blocks;
mod blocks_write;
mod citations;
mod client_tools;
mod continued;
mod deferred_tools;
mod native;
mod other_form;
mod repair;
mod replay;
mod reply;
mod request_read;
mod request_write;
mod searches;
mod stop;
mod stream_read;
mod stream_write;
mod turns;

#[cfg(test)]
mod tests;

/// The version of the API that is asked for (`anthropic-version`) where a client names none.
pub const API_VERSION: &str = "2023-06-01";

pub use accumulator::Accumulator;
pub use continued::answers_elsewhere;
pub use native::{
    call_id_of, fits_call_id, refuses_thoughts, with_fitting_ids, without_foreign_thinking, without_thoughts,
};
pub use other_form::{
    in_other_thinking_form, refuses_schema, refuses_thinking_form, with_schema_closed, with_schema_in_words,
};
pub use repair::Repair;
pub use replay::replay;
pub use reply::{read_reply, write_reply};
pub use request_read::read_request;
pub use request_write::write_request;
pub use stream_read::StreamReader;
pub use stream_write::StreamWriter;
