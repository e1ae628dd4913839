//! The channels of a route, added and changed by hand.

pub mod handlers;
pub mod input;
pub mod schema;
