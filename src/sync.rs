//! Locks that survive a panic, and flags for changes that wait to be stored.
//!
//! A handler's panic becomes a response of 500 and the process goes on, so a lock that was held then must not refuse
//! everybody after it. The data behind these locks is changed in steps that cannot panic half-way: plain values and
//! collections.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, even if an earlier holder of the lock has panicked.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether values were changed since a writer took them. Who changes them raises the flag afterwards, and tells the writer
/// if it was lowered; the writer lowers it, then reads. Both swap, so that a writer who lowers the flag sees every change
/// before it was raised.
#[derive(Debug, Default)]
pub struct DirtyFlag(AtomicBool);

/// Whether a change raised a flag that was lowered: then the writer is to be told.
#[must_use = "hand it to `Telemetry`"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewlyDirty(pub bool);

impl DirtyFlag {
    /// Raises the flag.
    pub fn raise(&self) -> NewlyDirty {
        NewlyDirty(!self.0.swap(true, AcqRel))
    }

    /// Lowers the flag; returns whether it was raised.
    pub fn lower(&self) -> bool {
        self.0.swap(false, AcqRel)
    }
}
