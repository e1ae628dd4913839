//! `GET /v1/realtime`: a conversation in speech over a WebSocket.
//!
//! ```text
//! upgrade ─ who, which model ─ admit ─ pipeline: channel after channel, until one opens a socket ─▶ 101
//!  opening                              └ attempt ──────────────────────────────────────────────▶ session
//! ```
//!
//! The model stands in the query. Until an upstream has opened its socket the client has none either, and any other channel
//! may be asked; from then on frames pass as they are. Opening counts as the first request of its key, each response
//! after the first as another.

mod attempt;
mod opening;
mod session;

pub(super) use attempt::Opening;
pub(super) use opening::open;
