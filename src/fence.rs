//! The lease under which a piece of work is done, passed along with the work.
//!
//! When several instances share a database, a job is done by the instance that holds its lease. The job's code need not
//! pass the lease on: once another instance has it, the store refuses the job's changes within their transaction, and
//! work that the job has spawned ends.
//!
//! ```text
//! a pass of a job ── guard ──▶ its changes, and what it spawns ── lose ──▶ dropped where they next wait
//! ```

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;

tokio::task_local! {
    static CURRENT: Option<Fence>;
}

/// A held lease. Clones share the same lease.
#[derive(Debug, Clone)]
pub struct Fence {
    lease: Arc<Lease>,
}

#[derive(Debug)]
struct Lease {
    job: String,
    owner: String,
    /// Increases each time the lease changes hands.
    token: i64,
    lost: watch::Sender<bool>,
}

// === impl Fence ===

impl Fence {
    pub fn new(job: &str, owner: &str, token: i64) -> Self {
        let lost = watch::Sender::new(false);
        Self { lease: Arc::new(Lease { job: job.to_owned(), owner: owner.to_owned(), token, lost }) }
    }

    pub fn job(&self) -> &str {
        &self.lease.job
    }

    pub fn owner(&self) -> &str {
        &self.lease.owner
    }

    pub fn token(&self) -> i64 {
        self.lease.token
    }

    /// Ends the work under the lease, because another instance has it or may have it.
    pub fn lose(&self) {
        self.lease.lost.send_replace(true);
    }

    /// Runs `work` under the lease; returns `None` if the lease is lost before the end.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut lost = self.lease.lost.subscribe();
        tokio::select! {
            biased;
            _ = lost.wait_for(|lost| *lost) => None,
            value = CURRENT.scope(Some(self.clone()), work) => Some(value),
        }
    }
}

/// Returns the lease that the caller works under, if any.
pub fn current() -> Option<Fence> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Wraps `work` for another task, to run under the caller's lease if there is one; gives `None` if that is lost.
pub fn inherited<F: Future>(work: F) -> impl Future<Output = Option<F::Output>> {
    let fence = current();
    async move {
        match fence {
            Some(fence) => fence.guard(work).await,
            None => Some(work.await),
        }
    }
}

/// Runs `work` without a lease, because it must be completed whichever instance has the job.
pub async fn outside<T>(work: impl Future<Output = T>) -> T {
    CURRENT.scope(None, work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_spawned_is_under_the_lease_and_ends_with_it() {
        assert!(current().is_none());
        let fence = Fence::new("job", "me", 7);
        let spawned = fence.guard(async {
            assert!(outside(async { current().is_none() }).await);
            let endless = inherited(async {
                assert_eq!(current().map(|fence| fence.token()), Some(7));
                std::future::pending::<()>().await;
            });
            [tokio::spawn(endless)]
        });
        let [spawned] = spawned.await.expect("the lease is held");
        tokio::task::yield_now().await;
        fence.lose();
        assert_eq!(spawned.await.expect("no panic"), None);
        assert_eq!(fence.guard(async { 1 }).await, None, "nothing begins under a lost lease");
        assert_eq!(inherited(async { 2 }).await, Some(2));
    }
}
