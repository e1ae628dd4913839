//! The batches that are being booked right now: results are long, and must not be read again for each poll.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::ids::BatchId;
use crate::sync::lock;

/// The batches being booked, by their rows.
#[derive(Clone, Default)]
pub struct BatchLocks(Arc<Mutex<HashSet<BatchId>>>);

/// The turn to book one batch; given back when dropped.
pub(in crate::proxy) struct BatchLock {
    turns: BatchLocks,
    batch: BatchId,
}

impl BatchLocks {
    /// Takes the turn; `None` while another task has it.
    pub(in crate::proxy) fn begin(&self, batch: BatchId) -> Option<BatchLock> {
        lock(&self.0).insert(batch).then(|| BatchLock { turns: self.clone(), batch })
    }
}

impl Drop for BatchLock {
    fn drop(&mut self) {
        lock(&self.turns.0).remove(&self.batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_booked_by_one_at_a_time() {
        let turns = BatchLocks::default();
        let one = turns.begin(BatchId::new(1));
        assert!(
            one.is_some() && turns.begin(BatchId::new(1)).is_none() && turns.begin(BatchId::new(2)).is_some()
        );
        drop(one);
        assert!(turns.begin(BatchId::new(1)).is_some());
    }
}
