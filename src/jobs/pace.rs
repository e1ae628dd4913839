//! Leaves the processor to requests while other work computes for long.
//!
//! ```text
//! run_off_workers   on a thread where no request waits behind it
//! Pace              in pieces, one at a time, with pauses between them: ▇▁▁▁▁▇▁▁▁▁▇▁▁▁▁
//! ComputePauses     pauses within one computation on a thread of its own
//! ```
//!
//! When a thread wakes for a request, the system gives it an idle processor at once; without one, it waits until a
//! running thread has used up its time, which may take milliseconds, or gives way. So pieces must be short: the slowest
//! requests depend on how long one piece is, not on how many there are.

use std::cell::Cell;
use std::future::Future;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::fence;
use crate::idle_thread::{run_on_idle_thread, yield_thread};
use crate::store;

/// The length of a pause, as a multiple of the piece of work before it.
const PAUSE_FACTOR: u32 = 4;
/// The time after which a computation pauses.
const PIECE: Duration = Duration::from_micros(200);
/// The steps of a computation between two looks at the clock.
const STEPS: u32 = 32;
/// The longest pause: work that took longer has waited for something other than the processor.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The number of rows that are read in one piece: a fraction of a millisecond's work.
pub const PAGE: u32 = 250;

/// The pace of work that is done in pieces.
pub struct Pace {
    /// When the next piece may begin; locked by the piece under way.
    next_at: Mutex<Instant>,
}

/// The pauses of one computation on a thread of its own.
pub struct ComputePauses {
    began: Cell<Instant>,
    steps: Cell<u32>,
}

impl Default for ComputePauses {
    fn default() -> Self {
        Self { began: Cell::new(Instant::now()), steps: Cell::new(0) }
    }
}

impl ComputePauses {
    /// Marks the end of a step, which takes microseconds at most. Pauses when the steps have taken long enough.
    pub fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() < STEPS {
            return;
        }
        self.steps.set(0);
        yield_thread();
        let took = self.began.get().elapsed();
        if took >= PIECE {
            thread::sleep((took * PAUSE_FACTOR).min(LONGEST_PAUSE));
            self.began.set(Instant::now());
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { next_at: Mutex::new(Instant::now()) }
    }
}

impl Pace {
    /// Does a piece of work when the pieces before it are done and the pause is over.
    pub async fn piece<T>(&self, work: impl Future<Output = T>) -> T {
        let mut next_at = self.next_at.lock().await;
        sleep_until(*next_at).await;
        let began = Instant::now();
        let value = work.await;
        let now = Instant::now();
        *next_at = now + ((now - began) * PAUSE_FACTOR).min(LONGEST_PAUSE);
        value
    }

    /// Reads rows, [`PAGE`] of them in a piece, until a page is not full. `read` gets what was kept of the last row before its
    /// page; `keep` makes of a row what is kept of it.
    pub async fn pages<R, T, F>(
        &self,
        mut read: impl FnMut(Option<&T>) -> F,
        mut keep: impl FnMut(R) -> T,
    ) -> store::Result<Vec<T>>
    where
        F: Future<Output = store::Result<Vec<R>>>,
    {
        let mut kept = Vec::new();
        let mut is_last = false;
        while !is_last {
            let page = read(kept.last());
            is_last = self
                .piece(async {
                    let page = page.await?;
                    let is_last = page.len() < PAGE as usize;
                    kept.extend(page.into_iter().map(&mut keep));
                    Ok::<_, store::Error>(is_last)
                })
                .await?;
        }
        Ok(kept)
    }
}

/// Runs work that computes for long at a stretch, now and then waiting for the store, on a thread where no request
/// waits behind it. The work is done under the caller's lease, if it holds one.
///
/// # Errors
/// Fails if the work does, and with `Superseded` if the lease is lost before its end.
pub async fn run_off_workers<T: Send + 'static>(
    work: impl Future<Output = store::Result<T>> + Send + 'static,
) -> store::Result<T> {
    let runtime = Handle::current();
    let work = fence::inherited(work);
    match run_on_idle_thread(move || runtime.block_on(work)).await {
        Ok(result) => result.unwrap_or(Err(store::Error::Superseded)),
        Err(error) => Err(store::Error::Database(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::fence::Fence;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_on_another_thread_is_under_the_lease_and_ends_with_it() {
        let fence = Fence::new("job", "me", 7);
        let token = fence.guard(run_off_workers(async { Ok(fence::current().map(|fence| fence.token())) }));
        assert_eq!(token.await, Some(Ok(Some(7))));
        let lost = fence.clone();
        let endless = run_off_workers(async move {
            lost.lose();
            std::future::pending::<()>().await;
            Ok(())
        });
        assert_eq!(fence.guard(endless).await, None);
        assert_eq!(run_off_workers(async { Ok(1) }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_piece_waits_until_the_one_before_is_done_and_the_pause_is_over() {
        let (pace, began) = (Pace::default(), Instant::now());
        let piece = |took: u64| {
            pace.piece(async move {
                let at = began.elapsed();
                sleep(Duration::from_millis(took)).await;
                at.as_millis()
            })
        };
        let pieces = tokio::join!(piece(10), piece(2_000), piece(0), piece(0));
        // Ten milliseconds and a pause of forty; two seconds and the longest pause.
        assert_eq!(pieces, (0, 50, 2_150, 2_150));
    }
}
