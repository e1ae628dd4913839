//! The admin API, `/api/*`: a folder or file per resource, one table of routes.
//!
//! | module | resource |
//! |---|---|
//! | `state` | what the admin API keeps from one request to the next |
//! | `table` | every route with its handler; where an error becomes a response |
//! | `auth` | authentication of operators; the change of the admin token |
//! | `settings` | what an operator changes while the service runs, tests of it, and upkeep of what is stored |
//! | `backup` | everything that was set up as one document, out and in |
//! | `sites` | sites: their addresses, models, probes, and the platform behind an address |
//! | `accounts` | accounts by what is done with them; reading, verifying and showing a credential |
//! | `tokens` | the keys of session accounts |
//! | `routes`, `channels`, `decisions` | routes, their channels, and why a request would go where it goes |
//! | `keys` | downstream keys and what they did |
//! | `models` | which models can be had, from whom, for how much; discovery and probes started by hand |
//! | `logs`, `events`, `tasks`, `metrics`, `health` | what happened, what runs |
//! | `stats` | usage and availability statistics, and their cache |
//! | `oauth` | accounts that are connected by a login in a browser |
//! | `checkins`, `announcements` | daily check-ins and their log; what sites announce |
//! | `update_center` | whether there is something newer than what runs |
//! | `search` | one text over everything |
//! | `playground` | an operator tries the proxy |
//! | `schema`, `client_schema`, `openapi` | what a route takes and gives, as data; the routes for clients; one document of it |
//! | `copying` | nobody changes what is being copied into another database |
//! | `errors`, `input`, `numbers`, `paging`, `batch`, `secrets`, `request` | what all of them share |
//!
//! In a folder `handlers` has what is done with the resource as a whole, `input` reads its fields and `view` shows them.
//! A handler gives an answer or an error. A change commits, publishes, then answers.

mod accounts;
mod announcements;
mod auth;
mod backup;
mod batch;
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
mod table;
mod tasks;
mod tokens;
mod update_center;

pub use auth::{Caller, authorize};
use numbers::{number, ratio};
use request::{guard, require_id};
pub use state::Admin;
pub use table::routes as table_of_routes;
