//! Deletes old rows and old files.
//!
//! Two ways exclude each other: while no setting of the log cleanup is saved, log rows older than
//! PROXY_LOG_RETENTION_DAYS are deleted at start and every PROXY_LOG_RETENTION_PRUNE_INTERVAL_MINUTES. Once one is
//! saved, the operator's schedule takes over: there, usage means the log of requests, and program means the events and
//! check-ins. Each transaction deletes one chunk, so that the writer is never held up.
//!
//! Files older than PROXY_FILE_RETENTION_DAYS are deleted at start and every
//! PROXY_FILE_RETENTION_PRUNE_INTERVAL_MINUTES, together with what unfinished uploads left. Ids of videos are kept for
//! PROXY_VIDEO_TASK_RETENTION_DAYS; those of answers that upstreams store, and of batches, for as long as OpenAI stores
//! answers. Sums of usage by the hour are kept for a week, those by the day for ever.

use crate::settings::LogCleanup;
use crate::store::uploads::Uploads;
use crate::store::{self, Store, batches, debug_traces, events, files, proxy_logs, responses, stats, videos};
use crate::time::{DAY, HOUR, Millis};

/// How long OpenAI stores an answer, in milliseconds ("Data controls in the OpenAI platform": 30 days).
const STORED_FOR_MS: Millis = 30 * DAY;
/// How long sums of hours are kept, in milliseconds. Statistics show the last 24 hours; the rest is for clocks set back.
const USAGE_HOURS_FOR_MS: Millis = 7 * DAY;

/// Deletes the log rows that are older than the retention, unless a schedule has taken over. Returns how many were
/// deleted.
pub async fn prune_proxy_logs(store: &Store, cleanup: &LogCleanup, now: Millis) -> store::Result<u64> {
    match cleanup {
        LogCleanup::Retention { days } => prune(store, *days, now).await,
        LogCleanup::Scheduled { .. } => Ok(0),
    }
}

/// The numbers of rows that a scheduled log cleanup deleted.
pub struct Cleaned {
    pub log_rows: u64,
    pub events: u64,
}

/// Does the scheduled log cleanup; returns `None` where no schedule is saved.
pub async fn clean(store: &Store, cleanup: &LogCleanup, now: Millis) -> store::Result<Option<Cleaned>> {
    let LogCleanup::Scheduled { usage, program, days, .. } = cleanup else { return Ok(None) };
    let log_rows = if *usage { prune(store, *days, now).await? } else { 0 };
    let events = match cutoff(*days, now) {
        Some(cutoff) if *program => events::prune(store, cutoff).await?,
        _ => 0,
    };
    Ok(Some(Cleaned { log_rows, events }))
}

/// The numbers of what a pass over the stored files deleted.
pub struct PrunedFiles {
    pub files: u64,
    pub unfinished_uploads: u64,
}

/// Deletes debug traces older than this many hours, and the oldest when all take too much room.
pub async fn prune_debug_traces(store: &Store, hours: u64, now: Millis) -> store::Result<u64> {
    let age = Millis::try_from(hours).unwrap_or(Millis::MAX).saturating_mul(HOUR);
    debug_traces::prune(store, now.saturating_sub(age)).await
}

async fn prune(store: &Store, days: u32, now: Millis) -> store::Result<u64> {
    match cutoff(days, now) {
        Some(cutoff) => proxy_logs::prune(store, cutoff).await,
        None => Ok(0),
    }
}

/// Deletes files older than this many days, hidden ones too, and chunks that belong to no file: chunks from before the
/// service `started` belong to no upload that still runs.
pub async fn prune_files(
    store: &Store,
    uploads: &Uploads,
    days: u32,
    started: Millis,
    now: Millis,
) -> store::Result<PrunedFiles> {
    let files = match cutoff(days, now) {
        Some(cutoff) => files::prune(store, cutoff).await?,
        None => 0,
    };
    let unfinished_uploads = files::sweep(store, uploads, started.max(now - DAY)).await?;
    Ok(PrunedFiles { files, unfinished_uploads })
}

/// Deletes ids of videos older than this many days. Returns how many were deleted.
pub async fn prune_videos(store: &Store, days: u32, now: Millis) -> store::Result<u64> {
    match cutoff(days, now) {
        Some(cutoff) => videos::prune(store, cutoff).await,
        None => Ok(0),
    }
}

/// Deletes ids of answers and batches that no upstream has any more. Returns how many were deleted.
pub async fn prune_responses(store: &Store, now: Millis) -> store::Result<u64> {
    let cutoff = now - STORED_FOR_MS;
    Ok(responses::prune(store, cutoff).await? + batches::prune(store, cutoff).await?)
}

/// Deletes the sums of hours that no statistics show any more; those of days stay. Returns how many were deleted.
pub async fn prune_usage_hours(store: &Store, now: Millis) -> store::Result<u64> {
    stats::prune_hours(store, now - USAGE_HOURS_FOR_MS).await
}

/// Returns the time before which rows are deleted; `None` for 0 days, which keep all.
fn cutoff(days: u32, now: Millis) -> Option<Millis> {
    (days > 0).then(|| now - Millis::from(days) * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_days_keep_everything() {
        assert_eq!(cutoff(0, 10 * DAY), None);
        assert_eq!(cutoff(3, 10 * DAY), Some(7 * DAY));
    }
}
