//! The admin API, `/api/*`: a folder or file per resource, one table of routes.
//!
//! | module | resource |
//! |---|---|
//! | `state` | what the admin API keeps from one request to the next |
//! | `table` | every route with its handler; where an error becomes a response |
//! | `auth` | authentication of operators; the change of the admin token |
//! | `settings` | settings that an operator changes while the service runs, tests of them, and maintenance of stored data |
//! | `backup` | export and import of the whole configuration as one document |
//! | `sites` | sites: their addresses, models, probes, and the platform behind an address |
//! | `accounts` | accounts, a file per operation; reading, verifying and showing a credential |
//! | `tokens` | the keys of session accounts |
//! | `routes`, `channels`, `decisions` | routes, their channels, and explanations of the channel selection |
//! | `keys` | downstream keys and their usage |
//! | `models` | available models, their accounts and prices; discovery and probes started by hand |
//! | `logs`, `events`, `tasks`, `metrics`, `health` | what happened, what runs |
//! | `stats` | usage and availability statistics, and their cache |
//! | `oauth` | accounts that are connected by a login in a browser |
//! | `checkins`, `announcements` | daily check-ins and their log; announcements of sites |
//! | `update_center` | newer versions of the gateway, and their deployment |
//! | `search` | a text search over sites, accounts, tokens, logs and models |
//! | `playground` | requests to the proxy that an operator sends from the console |
//! | `schema`, `client_schema`, `openapi` | descriptions of requests and responses; the client routes; the OpenAPI document |
//! | `copying` | refuses changes while everything is copied into another database |
//! | `errors`, `input`, `numbers`, `paging`, `batch`, `secrets`, `request`, `arrival` | shared by all resources |
//! | `bucket` | how often routes may be used that try credentials or are costly |
//! | `timed_cache`, `stored_answers` | answers that are kept for a while; those that survive a restart |
//!
//! In a folder, `handlers` handles the resource as a whole, `input` reads its fields and `view` shows them.
//! A handler returns a response or an error. A change commits, publishes, then answers.

mod accounts;
mod announcements;
mod arrival;
mod auth;
mod backup;
mod batch;
mod bucket;
mod channels;
mod checkins;
mod client_schema;
mod copying;
mod decisions;
pub mod errors;
mod events;
mod health;
mod input;
mod keys;
mod logs;
mod metrics;
mod models;
mod numbers;
mod oauth;
mod openapi;
mod paging;
mod playground;
mod request;
mod routes;
mod schema;
mod search;
mod secrets;
mod settings;
pub mod sites;
mod state;
mod stats;
mod stored_answers;
mod table;
mod tasks;
mod timed_cache;
mod tokens;
mod update_center;

pub use auth::{Caller, authorize};
use numbers::ratio;
use request::{guard, require_id};
pub use state::Admin;
pub use table::routes as table_of_routes;
