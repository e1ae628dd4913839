//! `/api/oauth`: accounts that are connected by a login in a browser.
//!
//! | file | |
//! |---|---|
//! | `connections` | the connections; their outbound proxy; their end |
//! | `view` | a connection as answers show it |
//! | `proxy_choice` | the outbound proxy that a request names |
//! | `quota` | what providers say of usage limits, asked for by hand |

pub mod connections;
mod proxy_choice;
pub mod quota;
mod view;
