//! The lookups of usage under way.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Lookups that may wait.
pub(super) const MAX_WAITING: usize = 512;

/// Sites asked at once.
pub(super) const PARALLEL: usize = 4;

/// The lookups under way; [`Jobs`](super::Jobs) holds one.
pub struct UsageLookup {
    pub(super) waiting: Arc<Semaphore>,
    pub(super) slots: Semaphore,
}

impl Default for UsageLookup {
    fn default() -> Self {
        Self { waiting: Arc::new(Semaphore::new(MAX_WAITING)), slots: Semaphore::new(PARALLEL) }
    }
}
