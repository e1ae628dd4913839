//! The usage lookups under way.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::booked_lines::BookedLines;

/// The most lookups that may wait.
pub(super) const MAX_WAITING: usize = 512;

/// The number of lookups that ask their sites at once.
pub(super) const PARALLEL: usize = 4;

/// The lookups under way; [`Jobs`](super::Jobs) holds one.
pub struct LookupQueue {
    pub(super) waiting: Arc<Semaphore>,
    pub(super) slots: Semaphore,
    pub(super) booked: BookedLines,
}

impl Default for LookupQueue {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            slots: Semaphore::new(PARALLEL),
            booked: BookedLines::default(),
        }
    }
}
