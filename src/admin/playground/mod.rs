//! `/api/test/*`: requests to the proxy that an operator sends from the console.
//!
//! ```text
//! envelope, chat ─▶ request ─▶ proxy::internal ─▶ response: whole, as events, or kept as a job
//! ```
//!
//! The call takes the proxy's own path as the global token, without a socket in between: no rate limit applies to it,
//! and no client request can pass for such a call. A forced channel is the only one that may answer.

mod answer;
mod chat;
mod envelope;
mod error;
pub mod handlers;
pub mod job_list;
mod jobs;
pub mod schema;
#[cfg(test)]
mod tests;
