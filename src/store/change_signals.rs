//! Notifications of changes by other instances, from a database that sends them by itself.

use tokio::sync::Notify;

/// The signals between the listening thread and the open database: notifications, and the end of listening.
#[derive(Debug, Default)]
pub(super) struct ChangeSignals {
    changed: Notify,
    ended: Notify,
}

impl ChangeSignals {
    /// Signals that other instances may have changed something.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no database of this build signals"))]
    pub(super) fn signal_change(&self) {
        self.changed.notify_one();
    }

    /// Waits for the next notification; one that came before counts.
    pub(super) async fn next(&self) {
        self.changed.notified().await;
    }

    /// Makes the listener stop.
    pub(super) fn end(&self) {
        self.ended.notify_one();
    }

    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no database of this build signals"))]
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}
