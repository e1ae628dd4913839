//! Accounts that are connected by a login in a browser.
//!
//! ```text
//! start ─▶ a session waits ─▶ the browser comes back ─▶ exchange, project, models ─▶ account, models, routes
//! ```
//!
//! | file | |
//! |---|---|
//! | `activation` | turns a grant into an account that serves, or changes nothing |
//! | `candidate` | a grant that is to become an account, and the account that it has become |
//! | `callback` | the answer of a provider, from a browser or pasted by a person |
//! | `discovery` | the models that a connected account reaches |
//! | `listener` | the listeners that browsers come back to while a login waits |
//! | `login`, `completion` | the start of a login, and its end |
//! | `logins`, `login_sessions`, `callback_ports` | the state of logins: those between start and end, the ports that are open |
//! | `pages` | the page that the browser shows at the end |
//! | `provider_client` | an account's client at its provider |
//! | `quota` | the usage limits that a provider reports |
//! | `renewal` | renews tokens before they run out, and when an upstream refuses one |
//! | `renewals` | failed renewals, and how long their providers are left alone |
//! | `shared_logins` | logins that any of several instances can continue |
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
