//! What calls left behind: log rows, also as they come, and debug traces.

pub mod debug_traces;
pub mod live;
pub mod live_readers;
pub mod proxy_logs;
pub mod schema;
