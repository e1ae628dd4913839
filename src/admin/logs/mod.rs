//! What calls left behind: log rows and debug traces.

pub mod debug_traces;
pub mod proxy_logs;
