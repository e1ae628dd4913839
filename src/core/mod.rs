//! What the faces share: opened once at start, below all of them.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | [`Core`]: configuration, settings, store, snapshot, keys, live state, client, notices, background |
//! | `start` | opens the store and builds everything on it; ends it in reverse |
//! | `default_database` | back to the SQLite file of the data directory |
//! | `instances` | who else serves from the database |
//! | `addresses` | the addresses of a site, asked one after the other |
//! | `presence` | tells at a start which processes of the data directory are dead |
//! | `publish` | puts a committed change in force, before the caller answers |
//! | `spending` | what keys spend, where several instances count it |
//!
//! No face keeps its own state here: what only jobs, the proxy or the admin API use is theirs.

mod addresses;
mod default_database;
mod instances;
mod presence;
mod publish;
mod spending;
mod start;
mod state;

pub use addresses::AddressWalk;
pub use start::{StartError, named_place, store_options};
pub use state::Core;
