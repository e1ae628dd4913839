//! What an operator changes while the service runs, tests of it, and upkeep of what is stored.

pub mod database;
pub mod input;
pub mod maintenance;
pub mod notifications;
pub mod runtime;
pub mod schema;
pub mod system_proxy;
