//! Word that others have changed something, from a database that tells of it by itself.

use tokio::sync::Notify;

/// Where the one who listens leaves word.
#[derive(Debug, Default)]
pub(super) struct News {
    told: Notify,
    over: Notify,
}

impl News {
    /// Others may have changed something.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no database of this build tells"))]
    pub(super) fn tell(&self) {
        self.told.notify_one();
    }

    /// Waits for the next word; one that came before counts.
    pub(super) async fn next(&self) {
        self.told.notified().await;
    }

    /// Has the one who listens stop.
    pub(super) fn end(&self) {
        self.over.notify_one();
    }

    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no database of this build tells"))]
    pub(super) async fn ended(&self) {
        self.over.notified().await;
    }
}
