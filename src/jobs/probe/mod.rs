//! Which of the models that sites list they really serve.
//!
//! ```text
//! pass ─▶ accounts, one after the other ─▶ their models, a few at once, the longest unchecked first
//!                                            └▶ supported, unsupported: the row says so; else it stays
//! ```
//!
//! Rows typed by an operator are never asked for. Routes follow once, when some row changed its mind.
//! One pass at a time is at an account; another one leaves it out.

pub mod after_refresh;
pub mod ask;
pub mod busy;
mod pass;
pub mod recovery;
pub mod result;
mod target;
pub mod verdict;

pub use pass::{is_probed, parts, start};
