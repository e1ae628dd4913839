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
//! | 2 | `auth` | the caller is identified |
//! | 3 | `call` | the body is read, with what routing must know of it, and kept for all attempts |
//! | 4 | `admit` | whether this caller may ask for this model, and has a request left; the call is counted |
//! | 5 | `pick` | a channel is picked, and the slots that it needs are taken |
//! | 6 | `addresses` | the channel's addresses are tried one after the other |
//! | 7 | `compose` | one request in one dialect is built: its body by `compose::prepare`, its headers by `headers`, `betas` |
//! | 8 | `send` | the request is sent; the head of the answer is read |
//! | 9 | `commit` | the answer is held until it is known to be good |
//! | 10 | `relay` | the answer is passed on, chunk by chunk |
//!
//! Each try of a channel is an `attempt`, which is settled once, at whatever step it ends: log row, counters, cooldown,
//! cost, slots. `failure` says why it failed and what follows; `ask` decides what is sent after a refusal.
//!
//! | module | what it holds |
//! |---|---|
//! | `channel_addresses` | which of a channel's addresses is asked next, and what each answer says about its address |
//! | `state` | what the proxy keeps from one call to the next |
//! | `operation`, `query` | what a client asks for, as far as the path tells; what of its query goes upstream |
//! | `client`, `session` | the client's application; a conversation and the channel it is bound to |
//! | `upstream_socket` | requests to Codex over a WebSocket |
//! | `retry` | what is asked after a refusal: another dialect, a rewritten request, a new token |
//! | `media_type` | the kind of a body, by its content type and its first bytes |
//! | `reply`, `foreign` | errors in the shape of the surface; errors for interfaces that are not served here |
//! | `gemini` | the surface whose paths name the model |
//! | `responses`, `responses_ws` | operations on earlier answers of the responses dialect; that dialect over a WebSocket |
//! | `realtime` | speech conversations over a WebSocket |
//! | `socket_opener` | who opened a WebSocket |
//! | `models`, `search`, `forms`, `videos`, `files` | model lists, searches, forms (read by `form_body`), videos, uploads |
//! | `batches` | many requests for one model, which one account works off in its own time |
//! | `pipeline`, `client_answer` | the steps in their order; their result |
//! | `call_signatures` | signatures of tool calls that clients cannot carry |
//! | `key` | the limits of the key that a call is made with; what its holder is told about usage |
//! | `held_body`, `tail` | a body that is read up to a limit; the end of an answer that is too long to be held |
//! | `cost`, `token_count` | what an answer cost; an estimate of tokens where no upstream counts them |
//! | `trace` | the debug trace of a call, without secrets |
//! | `alerts` | alerts to the operator |
//! | `resource_upstream`, `download` | a resource kept by an upstream, asked for at the account that made it; its bytes |
//! | `redaction` | secrets in objects that report an error with a success status |
//! | `internal` | requests that the service makes to itself |

mod addresses;
mod admit;
mod alerts;
mod ask;
mod attempt;
pub mod auth;
mod batches;
mod betas;
mod call;
mod call_signatures;
mod channel_addresses;
mod client;
mod client_answer;
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
mod held_body;
pub mod internal;
mod key;
mod media_type;
mod models;
mod operation;
mod pick;
mod pipeline;
mod query;
mod realtime;
mod redaction;
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
mod token_count;
mod trace;
mod upstream_socket;
mod videos;

pub use batches::watch as watch_batches;
pub use responses::background_watch::watch_background_responses;
pub use routes::routes;
pub use state::Proxy;
