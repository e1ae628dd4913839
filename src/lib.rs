//! Switchyard: many upstream AI sites, each with accounts, behind one address.
//!
//! The map of the house. Arrows run downwards only: a room uses the rooms below it, never one above; nor do the files of
//! a room use each other in a circle. `tests/house` reads this map and refuses anything else; there are no exceptions.
//!
//! ```text
//! main.rs      the life of the process
//! desktop      switchyard desktop: the service for one person on one machine
//! deploy_helper  switchyard deploy-helper: helm and kubectl, for the update center of a gateway
//! doctor       switchyard doctor: finds what is wrong with an installation
//! cli, demo    switchyard [serve] | desktop | health | doctor | demo | deploy-helper | import | export | backup | restore |
//!              migrate
//! lifecycle    the running service: sockets, signals, the log lines of a start, the stop in reverse order
//! app          the parts, built in order and stopped in reverse
//! service      one request through the layers, in order
//! ── faces: core < jobs < proxy < admin < service, each with its own state ─────────
//! admin        /api/*, a folder or file per resource
//! console      the operator's page, served from the binary
//! proxy        /v1/*, every surface over one pipeline
//! jobs         the scheduler, its jobs, and what they share with operators' requests
//! backup       export and import of the whole configuration as one document
//! http         the edge, without business logic: accept loop, limits, routes, bodies, CORS, TLS
//! core         shared by all faces: configuration, settings, store, snapshot and its publishing, live state, client
//! ── what the faces build on ─────────────────────────────────────────────────────
//! notify       notices to the operator: cool-down, one file per channel
//! upstream     the HTTP client, its pool and dialers, one adapter per platform
//! store        typed rows and queries, migrations, the writer, sealing of secrets
//! takeover     files of other gateways, converted to our own backup document
//! settings     an operator's saved values, over those of the environment
//! config       the environment, read once, into the values that the rooms below define
//! ── pure: no I/O, no clock of their own ────────────────────────────────────────
//! keys         managed downstream keys in memory, and their usage
//! routing      sites, channels and routes in memory; patterns, eligibility, selection, cooldown, prices
//! platform     the kinds of upstream sites, and the abilities of each
//! dialect      the client dialects: passed through, converted; SSE, usage, the errors upstreams send
//! error_words  the error texts of upstreams, and their meaning
//! ── ground ─────────────────────────────────────────────────────────────────────
//! limits       rate limits, slots of sites, memory of bodies; who waits there waits by the runtime's clock
//! flight       one run of costly work, shared by all its callers
//! idle_thread  long computations beside requests, run when no other thread wants the processor
//! background   work that outlives its caller: owned, stopped with the process, its panics contained
//! fence        the lease under which a job is done, passed along with its work
//! codings      decoders of gzip, deflate, br and zstd, for compressed requests and responses
//! make_room    a bound for maps that clients and upstreams fill
//! site_headers custom headers of a site, in the form in which they are stored
//! site_url     addresses of sites, in the form in which they are stored and compared
//! mask         removes secrets from texts
//! key_mask     reads masks of keys, as sites list them
//! credential_names  tells by the name of a header or member whether it holds a credential
//! unfinished   files that are being written and directories of temporary files; what killed processes have left of them
//! websocket    shared by both ends of a WebSocket: the proof of the handshake, the limits of frames, fragments, pongs
//! exit_code    the exit codes of the program
//! time, cron, logging, metrics, money, open_files, request_id, uuid, hex, sync, fast_map
//! byte_order_mark  the mark that may stand before UTF-8 text
//! subslice     the place of a slice in the text that it was cut from
//! one_line     makes texts of unknown origin fit for one line
//! networks     lists of addresses and networks: allow-lists, trusted proxies
//! ids          the ids of rows, a type for each kind of row
//! json_number  numbers in JSON: whole ones that every program reads exactly, and those that are written as text
//! ```
//!
//! Public items are those that the program, the bench and the fuzzing tests use; everything else is private to the library,
//! so that the compiler reports what nobody calls any more.
#![forbid(unsafe_code)]

pub(crate) mod admin;
pub mod app;
pub(crate) mod background;
pub(crate) mod backup;
pub(crate) mod byte_order_mark;
pub mod cli;
pub(crate) mod codings;
pub mod config;
pub(crate) mod console;
pub(crate) mod core;
pub(crate) mod credential_names;
pub mod cron;
pub mod demo;
pub mod deploy_helper;
pub mod desktop;
pub mod dialect;
pub mod doctor;
pub(crate) mod error_words;
pub(crate) mod exit_code;
pub(crate) mod fast_map;
pub(crate) mod fence;
pub(crate) mod flight;
pub(crate) mod hex;
pub mod http;
pub mod idle_thread;
pub(crate) mod ids;
pub(crate) mod jobs;
pub(crate) mod json_number;
pub(crate) mod key_mask;
pub(crate) mod keys;
pub mod lifecycle;
pub(crate) mod limits;
pub mod logging;
pub(crate) mod make_room;
pub(crate) mod mask;
pub(crate) mod metrics;
pub(crate) mod money;
pub(crate) mod networks;
pub(crate) mod notify;
pub(crate) mod one_line;
pub(crate) mod open_files;
pub(crate) mod platform;
pub(crate) mod proxy;
pub(crate) mod request_id;
pub mod routing;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod site_headers;
pub mod site_url;
pub mod store;
pub(crate) mod subslice;
pub(crate) mod sync;
pub(crate) mod takeover;
pub(crate) mod time;
pub(crate) mod unfinished;
pub mod upstream;
pub(crate) mod uuid;
pub(crate) mod websocket;
