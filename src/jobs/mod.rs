//! What the service does by itself, and what it does after an operator's request has been answered.
//!
//! | module | what it is for |
//! |---|---|
//! | `state`, `timetable` | what jobs keep between runs; which job runs when, start and end |
//! | `schedule`, `tasks` | repeats each job, never overlapping itself; long operations that an operator started and looks up by id |
//! | `spread`, `pace` | work on many accounts with a limit in all and per site; room for requests beside work that takes the processor |
//! | `sessions` | the client of a stored account at its site; with a session that is renewed when it runs out; the renewal |
//! | `oauth` | accounts that are connected by a login in a browser |
//! | `given_once` | stores a token that is not given twice |
//! | `others`, `turns` | instances on the same database: their changes; which of them does what one does for all |
//! | `accounts` | what follows a new credential; what a site's answer says of an account; a check of all accounts |
//! | `models` | the models one account reaches; those of all; after a change of tokens; the result as callers get it |
//! | `rebuild` | the routes and channels that follow from the models |
//! | `tokens` | the tokens of one account; brought in line with what its site lists |
//! | `balances` | what accounts have left; the alert when it runs low; what they earned in a day |
//! | `checkin`, `announcements`, `summary` | daily check-ins; what sites announce; the day in one notice |
//! | `backups` | files in a directory, and a file on a WebDAV server |
//! | `probe` | which models are really served, and which cooling channels answer again |
//! | `prices` | price lists, read before requests need them |
//! | `usage_lookup`, `late_prices` | exact usage from a site's own log; prices that are read after a request has ended |
//! | `late_usage` | books what becomes known of a request later |
//! | `update_center` | whether there is something newer than what runs |
//! | `rekey` | replaces the keys that credentials are sealed and found by |
//! | `health`, `quotas`, `retention` | keeps the health of sites over a restart; gives back unused reservations of keys; deletes old rows and files |

pub mod accounts;
pub mod announcement_turn;
pub mod announcements;
pub mod backups;
pub mod balances;
pub mod checkin;
mod given_once;
pub mod health;
pub mod health_saver;
pub mod late_prices;
pub mod late_usage;
pub mod models;
pub mod oauth;
mod others;
mod pace;
pub mod price_lists;
pub mod prices;
pub mod probe;
pub mod quotas;
pub mod rebuild;
pub mod rebuild_scope;
pub mod rekey;
pub mod retention;
pub mod schedule;
pub mod sessions;
pub mod spread;
mod state;
pub mod summary;
pub mod tasks;
mod timetable;
pub mod tokens;
mod turns;
pub mod update_center;
pub mod usage_lookup;
pub mod usage_lookups;

pub use state::Jobs;
pub use timetable::{start, stop};
