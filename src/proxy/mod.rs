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
//! | 7 | `compose` | the request as one address gets it, in one dialect: its body by `outgoing`, its headers by `headers` |
//! | 8 | `send` | sent; the head of the answer |
//! | 9 | `commit` | the answer is held until it is known to be good |
//! | 10 | `relay` | the answer on its way, chunk by chunk; a long whole one by `long_reply` |
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
//! | `cache_key` | the conversation's name for the upstream's cache of prompts |
//! | `upstream_socket` | requests to Codex over a WebSocket |
//! | `site_refusals` | which sites have refused such a name, or a WebSocket |
//! | `formats`, `downgrade`, `recovery` | the dialects to ask in; what a refusal says of them; a refused request in other words |
//! | `reply`, `foreign` | errors in the shape of the surface, and of interfaces not spoken here |
//! | `gemini`, `array_stream`, `cli_envelope` | the surface whose paths name the model; its streams without events; the envelope of its command line |
//! | `responses_ws` | responses over a WebSocket |
//! | `realtime`, `realtime_attempt`, `realtime_session` | a conversation in speech over a WebSocket: asked for, opened, passed on |
//! | `socket_opener` | who opened a WebSocket |
//! | `models`, `search`, `forms`, `videos`, `files` | model lists, web searches, requests sent as forms (read by `form_body`), videos, uploads |
//! | `batches`, `batch_turns` | many requests of one model, worked off by one account in its own time; which are being booked |
//! | `pipeline`, `answered` | the steps in their order; what comes of them |
//! | `rewritten`, `renamed` | bodies rewritten while they pass; answers under the name asked for |
//! | `login_headers` | what the token of a login needs beside it |
//! | `code_assist` | requests in the envelope of Google's Code Assist API |
//! | `response_store`, `stored_turns` | answers that a conversation's next request needs and no upstream keeps; their memory |
//! | `response_owners`, `response_holders` | whose the answers are that upstreams keep; their memory |
//! | `background_responses`, `background_watch`, `pending_responses` | what those have used that are made in the background; asking for them; which there are |
//! | `kept_responses` | answers that are asked for once more: by an upstream's id, or from that memory |
//! | `call_signatures` | signatures of calls that clients cannot carry |
//! | `quota`, `over_limit`, `cost` | a call counted against its key; what a refused one is told; what an answer cost |
//! | `key_usage` | what the holder of a key is told of it |
//! | `token_refusal`, `token_renewal` | whether a token was refused; it is renewed, and the request sent once more |
//! | `heartbeats` | a stream that is long in beginning, kept open |
//! | `silence` | how long an upstream may say nothing |
//! | `trace`, `traced`, `redact` | what an operator has recorded of a call; which calls; without secrets |
//! | `alerts` | alerts to the operator |
//! | `resource_upstream`, `download` | what an upstream keeps of a client's, asked for at the account that made it; its bytes |
//! | `internal` | requests of the service itself |

mod addresses;
mod admit;
mod alerts;
mod answered;
mod array_stream;
mod ask;
mod attempt;
pub mod auth;
mod background_responses;
mod background_watch;
mod batch_turns;
mod batches;
mod cache_key;
mod call;
mod call_signatures;
mod channel_addresses;
mod cli_envelope;
mod client;
mod code_assist;
mod commit;
mod compose;
mod cost;
mod downgrade;
mod download;
mod failure;
mod files;
pub mod foreign;
mod form_body;
mod formats;
mod forms;
mod gemini;
mod headers;
mod heartbeats;
pub mod internal;
mod kept_responses;
mod key_usage;
mod login_headers;
mod long_reply;
mod models;
mod operation;
mod outgoing;
mod over_limit;
mod pending_responses;
mod pick;
mod pipeline;
mod quota;
mod realtime;
mod realtime_attempt;
mod realtime_session;
mod recovery;
mod redact;
mod relay;
mod renamed;
pub mod reply;
mod resource_upstream;
mod response_holders;
mod response_owners;
mod response_store;
mod responses_ws;
mod rewritten;
mod routes;
mod search;
mod send;
mod session;
mod silence;
mod site_refusals;
mod socket_opener;
mod state;
mod stored_turns;
mod token_refusal;
mod token_renewal;
mod trace;
mod traced;
mod upstream_socket;
mod videos;

pub use background_watch::watch_background_responses;
pub use batches::watch as watch_batches;
pub use routes::routes;
pub use state::Proxy;
