//! Leases that decide which of the instances on a database does the work for all.
//!
//! | what | the lease is held | |
//! |---|---|---|
//! | a job at an interval | during the pass, then until after the next one | so that the others find it taken and leave it |
//! | a time of a schedule | during the pass | the time is recorded before anything is done: nobody serves it twice |
//! | the renewal of a credential | during the renewal | the others wait, and find the new one |
//!
//! A lease in use is extended every [`RENEWAL_INTERVAL`]. An instance that cannot extend it, because the database is cut off
//! from it, ends its work before the lease runs out; and what it has handed to the store by then is refused there if
//! another instance was faster.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::schedule::{Pass, PassFuture};
use crate::core::Core;
use crate::fence::Fence;
use crate::ids::AccountId;
use crate::store::leases::{self, LeaseOutcome};
use crate::store::{self, job_runs};
use crate::time::{Millis, millis, now_ms};

/// The time for which a lease is taken or extended while it is in use.
const LEASE: Duration = Duration::from_secs(30);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);
/// The pause before another try where the database did not answer, or another instance is at work.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait for a scheduled time while the database does not answer, or while the instance that began the time
/// before may be gone without a word.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The interval at which an instance looks whether another has renewed a credential.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that it looks: longer than a renewal and than the lease of a holder that is gone.
const LOOK_LIMIT: Duration = Duration::from_secs(75);

