//! Switchyard: many upstream AI sites, each with accounts, behind one address.
//!
//! The map of the house. Arrows run downwards only: a room uses the rooms below it, never one above; nor are the files of
//! a room in a circle. `.ci/edges` reads this map and refuses anything else; there are no exceptions.
//!
//! ```text
//! main.rs      the life of the process
//! desktop      switchyard desktop: the service for one person on one machine
//! deploy_helper  switchyard deploy-helper: helm and kubectl, for the update center of a gateway
//! doctor       switchyard doctor: what is wrong with an installation
//! cli, demo    switchyard [serve] | desktop | health | doctor | demo | deploy-helper | import | export | backup | restore |
//!              migrate
//! greeting     what the log says once the service serves
//! app          the parts, built in order and stopped in reverse
//! service      one request through the layers, in order
//! ── faces: core < jobs < proxy < admin < service, each with what only it keeps ──
//! admin        /api/*, a folder or file per resource
//! console      the operator's page, served from the binary
//! proxy        /v1/*, every surface over one pipeline
//! jobs         the scheduler and one file per job
//! backup       everything an operator has set up as one document, and back
//! http         the edge; knows no business: accept loop, limits, routes, bodies, CORS, TLS
//! core         what every face gets: configuration, settings, store, snapshot and its publishing, live state, client
//! ── what they do it with ───────────────────────────────────────────────────────
//! notify       notices to the operator: cool-down, one file per channel
//! upstream     the HTTP client, its pool and dialers, one adapter per platform
//! store        typed rows and queries, migrations, the writer, sealing of secrets
//! takeover     files of other gateways, read as a backup document of ours
//! settings     what an operator saved, over what the environment says
//! config       the environment, read once, into the values that the rooms below define
//! ── pure: no I/O, no clock of their own ────────────────────────────────────────
//! keys         managed downstream keys in memory, and what they have used
//! routing      sites, channels and routes in memory; patterns, eligibility, selection, cooldown, prices
//! platform     the kinds of upstream, and what is so of each
//! limits       rate limits, slots of sites, route guards
//! dialect      the client dialects: passed through, converted; SSE, usage, the errors upstreams send
//! error_words  what upstreams say when they fail, and what it means
//! ── ground ─────────────────────────────────────────────────────────────────────
//! flight       one run of costly work shared by all who ask for it
//! aside        long computations beside requests, for which the system has time when nobody else wants it
//! background   work that outlives its caller: owned, stopped with the process, panics contained
//! fence        the lease that a job is done under, carried along with its work
//! codings      gzip, deflate, br and zstd, decoded: of what clients and upstreams compress
//! id_map, name_map   maps whose copies share what they have in common
//! make_room    maps that strangers fill, and that hold no more than so many entries
//! site_headers headers that go with every request to a site, in the one form in which they are stored
//! site_url     addresses of sites, in the one form in which they are stored and compared
//! mask         texts without the secrets in them
//! one_line     texts of strangers, made fit for one line
//! websocket    what both ends of a WebSocket share: the proof of the handshake, the bounds of frames
//! time, cron, logging, metrics, money, open_files, request_id, uuid, hex, sync, fast_map, wake_flag
//! ids          the ids of rows, a type for each kind of row
//! ```
//!
//! Public is what the program, the bench and the fuzzing tests use; all else is private to the library, so that the compiler
//! tells what nobody calls any more.
#![forbid(unsafe_code)]

pub(crate) mod admin;
pub mod app;
pub mod aside;
pub(crate) mod background;
pub(crate) mod backup;
pub mod cli;
pub(crate) mod codings;
pub mod config;
pub(crate) mod console;
pub(crate) mod core;
pub mod cron;
pub mod demo;
pub mod deploy_helper;
pub mod desktop;
pub mod dialect;
pub mod doctor;
pub(crate) mod error_words;
pub(crate) mod fast_map;
pub(crate) mod fence;
pub(crate) mod flight;
pub mod greeting;
pub(crate) mod hex;
pub mod http;
pub(crate) mod id_map;
pub(crate) mod ids;
pub mod jobs;
pub(crate) mod keys;
pub(crate) mod limits;
pub mod logging;
pub(crate) mod make_room;
pub(crate) mod mask;
pub(crate) mod metrics;
pub(crate) mod money;
pub(crate) mod name_map;
pub(crate) mod notify;
pub(crate) mod one_line;
pub mod open_files;
pub(crate) mod platform;
pub(crate) mod proxy;
pub(crate) mod request_id;
pub mod routing;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod site_headers;
pub mod site_url;
pub mod store;
pub(crate) mod sync;
pub(crate) mod takeover;
pub(crate) mod time;
pub mod upstream;
pub(crate) mod uuid;
pub(crate) mod wake_flag;
pub(crate) mod websocket;
