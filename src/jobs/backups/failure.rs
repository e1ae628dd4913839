//! Tells the operator that a scheduled backup failed.

use crate::jobs::Jobs;
use crate::store::events::{self, EventLevel, NewEvent};

/// Stores the event of a failed backup, and sends it as a notice.
pub(super) async fn tell(jobs: &Jobs, title: &str, error: &str) {
    let event = NewEvent {
        kind: "status",
        title: title.to_owned(),
        message: Some(error.to_owned()),
        level: EventLevel::Error,
        related_id: None,
        related_type: Some("settings"),
    };
    jobs.core.notifier.send((&event).into());
    if let Err(error) = events::insert(&jobs.core.store, event).await {
        log::warn!("the event of a failed backup could not be stored: {error}");
    }
}
