//! What bounds how much a caller may ask: the guards of single admin routes.
//!
//! Pure: counters in memory, with the time as an argument.

mod guard;

pub use guard::{Bucket, Guards, RetryAfterSeconds, bucket};
