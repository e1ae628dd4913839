//! Switchyard: many upstream AI sites, each with accounts, behind one address.
//!
//! The map of the house. Arrows run downwards only: a room uses the rooms below it, never one above.
//! There are two exceptions. `app` builds the parts of the rooms below it, and handlers and jobs are given
//! the [`App`](app::App): what they keep from one request to the next is a field of it. `admin` and `proxy`
//! state their routes as [`Route`](service::Route)s, of which `service` makes its router.
//!
//! ```text
//! main.rs      the life of the process
//! cli, demo    switchyard [serve] | health | demo
//! greeting     what the log says once the service serves
//! service      one request through the layers, in order
//! app          the parts, built in order, handed to handlers, stopped in reverse
//! ── faces ──────────────────────────────────────────────────────────────────────
//! http         the edge; knows no business: accept loop, limits, router, bodies, CORS, TLS
//! admin        /api/*, one file per resource
//! proxy        /v1/*, every surface over one pipeline
//! jobs         the scheduler and one file per job
//! ── what they do it with ───────────────────────────────────────────────────────
//! notify       notices to the operator: cool-down, one file per channel
//! upstream     the HTTP client, its pool and dialers, one adapter per platform
//! store        typed rows and queries, migrations, the writer, sealing of secrets
//! settings     what an operator saved, over what the environment says
//! config       the environment, read once, into the values that the rooms below define
//! ── pure: no I/O, no clock of their own ────────────────────────────────────────
//! dialect      the client dialects: passed through, converted; SSE, usage, the errors upstreams send
//! platform     the kinds of upstream, and what is so of each
//! routing      sites, channels and routes in memory; patterns, eligibility, selection, cooldown, prices
//! limits       rate limits, slots of sites, route guards
//! keys         managed downstream keys in memory, and what they have used
//! ── ground ─────────────────────────────────────────────────────────────────────
//! background   work that outlives its caller: owned, stopped with the process, panics contained
//! codings      gzip, deflate, br and zstd, decoded: of what clients and upstreams compress
//! id_map, name_map   maps whose copies share what they have in common
//! mask         texts without the secrets in them
//! time, cron, logging, metrics, open_files, request_id, uuid, hex, sync, fast_map, wake_flag
//! ```
#![forbid(unsafe_code)]

pub mod admin;
pub mod app;
pub mod background;
pub mod cli;
pub mod codings;
pub mod config;
pub mod core;
pub mod cron;
pub mod demo;
pub mod dialect;
pub mod fast_map;
pub mod flight;
pub mod greeting;
pub mod hex;
pub mod http;
pub mod id_map;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod logging;
pub mod mask;
pub mod metrics;
pub mod name_map;
pub mod notify;
pub mod open_files;
pub mod platform;
pub mod proxy;
pub mod request_id;
pub mod routing;
pub mod service;
pub mod settings;
pub mod store;
pub mod sync;
pub mod time;
pub mod upstream;
pub mod uuid;
pub mod wake_flag;
