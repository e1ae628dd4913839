//! What bounds how much a caller may ask: rate limits for everybody, guards of single admin routes.
//!
//! Pure: counters in memory, with the time as an argument.

mod guard;
mod rate;
mod window;

pub use guard::{Bucket, Guards, bucket};
pub use rate::{Identity, RateLimiter, RateLimits};
pub use window::RetryAfterSeconds;
