//! The limits on load: rate limits for every request, guards of single admin routes, concurrent requests at one upstream
//! site or from one downstream key, concurrent sessions on one channel, the memory for all bodies, and concurrent
//! conversions.
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

pub use bodies::{BodyMemory, BodyOwner, FREE_BODY, HeldMemory, Loan, OutOfBodyMemory};
pub use conversions::{Conversions, Overloaded};
pub use gate::{Gate, Lease, LeaseRules, SlotRefused};
pub use guard::{Bucket, Guards};
pub use leases::SiteLeases;
pub use load::Load;
pub use rate::{IdentityWindows, RateLimiter, RateLimits};
pub use sessions::{SessionLeases, SessionRules};
pub use window::{RateWindow, RetryAfterSeconds, UsageWindow};
