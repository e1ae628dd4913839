//! Check-ins of many accounts: by hand as a task, by the schedule, or at an interval.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::account::{Trigger, check_in};
use super::runs::Item;
use crate::flight::Interrupted;
use crate::ids::SiteId;
use crate::jobs::Jobs;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::tasks::{Done, Outcome, Spec, Started, TaskEvents, TaskProgress};
use crate::store;
use crate::store::accounts::{self, AccountRow, AccountStatus};
use crate::store::checkins::CheckinStatus;
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::sync::lock;
use crate::time::{HOUR, Millis, now_ms};

/// The sites asked at once; one account at a time at each.
const CONCURRENCY: Concurrency = Concurrency { total: 16, per_site: 1 };

/// Starts a task that checks in all accounts; returns the running task if there is one.
pub fn start_all(jobs: &Arc<Jobs>) -> Started {
    let spec = Spec {
        kind: "checkin",
        title: "Check in all accounts".to_owned(),
        dedupe_key: Some("checkin-all".to_owned()),
        events: TaskEvents::Sent,
    };
    let work = jobs.clone();
    jobs.tasks.start(spec, |progress| async move { task(&work, &progress).await })
}

async fn task(jobs: &Arc<Jobs>, progress: &TaskProgress) -> Outcome {
    let progress = progress.clone();
    let items = run(jobs, RunScope::All, Some(progress)).await?;
    let count = |status| items.iter().filter(|item| item.result.status == Some(status)).count();
    let (success, skipped) = (count(CheckinStatus::Success), count(CheckinStatus::Skipped));
    // An account that was deleted meanwhile has no status.
    let failed = items.len() - success - skipped;
    let summary = json!({ "total": items.len(), "success": success, "skipped": skipped, "failed": failed });
    let message = format!("{success} of {} checked in, {skipped} skipped, {failed} failed", items.len());
    Ok(Done { message, result: json!({ "summary": summary, "total": items.len(), "results": *items }) })
}

/// Checks in all accounts that have check-ins switched on. During a run, returns the result of that run.
///
/// # Errors
/// Returns a message when the run ended early.
pub async fn run_all(jobs: &Arc<Jobs>) -> Result<Arc<Vec<Item>>, String> {
    run(jobs, RunScope::All, None).await
}

/// Checks in the accounts whose last check-in and last try are both longer ago than the interval.
pub async fn run_due(jobs: &Arc<Jobs>) -> Result<Arc<Vec<Item>>, String> {
    // After a run over all accounts few are due.
    jobs.checkins.all.join().await;
    run(jobs, RunScope::Due, None).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunScope {
    All,
    Due,
}

async fn run(
    jobs: &Arc<Jobs>,
    scope: RunScope,
    progress: Option<TaskProgress>,
) -> Result<Arc<Vec<Item>>, String> {
    let work = || run_each(jobs.clone(), scope, progress);
    let flight = match scope {
        RunScope::All => &jobs.checkins.all,
        RunScope::Due => &jobs.checkins.due,
    };
    let ended = flight.run(&jobs.core.background, "a run of check-ins", work).await;
    ended.map_err(|Interrupted| "the check-ins were interrupted".to_owned())
}

async fn run_each(jobs: Arc<Jobs>, scope: RunScope, progress: Option<TaskProgress>) -> Arc<Vec<Item>> {
    let chosen = match choose(&jobs, scope).await {
        Ok(chosen) => chosen,
        Err(error) => {
            log::error!("the accounts to check in could not be read: {error}");
            return Arc::default();
        }
    };
    let total = chosen.len();
    if let Some(progress) = &progress {
        progress.log(format!("{total} account(s) to check in"));
    }
    let items = run_concurrently(chosen, CONCURRENCY, |(account, site): (AccountRow, String)| {
        let (jobs, progress) = (jobs.clone(), progress.clone());
        async move {
            let result = check_in(&jobs, account.id, Trigger::Schedule).await;
            if let Some(progress) = progress {
                let name = account.username.as_deref().unwrap_or("(no name)");
                progress.log(format!("{name} @ {site}: {}", result.message));
            }
            Item { account_id: account.id, username: account.username, site, result }
        }
    });
    let mut items = items.await;
    items.sort_by_key(|item| item.account_id);
    if total > 0
        && let Err(error) = jobs.core.publish().await
    {
        log::error!("the routes do not use the balances after check-ins yet: {error}");
    }
    Arc::new(items)
}

/// Returns the accounts of a run, with the names of their sites.
async fn choose(jobs: &Jobs, scope: RunScope) -> store::Result<Vec<(SiteId, (AccountRow, String))>> {
    let sites: HashMap<SiteId, SiteRow> =
        sites::list(&jobs.core.store).await?.into_iter().map(|site| (site.id, site)).collect();
    let hours = jobs.core.settings.load().values.count("checkin_interval_hours").clamp(1, 24);
    let interval = Millis::try_from(hours).unwrap_or(24) * HOUR;
    let (tried, now) = (lock(&jobs.checkins.tried).clone(), now_ms());
    let is_wanted = |account: &AccountRow| {
        let is_due = is_due(account.last_checkin_at, tried.get(&account.id).copied(), interval, now);
        let site_active = sites.get(&account.site_id).is_some_and(|site| site.status == SiteStatus::Active);
        account.checkin_enabled
            && account.status == AccountStatus::Active
            && account.is_session()
            && (scope == RunScope::All || (is_due && site_active))
    };
    let named = |account: AccountRow| {
        let site = sites.get(&account.site_id).filter(|_| is_wanted(&account))?;
        Some((site.id, (account, site.name.clone())))
    };
    accounts::pick(&jobs.core.store, named).await
}

/// Whether the last check-in and the last try are both longer ago than the interval. One that is in the future does not
/// count: the clock was ahead then.
fn is_due(last: Option<Millis>, tried: Option<Millis>, interval: Millis, now: Millis) -> bool {
    [last, tried].into_iter().flatten().all(|at| now - at >= interval || at > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_due_when_neither_its_last_check_in_nor_its_last_try_is_recent() {
        const HOURS: Millis = 6 * HOUR;
        let now = 100 * HOUR;
        for (last, tried, due) in [
            (None, None, true),
            (Some(now - HOURS), None, true),
            (Some(now - HOURS + 1), None, false),
            (None, Some(now - HOURS + 1), false),
            (Some(now - HOURS), Some(now - HOURS), true),
            (Some(now - 2 * HOURS), Some(now - HOUR), false),
            (Some(now + 9_000 * HOUR), None, true),
            (Some(now + 9_000 * HOUR), Some(now - HOUR), false),
        ] {
            assert_eq!(is_due(last, tried, HOURS, now), due, "{last:?} {tried:?}");
        }
    }
}
