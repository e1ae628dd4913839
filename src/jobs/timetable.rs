//! The jobs of the service, the times at which they run, and the start and stop of all of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::balances::balance::{self, BalanceCounts};
use super::models::refresh;
use super::retention::{self, PrunedFiles};
use super::schedule::{Clock, Job, Pass, PassFuture, Plan, Scheduler, When};
use super::sessions::renewal;
use super::state::Jobs;
use super::{
    announcements, backups, checkin, health, leadership, oauth, other_instances, prices, probe, quotas,
    rebuild, rekey, summary, update_center,
};
use crate::cron::Cron;
use crate::settings::LogCleanup;
use crate::store::log_sums;
use crate::time::now_ms;

/// The interval at which debug traces are pruned.
const TRACE_INTERVAL: Duration = Duration::from_secs(300);

/// The interval at which spans of the request log that have been over for a while are summed.
const LOG_SUMS_INTERVAL: Duration = Duration::from_secs(600);

/// The interval at which old ids of videos, answers and batches are deleted.
const ID_INTERVAL: Duration = Duration::from_secs(3600);

/// The interval at which accounts that check in at an interval are looked for.
const CHECKIN_LOOK: Duration = Duration::from_secs(60);

/// Starts all jobs of the service.
pub fn start(jobs: &Arc<Jobs>) -> Scheduler {
    let clock = Clock::of_machine(
        jobs.core.config.time_zone.clone(),
        jobs.core.config.jobs.jitter,
        jobs.core.settings_changed.subscribe(),
    );
    jobs.core.background.spawn("the listeners of logins", oauth::listener::open_kept(jobs.clone()));
    Scheduler::start(all(jobs), &clock)
}

/// Lists all jobs of the service.
fn all(jobs: &Arc<Jobs>) -> Vec<Job> {
    let prune_interval = jobs.core.config.proxy_log_prune_interval;
    let mut all = vec![
        job(jobs, "route rebuild", When::AtStart, rebuild_routes),
        job(jobs, "change of keys", When::AtStart, finish_rekeying),
        shared(jobs, "renewal of sessions", When::Every(renewal::INTERVAL), renewal::refresh_due),
        shared(
            jobs,
            "renewal of tokens",
            When::AtStartAndEvery(oauth::renewal::INTERVAL),
            oauth::renewal::renew_due,
        ),
        planned(jobs, "check-in", plan_of_checkins, check_in),
        planned(jobs, "balance refresh", plan_of_balances, refresh_balances),
        shared(jobs, "announcements", When::AtStartAndEvery(announcements::INTERVAL), sync_announcements),
        shared(
            jobs,
            "update check",
            When::AtStartAndEvery(update_center::check::INTERVAL),
            check_for_updates,
        ),
        planned(jobs, "daily summary", plan_of_summary, summary::send),
        planned(jobs, "backup", backups::local::plan, backups::local::make),
        planned(jobs, "backup by WebDAV", backups::remote::plan, backups::remote::sync),
        planned(jobs, "model probe", plan_of_probes, probe_models),
        planned_here(jobs, "recovery of channels", plan_of_recovery, probe::recovery::sweep),
        job(jobs, "price lists", When::AtStartAndEvery(prices::INTERVAL), prices::refresh_due),
        shared(jobs, "proxy log retention", When::AtStartAndEvery(prune_interval), prune_proxy_logs),
        shared(jobs, "sums of the proxy log", When::AtStartAndEvery(LOG_SUMS_INTERVAL), sum_up_proxy_logs),
        planned(jobs, "log cleanup", plan_of_cleanup, clean_logs),
        signalled(jobs, "health of sites", health::changed, health::save_soon),
        job(jobs, "successes of sites", When::Every(health::INTERVAL), health::save_successes),
        shared(jobs, "debug trace retention", When::AtStartAndEvery(TRACE_INTERVAL), prune_debug_traces),
        shared(
            jobs,
            "file retention",
            When::AtStartAndEvery(jobs.core.config.files.prune_interval),
            prune_files,
        ),
        shared(jobs, "video retention", When::AtStartAndEvery(ID_INTERVAL), prune_videos),
        shared(jobs, "response id retention", When::AtStartAndEvery(ID_INTERVAL), prune_responses),
        shared(jobs, "usage hour retention", When::AtStartAndEvery(ID_INTERVAL), prune_usage_hours),
        job(jobs, "return of unused reservations", When::Every(quotas::INTERVAL), give_back_silent),
    ];
    // An instance alone on its database does not wake each second to look for others.
    if jobs.core.store.database().is_shared() {
        all.push(job(
            jobs,
            "changes of other instances",
            When::Every(other_instances::INTERVAL),
            other_instances::follow,
        ));
        let when = When::AtStartAndEvery(other_instances::REPORT_INTERVAL);
        all.push(job(jobs, "list of instances", when, other_instances::report_alive));
        all.push(signalled(
            jobs,
            "word of other instances",
            other_instances::signalled,
            other_instances::follow_signals,
        ));
    }
    all
}

