//! One timer for all heads of a connection.
//!
//! hyper asks for a timer for every head that it waits for, and drops it once the head is there. Each would go into the
//! runtime's wheel and out again, both under a lock that all threads share. [`HeadTimer`] hands out the same one again:
//! moving it to a later time takes no lock, and when it goes off for a head that came long ago, the connection is polled
//! once in vain.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::time::sleep_until;

/// For one connection, which waits for one head at a time: only the timer handed out last counts.
#[derive(Clone, Default)]
pub(super) struct HeadTimer(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let mut timer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *timer {
            Some(timer) => timer.as_mut().reset(deadline.into()),
            none => *none = Some(Box::pin(sleep_until(deadline.into()))),
        }
        Box::pin(self.clone())
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for HeadTimer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *timer {
            Some(timer) => timer.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl Sleep for HeadTimer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_handed_out_again_counts_from_then() {
        let timer = HeadTimer::default();
        let started = tokio::time::Instant::now();
        drop(timer.sleep(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(5)).await;
        timer.sleep(Duration::from_secs(10)).await;
        assert_eq!(started.elapsed().as_secs(), 15);
        timer.sleep(Duration::from_secs(3)).await;
        assert_eq!(started.elapsed().as_secs(), 18);
    }
}
