//! Downstream keys: changing, reading and showing them, and what they did.

pub mod handlers;
pub mod input;
pub mod usage;
pub mod view;
