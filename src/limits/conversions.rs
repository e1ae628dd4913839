//! How many large bodies are read and converted at once, and on which threads.
//!
//! Converting a body takes memory several times its length, and a core for as long as it takes. A small body is converted
//! on the spot. For large ones there is a memory budget, which all share, and as many threads as the machine has
//! cores, none of which serves connections. Requests beyond that wait, a bounded number of them for a bounded time;
//! answers, which have been paid for, wait until it is their turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::block_in_place;
use tokio::time::timeout;

/// The length up to which a body is converted on the spot, in bytes.
const SMALL: usize = 256 * 1024;
/// The length up to which a body is read on the spot, in bytes: that takes a millisecond, a tenth of a conversion.
const SHORT: usize = 1024 * 1024;
/// The maximum memory of a conversion, as a multiple of the length of its body.
const MEMORY_PER_BYTE: usize = 12;
/// The maximum number of waiting requests, and the maximum wait of each.
const MAX_WAITING: usize = 64;
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The unit in which the budget is counted, in bytes.
const UNIT: usize = 4096;

/// The budget of memory and threads for conversions, and the number of waiting requests.
pub struct Conversions {
    budget: u32,
    memory: Semaphore,
    threads: Semaphore,
    waiting: AtomicUsize,
}

/// The error when there is no room for one more conversion, and there was none while it could wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl Overloaded {
    /// The wait in seconds after which another try makes sense.
    pub const RETRY_AFTER_SECS: u64 = 5;
}

impl Conversions {
    /// Creates a budget of this many bytes, shared by all conversions that run at once.
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

    /// Waits for room to convert a request of this many bytes.
    pub async fn request(&self, bytes: usize) -> Result<Room<'_>, Overloaded> {
        if bytes <= SMALL {
            return Ok(Room::default());
        }
        let _place = self.wait()?;
        timeout(MAX_WAIT, self.room(bytes)).await.map_err(|_| Overloaded)
    }

    /// Waits as long as it takes for room to convert an answer of this many bytes, or to convert once more a request that an
    /// upstream has refused.
    pub async fn answer(&self, bytes: usize) -> Room<'_> {
        if bytes <= SMALL { Room::default() } else { self.room(bytes).await }
    }

    /// Reads a body of this many bytes; a long one waits for a thread.
    pub async fn read_through<T>(&self, bytes: usize, read: impl FnOnce() -> T) -> T {
        if bytes <= SHORT {
            return read();
        }
        // Boxed, so that the future for a short body does not carry the wait.
        let thread = Box::pin(self.threads.acquire()).await.ok();
        Room { _memory: None, thread }.convert(read)
    }

    /// Waits for memory and a thread. A body that is larger than the budget gets all of it.
    async fn room(&self, bytes: usize) -> Room<'_> {
        let units = (bytes.saturating_mul(MEMORY_PER_BYTE) / UNIT).max(1);
        let units = u32::try_from(units).unwrap_or(u32::MAX).min(self.budget);
        // Neither semaphore is ever closed.
        let memory = self.memory.acquire_many(units).await.ok();
        Room { _memory: memory, thread: self.threads.acquire().await.ok() }
    }

    fn wait(&self) -> Result<Waiting<'_>, Overloaded> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Waiting(&self.waiting);
        if before < MAX_WAITING { Ok(place) } else { Err(Overloaded) }
    }
}

/// The room for one conversion, held until it is done; a small one needs none.
#[derive(Default)]
pub struct Room<'a> {
    _memory: Option<SemaphorePermit<'a>>,
    thread: Option<SemaphorePermit<'a>>,
}

impl Room<'_> {
    /// Runs the conversion; one of a large body runs away from the connections that this thread would serve.
    pub fn convert<T>(self, convert: impl FnOnce() -> T) -> T {
        if self.thread.is_some() { block_in_place(convert) } else { convert() }
    }
}

/// A waiting request; dropping it ends the wait.
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
        // Runs on the only worker thread.
        tokio::spawn(async move { tell.send(()) }).await.unwrap().unwrap();
        assert_eq!(converting.await.unwrap(), Ok(()));
    }
}
