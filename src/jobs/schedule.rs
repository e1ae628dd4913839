//! The scheduler: one loop per job, so that a job never overlaps itself.
//!
//! ```text
//! ┌─▶ wait ──▶ pass ──┐      a pass that fails or panics is a log line; the next one comes anyway
//! └───────────────────┘      stop: no new pass; a pass under way is dropped when the time for the stop is over
//! ```
//!
//! The [`Plan`] of a job says when it runs. It is asked for anew whenever the settings change: a wait goes by the new
//! plan at once, and a pass under way is left alone. Times that fell due during a pass, or while the machine slept,
//! make one pass, not many.
//!
//! Waiting uses tokio's time, and the time of day comes from the [`Clock`], so tests run both by hand.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::background::{BoxedWork, catch_panic};
use crate::cron::Cron;
use crate::time::{Millis, millis, now_ms};

/// The longest sleep before the time of day is read again: it may be set, and a machine may sleep.
const LOOK_MS: Millis = 30_000;

/// The result of a pass: a line for the log when there is something to say, or why it failed.
pub type Pass = Result<Option<String>, String>;

/// A piece of work that the service does by itself.
pub struct Job {
    pub name: &'static str,
    pub when: When,
    /// Begins a pass. A stop may drop the pass at any await once its time is over: the changes of a pass are committed in
    /// transactions, and it may wait long for an upstream.
    pub run: Run,
}

/// The times at which a job runs.
pub enum When {
    AtStart,
    Every(Duration),
    AtStartAndEvery(Duration),
    /// By a plan from the settings.
    Planned(Box<dyn Fn() -> Plan + Send + Sync>),
    /// Whenever the returned future ends. A change of the settings or a stop drops it and loses no signal.
    Signalled(Box<dyn Fn() -> BoxedWork<()> + Send + Sync>),
}

/// The times of a job's passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    Never,
    /// At an interval, counted from the end of a pass.
    Every(Duration),
    At(Cron),
    /// Each pass a little later than its time: for jobs that ask many sites, since otherwise every gateway in the world
    /// would ask them at the full hour.
    About(Cron),
}

/// Begins a pass of a job. A pass of a schedule gets its scheduled time.
pub type Run = Box<dyn Fn(Option<Millis>) -> PassFuture + Send + Sync>;
/// A pass of a job that has not begun.
pub type PassFuture = BoxedWork<Pass>;

/// The time of day, and the settings that a scheduler needs.
#[derive(Clone)]
pub struct Clock {
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
    pub zone: TimeZone,
    /// The longest delay of a pass after its scheduled time.
    pub jitter: Duration,
    /// Reports each change of the settings.
    pub changed: watch::Receiver<()>,
}

/// The running jobs. Dropping it drops passes under way; [`Scheduler::stop`] waits for them.
pub struct Scheduler {
    loops: JoinSet<()>,
    stopping: watch::Sender<Stop>,
}

/// How far the scheduler is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    /// No further pass begins.
    NoMore,
    /// No further pass begins, and the passes under way are dropped.
    Now,
}

/// The time of the next pass.
#[derive(Debug, Clone, Copy)]
enum Due {
    Never,
    /// At this instant, however the time of day is set meanwhile.
    At(Instant),
    /// At a time of day, for a time of the schedule.
    On {
        at: Millis,
        scheduled: Millis,
    },
}

/// The time at which a wait began, by both clocks.
#[derive(Clone, Copy)]
struct Since {
    instant: Instant,
    time: Millis,
}

// === impl Scheduler ===

impl Scheduler {
    /// Starts a loop for each job.
    pub fn start(jobs: Vec<Job>, clock: &Clock) -> Self {
        let (stopping, stop) = watch::channel(Stop::No);
        let mut loops = JoinSet::new();
        for job in jobs {
            loops.spawn(job.repeat(clock.clone(), stop.clone()));
        }
        Self { loops, stopping }
    }

    /// Begins no further pass; those under way go on.
    pub fn begin_stop(&self) {
        self.stopping.send_replace(Stop::NoMore);
    }

    /// Begins no further pass and waits for those under way; at the deadline, drops them at their next await.
    pub async fn stop(mut self, deadline: Instant) {
        self.begin_stop();
        let all_ended = async { while self.loops.join_next().await.is_some() {} };
        if timeout_at(deadline, all_ended).await.is_err() {
            self.stopping.send_replace(Stop::Now);
            self.loops.join_all().await;
        }
    }
}

// === impl Job ===

impl Job {
    async fn repeat(self, mut clock: Clock, mut stop: watch::Receiver<Stop>) {
        if matches!(self.when, When::AtStart | When::AtStartAndEvery(_))
            && !self.pass_unless_stopped(None, &mut stop).await
        {
            return;
        }
        let mut plan = self.when.plan();
        let mut since = clock.read();
        loop {
            let due = clock.due(&plan, since);
            tokio::select! {
                biased;
                () = reached(&mut stop, Stop::NoMore) => return,
                is_due = self.when.reach(&clock.now, due, since.time) => {
                    if is_due && !self.pass_unless_stopped(due.scheduled(), &mut stop).await {
                        return;
                    }
                    since = clock.read();
                }
                () = change(&mut clock.changed) => {}
            }
            let new = self.when.plan();
            if new != plan {
                (plan, since) = (new, clock.read());
            }
        }
    }