/// Runs a pass of a job at an interval, unless another instance does that job.
pub async fn run_as_leader(core: &Core, job: &str, interval: Duration, pass: PassFuture) -> Pass {
    let since = Instant::now();
    match leases::take(&core.store, job, &core.instance, millis(LEASE)).await {
        Ok(LeaseOutcome::Alone) => pass.await,
        Ok(LeaseOutcome::Ours(fence)) => {
            let outcome = run_under_lease(core, &fence, since, pass).await;
            if outcome.is_some() {
                hold_beyond_next(core, &fence, interval).await;
            }
            outcome.unwrap_or_else(taken_over)
        }
        Ok(LeaseOutcome::Elsewhere) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Extends the lease of a job at an interval until well after its next pass.
async fn hold_beyond_next(core: &Core, fence: &Fence, interval: Duration) {
    let lasts = (interval * 3 / 2).max(LEASE);
    if let Err(error) = leases::keep(&core.store, fence, millis(lasts)).await {
        log::debug!(
            "the lease of the job \"{}\" could not be extended and runs out soon: {error}",
            fence.job()
        );
    }
}

/// Runs the pass of a job for a time of its schedule, unless that time was served: by another instance, or before the
/// clock was set back.
pub async fn run_scheduled(core: &Core, job: &str, time: Millis, pass: PassFuture) -> Pass {
    let latest = Instant::now() + LONGEST_WAIT;
    let mut is_again = false;
    loop {
        let since = Instant::now();
        match begin(core, job, time, is_again).await {
            Ok(PassStart::Alone) => return pass.await,
            Ok(PassStart::Ours(fence)) => {
                let outcome = run_under_lease(core, &fence, since, pass).await;
                if outcome.is_some()
                    && let Err(error) = leases::release(&core.store, &fence).await
                {
                    log::debug!(
                        "the lease of the job \"{job}\" could not be released and lasts until it expires: \
                         {error}"
                    );
                }
                return outcome.unwrap_or_else(taken_over);
            }
            Ok(PassStart::Served) => return Ok(None),
            Ok(PassStart::Elsewhere) => {}
            Err(store::Error::Unreachable(_)) if since < latest => is_again = true,
            Err(error) => return Err(error.to_string()),
        }
        if since >= latest || core.is_stopping() {
            return Err("the previous run is still in progress on another instance".to_owned());
        }
        sleep(RETRY_PAUSE).await;
    }
}

enum PassStart {
    Alone,
    Ours(Fence),
    Served,
    Elsewhere,
}

/// Takes the lease, then records the time as served. `is_again` says that an earlier try may have recorded it.
async fn begin(core: &Core, job: &str, time: Millis, is_again: bool) -> store::Result<PassStart> {
    let (store, instance) = (&core.store, &core.instance);
    let taken = leases::take(store, job, instance, millis(LEASE)).await?;
    if matches!(taken, LeaseOutcome::Elsewhere) {
        let is_served = job_runs::is_begun(store, job, time).await?;
        return Ok(if is_served { PassStart::Served } else { PassStart::Elsewhere });
    }
    let is_ours = job_runs::claim(store, job, time, now_ms(), instance).await?
        || (is_again && job_runs::is_begun_by(store, job, time, instance).await?);
    Ok(match taken {
        LeaseOutcome::Alone if is_ours => PassStart::Alone,
        LeaseOutcome::Ours(fence) if is_ours => PassStart::Ours(fence),
        LeaseOutcome::Ours(fence) => {
            leases::release(store, &fence).await?;
            PassStart::Served
        }
        _ => PassStart::Served,
    })
}

/// Does `work` while no other instance renews the credential of this account. Its writes do not depend on the lease:
/// what the provider gave for a token that works once must be stored in any case, and the version of the credential
/// decides whether it may be. `work` does not begin while nothing can be stored.
///
/// # Errors
/// When the database does not answer or takes no change, or another instance is at work for longer than it may be.
pub async fn with_account_lease<T>(
    core: &Core,
    account: AccountId,
    work: impl Future<Output = T>,
) -> store::Result<T> {
    // Boxed like the passes of jobs.
    let work = Box::pin(work);
    let job = format!("credential of account {account}");
    let latest = Instant::now() + LOOK_LIMIT;
    loop {
        let since = Instant::now();
        match leases::take(&core.store, &job, &core.instance, millis(LEASE)).await? {
            LeaseOutcome::Alone => {
                leases::try_out(&core.store, &job, &core.instance).await?;
                return Ok(work.await);
            }
            LeaseOutcome::Ours(fence) => {
                let done = tokio::select! {
                    biased;
                    done = work => done,
                    never = keep(core, &fence, since) => match never {},
                };
                if let Err(error) = leases::forget(&core.store, &fence).await {
                    log::debug!(
                        "the lease of the {job} could not be released and lasts until it expires: {error}"
                    );
                }
                return Ok(done);
            }
            LeaseOutcome::Elsewhere if since >= latest => return Err(store::Error::Busy),
            LeaseOutcome::Elsewhere => sleep(LOOK_INTERVAL).await,
        }
    }
}

/// Does `work` under a lease that is extended meanwhile; `None` when the lease was lost.
async fn run_under_lease<T>(
    core: &Core,
    fence: &Fence,
    since: Instant,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = fence.guard(work) => done,
        never = keep(core, fence, since) => match never {},
    }
}

/// Extends a lease that was taken at `since`; loses it when another instance has it, or may have it by now.
async fn keep(core: &Core, fence: &Fence, mut since: Instant) -> std::convert::Infallible {
    let mut pause = RENEWAL_INTERVAL;
    loop {
        let end = since + LEASE;
        sleep_until((Instant::now() + pause).min(end)).await;
        let asked = Instant::now();
        let kept = timeout_at(end, leases::keep(&core.store, fence, millis(LEASE))).await;
        match kept {
            Ok(Ok(true)) => (since, pause) = (asked, RENEWAL_INTERVAL),
            Ok(Err(_)) if Instant::now() < end => pause = RETRY_PAUSE,
            Ok(_) | Err(_) => break,
        }
    }
    log::warn!(
        "the lease of \"{}\" is lost, or may be: another instance may have taken the job over",
        fence.job()
    );
    fence.lose();
    std::future::pending().await
}

fn taken_over() -> Pass {
    Err("stopped: another instance has, or may have, taken over the lease of this job".to_owned())
}
