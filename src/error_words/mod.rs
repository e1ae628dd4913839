//! What upstreams say when they fail, and what it means: every phrase that is looked for in an upstream's words.
//!
//! | file | words about | said by |
//! |---|---|---|
//! | `answers` | models, dialects, limits and troubles, in place of an answer | vendors, hubs, gateways on the way |
//! | `requests` | members and forms of a request | vendors, and hubs that speak their dialects |
//! | `sites` | sessions, users' numbers, bot shields | management APIs: the new-api family, sub2api |
//! | `tokens` | tokens that have run out | vendors whose accounts are connected by a login in a browser |
//! | `check_ins` | daily check-ins | management APIs of the new-api family |
//!
//! A list has a name and one reader, which says what the words mean; what follows from that is decided elsewhere.
//! The phrases were taken from the vendors' error references and SDKs, from the sources of the common hubs, and
//! from what sites were seen to answer. Upstreams reword them without notice: a phrase is only ever a hint.
//!
//! Codes are not words: what `error.code` and `error.type` mean is in [`routing::failure`](crate::routing::failure).
//!
//! [`ErrorText`] asks the words of an answer, without those that the client wrote ([`echo`]).

mod answers;
pub mod check_ins;
pub mod echo;
pub mod requests;
pub mod sites;
pub mod tokens;

pub use answers::{ErrorText, denies_model};

fn has(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}
