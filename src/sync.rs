//! Locks that survive a panic.
//!
//! A handler's panic becomes a response of 500 and the process goes on, so a lock that was held then must not refuse
//! everybody after it. The data behind these locks is changed in steps that cannot panic half-way: plain values and
//! collections.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, even if an earlier holder of the lock has panicked.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
