//! The state that all faces share: opened once at start, below all of them.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | [`Core`]: configuration, settings, store, snapshot, keys, live state, client, notices, background |
//! | `start` | opens the store and builds everything on it; stops it in reverse |
//! | `default_database` | returns to the SQLite file of the data directory |
//! | `instances` | the other instances on the database |
//! | `addresses` | tries the addresses of a site one after the other |
//! | `presence` | detects at a start which processes of the data directory are dead |
//! | `publish` | puts a committed change in force, before the caller answers |
//! | `spending` | the spending of keys, where several instances count it |
//!
//! No face keeps its own state here: state that only jobs, the proxy or the admin API use belongs to them.

mod addresses;
mod default_database;
mod instances;
mod presence;
mod publish;
mod spending;
mod start;
mod state;

pub use addresses::AddressWalk;
pub use start::{StartError, named_address, store_options};
pub use state::Core;
