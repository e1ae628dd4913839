//! Room for requests beside work that takes the processor.
//!
//! ```text
//! off_the_workers   on a thread where no request waits behind it
//! Pace              in pieces, one at a time, with rests between them: ▇▁▁▁▁▇▁▁▁▁▇▁▁▁▁
//! Breaths           the same within one computation, on such a thread
//! ```
//!
//! The system gives a thread that wakes for a request a processor at once if one idles, and else when the thread that
//! runs has had its turn, which may take milliseconds, or gives way. So pieces are to be short: how long one is makes the
//! difference to the slowest requests, not how many there are.

use std::cell::Cell;
use std::future::Future;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::aside::{aside, give_way};
use crate::store;

/// A rest is so many times as long as the piece of work before it.
const REST: u32 = 4;
/// A computation rests when it has run for so long.
const PIECE: Duration = Duration::from_micros(200);
/// Steps of a computation between two looks at the clock.
const STEPS: u32 = 32;
/// The longest rest: work that took longer has waited for something else than the processor.
const LONGEST: Duration = Duration::from_millis(100);

/// The pace of work that is done in pieces.
pub struct Pace {
    /// Held by the piece under way: when the next may begin.
    rested: Mutex<Instant>,
}

/// The rests of one computation on a thread of its own.
pub struct Breaths {
    began: Cell<Instant>,
    steps: Cell<u32>,
}

impl Default for Breaths {
    fn default() -> Self {
        Self { began: Cell::new(Instant::now()), steps: Cell::new(0) }
    }
}

impl Breaths {
    /// Marks the end of a step, which takes microseconds at most: rests when enough of them are done.
    pub fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() < STEPS {
            return;
        }
        self.steps.set(0);
        give_way();
        let took = self.began.get().elapsed();
        if took >= PIECE {
            thread::sleep((took * REST).min(LONGEST));
            self.began.set(Instant::now());
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { rested: Mutex::new(Instant::now()) }
    }
}

impl Pace {
    /// Does a piece of work when the others before it are done and rested from.
    pub async fn piece<T>(&self, work: impl Future<Output = T>) -> T {
        let mut rested = self.rested.lock().await;
        sleep_until(*rested).await;
        let began = Instant::now();
        let value = work.await;
        let now = Instant::now();
        *rested = now + ((now - began) * REST).min(LONGEST);
        value
    }
}

/// Runs work that computes for long at a stretch, now and then waiting for the store, on a thread where no request
/// waits behind it.
pub async fn off_the_workers<T: Send + 'static>(
    work: impl Future<Output = store::Result<T>> + Send + 'static,
) -> store::Result<T> {
    let runtime = Handle::current();
    match aside(move || runtime.block_on(work)).await {
        Ok(result) => result,
        Err(error) => Err(store::Error::Database(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_piece_waits_until_the_one_before_is_done_and_rested_from() {
        let (pace, began) = (Pace::default(), Instant::now());
        let piece = |took: u64| {
            pace.piece(async move {
                let at = began.elapsed();
                sleep(Duration::from_millis(took)).await;
                at.as_millis()
            })
        };
        let pieces = tokio::join!(piece(10), piece(2_000), piece(0), piece(0));
        // Ten and its rest of forty; two seconds and the longest rest.
        assert_eq!(pieces, (0, 50, 2_150, 2_150));
    }
}
