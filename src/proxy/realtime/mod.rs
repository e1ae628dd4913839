//! `GET /v1/realtime`: a speech conversation over a WebSocket.
//!
//! ```text
//! upgrade ─ who, which model ─ admit ─ pipeline: channel after channel, until one opens a socket ─▶ 101
//!  opening                              └ attempt ──────────────────────────────────────────────▶ session
//! ```
//!
//! The model is named in the query. Until an upstream has opened its socket the client has none either, and another channel
//! may be asked; from then on frames pass unchanged. Opening counts as the first request of the key, and each response
//! after the first as another.

mod admitted;
mod attempt;
mod down;
mod events;
mod opening;
mod responses;
mod session;

pub(super) use attempt::Opening;
pub(super) use opening::open;
