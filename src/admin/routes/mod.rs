//! Routes: the reading of their fields, what saving one entails, how they are shown.

pub mod fill;
pub mod handlers;
pub mod input;
pub mod list;
pub mod rebuild;
pub mod schema;
pub mod view;