/// Builds a job that one instance does for all that share a database.
fn shared<F>(jobs: &Arc<Jobs>, name: &'static str, when: When, run: fn(Arc<Jobs>) -> F) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let jobs = jobs.clone();
    let interval = when.interval();
    let run = move |_| {
        let jobs = jobs.clone();
        let pass: PassFuture = Box::pin(run(jobs.clone()));
        let led = async move { leadership::run_as_leader(&jobs.core, name, interval, pass).await };
        Box::pin(led) as PassFuture
    };
    Job { name, when, run: Box::new(run) }
}

fn job<F>(jobs: &Arc<Jobs>, name: &'static str, when: When, run: fn(Arc<Jobs>) -> F) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let jobs = jobs.clone();
    Job { name, when, run: Box::new(move |_| Box::pin(run(jobs.clone()))) }
}

/// Builds a job that runs whenever the future of `signal` ends.
fn signalled<S, F>(
    jobs: &Arc<Jobs>,
    name: &'static str,
    signal: fn(Arc<Jobs>) -> S,
    run: fn(Arc<Jobs>) -> F,
) -> Job
where
    S: Future<Output = ()> + Send + 'static,
    F: Future<Output = Pass> + Send + 'static,
{
    let signalled = jobs.clone();
    let when = When::Signalled(Box::new(move || Box::pin(signal(signalled.clone()))));
    job(jobs, name, when, run)
}

/// Builds a job whose times an operator may change.
fn planned<F>(jobs: &Arc<Jobs>, name: &'static str, plan: fn(&Jobs) -> Plan, run: fn(Arc<Jobs>) -> F) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let (planned, jobs) = (jobs.clone(), jobs.clone());
    let run = move |scheduled| {
        let jobs = jobs.clone();
        let pass: PassFuture = Box::pin(run(jobs.clone()));
        let claimed = async move {
            match scheduled {
                Some(time) => leadership::run_scheduled(&jobs.core, name, time, pass).await,
                // An interval has no times that could be claimed.
                None => leadership::run_as_leader(&jobs.core, name, interval_of(&plan(&jobs)), pass).await,
            }
        };
        Box::pin(claimed) as PassFuture
    };
    let when = When::Planned(Box::new(move || plan(&planned)));
    Job { name, when, run: Box::new(run) }
}

/// Builds a job whose times an operator may change, and which each instance does for itself: what it changes is known to
/// that instance only.
fn planned_here<F>(
    jobs: &Arc<Jobs>,
    name: &'static str,
    plan: fn(&Jobs) -> Plan,
    run: fn(Arc<Jobs>) -> F,
) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let planned = jobs.clone();
    Job { when: When::Planned(Box::new(move || plan(&planned))), ..job(jobs, name, When::AtStart, run) }
}

