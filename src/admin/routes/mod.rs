//! Routes: reading their fields, the consequences of saving them, and how they are shown.

pub mod fill;
pub mod handlers;
pub mod input;
pub mod list;
pub mod rebuild;
pub mod schema;
pub mod view;
