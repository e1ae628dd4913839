//! What the service does by itself, and what it does after an operator's request has been answered.
//!
//! | module | what it is for |
//! |---|---|
//! | `schedule`, `tasks` | repeats each job, never overlapping itself; long operations that an operator started and looks up by id |
//! | `flight`, `spread` | one run of costly work shared by its callers; work on many accounts with a limit in all and per site |
//! | `site_client`, `session`, `renewal` | the client of a stored account at its site; with a session that is renewed when it runs out; the renewal |
//! | `account_setup`, `account_health`, `health_check` | what follows a new credential; what a site's answer says of an account; a check of all accounts |
//! | `discovery`, `model_refresh`, `coverage`, `outcome` | the models one account reaches; those of all; after a change of tokens; the result as callers get it |
//! | `rebuild` | the routes and channels that follow from the models |
//! | `token_set`, `token_sync` | the tokens of one account; brought in line with what its site lists |
//! | `balance`, `low_balance`, `income` | what accounts have left; the alert when it runs low; what they earned in a day |
//! | `checkin`, `announcements`, `summary` | daily check-ins; what sites announce; the day in one notice |
//! | `probe` | which models are really served, and which cooling channels answer again |
//! | `prices`, `usage_lookup` | price lists, read before requests need them; exact usage from a site's own log |
//! | `rekey` | replaces the keys that credentials are sealed and found by |
//! | `health`, `quotas`, `retention` | keeps the health of sites over a restart; gives back unused reservations of keys; deletes old rows and files |

pub mod account_health;
pub mod account_setup;
pub mod announcements;
pub mod balance;
pub mod checkin;
pub mod coverage;
pub mod discovery;
pub mod flight;
pub mod health;
pub mod health_check;
pub mod income;
mod low_balance;
pub mod model_refresh;
pub mod outcome;
pub mod prices;
pub mod probe;
pub mod quotas;
pub mod rebuild;
pub mod rekey;
pub mod renewal;
pub mod retention;
pub mod schedule;
pub mod session;
pub mod site_client;
pub mod spread;
pub mod summary;
pub mod tasks;
pub mod token_set;
pub mod token_sync;
pub mod usage_lookup;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::app::App;
use crate::cron::Cron;
use crate::settings::LogCleanup;
use crate::store::job_runs;
use crate::time::{Millis, now_ms};
use schedule::{Clock, Job, Pass, Plan, Scheduler, When};

/// How often debug traces are pruned.
const TRACE_INTERVAL: Duration = Duration::from_secs(300);

/// How often old ids of videos are deleted.
const VIDEO_INTERVAL: Duration = Duration::from_secs(3600);
const RESPONSE_INTERVAL: Duration = Duration::from_secs(3600);

/// How often accounts that check in at an interval are looked for.
const CHECKIN_LOOK: Duration = Duration::from_secs(60);

/// Starts everything the service does by itself.
pub fn start(app: &Arc<App>) -> Scheduler {
    let clock = Clock::of_machine(
        app.config.time_zone.clone(),
        app.config.jobs.jitter,
        app.settings_changed.subscribe(),
    );
    Scheduler::start(all(app), &clock)
}

