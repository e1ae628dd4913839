//! Signals that the health of sites is to be saved.

use std::sync::atomic::AtomicI64;

use tokio::sync::Notify;

/// The signal that health has changed, and the time of the last save.
#[derive(Debug, Default)]
pub struct Saver {
    pub(super) changed: Notify,
    pub(super) saved_at: AtomicI64,
}

impl Saver {
    /// Reports a change that a restart should not forget.
    pub fn nudge(&self) {
        self.changed.notify_one();
    }
}
