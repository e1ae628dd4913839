//! Records of requests: log rows, channel and endpoint counters, usage per hour and day. They are handed over
//! without waiting; one group becomes one transaction (`threads/writer.rs`).
//!
//! | file | what it holds |
//! |---|---|
//! | `log_row` | a row of the log |
//! | `debug_trace`, `stored_response` | a request recorded in full; a response that its upstream stores |
//! | `log_spans` | the spans by which the log is summed |
//! | `intake` | the entry, which never blocks |
//! | `recorder` | the statements of a group |
//! | `merged_cooldown` | merging a cooldown into a row that other instances write too |
//! | `usage`, `key_days` | usage per hour and day; usage of downstream keys per day |

pub(super) mod debug_trace;
mod intake;
mod key_days;
pub(super) mod log_row;
pub(super) mod log_spans;
mod merged_cooldown;
pub(super) mod recorder;
pub(super) mod stored_response;
pub(super) mod usage;

pub use intake::Telemetry;