    /// Runs a pass. Returns false when the stop came first or dropped the pass.
    async fn pass_unless_stopped(&self, scheduled: Option<Millis>, stop: &mut watch::Receiver<Stop>) -> bool {
        if *stop.borrow() != Stop::No {
            return false;
        }
        tokio::select! {
            () = reached(stop, Stop::Now) => {
                log::warn!("job {}: a pass was stopped before its end", self.name);
                false
            }
            () = self.pass(scheduled) => true,
        }
    }

    async fn pass(&self, scheduled: Option<Millis>) {
        let began = Instant::now();
        let outcome = catch_panic(async { (self.run)(scheduled).await }).await;
        let took = began.elapsed().as_millis();
        match outcome {
            Ok(Ok(Some(report))) => log::info!("job {}: {report} ({took} ms)", self.name),
            Ok(Ok(None)) => log::debug!("job {}: nothing to do ({took} ms)", self.name),
            Ok(Err(error)) => log::warn!("job {} failed after {took} ms: {error}", self.name),
            Err(panic) => log::error!("job {} panicked after {took} ms: {panic}", self.name),
        }
    }
}

impl When {
    /// Returns the interval between two passes; zero where it is not known.
    pub fn interval(&self) -> Duration {
        match self {
            Self::Every(interval) | Self::AtStartAndEvery(interval) => *interval,
            Self::AtStart | Self::Planned(_) | Self::Signalled(_) => Duration::ZERO,
        }
    }

    fn plan(&self) -> Plan {
        match self {
            Self::AtStart | Self::Signalled(_) => Plan::Never,
            Self::Every(interval) | Self::AtStartAndEvery(interval) => Plan::Every(*interval),
            Self::Planned(plan) => plan(),
        }
    }

    /// Returns true when the time or the signal for a pass has come, else as [`reach`] does.
    async fn reach(&self, now: &Arc<dyn Fn() -> Millis + Send + Sync>, due: Due, began: Millis) -> bool {
        match self {
            Self::Signalled(signal) => {
                signal().await;
                true
            }
            _ => reach(now, due, began).await,
        }
    }
}

// === impl Clock ===

impl Clock {
    /// Builds the clock of this machine.
    pub fn of_machine(zone: TimeZone, jitter: Duration, changed: watch::Receiver<()>) -> Self {
        Self { now: Arc::new(now_ms), zone, jitter, changed }
    }

    fn read(&self) -> Since {
        Since { instant: Instant::now(), time: (self.now)() }
    }

    fn due(&self, plan: &Plan, since: Since) -> Due {
        let next = |cron: &Cron, after| cron.next_after(after, &self.zone);
        match plan {
            Plan::Never => Due::Never,
            Plan::Every(interval) => Due::At(since.instant + *interval),
            Plan::At(cron) => next(cron, since.time).map_or(Due::Never, |at| Due::On { at, scheduled: at }),
            Plan::About(cron) => {
                let Some(scheduled) = next(cron, since.time) else { return Due::Never };
                // A schedule of short steps is meant that way: the shift is small beside its steps.
                let step = next(cron, scheduled).map_or(Millis::MAX, |next| next - scheduled);
                let shift = random_up_to(millis(self.jitter).min(step / 10));
                Due::On { at: scheduled + shift, scheduled }
            }
        }
    }
}

impl Due {
    fn scheduled(self) -> Option<Millis> {
        match self {
            Self::On { scheduled, .. } => Some(scheduled),
            Self::Never | Self::At(_) => None,
        }
    }
}

/// Returns true when the time has come, and false when the time of day was set back to before the wait began: another
/// time of the schedule may then be the next.
async fn reach(now: &Arc<dyn Fn() -> Millis + Send + Sync>, due: Due, began: Millis) -> bool {
    match due {
        Due::Never => std::future::pending().await,
        Due::At(instant) => {
            sleep_until(instant).await;
            true
        }
        Due::On { at, .. } => loop {
            let time = now();
            if time >= at {
                return true;
            }
            // A clock that is set back a little makes the pass a little late, but never repeats one.
            if time < began - LOOK_MS {
                return false;
            }
            sleep(Duration::from_millis((at - time).min(LOOK_MS).unsigned_abs())).await;
        },
    }
}

/// Returns when the settings change; never again once nobody can change them.
async fn change(changed: &mut watch::Receiver<()>) {
    if changed.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns when the stop has come this far, or the scheduler is gone.
async fn reached(stop: &mut watch::Receiver<Stop>, far: Stop) {
    stop.wait_for(|stop| *stop >= far).await.ok();
}

/// Returns a random number from 0 to `most`; 0 where the system gives no random bytes.
pub(super) fn random_up_to(most: Millis) -> Millis {
    let random = ring::rand::generate::<[u8; 8]>(&ring::rand::SystemRandom::new());
    let number = random.map_or(0, |bytes| u64::from_le_bytes(bytes.expose()));
    let range = most.max(0).unsigned_abs() + 1;
    Millis::try_from(number % range).unwrap_or(0)
}

#[cfg(test)]
mod tests;
