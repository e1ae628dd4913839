//! `/v1/*`: every surface over one pipeline.
//!
//! ```text
//! routes ─▶ auth ─▶ pipeline: read ─▶ route ─▶ attempt (exchange ─▶ commit ─▶ relay) ─▶ next channel, or the answer
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | `routes`, `auth` | the table of routes; who calls |
//! | `call`, `client` | one request, kept for retries; the client's application and protocol family |
//! | `pipeline` | read, look up the route, try channels until one answers |
//! | `attempt`, `exchange` | one try of a channel, which settles itself; its addresses, dialects and sending |
//! | `formats`, `outgoing` | the dialect to ask in; the body and headers an upstream gets |
//! | `recovery`, `failure` | a refused request in another form; why a try failed and what follows |
//! | `commit`, `relay`, `long_reply` | judging and holding the answer; the answer on its way out |
//! | `headers`, `reply`, `foreign` | headers that cross, both ways; errors in the dialect of the surface, and of interfaces not spoken here |
//! | `gemini`, `array_stream`, `cli_envelope` | the surface whose paths name the model; its streams without events; the envelope of its command line |
//! | `responses_ws` | responses over a WebSocket |
//! | `models`, `search`, `forms`, `videos`, `files` | model lists, web searches, requests sent as forms, videos, uploads |
//! | `rewritten`, `renamed` | bodies rewritten while they pass; answers under the name asked for |
//! | `session`, `cache_key` | a conversation and its channel; its name for the upstream's cache of prompts |
//! | `response_store`, `response_owners`, `call_signatures` | answers and signatures that a conversation's next request needs, and whose they are |
//! | `quota`, `cost` | a call counted against its key; what an answer cost |
//! | `trace`, `redact`, `alerts` | what an operator has recorded of a call, redacted; alerts to the operator |
//! | `internal` | requests of the service itself |

mod alerts;
mod array_stream;
mod attempt;
pub mod auth;
mod cache_key;
mod call;
mod call_signatures;
mod cli_envelope;
mod client;
mod commit;
mod cost;
mod exchange;
mod failure;
mod files;
pub mod foreign;
mod formats;
mod forms;
mod gemini;
mod headers;
pub mod internal;
mod long_reply;
mod models;
mod outgoing;
mod pipeline;
mod quota;
mod recovery;
mod redact;
mod relay;
mod renamed;
pub mod reply;
mod response_owners;
mod response_store;
mod responses_ws;
mod rewritten;
mod routes;
mod search;
mod session;
mod silence;
mod state;
mod trace;
mod videos;

pub use routes::routes;
pub use state::Proxy;
