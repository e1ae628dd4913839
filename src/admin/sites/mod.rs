//! Sites: their addresses, models, probes, and the platform behind an address.

pub mod batch;
pub mod detect;
pub mod handlers;
pub mod input;
pub mod models;
pub mod presets;
pub mod probes;
pub mod schema;
pub mod subscriptions;
pub mod view;
