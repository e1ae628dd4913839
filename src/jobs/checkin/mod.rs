//! Daily check-ins.
//!
//! ```text
//! account       one account: ask, once more with a new session, interpret the answer, store the outcome
//! all::run_all  every account that has check-ins switched on: sites in parallel, the accounts of a site in turn
//! all::run_due  the same for the accounts whose interval has passed
//! ```
//!
//! However a check-in is asked for, the accounts of one site take turns. A log row and its event are stored in one
//! transaction. A site gives a reward only once, so when the service stops it begins no further check-in and waits
//! until those under way are stored.

mod account;
pub mod all;
pub mod runs;
pub mod verdict;

pub use account::{Trigger, check_in, is_interval};
