//! `/api/test/*`: an operator tries the proxy.
//!
//! ```text
//! envelope, chat ─▶ request ─▶ proxy::internal ─▶ answer: whole, as events, or kept as a job
//! ```
//!
//! The call goes the proxy's own way as the global token, without a socket between: it is under no rate limit, and
//! nothing that a client can send makes a call look like it. A forced channel answers alone or not at all.

mod answer;
mod chat;
mod envelope;
pub mod handlers;
pub mod job_list;
mod jobs;
mod refused;
pub mod schema;
#[cfg(test)]
mod tests;
