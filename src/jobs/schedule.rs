//! The scheduler: one loop per job, so that a job never overlaps itself.
//!
//! ```text
//! ┌─▶ wait ──▶ pass ──┐      a pass that fails or panics is a log line; the next one comes anyway
//! └───────────────────┘      stop: no new pass; a pass under way has GRACE to end
//! ```
//!
//! Time is tokio's, so tests run it with a paused clock.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::crew::contain;

/// How long [`Scheduler::stop`] waits for passes under way.
const GRACE: Duration = Duration::from_secs(10);

/// What a pass gives: a line for the log when there is something to say, or why it failed.
pub type Pass = Result<Option<String>, String>;

/// One thing the service does by itself.
pub struct Job {
    pub name: &'static str,
    pub when: When,
    /// Whether stopping may drop a pass at any await: so for work that commits in transactions and
    /// could wait long for an upstream.
    pub droppable: bool,
    pub run: Run,
}

/// When a job runs. Intervals count from the end of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    AtStart,
    Every(Duration),
    AtStartAndEvery(Duration),
}

/// Begins a pass of a job.
pub type Run = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Pass> + Send>> + Send + Sync>;

/// The running jobs. Dropping it drops passes under way; [`Scheduler::stop`] lets them end.
pub struct Scheduler {
    loops: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

impl Scheduler {
    /// Starts a loop for each job.
    pub fn start(jobs: Vec<Job>) -> Self {
        let (stopping, stop) = watch::channel(false);
        let mut loops = JoinSet::new();
        for job in jobs {
            loops.spawn(job.repeat(stop.clone()));
        }
        Self { loops, stopping }
    }

    /// Begins no further pass and waits, at most ten seconds, for those under way.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        let all_ended = async { while self.loops.join_next().await.is_some() {} };
        if timeout(GRACE, all_ended).await.is_err() {
            log::warn!("{} background job(s) did not end in time and were dropped", self.loops.len());
        }
    }
}

impl Job {
    async fn repeat(self, mut stop: watch::Receiver<bool>) {
        let (first, next) = match self.when {
            When::AtStart => (Duration::ZERO, None),
            When::Every(interval) => (interval, Some(interval)),
            When::AtStartAndEvery(interval) => (Duration::ZERO, Some(interval)),
        };
        let mut wait = Some(first);
        while let Some(pause) = wait {
            tokio::select! {
                biased;
                _ = stopped(&mut stop) => return,
                () = sleep(pause) => {}
            }
            if self.droppable {
                tokio::select! {
                    _ = stopped(&mut stop) => return,
                    () = self.pass() => {}
                }
            } else {
                self.pass().await;
            }
            wait = next;
        }
    }

    async fn pass(&self) {
        let began = Instant::now();
        let outcome = contain(async { (self.run)().await }).await;
        let took = began.elapsed().as_millis();
        match outcome {
            Ok(Ok(Some(report))) => log::info!("job {}: {report} ({took} ms)", self.name),
            Ok(Ok(None)) => log::debug!("job {}: nothing to do ({took} ms)", self.name),
            Ok(Err(error)) => log::warn!("job {} failed after {took} ms: {error}", self.name),
            Err(panic) => log::error!("job {} panicked after {took} ms: {panic}", self.name),
        }
    }
}

/// Comes when the scheduler stops or is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    stop.wait_for(|stopping| *stopping).await.ok();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use tokio::sync::Notify;
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn job(when: When, run: impl Fn() -> Pass + Send + Sync + 'static) -> Job {
        let run = Arc::new(run);
        Job {
            name: "test",
            when,
            droppable: false,
            run: Box::new(move || {
                let run = run.clone();
                Box::pin(async move { run() })
            }),
        }
    }

    /// Lets the loops do what is due.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_runs_when_it_says() {
        let counts = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let whens = [When::AtStart, When::Every(MINUTE), When::AtStartAndEvery(MINUTE)];
        let jobs = counts.iter().zip(whens).map(|(count, when)| {
            let count = count.clone();
            job(when, move || {
                count.fetch_add(1, SeqCst);
                Ok(None)
            })
        });
        let scheduler = Scheduler::start(jobs.collect());
        let seen = || counts.each_ref().map(|count| count.load(SeqCst));
        advance(Duration::from_millis(1)).await;
        settle().await;
        assert_eq!(seen(), [1, 0, 1]);
        advance(MINUTE).await;
        settle().await;
        assert_eq!(seen(), [1, 1, 2]);
        scheduler.stop().await;
        advance(MINUTE * 5).await;
        settle().await;
        assert_eq!(seen(), [1, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_fails_or_panics_does_not_end_the_job() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let scheduler = Scheduler::start(vec![job(When::AtStartAndEvery(MINUTE), move || {
            match counted.fetch_add(1, SeqCst) {
                0 => panic!("first"),
                1 => Err("second".to_owned()),
                _ => Ok(Some("third".to_owned())),
            }
        })]);
        for _ in 0..3 {
            advance(MINUTE + Duration::from_millis(1)).await;
            settle().await;
        }
        assert_eq!(count.load(SeqCst), 3);
        scheduler.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_lets_a_pass_end_but_not_for_ever() {
        let ended = Arc::new(AtomicUsize::new(0));
        for (takes, expected) in [(GRACE / 2, 1), (GRACE * 2, 1)] {
            let started = Arc::new(Notify::new());
            let (tell, count) = (started.clone(), ended.clone());
            let scheduler = Scheduler::start(vec![Job {
                run: Box::new(move || {
                    let (tell, count) = (tell.clone(), count.clone());
                    Box::pin(async move {
                        tell.notify_one();
                        sleep(takes).await;
                        count.fetch_add(1, SeqCst);
                        Ok(None)
                    })
                }),
                ..job(When::AtStart, || Ok(None))
            }]);
            started.notified().await;
            let began = Instant::now();
            scheduler.stop().await;
            assert_eq!(began.elapsed(), takes.min(GRACE));
            assert_eq!(ended.load(SeqCst), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_droppable_pass_does_not_hold_up_the_stop() {
        let started = Arc::new(Notify::new());
        let tell = started.clone();
        let scheduler = Scheduler::start(vec![Job {
            droppable: true,
            run: Box::new(move || {
                tell.notify_one();
                Box::pin(std::future::pending())
            }),
            ..job(When::AtStart, || Ok(None))
        }]);
        started.notified().await;
        let began = Instant::now();
        scheduler.stop().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
