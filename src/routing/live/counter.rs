//! A sum that is stored in increments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sum, and the part of it that is not stored yet.
#[derive(Debug, Default)]
pub(super) struct Counter {
    total: AtomicU64,
    unsaved: AtomicU64,
}

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.total.fetch_add(more, Relaxed);
        self.unsaved.fetch_add(more, Relaxed);
    }

    /// Returns the sum, stored or not.
    pub(super) fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns what has to be stored now, and marks it as stored.
    pub(super) fn take(&self) -> u64 {
        self.unsaved.swap(0, Relaxed)
    }

    /// Takes over the stored sum, and drops what is not stored.
    pub(super) fn restore(&self, stored: u64) {
        self.total.store(stored, Relaxed);
        self.unsaved.store(0, Relaxed);
    }
}
