//! All phrases that are looked for in an upstream's words when it fails, and what they mean.
//!
//! | file | words about | said by |
//! |---|---|---|
//! | `answers` | models, dialects, limits and troubles, in place of an answer | vendors, hubs, gateways between |
//! | `requests` | members and forms of a request | vendors, and hubs that speak their dialects |
//! | `sites` | sessions, users' numbers, bot shields | management APIs: the new-api family, sub2api |
//! | `tokens` | tokens that have run out | vendors whose accounts are connected by a login in a browser |
//! | `check_ins` | daily check-ins | management APIs of the new-api family |
//!
//! Each list of phrases has a name and one reader, which says what the phrases mean; what follows from that is
//! decided elsewhere. The phrases come from the vendors' error references and SDKs, from the sources of the common
//! hubs, and from answers of sites. Upstreams reword them without notice: a phrase is never more than a hint.
//!
//! Codes are not words: the meaning of `error.code` and `error.type` is in
//! [`routing::failure`](crate::routing::failure).
//!
//! [`ErrorText`] looks for the phrases in an answer, but not in words that the client wrote ([`echo`]).

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
