//! How many large bodies are read and converted at once, and where.
//!
//! To convert a body takes memory several times its length and a core for as long as it takes. A small one is converted
//! on the spot. For a large one there is a budget of memory, which all share, and as many threads as the machine has
//! cores, none of which serves connections. Requests beyond that wait, a bounded number of them for a bounded time;
//! answers, which have been paid for, wait until it is their turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::block_in_place;
use tokio::time::timeout;

/// A body up to this length is converted on the spot.
const SMALL: usize = 256 * 1024;
/// A body up to this length is read through on the spot: that takes a millisecond, a tenth of a conversion.
const SHORT: usize = 1024 * 1024;
/// The most that a conversion takes, as a multiple of the body it converts.
const MEMORY_PER_BYTE: usize = 12;
/// How many requests may wait, and how long each does.
const MAX_WAITING: usize = 64;
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The budget is counted in units of this many bytes.
const UNIT: usize = 4096;

/// The conversions that run and those that wait.
pub struct Conversions {
    budget: u32,
    memory: Semaphore,
    threads: Semaphore,
    waiting: AtomicUsize,
}

/// There is no room for one more conversion, nor has there been while one could wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl Overloaded {
    /// When it is worth another try.
    pub const RETRY_AFTER_SECS: i64 = 5;
}

impl Conversions {
    /// With so many bytes of memory for all that are converted at one time.
    pub fn new(budget: usize) -> Self {
        let budget = u32::try_from(budget / UNIT).unwrap_or(u32::MAX).clamp(1, Semaphore::MAX_PERMITS as u32);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            budget,
            memory: Semaphore::new(budget as usize),
            threads: Semaphore::new(cores),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for room to convert a request of so many bytes.
    pub async fn request(&self, bytes: usize) -> Result<Room<'_>, Overloaded> {
        if bytes <= SMALL {
            return Ok(Room::default());
        }
        let _place = self.wait()?;
        timeout(MAX_WAIT, self.room(bytes)).await.map_err(|_| Overloaded)
    }

    /// Waits for room to convert an answer of so many bytes, for as long as it takes; or once more a request that an
    /// upstream has refused.
    pub async fn answer(&self, bytes: usize) -> Room<'_> {
        if bytes <= SMALL { Room::default() } else { self.room(bytes).await }
    }

    /// Reads so many bytes through: many of them once there is a thread for it.
    pub async fn read_through<T>(&self, bytes: usize, read: impl FnOnce() -> T) -> T {
        if bytes <= SHORT {
            return read();
        }
        // Boxed, so that the future of a short body has no room for the wait.
        let thread = Box::pin(self.threads.acquire()).await.ok();
        Room { _memory: None, thread }.convert(read)
    }

    /// Memory and a thread. A body that is larger than the budget has it for itself.
    async fn room(&self, bytes: usize) -> Room<'_> {
        let units = (bytes.saturating_mul(MEMORY_PER_BYTE) / UNIT).max(1);
        let units = u32::try_from(units).unwrap_or(u32::MAX).min(self.budget);
        // Neither is ever closed.
        let memory = self.memory.acquire_many(units).await.ok();
        Room { _memory: memory, thread: self.threads.acquire().await.ok() }
    }

    fn wait(&self) -> Result<Waiting<'_>, Overloaded> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Waiting(&self.waiting);
        if before < MAX_WAITING { Ok(place) } else { Err(Overloaded) }
    }
}

/// Room for one conversion, until it is done; a small one needs none.
#[derive(Default)]
pub struct Room<'a> {
    _memory: Option<SemaphorePermit<'a>>,
    thread: Option<SemaphorePermit<'a>>,
}

impl Room<'_> {
    /// Converts, a large body away from the connections that this thread would serve.
    pub fn convert<T>(self, convert: impl FnOnce() -> T) -> T {
        if self.thread.is_some() { block_in_place(convert) } else { convert() }
    }
}

/// A request that waits; it no longer does when this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    const LARGE: usize = SMALL + 1;

    #[tokio::test]
    async fn a_small_body_is_converted_whatever_else_is() {
        let conversions = Conversions::new(1);
        let _all = conversions.memory.acquire_many(1).await;
        assert_eq!(conversions.request(SMALL).await.unwrap().convert(|| 7), 7);
        assert_eq!(conversions.answer(SMALL).await.convert(|| 8), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_memory_in_a_bounded_number_and_for_a_bounded_time() {
        let conversions = Arc::new(Conversions::new(LARGE));
        let room = conversions.memory.acquire_many(1).await;
        let waiting: Vec<_> = (0..MAX_WAITING)
            .map(|_| {
                let conversions = conversions.clone();
                tokio::spawn(async move { conversions.request(LARGE).await.err() })
            })
            .collect();
        while conversions.waiting.load(Ordering::Relaxed) < MAX_WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(conversions.request(LARGE).await.err(), Some(Overloaded), "one too many");
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Some(Overloaded), "none got room in time");
        }
        assert_eq!(conversions.waiting.load(Ordering::Relaxed), 0);
        drop(room);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_thread_that_serves_is_free_while_a_large_body_is_converted() {
        let conversions = Arc::new(Conversions::new(1 << 30));
        let (tell, told) = mpsc::channel();
        let convert = async move { conversions.request(LARGE).await.unwrap().convert(|| told.recv()) };
        let converting = tokio::spawn(convert);
        // Runs on the only worker there is.
        tokio::spawn(async move { tell.send(()) }).await.unwrap().unwrap();
        assert_eq!(converting.await.unwrap(), Ok(()));
    }
}
