//! The limit on readers of the live log.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of readers at once.
pub(super) const MAX_READERS: usize = 16;

pub struct LiveReaders(Arc<Semaphore>);

impl LiveReaders {
    /// Takes a place, held until it is dropped; `None` if all are taken.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

impl Default for LiveReaders {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_READERS)))
    }
}