/// Everything the service does by itself.
fn all(app: &Arc<App>) -> Vec<Job> {
    let prune_interval = app.config.proxy_log_prune_interval;
    vec![
        job(app, "route rebuild", When::AtStart, rebuild_routes),
        job(app, "change of keys", When::AtStart, finish_rekeying),
        job(app, "renewal of sessions", When::Every(renewal::INTERVAL), renewal::refresh_due),
        planned(app, "check-in", plan_of_checkins, check_in),
        planned(app, "balance refresh", plan_of_balances, refresh_balances),
        job(app, "announcements", When::AtStartAndEvery(announcements::INTERVAL), sync_announcements),
        planned(app, "daily summary", plan_of_summary, summary::send),
        planned(app, "model probe", plan_of_probes, probe_models),
        planned(app, "recovery of channels", plan_of_recovery, probe::recovery::sweep),
        job(app, "price lists", When::AtStartAndEvery(prices::INTERVAL), prices::refresh_due),
        job(app, "proxy log retention", When::AtStartAndEvery(prune_interval), prune_proxy_logs),
        planned(app, "log cleanup", plan_of_cleanup, clean_logs),
        job(app, "health of sites", When::Every(Duration::ZERO), health::save_changes),
        job(app, "debug trace retention", When::AtStartAndEvery(TRACE_INTERVAL), prune_debug_traces),
        job(app, "file retention", When::AtStartAndEvery(app.config.files.prune_interval), prune_files),
        job(app, "video retention", When::AtStartAndEvery(VIDEO_INTERVAL), prune_videos),
        job(app, "response id retention", When::AtStartAndEvery(RESPONSE_INTERVAL), prune_responses),
        job(app, "return of unused reservations", When::Every(quotas::INTERVAL), give_back_silent),
    ]
}

fn job<F>(app: &Arc<App>, name: &'static str, when: When, run: fn(Arc<App>) -> F) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let app = app.clone();
    // All of them commit in transactions: dropping a pass loses nothing.
    Job { name, when, droppable: true, run: Box::new(move |_| Box::pin(run(app.clone()))) }
}

/// A job whose times an operator may change.
fn planned<F>(app: &Arc<App>, name: &'static str, plan: fn(&App) -> Plan, run: fn(Arc<App>) -> F) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let (planned, app) = (app.clone(), app.clone());
    let run = move |scheduled| {
        let app = app.clone();
        let claimed = async move {
            match scheduled {
                Some(time) if !claim(&app, name, time).await? => Ok(None),
                _ => run(app).await,
            }
        };
        Box::pin(claimed) as Pin<Box<dyn Future<Output = Pass> + Send>>
    };
    let when = When::Planned(Box::new(move || plan(&planned)));
    Job { name, when, droppable: true, run: Box::new(run) }
}

/// Whether this time of a schedule is still to be served: after a clock was set back, a time that comes again
/// is not served again.
async fn claim(app: &App, name: &str, time: Millis) -> Result<bool, String> {
    job_runs::claim(&app.store, name, time, now_ms()).await.map_err(|error| error.to_string())
}

/// The schedule that a setting holds. A stored text that is no schedule was replaced by the default when the
/// settings were read.
fn schedule(app: &App, setting: &str) -> Option<Cron> {
    Cron::parse(app.settings.load().values.text(setting)).ok()
}

fn plan_of_checkins(app: &App) -> Plan {
    if checkin::is_interval(app) {
        return Plan::Every(CHECKIN_LOOK);
    }
    schedule(app, "checkin_cron").map_or(Plan::Never, Plan::About)
}

fn plan_of_summary(app: &App) -> Plan {
    schedule(app, "daily_summary_cron").map_or(Plan::Never, Plan::At)
}

/// The first pass is one interval after it was switched on.
fn plan_of_probes(app: &App) -> Plan {
    let is_on = app.settings.load().values.flag("model_availability_probe_enabled");
    if is_on { Plan::Every(app.config.jobs.probe_interval) } else { Plan::Never }
}

fn plan_of_recovery(app: &App) -> Plan {
    let is_on = app.settings.load().values.flag("channel_recovery_probe_enabled");
    if is_on { Plan::Every(probe::recovery::INTERVAL) } else { Plan::Never }
}

fn plan_of_balances(app: &App) -> Plan {
    schedule(app, "balance_refresh_cron").map_or(Plan::Never, Plan::About)
}

fn plan_of_cleanup(app: &App) -> Plan {
    match &app.settings.load().log_cleanup {
        LogCleanup::Scheduled { cron, .. } => Plan::At(cron.clone()),
        LogCleanup::Retention { .. } => Plan::Never,
    }
}

