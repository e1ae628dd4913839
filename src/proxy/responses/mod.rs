//! Answers of the responses dialect after they were given: whose they are, where they are, and their usage.
//!
//! ```text
//! an upstream stores it    owners ─ id_owners (their memory)    no key goes on from an answer of another's
//! nobody stores it         previous ─ turns (their memory)      its next request is merged into a complete one
//! in the background        background ─ pending ─ background_watch      what it has used is booked once, at its end
//! asked for once more      by_id ─ usage_watch (the usage of one that passes)
//! ```
//!
//! Each is known by its [`name`]: its id, and the key that was given it.

pub(super) mod background;
pub(super) mod background_watch;
pub(super) mod by_id;
pub(super) mod id_owners;
mod input_items;
pub(super) mod name;
pub(super) mod owners;
pub(super) mod pending;
pub(super) mod previous;
pub(super) mod turns;
mod usage_watch;
