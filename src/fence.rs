//! The lease that a piece of work is done under, carried along with it.
//!
//! Where several instances share a database, a job is done by the one that holds its lease. What the job does need not
//! be handed the lease: the store refuses its changes, in the transaction that would make them, once another instance
//! has it, and what the job has spawned ends with it.
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

/// A lease that is held. Clones are one.
#[derive(Debug, Clone)]
pub struct Fence {
    lease: Arc<Lease>,
}

#[derive(Debug)]
struct Lease {
    job: String,
    owner: String,
    /// Counts up with every change of hands.
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

    /// Ends what is done under the lease: another instance has it, or may have it.
    pub fn lose(&self) {
        self.lease.lost.send_replace(true);
    }

    /// Does `work` under the lease; `None` when that was lost before the end.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut lost = self.lease.lost.subscribe();
        tokio::select! {
            biased;
            _ = lost.wait_for(|lost| *lost) => None,
            value = CURRENT.scope(Some(self.clone()), work) => Some(value),
        }
    }
}

/// The lease that the caller works under.
pub fn current() -> Option<Fence> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// `work` for another task, under the lease of the caller, where there is one; `None` when that was lost.
pub fn inherited<F: Future>(work: F) -> impl Future<Output = Option<F::Output>> {
    let fence = current();
    async move {
        match fence {
            Some(fence) => fence.guard(work).await,
            None => Some(work.await),
        }
    }
}

/// Does `work` under no lease: what it has begun has to be brought to its end, whoever has the job.
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
