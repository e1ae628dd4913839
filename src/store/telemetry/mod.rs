//! What requests leave behind: log rows, channel and endpoint counters, usage per hour and day.
//! Handed over without waiting; one group becomes one transaction (`threads/writer.rs`).
//!
//! | file | what it holds |
//! |---|---|
//! | `log_row`, `debug_trace`, `stored_response` | what is handed over: a row of the log, a request recorded in full, an answer that its upstream keeps |
//! | `log_spans` | the spans that the log is summed by |
//! | `intake` | the way in, which never blocks |
//! | `recorder`, `merged_rest`, `usage`, `key_days` | the statements of a group; the rest of a channel that others write too; its sums per hour and day; those of downstream keys |

pub(super) mod debug_trace;
mod intake;
mod key_days;
pub(super) mod log_row;
pub(super) mod log_spans;
mod merged_rest;
pub(super) mod recorder;
pub(super) mod stored_response;
pub(super) mod usage;

pub use intake::Telemetry;
