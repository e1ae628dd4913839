//! Settings that an operator changes while the service runs, tests of them, and maintenance of stored data.

pub mod database;
pub mod input;
pub mod maintenance;
pub mod notifications;
pub mod runtime;
pub mod schema;
pub mod system_proxy;
