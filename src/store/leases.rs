//! Who does what only one may do at a time, where several instances share a database: one holds its lease.
//!
//! ```text
//! take ─▶ (owner, token) for a while ─▶ keep, keep … ─▶ release
//!            └ time over: who takes it next counts the token up ─▶ changes under the former token are refused
//! ```
//!
//! Time is that of the database, which is the same for all. A change that is made under a lease ([`fence`]) looks at
//! its row in the same transaction and holds it to the end: the lease changes hands before that or after it.

use super::sql::{Statement, Value};
use super::{Error, Result, Store};
use crate::fence::{self, Fence};
use crate::time::Millis;

/// What became of a try to take a lease.
#[derive(Debug)]
pub enum Taken {
    /// No other process works on the database: there is nobody to agree with.
    Alone,
    Ours(Fence),
    /// Another instance has it.
    Elsewhere,
}

/// Takes a lease for this long, or goes on with it.
pub async fn take(store: &Store, job: &str, owner: &str, for_ms: Millis) -> Result<Taken> {
    let Some(now) = store.database().dialect().now() else { return Ok(Taken::Alone) };
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
                Err(Error::Conflict(_)) => return Ok(Taken::Elsewhere),
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    }
    let sql = "SELECT token FROM job_leases WHERE job = ? AND owner = ?";
    let token = store.row(sql, vec![job.into(), owner.into()], |row| row.int()).await?;
    Ok(token.map_or(Taken::Elsewhere, |token| Taken::Ours(Fence::new(job, owner, token))))
}

/// Keeps a lease for this long from now; false when another instance has it.
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

/// Gives a lease back. Its row stays, so that its token is never given twice.
pub async fn release(store: &Store, fence: &Fence) -> Result<()> {
    let sql = "UPDATE job_leases SET expires_at = 0 WHERE job = ? AND owner = ? AND token = ?";
    store.batch(vec![Statement::new(sql, row_of(fence).into())]).await.map(drop)
}

/// Gives a lease back under which no change is made, and which may not be wanted again: with its row.
pub async fn forget(store: &Store, fence: &Fence) -> Result<()> {
    let sql = "DELETE FROM job_leases WHERE job = ? AND owner = ? AND token = ?";
    store.batch(vec![Statement::new(sql, row_of(fence).into())]).await.map(drop)
}

/// Gives every lease of this instance back, so that nobody waits for their end.
pub async fn give_back(store: &Store, owner: &str) -> Result<()> {
    let sql = "UPDATE job_leases SET expires_at = 0 WHERE owner = ?";
    store.batch(vec![Statement::new(sql, vec![Value::from(owner)])]).await.map(drop)
}

impl Store {
    /// Runs the statements as one transaction, under the lease of the caller where it works under one: none of them
    /// holds, and the caller's work ends, when another instance has that lease.
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
                    "a change of the job \"{}\" is refused: another instance has its lease",
                    fence.job()
                );
                fence.lose();
                Err(Error::Superseded)
            }
            failed => failed,
        }
    }
}

/// Locks the row of the lease until the transaction ends, and undoes that when the lease is another's. The last
/// statement, so that others are still counted from the first.
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
