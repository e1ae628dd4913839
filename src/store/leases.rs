//! Who runs a job, where several instances share a database: one holds its lease, and the others look again later.

use super::sql::{SqlDialect, Statement, Value};
use super::{Error, Result, Store};
use crate::time::Millis;

/// Takes or keeps the lease of a job for this long; false while another instance has it. By the clock of the database,
/// which is the same for all. The lease is free for the taking when its time is over, and its number then counts up.
pub async fn hold(store: &Store, job: &str, owner: &str, for_ms: Millis) -> Result<bool> {
    let now = match store.database().dialect() {
        SqlDialect::Sqlite => return Ok(true),
        SqlDialect::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        SqlDialect::Mysql => "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    };
    let take = Statement::new(
        format!(
            "UPDATE job_leases SET token = CASE WHEN owner = ? THEN token ELSE token + 1 END, owner = ?, \
             expires_at = {now} + ? WHERE job = ? AND (owner = ? OR expires_at < {now})"
        ),
        vec![owner.into(), owner.into(), for_ms.into(), job.into(), owner.into()],
    );
    match store.batch(vec![take.must_change()]).await {
        Ok(_) => return Ok(true),
        Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    let begin = Statement::new(
        format!("INSERT INTO job_leases (job, owner, token, expires_at) VALUES (?, ?, 1, {now} + ?)"),
        vec![job.into(), owner.into(), for_ms.into()],
    );
    match store.batch(vec![begin]).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives every lease of this instance back, so that nobody waits for their end.
pub async fn give_back(store: &Store, owner: &str) -> Result<()> {
    let delete = Statement::new("DELETE FROM job_leases WHERE owner = ?", vec![Value::from(owner)]);
    store.batch(vec![delete]).await.map(drop)
}
