//! Responses, to and from the canonical form.
//!
//! ```text
//! request   request_read ─ items ┐          ┌ request_write
//!                                ├ content, reasoning, tools
//! answer    reply_read ──────────┤          ├ reply_write ─ answer
//! stream    stream_read ─ stream_items        stream_write ─ answer
//! ```
//!
//! What belongs to this dialect without being a conversion:
//! - [`validate()`] refuses tool outputs without a call.
//! - [`without_own_ids`] removes from a body that is passed through what our own answers left in it.
//! - [`without_reasoning`] removes reasoning that an upstream cannot decrypt.
//! - [`with_items`] puts stored items in place of references.
//! - [`input_items()`] lists the items of a request.
//! - [`with_gathered_instructions`] moves instructions to where Codex wants them.
//! - [`echo()`] collects what an answer repeats of its request.
//! - [`Accumulator`] makes one answer of a stream, [`replay()`] a stream of an answer, [`as_compaction`] a compaction
//!   of an answer.
//! - [`merge_turn`] and [`TurnOutput`] make whole requests of a client socket's frames; [`warm_up`] and
//!   [`cancelled_turn`] are its answers where no upstream answers.
//! - [`socket`] reads the frames of an upstream's socket.

mod accumulator;
mod answer;
mod calls;
mod compaction;
mod content;
mod echo;
mod input_items;
mod instructions;
mod items;
mod native;
mod own_ids;
mod reasoning;
mod references;
mod repair;
mod replay;
mod reply_read;
mod reply_write;
mod request_read;
mod request_write;
mod searches;
pub mod socket;
mod status;
mod stream_items;
mod stream_read;
mod stream_write;
mod synthetic;
#[cfg(test)]
mod tests;
mod tools;
mod turn;
mod validate;

use own_ids::is_own_id;

pub use accumulator::Accumulator;
pub use compaction::as_compaction;
pub use echo::echo;
pub use input_items::input_items;
pub use instructions::{as_message, with_gathered_instructions};
pub use native::{without_own_ids, without_reasoning};
pub use own_ids::answer_of;
pub use references::{
    BareItem, ItemReferredTo, PREVIOUS, bare_items, item_ids, items_referred_to, may_have_item_ids,
    refers_to_items, with_items,
};
pub use repair::{AddedItem, Repair};
pub use replay::replay;
pub use reply_read::read_reply;
pub use reply_write::write_reply;
pub(in crate::dialect) use request_read::included;
pub use request_read::read_request;
pub use request_write::write_request;
pub use stream_read::StreamReader;
pub use stream_write::{StreamWriter, failed_stream};
pub use synthetic::{cancelled_turn, warm_up};
pub use turn::{TurnOutput, merge_turn, whole_turn};
pub use validate::validate;
