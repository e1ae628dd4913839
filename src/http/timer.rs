//! Reusable timers.
//!
//! Arming and dropping a timer both take a lock of the runtime that all threads share. A connection waits for every head
//! and for every answer, but nearly never for as long as it may, so it keeps a [`ReusableTimer`] for each of the two.
//! Moving a timer to a later time takes no lock; when it fires for a wait that ended long ago, the connection is polled
//! once in vain.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, sleep_until};

use crate::sync::lock;

/// A timer for one task that waits for one thing at a time: only the wait polled last counts.
#[derive(Clone, Default)]
pub struct ReusableTimer(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

impl ReusableTimer {
    /// Returns ready once `deadline` has come; until then the task is woken for it, unless another wait follows.
    pub fn poll_until(&self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let mut timer = lock(&self.0);
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

/// The timer of heads: hyper requests a timer for every head that it waits for, and drops it once the head has come.
#[derive(Default)]
pub(super) struct HeadTimer(ReusableTimer);

/// The wait for one head.
struct HeadWait {
    timer: ReusableTimer,
    deadline: Instant,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadWait { timer: self.0.clone(), deadline: deadline.into() })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.timer.poll_until(self.deadline, context)
    }
}

impl Sleep for HeadWait {}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_handed_out_again_counts_from_then() {
        let timer = HeadTimer::default();
        let started = Instant::now();
        drop(timer.sleep(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(5)).await;
        timer.sleep(Duration::from_secs(10)).await;
        assert_eq!(started.elapsed().as_secs(), 15);
        timer.sleep(Duration::from_secs(3)).await;
        assert_eq!(started.elapsed().as_secs(), 18);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_ended_early_does_not_shorten_the_next() {
        let timer = ReusableTimer::default();
        let started = Instant::now();
        let first = started + Duration::from_secs(2);
        let early = poll_fn(|context| {
            assert!(timer.poll_until(first, context).is_pending());
            Poll::Ready(())
        });
        early.await;
        for seconds in [9, 5] {
            let deadline = Instant::now() + Duration::from_secs(seconds);
            poll_fn(|context| timer.poll_until(deadline, context)).await;
            assert_eq!(Instant::now(), deadline);
        }
        assert_eq!(started.elapsed().as_secs(), 14);
    }
}