async fn clean_logs(app: Arc<App>) -> Pass {
    let settings = app.settings.load_full();
    let cleaned = retention::clean(&app.store, &settings.log_cleanup, now_ms()).await;
    let cleaned = cleaned.map_err(|error| error.to_string())?;
    Ok(cleaned.map(|(usage, program)| format!("{usage} log row(s), {program} event(s) deleted")))
}

async fn rebuild_routes(app: Arc<App>) -> Pass {
    let counts = rebuild::rebuild(&app).await.map_err(|error| error.to_string())?;
    Ok(counts.changed().then(|| format!("{counts:?}")))
}

/// As a task: an operator sees it, and who would start one meanwhile joins it.
async fn finish_rekeying(app: Arc<App>) -> Pass {
    rekey::resume(&app);
    Ok(None)
}

async fn check_in(app: Arc<App>) -> Pass {
    let items = match checkin::is_interval(&app) {
        true => checkin::all::run_due(&app).await?,
        false => checkin::all::run_all(&app).await?,
    };
    let failed = items.iter().filter(|item| !item.result.success).count();
    Ok((!items.is_empty()).then(|| format!("{} account(s), {failed} failed", items.len())))
}

async fn refresh_balances(app: Arc<App>) -> Pass {
    let (read, failed) = balance::refresh_all(&app).await.map_err(|error| error.to_string())?;
    let (outcomes, _counts) = model_refresh::refresh_all_and_rebuild(&app).await?;
    let asked = outcomes.len();
    Ok(Some(format!("{read} balance(s) read, {failed} failed; {asked} account(s) asked for models")))
}

/// As a task: an operator sees it, and who starts one meanwhile joins it.
async fn probe_models(app: Arc<App>) -> Pass {
    probe::start(&app, None);
    Ok(None)
}

async fn sync_announcements(app: Arc<App>) -> Pass {
    let synced = announcements::sync(&app, None).await.map_err(|error| error.to_string())?;
    Ok((synced.inserted + synced.failed > 0)
        .then(|| format!("{} new, {} site(s) failed", synced.inserted, synced.failed)))
}

async fn prune_proxy_logs(app: Arc<App>) -> Pass {
    let settings = app.settings.load_full();
    let pruned = retention::prune_proxy_logs(&app.store, &settings.log_cleanup, now_ms()).await;
    let pruned = pruned.map_err(|error| error.to_string())?;
    Ok((pruned > 0).then(|| format!("{pruned} row(s) deleted")))
}

async fn prune_debug_traces(app: Arc<App>) -> Pass {
    let hours = app.settings.load().values.count("proxy_debug_retention_hours");
    let pruned = retention::prune_debug_traces(&app.store, hours, now_ms()).await;
    let pruned = pruned.map_err(|error| error.to_string())?;
    Ok((pruned > 0).then(|| format!("{pruned} trace(s) deleted")))
}

async fn prune_files(app: Arc<App>) -> Pass {
    let days = app.config.files.retention_days;
    let pruned = retention::prune_files(&app.store, &app.uploads, days, app.started, now_ms()).await;
    let (files, uploads) = pruned.map_err(|error| error.to_string())?;
    Ok((files + uploads > 0).then(|| format!("{files} file(s) and {uploads} unfinished upload(s) deleted")))
}

async fn prune_videos(app: Arc<App>) -> Pass {
    let pruned = retention::prune_videos(&app.store, app.config.video_retention_days, now_ms()).await;
    let pruned = pruned.map_err(|error| error.to_string())?;
    Ok((pruned > 0).then(|| format!("{pruned} video(s) deleted")))
}

async fn prune_responses(app: Arc<App>) -> Pass {
    let pruned = retention::prune_responses(&app.store, now_ms()).await;
    let pruned = pruned.map_err(|error| error.to_string())?;
    Ok((pruned > 0).then(|| format!("{pruned} id(s) deleted")))
}

async fn give_back_silent(app: Arc<App>) -> Pass {
    quotas::give_back_silent(&app, now_ms()).await.map_err(|error| error.to_string())?;
    Ok(None)
}
