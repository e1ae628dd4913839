//! Which times of which schedules were served: each at most once, whatever the clock does meanwhile.

use super::sql::Statement;
use super::{Error, Result, Store};
use crate::time::Millis;

/// How long a run is remembered.
const KEPT_MS: Millis = 30 * 86_400_000;

/// Notes that the run of `job` for this time of its schedule begins; false when it was begun before.
pub async fn claim(store: &Store, job: &str, scheduled_for: Millis, now: Millis) -> Result<bool> {
    let forget = Statement::new("DELETE FROM job_runs WHERE started_at < ?", vec![(now - KEPT_MS).into()]);
    let begin = Statement::new(
        "INSERT INTO job_runs (job, scheduled_for, started_at) VALUES (?, ?, ?)",
        vec![job.into(), scheduled_for.into(), now.into()],
    );
    match store.batch(vec![forget, begin]).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
