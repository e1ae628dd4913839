//! The store: everything that survives a restart. Holds typed rows and queries for each resource over one
//! database, the writer that commits changes in groups, the migrations, and the sealing of credentials.
//!
//! | module | what it holds |
//! |---|---|
//! | `handle`, `options` | the open [`Store`]; the options that it is opened with |
//! | `value`, `sql` | values and rows; statements and SQL dialects |
//! | `touches`, `error` | which rows a statement touches; errors |
//! | `database`, `threads` | the open database; the threads that serve it |
//! | `connection`, `opened` | the trait of every driver; the result of opening a database |
//! | `sqlite`, `server` | the SQLite driver; the PostgreSQL and MySQL drivers |
//! | `migrate`, `reset` | the schema, step by step; the return to an empty database |
//! | `inspect` | read-only inspection of a database |
//! | `seal` | credentials at rest, and their keys |
//! | `snapshot`, `journal` | the snapshot that requests read; which rows it depends on have changed |
//! | `telemetry`, `amend` | log rows, counters and usage, written in groups; later corrections of a logged request |
//! | `lists_version`, `admin_snapshots` | whether what lists show has changed; answers that outlive the process |
//! | `read_view` | reading everything as of one moment |
//! | `staging` | staging many incoming rows, and comparing them with the stored ones |
//! | `copies`, `restore` | making whole copies of the database; restoring one where there is none |
//! | `relocate`, `next_database` | moving everything into another database; which database the next start uses |
//! | `leases`, `job_runs` | several instances on one database: who runs a job; which runs have begun |
//! | `versions` | the numbers of changes by other instances |
//! | `instance_changes`, `change_signals` | looking for changes by other instances, and notifications of them |
//! | `instances`, `logins` | the running instances; browser logins, shared between instances |
//! | `shared_cooldowns`, `shared_key_usage` | cooldowns, and usage of downstream keys, shared between instances |
//! | `sites`, `site_addresses` | sites; removes passwords from the addresses that release 0.2.0 imported |
//! | `accounts`, `account_state`, `balances` | accounts; the states of one; balances that were read from sites |
//! | `connections`, `tokens` | accounts that are connected by a browser login; the API keys of session accounts |
//! | `availability` | the models that accounts and tokens reach |
//! | `routes`, `route_edits`, `route_units`, `names` | routes and channels; an operator's changes; units; names for lists |
//! | `keys`, `quota`, `budgets` | downstream keys; requests reserved against their limits; their budgets |
//! | `proxy_logs`, `debug_traces`, `prune` | the log as operators read it; single requests in full; deletion of old rows |
//! | `log_sums`, `stats`, `sums`, `cached_tokens` | sums over the log; statistics; sums over calls; tokens of prompt caches |
//! | `key_usage`, `key_days`, `spend`, `model_rates` | usage of keys, also by day; cost of accounts; success of models |
//! | `files`, `uploads`, `videos`, `batches` | what clients upload or have made, here or at an upstream |
//! | `responses`, `background_responses`, `owner` | responses that upstreams store or still make; whose something is |
//! | `settings` | saved settings |
//! | `events`, `new_event`, `sent_notices` | events for the operator; one to be inserted; notices that were sent |
//! | `announcements`, `checkins` | announcements of sites; the log of check-ins |
//!
//! Times are epoch milliseconds. Sealed columns are opened into [`Secret`]s when read and sealed when written;
//! nothing outside this module sees a sealed text. Nothing here runs in the path of a proxied request: the
//! proxy reads the snapshot that [`snapshot::Source`] builds.

mod account_state;
pub mod accounts;
pub mod admin_snapshots;
pub mod amend;
pub mod announcements;
pub mod availability;
pub mod background_responses;
pub mod balances;
pub mod batches;
pub mod budgets;
pub mod cached_tokens;
mod change_signals;
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
pub mod instance_changes;
pub mod instances;
pub mod job_runs;
mod journal;
pub mod key_days;
pub mod key_usage;
pub mod keys;
pub mod leases;
mod lists_version;
pub mod log_sums;
pub mod logins;
mod migrate;
pub mod model_rates;
pub mod names;
mod new_event;
pub mod next_database;
mod opened;
mod options;
pub mod owner;
pub mod proxy_logs;
mod prune;
pub mod quota;
mod read_view;
pub mod relocate;
pub mod reset;
pub mod responses;
pub mod restore;
pub mod route_edits;
pub mod route_units;
pub mod routes;
pub mod seal;
pub mod sent_notices;
mod server;
pub mod settings;
pub mod shared_cooldowns;
pub mod shared_key_usage;
pub mod site_addresses;
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
pub use options::StoreOptions;
pub use read_view::ReadView;
pub use seal::{Hashing, Purpose, Sealer, rekey};
pub use sql::{Fields, Outcome, Row, Statement, Value, placeholders};
pub use telemetry::Telemetry;

pub use crate::routing::Secret;
