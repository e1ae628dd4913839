//! Leases: where several instances share a database, only the holder of a job's lease does the job.
//!
//! ```text
//! take ─▶ (owner, token) for a while ─▶ keep, keep … ─▶ release
//!            └ expired: the next owner to take it increments the token ─▶ changes under the former token are refused
//! ```
//!
//! All times are those of the database's clock. A change under a lease ([`fence`]) checks the lease's row in its own
//! transaction and locks it until the commit. So the lease changes hands either before or after the change.

use super::sql::{Statement, Value};
use super::{Error, Result, Store};
use crate::fence::{self, Fence};
use crate::time::Millis;

/// The result of trying to take a lease.
#[derive(Debug)]
pub enum LeaseOutcome {
    /// No other process can use the database, so that no lease is needed.
    Alone,
    Ours(Fence),
    /// Another instance holds it.
    Elsewhere,
}

/// Takes a lease for this many milliseconds, or extends one that is held already.
pub async fn take(store: &Store, job: &str, owner: &str, for_ms: Millis) -> Result<LeaseOutcome> {
    let Some(now) = store.database().dialect().now() else { return Ok(LeaseOutcome::Alone) };
    let take = Statement::new(
        format!(
            "UPDATE job_leases SET token = CASE WHEN owner = ? THEN token ELSE token + 1 END, owner = ?, \
             expires_at = {now} + ? WHERE job = ? AND (owner = ? OR expires_at < {now})"
        ),
        vec![owner.into(), owner.into(), for_ms.into(), job.into(), owner.into()],
    );
    match store.batch(vec![take.must_change()]).await {
        Ok(_) => {}
        Err(Error::NotFound) => {
            let begin = Statement::new(
                format!("INSERT INTO job_leases (job, owner, token, expires_at) VALUES (?, ?, 1, {now} + ?)"),
                vec![job.into(), owner.into(), for_ms.into()],
            );
            match store.batch(vec![begin]).await {
                Ok(_) => {}
                Err(Error::Conflict(_)) => return Ok(LeaseOutcome::Elsewhere),
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    }
    let sql = "SELECT token FROM job_leases WHERE job = ? AND owner = ?";
    let token = store.row(sql, vec![job.into(), owner.into()], |row| row.int()).await?;
    Ok(token.map_or(LeaseOutcome::Elsewhere, |token| LeaseOutcome::Ours(Fence::new(job, owner, token))))
}

/// Extends a lease to this many milliseconds from now; returns false when it is no longer held.
pub async fn keep(store: &Store, fence: &Fence, for_ms: Millis) -> Result<bool> {
    let Some(now) = store.database().dialect().now() else { return Ok(true) };
    let sql =
        format!("UPDATE job_leases SET expires_at = {now} + ? WHERE job = ? AND owner = ? AND token = ?");
    let args = std::iter::once(for_ms.into()).chain(row_of(fence)).collect();
    match store.batch(vec![Statement::new(sql, args).must_change()]).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases a lease. Its row stays, so that its token is never used twice.
pub async fn release(store: &Store, fence: &Fence) -> Result<()> {
    let sql = "UPDATE job_leases SET expires_at = 0 WHERE job = ? AND owner = ? AND token = ?";
    store.batch(vec![Statement::new(sql, row_of(fence).into())]).await.map(drop)
}

/// Releases a lease and deletes its row: for leases under which nothing is changed and which may never be taken
/// again.
pub async fn forget(store: &Store, fence: &Fence) -> Result<()> {
    let sql = "DELETE FROM job_leases WHERE job = ? AND owner = ? AND token = ?";
    store.batch(vec![Statement::new(sql, row_of(fence).into())]).await.map(drop)
}

/// Stores a lease and deletes it in one transaction, which fails as any other change would: for a database that no
/// other process can use.
pub async fn try_out(store: &Store, job: &str, owner: &str) -> Result<()> {
    let begin = Statement::new(
        "INSERT INTO job_leases (job, owner, token, expires_at) VALUES (?, ?, 1, 0)",
        vec![job.into(), owner.into()],
    );
    let end = Statement::new("DELETE FROM job_leases WHERE job = ?", vec![job.into()]);
    store.batch(vec![begin, end]).await.map(drop)
}

/// Releases every lease of this instance, so that nobody has to wait for them to expire.
pub async fn give_back(store: &Store, owner: &str) -> Result<()> {
    let sql = "UPDATE job_leases SET expires_at = 0 WHERE owner = ?";
    store.batch(vec![Statement::new(sql, vec![Value::from(owner)])]).await.map(drop)
}

impl Store {
    /// Runs the statements as one transaction, under the caller's lease if it holds one: when another instance
    /// has that lease, nothing is changed, and the caller's work ends.
    pub(crate) async fn batch(&self, mut statements: Vec<Statement>) -> Result<Vec<super::Outcome>> {
        let Some(fence) = fence::current() else { return self.database().batch(statements).await };
        let count = statements.len();
        statements.push(still_held(&fence));
        match self.database().batch(statements).await {
            Ok(mut outcomes) => {
                outcomes.truncate(count);
                Ok(outcomes)
            }
            Err(Error::NotFound) if !is_held(self, &fence).await? => {
                log::warn!(
                    "a change by the job \"{}\" is refused: another instance holds its lease",
                    fence.job()
                );
                fence.lose();
                Err(Error::Superseded)
            }
            failed => failed,
        }
    }
}

/// Builds the statement that locks the lease's row until the transaction ends, or undoes the transaction when
/// another instance has the lease. It comes last, so that the other statements keep their indexes.
fn still_held(fence: &Fence) -> Statement {
    let sql = "UPDATE job_leases SET expires_at = expires_at WHERE job = ? AND owner = ? AND token = ?";
    Statement::new(sql, row_of(fence).into()).must_change()
}

async fn is_held(store: &Store, fence: &Fence) -> Result<bool> {
    let sql = "SELECT 1 FROM job_leases WHERE job = ? AND owner = ? AND token = ?";
    Ok(!store.query(sql, row_of(fence).into()).await?.is_empty())
}

fn row_of(fence: &Fence) -> [Value; 3] {
    [fence.job().into(), fence.owner().into(), fence.token().into()]
}
