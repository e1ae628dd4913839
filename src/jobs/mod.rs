//! What the service does by itself, and what it does after an operator's request has been answered.
//!
//! ```text
//! schedule        repeats each job; a job never overlaps itself
//! tasks           long operations an operator started and looks up by id
//! crew            owns every detached piece of work; stops it with the service
//! flight          lets everybody who asks for the same costly thing share one run of it
//!
//! model_refresh   which models the accounts can reach          outcome   what its askers are told
//! coverage        the two together, after tokens changed
//! discovery       what one account's credentials reach         token_book  the tokens of one account
//! rebuild         which routes and channels follow from that   retention forgets old log rows and files
//! health          keeps the health of sites over a restart
//! prices          what sites charge, read before requests need it
//! usage_lookup    exact usage from a site's own log, once the client has its answer
//! visit           an account as a visitor of its site
//! quotas          gives back what was reserved for keys that fell silent
//! ```

pub mod coverage;
pub mod crew;
pub mod discovery;
pub mod flight;
pub mod health;
pub mod model_refresh;
pub mod outcome;
pub mod prices;
pub mod quotas;
pub mod rebuild;
pub mod retention;
pub mod schedule;
pub mod tasks;
pub mod token_book;
pub mod usage_lookup;
pub mod visit;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::app::App;
use crate::time::now_ms;
use schedule::{Job, Pass, When};

/// How often all accounts are asked for their models.
const REFRESH_INTERVAL: Duration = Duration::from_secs(3600);
/// How often debug traces are pruned.
const TRACE_INTERVAL: Duration = Duration::from_secs(300);
/// How often the schedule of the log cleanup is looked at.
const CLEANUP_LOOK: Duration = Duration::from_secs(5);

/// Everything the service does by itself.
pub fn all(app: &Arc<App>) -> Vec<Job> {
    let prune_interval = app.config.proxy_log_prune_interval;
    vec![
        job(app, "route rebuild", When::AtStart, rebuild_routes),
        job(app, "model refresh", When::Every(REFRESH_INTERVAL), refresh_models),
        job(app, "price lists", When::AtStartAndEvery(prices::INTERVAL), prices::refresh_due),
        job(app, "proxy log retention", When::AtStartAndEvery(prune_interval), prune_proxy_logs),
        log_cleanup(app),
        job(app, "health of sites", When::Every(Duration::ZERO), health::save_changes),
        job(app, "debug trace retention", When::AtStartAndEvery(TRACE_INTERVAL), prune_debug_traces),
        job(app, "file retention", When::AtStartAndEvery(app.config.files.prune_interval), prune_files),
        job(app, "return of unused reservations", When::Every(quotas::INTERVAL), give_back_silent),
    ]
}

fn job<F>(app: &Arc<App>, name: &'static str, when: When, run: fn(Arc<App>) -> F) -> Job
where
    F: Future<Output = Pass> + Send + 'static,
{
    let app = app.clone();
    // All of them commit in transactions: dropping a pass loses nothing.
    Job { name, when, droppable: true, run: Box::new(move || Box::pin(run(app.clone()))) }
}

/// Looks often whether a time of the operator's schedule has passed since the last look: a schedule may
/// change at any moment, and then the next look goes by the new one.
fn log_cleanup(app: &Arc<App>) -> Job {
    let app = app.clone();
    let looked = AtomicI64::new(now_ms());
    let run = move || -> Pin<Box<dyn Future<Output = Pass> + Send>> {
        let (app, now) = (app.clone(), now_ms());
        let since = looked.swap(now, Ordering::Relaxed);
        Box::pin(async move {
            let settings = app.settings.load_full();
            let zone = &app.config.time_zone;
            let cleaned =
                retention::clean_when_due(&app.store, &settings.log_cleanup, zone, since, now).await;
            let cleaned = cleaned.map_err(|error| error.to_string())?;
            Ok(cleaned.map(|(usage, program)| format!("{usage} log row(s), {program} event(s) deleted")))
        })
    };
    Job { name: "log cleanup", when: When::Every(CLEANUP_LOOK), droppable: true, run: Box::new(run) }
}

async fn rebuild_routes(app: Arc<App>) -> Pass {
    let counts = rebuild::rebuild(&app).await.map_err(|error| error.to_string())?;
    Ok(counts.changed().then(|| format!("{counts:?}")))
}

async fn refresh_models(app: Arc<App>) -> Pass {
    let (outcomes, _counts) = model_refresh::refresh_all_and_rebuild(&app).await?;
    Ok(Some(format!("{} account(s) asked", outcomes.len())))
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
    let pruned = retention::prune_files(&app.store, days, now_ms()).await;
    let (files, uploads) = pruned.map_err(|error| error.to_string())?;
    Ok((files + uploads > 0).then(|| format!("{files} file(s) and {uploads} unfinished upload(s) deleted")))
}

async fn give_back_silent(app: Arc<App>) -> Pass {
    quotas::give_back_silent(&app, now_ms()).await.map_err(|error| error.to_string())?;
    Ok(None)
}
