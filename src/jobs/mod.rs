//! The background work of the service, and what follows after an operator's request has been answered.
//!
//! | module | what it is for |
//! |---|---|
//! | `state`, `timetable` | what jobs keep between runs; when each job runs, and the start and stop of all |
//! | `schedule`, `tasks` | repeats each job without overlap; long operations that an operator starts and looks up by id |
//! | `concurrency` | work on many accounts, limited in total and per site |
//! | `pace` | pauses in work that keeps the processor busy |
//! | `run_status` | how work on one account ended |
//! | `sessions` | the client of a stored account at its site, with or without a session; the renewal of sessions |
//! | `oauth` | accounts that are connected by a login in a browser |
//! | `rotated_token` | stores a token that is issued only once |
//! | `other_instances` | follows the changes of other instances on the same database |
//! | `leadership` | which instance does the work for all |
//! | `accounts` | the setup after a new credential; the health of an account from its site's answers; a check of all accounts |
//! | `models` | the models of one account, of all accounts, and after a change of tokens; the results for callers |
//! | `rebuild`, `rebuild_scope`, `rebuild_rows` | the routes and channels that follow from the models |
//! | `tokens` | the tokens of one account, synced with the list of its site |
//! | `balances` | the balances of accounts; the alert when one runs low; what accounts earned in a day |
//! | `checkin` | daily check-ins |
//! | `announcements` | the announcements of sites |
//! | `summary` | the daily summary notice |
//! | `backups` | files in a directory, and a file on a WebDAV server |
//! | `probe` | which models are really served, and which cooling channels answer again |
//! | `prices`, `price_lists` | price lists, read before requests need them; the lists that were read |
//! | `usage_lookup`, `late_prices` | exact usage from a site's own log; prices that are read after a request has ended |
//! | `lookup_queue`, `booked_lines` | the look-ups under way, and the lines of sites' logs that were booked |
//! | `late_usage` | books corrections to requests that are already settled |
//! | `update_center` | whether a newer version than the running one is available |
//! | `rekey` | replaces the keys that seal credentials and find them again |
//! | `health`, `health_saver` | saves the health of sites |
//! | `quotas` | returns unused reservations of downstream keys |
//! | `retention` | deletes old rows and files |

pub mod accounts;
pub mod announcements;
pub mod backups;
pub mod balances;
mod booked_lines;
pub mod checkin;
pub mod concurrency;
pub mod health;
pub mod health_saver;
pub mod late_prices;
pub mod late_usage;
mod leadership;
pub mod lookup_queue;
pub mod models;
pub mod oauth;
mod other_instances;
mod pace;
pub mod price_lists;
pub mod prices;
pub mod probe;
pub mod quotas;
pub mod rebuild;
pub mod rebuild_rows;
pub mod rebuild_scope;
pub mod rekey;
pub mod retention;
mod rotated_token;
pub mod run_status;
pub mod schedule;
pub mod sessions;
mod state;
pub mod summary;
pub mod tasks;
mod timetable;
pub mod tokens;
pub mod update_center;
pub mod usage_lookup;

pub use state::Jobs;
pub use timetable::{finish, start, stop};