fn interval_of(plan: &Plan) -> Duration {
    match plan {
        Plan::Every(interval) => *interval,
        _ => Duration::ZERO,
    }
}

/// Returns the schedule in a setting. A stored text that is no schedule was replaced by the default when the settings
/// were read.
fn schedule(jobs: &Jobs, setting: &str) -> Option<Cron> {
    Cron::parse(jobs.core.settings.load().values.text(setting)).ok()
}

fn plan_of_checkins(jobs: &Jobs) -> Plan {
    if checkin::is_interval(&jobs.core) {
        return Plan::Every(CHECKIN_LOOK);
    }
    schedule(jobs, "checkin_cron").map_or(Plan::Never, Plan::About)
}

fn plan_of_summary(jobs: &Jobs) -> Plan {
    schedule(jobs, "daily_summary_cron").map_or(Plan::Never, Plan::At)
}

/// Plans the probes; the first pass is one interval after they were switched on.
fn plan_of_probes(jobs: &Jobs) -> Plan {
    let is_on = jobs.core.settings.load().values.flag("model_availability_probe_enabled");
    if is_on { Plan::Every(jobs.core.config.jobs.probe_interval) } else { Plan::Never }
}

fn plan_of_recovery(jobs: &Jobs) -> Plan {
    let is_on = jobs.core.settings.load().values.flag("channel_recovery_probe_enabled");
    if is_on { Plan::Every(probe::recovery::INTERVAL) } else { Plan::Never }
}

fn plan_of_balances(jobs: &Jobs) -> Plan {
    schedule(jobs, "balance_refresh_cron").map_or(Plan::Never, Plan::About)
}

fn plan_of_cleanup(jobs: &Jobs) -> Plan {
    match &jobs.core.settings.load().log_cleanup {
        LogCleanup::Scheduled { cron, .. } => Plan::At(cron.clone()),
        LogCleanup::Retention { .. } => Plan::Never,
    }
}

async fn clean_logs(jobs: Arc<Jobs>) -> Pass {
    let settings = jobs.core.settings.load_full();
    let cleaned = retention::clean(&jobs.core.store, &settings.log_cleanup, now_ms()).await?;
    Ok(cleaned.map(|cleaned| format!("{} log row(s), {} event(s) deleted", cleaned.log_rows, cleaned.events)))
}

async fn rebuild_routes(jobs: Arc<Jobs>) -> Pass {
    let counts = rebuild::rebuild(&jobs).await?;
    Ok(counts.changed().then(|| format!("{counts:?}")))
}

/// Runs as a task, so that an operator sees it and another start meanwhile joins it.
async fn finish_rekeying(jobs: Arc<Jobs>) -> Pass {
    rekey::resume(&jobs);
    Ok(None)
}

async fn check_in(jobs: Arc<Jobs>) -> Pass {
    let items = if checkin::is_interval(&jobs.core) {
        checkin::all::run_due(&jobs).await?
    } else {
        checkin::all::run_all(&jobs).await?
    };
    let failed = items.iter().filter(|item| !item.result.is_success()).count();
    Ok((!items.is_empty()).then(|| format!("{} account(s), {failed} failed", items.len())))
}

async fn refresh_balances(jobs: Arc<Jobs>) -> Pass {
    let BalanceCounts { asked: balances, failed } = balance::refresh_all(&jobs).await?;
    let (outcomes, _counts) = refresh::refresh_all_and_rebuild(&jobs).await?;
    let accounts = outcomes.len();
    Ok(Some(format!("{balances} balance(s) read, {failed} failed; {accounts} account(s) asked for models")))
}

/// Runs as a task, so that an operator sees it and another start meanwhile joins it.
async fn probe_models(jobs: Arc<Jobs>) -> Pass {
    probe::start(&jobs, None);
    Ok(None)
}

async fn sync_announcements(jobs: Arc<Jobs>) -> Pass {
    let synced = announcements::sync(&jobs, None).await?;
    Ok((synced.inserted + synced.failed > 0)
        .then(|| format!("{} new, {} site(s) failed", synced.inserted, synced.failed)))
}

