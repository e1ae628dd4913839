//! How long an upstream may be silent in the middle of an answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A timer that fires when nothing has come for too long. A timer is only started once something must be waited for.
pub(in crate::proxy) struct SilenceTimer {
    limit: Duration,
    heard_at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SilenceTimer {
    /// Starts a timer whose silence begins now.
    pub(in crate::proxy) fn new(limit: Duration) -> Self {
        Self { limit, heard_at: Instant::now(), timer: None }
    }

    /// Records that something came.
    pub(in crate::proxy) fn heard(&mut self) {
        self.heard_at = Instant::now();
    }

    /// Becomes ready once the silence has lasted too long; until then the task is woken for it.
    pub(in crate::proxy) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let until = self.heard_at + self.limit;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            ready!(timer.as_mut().poll(context));
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_what_was_heard_last() {
        let started = Instant::now();
        let mut silence = SilenceTimer::new(Duration::from_secs(10));
        let waited = poll_fn(|context| silence.poll(context));
        assert!(tokio::time::timeout(Duration::from_secs(6), waited).await.is_err());
        silence.heard();
        poll_fn(|context| silence.poll(context)).await;
        assert_eq!(started.elapsed().as_secs(), 16);
    }
}
