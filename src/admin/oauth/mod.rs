//! `/api/oauth`: accounts that are connected by a login in a browser.
//!
//! | file | |
//! |---|---|
//! | `providers` | who lets accounts in, and what that needs |
//! | `login` | the start of a login, how far it is, and what a person pastes |
//! | `callback` | the browser comes back through a reverse proxy |
//! | `connections` | the connections; their outbound proxy; their end |
//! | `view` | a connection as answers show it |
//! | `proxy_choice` | the outbound proxy that a request names |
//! | `import`, `import_forms` | credentials that were exported elsewhere, and their forms |
//! | `quota` | what providers say of usage limits, asked for by hand |
//! | `route_units` | several accounts that serve as one channel |

pub mod callback;
pub mod connections;
pub mod import;
mod import_forms;
pub mod login;
pub mod providers;
mod proxy_choice;
pub mod quota;
pub mod route_units;
pub mod schema;
mod view;
