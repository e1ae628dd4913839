//! The scheduled runs of jobs that were begun: each at most once, whatever the clock does meanwhile.

use super::sql::Statement;
use super::{Error, Result, Store};
use crate::time::{DAY, Millis};

/// How long a run is remembered, in milliseconds.
const KEPT_MS: Millis = 30 * DAY;

/// Records that this instance begins the run of `job` for this scheduled time; returns false when it was
/// already begun.
pub async fn claim(
    store: &Store,
    job: &str,
    scheduled_for: Millis,
    now: Millis,
    owner: &str,
) -> Result<bool> {
    let forget = Statement::new("DELETE FROM job_runs WHERE started_at < ?", vec![(now - KEPT_MS).into()]);
    let begin = Statement::new(
        "INSERT INTO job_runs (job, scheduled_for, started_at, owner) VALUES (?, ?, ?, ?)",
        vec![job.into(), scheduled_for.into(), now.into(), owner.into()],
    );
    match store.batch(vec![forget, begin]).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether any instance began the run for this scheduled time.
pub async fn is_begun(store: &Store, job: &str, scheduled_for: Millis) -> Result<bool> {
    let sql = "SELECT 1 FROM job_runs WHERE job = ? AND scheduled_for = ?";
    Ok(!store.query(sql, vec![job.into(), scheduled_for.into()]).await?.is_empty())
}

/// Whether this instance began the run for this scheduled time.
pub async fn is_begun_by(store: &Store, job: &str, scheduled_for: Millis, owner: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM job_runs WHERE job = ? AND scheduled_for = ? AND owner = ?";
    Ok(!store.query(sql, vec![job.into(), scheduled_for.into(), owner.into()]).await?.is_empty())
}
