//! Downstream keys: changing, reading and showing them, and their usage.

pub mod handlers;
pub mod input;
mod limits;
mod readers;
pub mod schema;
pub mod usage;
pub mod view;
