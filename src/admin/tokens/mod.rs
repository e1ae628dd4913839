//! The keys of session accounts.

pub mod checks;
pub mod create;
pub mod handlers;
pub mod input;
pub mod schema;
pub mod sync;
pub mod view;
