//! Finds out which of the models that sites list are really served.
//!
//! ```text
//! pass ─▶ accounts, one after the other ─▶ their models, a few at once, the longest unchecked first
//!                                            └▶ supported, unsupported: the row says so; else it stays
//! ```
//!
//! One model that is overloaded or does not answer keeps no other from being asked for; after three in a row the site is
//! left alone, and the next pass asks for the rest. Models that an operator typed are never asked for. The routes are
//! rebuilt once, if any row has changed. One pass at a time probes an account; another one leaves it out.

pub mod after_refresh;
pub mod ask;
pub mod busy;
mod pass;
pub mod recovery;
pub mod result;
mod target;
pub mod verdict;

pub use pass::{can_be_probed, parts, start};
