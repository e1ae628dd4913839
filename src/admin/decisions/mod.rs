//! Explanations of the channel selection, and their cache.

pub mod cache;
pub mod handlers;
pub mod schema;
pub mod view;
