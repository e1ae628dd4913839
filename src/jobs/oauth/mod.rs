//! Accounts that are connected by a login in a browser.
//!
//! | file | |
//! |---|---|
//! | `provider_client` | an account's client at its provider |
//! | `quota` | what a provider says of usage limits |
//! | `renewal` | tokens are renewed before they run out, and when an upstream refuses one |
//! | `renewals` | providers that failed to renew, and for how long they are left alone |

pub mod provider_client;
pub mod quota;
pub mod renewal;
pub mod renewals;
