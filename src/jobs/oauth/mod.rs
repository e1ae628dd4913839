//! Accounts that are connected by a login in a browser.
//!
//! ```text
//! start ─▶ a session waits ─▶ the browser comes back ─▶ exchange, project, models ─▶ account, models, routes
//! ```
//!
//! | file | |
//! |---|---|
//! | `activation` | a grant becomes an account that serves, or nothing changes |
//! | `candidate` | what is to become an account, and what it has become |
//! | `callback` | what a browser brings back, or a person pastes |
//! | `discovery` | the models that a connected account reaches |
//! | `listener` | where browsers come back to while a login waits |
//! | `login`, `completion` | the start of a login, and its end |
//! | `logins`, `login_sessions`, `callback_ports` | what logins keep: those between start and end, the ports that are open |
//! | `pages` | what the browser shows at the end |
//! | `provider_client` | an account's client at its provider |
//! | `quota` | what a provider says of usage limits |
//! | `renewal` | tokens are renewed before they run out, and when an upstream refuses one |
//! | `renewals` | providers that failed to renew, and for how long they are left alone |
//! | `shared_logins` | logins that any of several instances may be asked of |
//! | `site` | the site that a provider's accounts belong to |

pub mod activation;
pub mod callback;
mod callback_ports;
mod candidate;
pub mod completion;
pub mod discovery;
pub mod listener;
pub mod login;
pub mod login_sessions;
pub mod logins;
pub mod pages;
pub mod provider_client;
pub mod quota;
pub mod renewal;
pub mod renewals;
mod shared_logins;
mod site;
