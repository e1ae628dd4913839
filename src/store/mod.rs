//! The store: what survives a restart. Typed rows and queries per resource over one database, the
//! writer that commits in groups, migrations, and the sealing of credentials.
//!
//! | file | what it holds |
//! |---|---|
//! | `handle`, `options` | the open [`Store`]; what it is opened with |
//! | `value`, `sql`, `touches`, `error` | values and rows; statements and dialects; what a statement touches; what can go wrong |
//! | `database`, `threads/` | the open database; the threads below it |
//! | `connection`, `opened`, `sqlite/`, `server/` | what a driver is, and what opening gives; SQLite's; those of PostgreSQL and MySQL |
//! | `migrate` | the schema, step by step |
//! | `inspect` | a look at a database that changes nothing in it |
//! | `seal/` | credentials at rest, and their keys |
//! | `telemetry/` | log rows, counters and usage: handed over without waiting, written in groups |
//! | `journal` | which of the rows that requests are routed by have changed |
//! | `moment`, `staging/` | everything as it is at one moment; many rows on their way in, compared with what is there |
//! | `copies`, `relocate`, `pointer` | whole copies of the database, made and put in place; everything into another database; which one the next start uses |
//! | `leases`, `job_runs`, `versions`, `others`, `news`, `instances` | what several instances on one database agree on: who runs a job; what has changed, a look at it, and word of it; who is there |
//! | `logins` | logins in a browser, as these instances tell each other of them |
//! | `uploads`, `prune`, `log_sums` | files on their way in; how tables lose what is old; the log in sums |
//! | `rests`, `shared_use` | what all of them learn of channels; what all of them use of keys |
//! | the rest | one file per resource: rows, queries, changes |
//!
//! Times are epoch milliseconds. Sealed columns are opened on reading into [`Secret`]s and sealed
//! on writing; nothing above this room sees a sealed text. Nothing here runs on the proxy's path:
//! it reads the snapshot that [`snapshot::Source`] builds.

mod account_state;
pub mod accounts;
pub mod amend;
pub mod announcements;
pub mod availability;
pub mod background_responses;
pub mod balances;
pub mod batches;
pub mod budgets;
pub mod cached;
pub mod checkins;
mod connection;
pub mod connections;
pub mod copies;
mod database;
pub mod debug_traces;
mod error;
pub mod events;
pub mod files;
mod handle;
pub mod inspect;
pub mod instances;
pub mod job_runs;
mod journal;
pub mod key_days;
pub mod key_usage;
pub mod keys;
pub mod leases;
pub mod log_sums;
pub mod logins;
mod migrate;
pub mod model_rates;
mod moment;
pub mod names;
mod new_event;
mod news;
mod opened;
mod options;
pub mod others;
pub mod owner;
pub mod pointer;
pub mod proxy_logs;
mod prune;
pub mod quota;
pub mod relocate;
pub mod reset;
pub mod responses;
pub mod rests;
pub mod route_edits;
pub mod route_units;
pub mod routes;
pub mod seal;
mod server;
pub mod settings;
pub mod shared_use;
pub mod sites;
pub mod snapshot;
pub mod spend;
mod sql;
mod sqlite;
pub mod staging;
pub mod stats;
mod sums;
mod telemetry;
#[cfg(test)]
mod tests;
mod threads;
pub mod throttle;
pub mod tokens;
mod touches;
pub mod uploads;
mod value;
pub mod versions;
pub mod videos;

pub use database::Database;
pub use error::{Error, FULL, OpenError, Result, Trouble, UNREACHABLE};
pub use handle::Store;
pub(crate) use journal::Touched;
pub use moment::Moment;
pub use options::StoreOptions;
pub use seal::{Hashing, Purpose, Sealer, rekey};
pub use sql::{Outcome, Row, Statement, Value, marks};
pub use telemetry::Telemetry;

pub use crate::routing::Secret;
