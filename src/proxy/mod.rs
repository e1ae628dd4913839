//! `/v1/*`: every surface over one pipeline. A call takes ten steps:
//!
//! ```text
//!  1 route ─ 2 authenticate ─ 3 read ─ 4 admit ─ 5 pick ─ 6 address ─ 7 compose ─ 8 send ─ 9 commit ─ 10 relay ─▶ client
//!                                        ▲          ▲          ▲           │         │
//!                                        │          │          └ a dialect ┤         │   is refused: `ask`
//!                                        │          └─ an address ─────────┴─────────┤   is broken: `addresses`
//!                                        └─ a channel ───────────────────────────────┘   fails: `pipeline`
//! ```
//!
//! | step | file | what happens |
//! |---|---|---|
//! | 1 | `routes` | a path belongs to a surface |
//! | 2 | `auth` | who calls |
//! | 3 | `call` | the body, and what routing must know of it, kept for as many tries as it takes |
//! | 4 | `admit` | whether this caller may ask for this model, and once more; the call counts |
//! | 5 | `pick` | a channel, with the slots that it takes |
//! | 6 | `addresses` | the channel's addresses, one after the other |
//! | 7 | `compose` | the request as one address gets it, in one dialect: its body by `compose::outgoing`, its headers by `headers` |
//! | 8 | `send` | sent; the head of the answer |
//! | 9 | `commit` | the answer is held until it is known to be good |
//! | 10 | `relay` | the answer on its way, chunk by chunk |
//!
//! Each try of a channel is an `attempt`, which is settled once, at whatever step it ends: log row, counters, cooldown,
//! cost, slots. `failure` says why it failed and what follows; `ask`, what is sent after a refusal.
//!
//! | module | what else there is |
//! |---|---|
//! | `channel_addresses` | which of a channel's addresses is asked next, and what each one's answer says of it |
//! | `state` | what the proxy keeps from one call to the next |
//! | `operation` | what a client asks for, as far as its path tells |
//! | `client`, `session` | the client's application; a conversation and its channel |
//! | `upstream_socket` | requests to Codex over a WebSocket |
//! | `retry` | what is asked after a refusal: another dialect, other words, a new token |
//! | `media_type` | what a body is, by its content type and its first bytes |
//! | `reply`, `foreign` | errors in the shape of the surface, and of interfaces not spoken here |
//! | `gemini` | the surface whose paths name the model |
//! | `responses`, `responses_ws` | answers of the responses dialect after they were given; that dialect over a WebSocket |
//! | `realtime` | a conversation in speech over a WebSocket |
//! | `socket_opener` | who opened a WebSocket |
//! | `models`, `search`, `forms`, `videos`, `files` | model lists, web searches, requests sent as forms (read by `form_body`), videos, uploads |
//! | `batches` | many requests of one model, worked off by one account in its own time |
//! | `pipeline`, `answered` | the steps in their order; what comes of them |
//! | `call_signatures` | signatures of calls that clients cannot carry |
//! | `key` | the limits of the key that a call is made with; what its holder is told |
//! | `tail` | the end of an answer that is too long to be held |
//! | `cost` | what an answer cost |
//! | `trace` | what an operator has recorded of a call, without secrets |
//! | `alerts` | alerts to the operator |
//! | `resource_upstream`, `download` | what an upstream keeps of a client's, asked for at the account that made it; its bytes |
//! | `internal` | requests of the service itself |

mod addresses;
mod admit;
mod alerts;
mod answered;
mod ask;
mod attempt;
pub mod auth;
mod batches;
mod call;
mod call_signatures;
mod channel_addresses;
mod client;
mod commit;
mod compose;
mod cost;
mod download;
mod failure;
mod files;
pub mod foreign;
mod form_body;
mod forms;
mod gemini;
mod headers;
pub mod internal;
mod key;
mod media_type;
mod models;
mod operation;
mod pick;
mod pipeline;
mod realtime;
mod relay;
pub mod reply;
mod resource_upstream;
mod responses;
mod responses_ws;
mod retry;
mod routes;
mod search;
mod send;
mod session;
mod socket_opener;
mod state;
mod tail;
mod trace;
mod upstream_socket;
mod videos;

pub use batches::watch as watch_batches;
pub use responses::background_watch::watch_background_responses;
pub use routes::routes;
pub use state::Proxy;
