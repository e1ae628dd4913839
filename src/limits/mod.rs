//! What bounds how much is asked: rate limits for everybody, guards of single admin routes, and how many
//! requests may be at one upstream site at once.
//!
//! Counters in memory, nothing else. The time is an argument, except for leases, which wait for slots.

mod guard;
mod leases;
mod rate;
mod window;

pub use guard::{Bucket, Guards, bucket};
pub use leases::{Lease, LeaseRules, Refused, SiteLeases};
pub use rate::{Identity, RateLimiter, RateLimits};
pub use window::RetryAfterSeconds;
