//! Ways to share one run of costly work between all its callers.
//!
//! - [`SingleFlight`]: a call during a run gets the result of that run. For reading the outside world, where a run in
//!   progress is as good as a new one.
//! - [`KeyedFlight`]: a [`SingleFlight`] for each key.
//! - [`Coalesced`]: a call during a run waits for the *next* run, which all such callers share. For work over our own
//!   data: a run in progress may have read it before the caller's change.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::background::Background;
use crate::sync::lock;

/// One run at a time on a [`Background`], shared by concurrent callers. A run continues when its callers leave.
pub struct SingleFlight<T> {
    current: Arc<Mutex<Option<watch::Receiver<Option<T>>>>>,
}

/// The error of a run that ended without a result: it panicked, the lease that it was done under is lost, or the service
/// is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { current: Arc::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Returns the result of the run in progress, or of a new one started by `work`. A run that others began may end
    /// without a result for a reason of theirs, such as a lost lease: then a new one is started.
    pub async fn run<F>(
        &self,
        background: &Background,
        name: &'static str,
        work: impl FnOnce() -> F,
    ) -> Result<T, Interrupted>
    where
        F: Future<Output = T> + Send + 'static,
    {
        if let Some(value) = self.join().await {
            return Ok(value);
        }
        arrival(self.join_or_start(background, name, work)).await
    }

    /// Returns the result of the run in progress; `None` if there is none or it ends without a result.
    pub async fn join(&self) -> Option<T> {
        let run = lock(&self.current).clone()?;
        arrival(run).await.ok()
    }

    fn join_or_start<F>(
        &self,
        background: &Background,
        name: &'static str,
        work: impl FnOnce() -> F,
    ) -> watch::Receiver<Option<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut current = lock(&self.current);
        // A channel without a sender belongs to a run that ended without a result: start a new one.
        if let Some(run) = current.as_ref().filter(|run| run.has_changed().is_ok()) {
            return run.clone();
        }
        let (publish, result) = watch::channel(None);
        *current = Some(result.clone());
        let slot = self.current.clone();
        let work = work();
        // When the process is stopping, `publish` drops with the work, which the waiters notice.
        background.spawn(name, async move {
            let value = work.await;
            *lock(&slot) = None;
            publish.send_replace(Some(value));
        });
        result
    }
}

async fn arrival<T: Clone>(mut run: watch::Receiver<Option<T>>) -> Result<T, Interrupted> {
    let value = run.wait_for(Option::is_some).await.map_err(|_| Interrupted)?;
    value.clone().ok_or(Interrupted)
}

/// One run at a time for each key. A key whose callers all left during its run is kept until it is asked for again.
pub struct KeyedFlight<K, T> {
    flights: Mutex<HashMap<K, Arc<SingleFlight<T>>>>,
}

impl<K, T> Default for KeyedFlight<K, T> {
    fn default() -> Self {
        Self { flights: Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash, T: Clone + Send + Sync + 'static> KeyedFlight<K, T> {
    /// Returns the result of the key's run in progress, or of a new one started by `work`.
    pub async fn run<F>(
        &self,
        key: K,
        background: &Background,
        name: &'static str,
        work: impl FnOnce() -> F,
    ) -> Result<T, Interrupted>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let flight = lock(&self.flights).entry(key).or_default().clone();
        let result = flight.run(background, name, work).await;
        let mut flights = lock(&self.flights);
        drop(flight);
        // One reference is the table's: no other caller waits for this key.
        if flights.get(&key).is_some_and(|flight| Arc::strong_count(flight) == 1) {
            flights.remove(&key);
        }
        result
    }
}

/// Runs one after the other; all calls during one run share the next one.
pub struct Coalesced<T> {
    asked: AtomicU64,
    /// The lock is held by the run in progress; the value is the last result and the number of the last call it covers.
    last: AsyncMutex<Option<(u64, T)>>,
}

impl<T> Default for Coalesced<T> {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), last: AsyncMutex::new(None) }
    }
}

impl<T: Clone> Coalesced<T> {
    /// Returns the result of a run that began after this call. When the caller that runs it goes away, the next one
    /// runs it instead.
    pub async fn run<F: Future<Output = T>>(&self, work: impl FnOnce() -> F) -> T {
        let mine = self.asked.fetch_add(1, SeqCst) + 1;
        let mut last = self.last.lock().await;
        if let Some((covers, value)) = last.as_ref()
            && *covers >= mine
        {
            return value.clone();
        }
        let covers = self.asked.load(SeqCst);
        let value = work().await;
        *last = Some((covers, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::fence::Fence;

    #[tokio::test]
    async fn concurrent_callers_share_one_flight() {
        let background = Background::default();
        let flight = SingleFlight::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let ask = || {
            flight.run(&background, "counting", || {
                let runs = runs.clone();
                async move { runs.fetch_add(1, SeqCst) }
            })
        };
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        assert_eq!((first, second, third), (Ok(0), Ok(0), Ok(0)));
        assert_eq!(ask().await, Ok(1));
        assert_eq!(flight.join().await, None);
    }

    #[tokio::test]
    async fn who_joined_a_run_that_lost_its_lease_starts_another() {
        let background = Background::default();
        let flight = SingleFlight::default();
        let fence = Fence::new("job", "other", 1);
        let of_a_job = fence.guard(flight.run(&background, "a job's", std::future::pending::<u8>));
        let joined = flight.run(&background, "an operator's", || async { 2 });
        let lose = async {
            tokio::task::yield_now().await;
            fence.lose();
        };
        let (of_a_job, joined, ()) = tokio::join!(of_a_job, joined, lose);
        assert_eq!((of_a_job, joined), (None, Ok(2)));
    }

    #[tokio::test]
    async fn each_key_has_a_flight_of_its_own_and_leaves_nothing_behind() {
        let background = Background::default();
        let flights = KeyedFlight::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let ask = |key| {
            flights.run(key, &background, "counting", || {
                let runs = runs.clone();
                async move { runs.fetch_add(1, SeqCst) }
            })
        };
        let (first, second, other) = tokio::join!(ask(1), ask(1), ask(2));
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(runs.load(SeqCst), 2);
        assert!(lock(&flights.flights).is_empty());
    }

    #[tokio::test]
    async fn a_flight_that_panics_or_is_refused_says_so() {
        let background = Background::default();
        let flight: SingleFlight<()> = SingleFlight::default();
        assert_eq!(flight.run(&background, "broken", || async { panic!("no") }).await, Err(Interrupted));
        assert_eq!(flight.run(&background, "sound", || async {}).await, Ok(()));
        background.stop().await;
        assert_eq!(flight.run(&background, "late", || async {}).await, Err(Interrupted));
    }

    #[tokio::test]
    async fn callers_during_a_run_share_the_run_after_it() {
        let runs = AtomicUsize::new(0);
        let gate = Semaphore::new(0);
        let shared = Coalesced::default();
        let ask = || {
            shared.run(|| async {
                let number = runs.fetch_add(1, SeqCst);
                if number == 0 {
                    gate.acquire().await.expect("the gate stays").forget();
                }
                number
            })
        };
        let release = async {
            // By now `first` runs and the two others have called: join! polls in order.
            gate.add_permits(1);
        };
        let (first, second, third, ()) = tokio::join!(ask(), ask(), ask(), release);
        assert_eq!((first, second, third), (0, 1, 1));
    }
}
