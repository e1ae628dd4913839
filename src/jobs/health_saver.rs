//! Whether the health of sites is to be saved.

use std::sync::atomic::AtomicI64;

use tokio::sync::Notify;

/// Who waits for changes that matter.
#[derive(Debug, Default)]
pub struct Saver {
    pub(super) changed: Notify,
    pub(super) saved_at: AtomicI64,
}

impl Saver {
    /// Something changed that a restart should not forget.
    pub fn nudge(&self) {
        self.changed.notify_one();
    }
}
