//! Daily check-ins.
//!
//! ```text
//! account       one account: ask, once more with a new session, say what the answer means, store it all
//! all::run_all  every account that wants it: sites at once, the accounts of a site one after the other
//! all::run_due  the same for those whose interval has passed
//! ```
//!
//! However a check-in is asked for, the accounts of one site take turns. Its log row, the account's health
//! and the event are one transaction. What a site has given is not given again: the service does not stop
//! before check-ins under way are stored, and begins none meanwhile.

mod account;
pub mod all;
pub mod runs;
pub mod verdict;

pub use account::{Trigger, check_in, is_interval};
