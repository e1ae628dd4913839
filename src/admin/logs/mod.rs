//! The records of calls: log rows, also as a live stream, and debug traces.

pub mod debug_traces;
pub mod live;
pub mod live_readers;
pub mod proxy_logs;
pub mod schema;
