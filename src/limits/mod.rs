//! What bounds how much is asked: rate limits for everybody, guards of single admin routes, how many requests may be at
//! one upstream site at once, or come from one downstream key, and how many sessions on one channel; how much memory
//! all bodies take, and how much is converted at once.
//!
//! Counters in memory, nothing else. The time is an argument, except for leases, bodies and conversions, which wait.

mod bodies;
mod conversions;
mod gate;
mod guard;
mod leases;
mod load;
mod rate;
mod sessions;
mod window;

pub use bodies::{BodyMemory, BodyOwner, FREE_BODY, HeldMemory, Loan, NoRoom};
pub use conversions::{Conversions, Overloaded};
pub use gate::{Gate, Lease, LeaseRules, SlotRefused};
pub use guard::{Bucket, Guards, bucket};
pub use leases::SiteLeases;
pub use rate::{IdentityWindows, RateLimiter, RateLimits};
pub use sessions::{SessionLeases, SessionRules};
pub use window::{RateWindow, RetryAfterSeconds};