/// Checks also where nothing may be deployed: an operator who named a source wants to hear what is new there.
async fn check_for_updates(jobs: Arc<Jobs>) -> Pass {
    let config = update_center::saved::config(&jobs.core.store).await?;
    if !update_center::check::has_update_source(&jobs.core, &config) {
        return Ok(None);
    }
    let state = update_center::check::check(&jobs).await?;
    match state.last_check_error {
        Some(problem) => Err(problem),
        None => Ok(None),
    }
}

async fn prune_proxy_logs(jobs: Arc<Jobs>) -> Pass {
    let settings = jobs.core.settings.load_full();
    let pruned = retention::prune_proxy_logs(&jobs.core.store, &settings.log_cleanup, now_ms()).await?;
    Ok(deleted(pruned, "row(s)"))
}

async fn sum_up_proxy_logs(jobs: Arc<Jobs>) -> Pass {
    let summed = log_sums::sum_up(&jobs.core.store, now_ms()).await?;
    Ok((summed > 0).then(|| format!("{summed} span(s) summed")))
}

async fn prune_debug_traces(jobs: Arc<Jobs>) -> Pass {
    let hours = jobs.core.settings.load().values.count("proxy_debug_retention_hours");
    Ok(deleted(retention::prune_debug_traces(&jobs.core.store, hours, now_ms()).await?, "trace(s)"))
}

async fn prune_files(jobs: Arc<Jobs>) -> Pass {
    let days = jobs.core.config.files.retention_days;
    let core = &jobs.core;
    let pruned = retention::prune_files(&core.store, &core.uploads, days, core.started, now_ms());
    let PrunedFiles { files, unfinished_uploads } = pruned.await?;
    Ok((files + unfinished_uploads > 0)
        .then(|| format!("{files} file(s) and {unfinished_uploads} unfinished upload(s) deleted")))
}

async fn prune_videos(jobs: Arc<Jobs>) -> Pass {
    let days = jobs.core.config.video_retention_days;
    Ok(deleted(retention::prune_videos(&jobs.core.store, days, now_ms()).await?, "video(s)"))
}

async fn prune_responses(jobs: Arc<Jobs>) -> Pass {
    Ok(deleted(retention::prune_responses(&jobs.core.store, now_ms()).await?, "id(s)"))
}

async fn prune_usage_hours(jobs: Arc<Jobs>) -> Pass {
    Ok(deleted(retention::prune_usage_hours(&jobs.core.store, now_ms()).await?, "sum(s) of hours"))
}

/// Builds the log line of a pass that deletes.
fn deleted(count: u64, what: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {what} deleted"))
}

async fn give_back_silent(jobs: Arc<Jobs>) -> Pass {
    quotas::give_back_silent(&jobs.core, now_ms()).await?;
    Ok(None)
}

/// Begins no further pass and task and waits for those under way; at the deadline, stops them.
pub async fn finish(jobs: &Jobs, scheduler: Scheduler, deadline: Instant) {
    tokio::join!(
        scheduler.stop(deadline),
        jobs.tasks.finish(deadline),
        // These end the queues of check-ins and renewals at once, and wait for those that were sent.
        jobs.renewals.drain(),
        jobs.checkins.drain(),
    );
}

/// Ends everything in the background once jobs and tasks have [finished](finish), and stores what would be lost.
pub async fn stop(jobs: &Jobs) {
    let core = &jobs.core;
    core.background.stop().await;
    let (given_back, ()) = tokio::join!(quotas::give_back_all(core), core.notifier.stop());
    if let Err(error) = given_back {
        log::warn!(
            "unused reserved requests of downstream keys could not be given back and stay counted: {error}"
        );
    }
    if let Err(error) = health::save(jobs).await {
        log::warn!("the health of sites could not be stored: {error}");
    }
}
