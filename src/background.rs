//! Owns background work: it is stopped with the process, and a panic in it is only logged.
//!
//! Work that must outlive its caller (a task of an operator, a model refresh that a request no longer waits for) is
//! spawned on the process's one [`Background`]. When the service stops, unfinished work is dropped: everything run here
//! commits in transactions, so dropping it at an await loses at most the step it was in. Only work that is carried
//! through for a caller is waited for first, as requests are: an upstream may have accepted something that is not
//! stored yet. Work that a job has spawned is also dropped once another instance has the job ([`fence`]).

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::fence;
use crate::sync::lock;

/// All detached background work of the process.
pub struct Background {
    /// The running tasks; `None` once stopped, when further work is refused.
    running: Mutex<Option<JoinSet<()>>>,
    /// The number of pieces of work that are carried through for a caller.
    carried: Arc<watch::Sender<usize>>,
}

/// Why a piece of work gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incomplete {
    /// The work panicked, with this message.
    Panicked(String),
    /// The service is stopping.
    Stopping,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => out.write_str(message),
            Self::Stopping => out.write_str("the service is stopping"),
        }
    }
}

/// A guard that counts a piece of carried-through work until it has ended or is dropped.
struct CompletionGuard(Arc<watch::Sender<usize>>);

impl Default for Background {
    /// Creates an empty set. It needs no runtime until the first [`Background::spawn`].
    fn default() -> Self {
        Self { running: Mutex::new(Some(JoinSet::new())), carried: Arc::default() }
    }
}

/// Work that has not begun. Boxed, or each future around it would have room for it.
pub type BoxedWork<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Background {
    /// Runs `work` in the background until it ends or the process stops. Returns false if the process is already
    /// stopping; `work` is then dropped unrun.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> bool {
        self.spawn_boxed(name, Box::pin(work))
    }

    /// Spawns work behind one type: tasks that [`Background::spawn`] made itself would have a type for each of a
    /// hundred kinds of work, and the runtime's code would be compiled as often.
    fn spawn_boxed(&self, name: &'static str, work: BoxedWork<()>) -> bool {
        let mut running = lock(&self.running);
        let Some(running) = running.as_mut() else { return false };
        while running.try_join_next().is_some() {}
        // Work that a job has spawned is a part of the job.
        let work = fence::inherited(work);
        running.spawn(async move {
            if let Err(panic) = catch_panic(work).await {
                log::error!("{name} panicked: {panic}");
            }
        });
        true
    }

    /// Runs `work` to its end, even if its caller goes away.
    ///
    /// # Errors
    /// When it panics, or the service stops before its end.
    pub async fn run_to_completion<T: Send + 'static>(
        &self,
        name: &'static str,
        work: BoxedWork<T>,
    ) -> Result<T, Incomplete> {
        let (done, ended) = oneshot::channel();
        let carried = CompletionGuard::begin(&self.carried);
        self.spawn(name, async move {
            // The caller may be gone.
            drop(done.send(catch_panic(work).await));
            drop(carried);
        });
        ended.await.map_err(|_| Incomplete::Stopping)?.map_err(Incomplete::Panicked)
    }

    /// Waits until no work is being carried through for a caller.
    pub async fn all_completed(&self) {
        // The sender lives as long as this.
        drop(self.carried.subscribe().wait_for(|count| *count == 0).await);
    }

    /// Drops all unfinished work and refuses new work. Returns after the last piece is gone.
    pub async fn stop(&self) {
        let running = lock(&self.running).take();
        if let Some(mut running) = running {
            running.shutdown().await;
        }
    }
}

// === impl CompletionGuard ===

impl CompletionGuard {
    fn begin(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Runs `work` and turns a panic in it into an error that carries the panic's message.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    poll_fn(move |context| {
        // Nothing of `work` is looked at again after a panic, so its broken state is never seen.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic_message(panic.as_ref()))),
        }
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct SetOnDrop(Arc<AtomicBool>);

    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn a_panic_is_contained_with_its_message() {
        assert_eq!(catch_panic(async { 7 }).await, Ok(7));
        let text: Result<(), _> = catch_panic(async { panic!("lost {}", 3) }).await;
        assert_eq!(text, Err("lost 3".to_owned()));
    }

    #[tokio::test]
    async fn work_is_carried_through_although_nobody_waits_for_it() {
        let background = Background::default();
        assert_eq!(background.run_to_completion("seven", Box::pin(async { 7 })).await, Ok(7));
        assert_eq!(
            background.run_to_completion("lost", Box::pin(async { panic!("lost") })).await,
            Err::<(), _>(Incomplete::Panicked("lost".to_owned()))
        );
        let (go, wait) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let change = async move {
            wait.await.ok();
            done.send(8).ok();
        };
        let waiting = background.run_to_completion("a change", Box::pin(change));
        assert!(tokio::time::timeout(std::time::Duration::ZERO, waiting).await.is_err());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, background.all_completed()).await.is_err());
        go.send(()).expect("the work goes on");
        assert_eq!(ended.await, Ok(8));
        background.all_completed().await;
        background.stop().await;
        assert_eq!(background.run_to_completion("late", Box::pin(async {})).await, Err(Incomplete::Stopping));
    }

    #[tokio::test]
    async fn stopping_drops_what_still_runs_and_refuses_more() {
        let background = Background::default();
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = SetOnDrop(dropped.clone());
        let (running, started) = oneshot::channel();
        assert!(background.spawn("endless", async move {
            let _guard = guard;
            running.send(()).ok();
            std::future::pending::<()>().await;
        }));
        started.await.expect("the work starts");
        background.stop().await;
        assert!(dropped.load(Ordering::SeqCst));
        assert!(!background.spawn("late", async {}));
    }
}
