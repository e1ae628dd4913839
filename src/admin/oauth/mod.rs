//! `/api/oauth`: accounts that are connected by a login in a browser.
//!
//! | module | |
//! |---|---|
//! | `providers` | the providers that offer logins, and what they require |
//! | `login` | the start of a login, its state, and the callback address that a person pastes |
//! | `callback` | the browser's return through a reverse proxy |
//! | `connections` | the connections: their list, outbound proxy and deletion |
//! | `view` | a connection as responses show it |
//! | `proxy_choice` | the outbound proxy that a request names |
//! | `import`, `import_forms` | credentials that were exported elsewhere, and their formats |
//! | `quota` | usage limits as providers report them, refreshed by hand |
//! | `route_units` | several accounts that serve as one channel |
//! | `schema` | requests and responses of these routes |

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
