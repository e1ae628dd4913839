//! Model discovery: which models each account can reach (routing.md 2.1, upstreams-jobs.md 13.5).
//!
//! ```text
//! refresh_account   asks one site with one account's credentials, stores rows and health
//! refresh_all       every active account, three at a time; one run at a time for the process
//! refresh_for_unknown_model   the same from a client's request: rarely, and not waited for long
//! ```
//!
//! Rows are replaced in one transaction and only after an answer: an upstream that is down for an
//! hour costs the account its health mark, never its models. Which routes follow from the rows is
//! [`rebuild`](super::rebuild)'s matter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::crew::lock;
use super::flight::{Coalesced, Interrupted, SingleFlight};
use super::outcome::{RebuildCounts, RefreshOutcome, RefreshStatus};
use super::prices;
pub use super::rebuild::rebuild;
use crate::app::App;
use crate::routing::{Site, pool};
use crate::store;
use crate::store::accounts::{self, AccountRow, Health};
use crate::store::availability::{self, Discovered};
use crate::store::sites::{self, SiteStatus};
use crate::store::snapshot::site_of_account;
use crate::time::now_ms;
use crate::upstream::platforms::{self, DISCOVERY_LIMITS, DiscoveryError, DiscoveryKind};

/// Accounts asked at once.
const PARALLEL: usize = 3;
/// How often clients' requests for unknown models can start a refresh.
const UNKNOWN_MODEL_INTERVAL: Duration = Duration::from_secs(30);
/// How long such a request waits for it.
const UNKNOWN_MODEL_WAIT: Duration = Duration::from_secs(3);
/// The longest model name the store can index (data.md A.1).
const MAX_NAME_CHARS: usize = 191;

/// Which runs of discovery and rebuild are under way; the app holds one.
#[derive(Default)]
pub struct ModelRefresh {
    all: SingleFlight<Vec<RefreshOutcome>>,
    pub(super) rebuild: Coalesced<store::Result<RebuildCounts>>,
    unknown_model: SingleFlight<()>,
    /// When a client's request last started a refresh.
    unknown_model_at: Mutex<Option<Instant>>,
}

/// Asks the account's site for its models and stores what it says. Routes do not change yet.
pub async fn refresh_account(app: &Arc<App>, id: i64) -> RefreshOutcome {
    match try_refresh(app, id).await {
        Ok(outcome) => outcome,
        Err(error) => {
            log::error!("the models of account {id} could not be stored: {error}");
            RefreshOutcome::failed(id, "unknown", "the models could not be stored")
        }
    }
}

/// Refreshes every active account. Who calls this during a run gets the result of that run.
pub async fn refresh_all(app: &Arc<App>) -> Result<Vec<RefreshOutcome>, Interrupted> {
    let run = || refresh_each(app.clone());
    app.model_refresh.all.run(&app.crew, "a model refresh", run).await
}

/// Refreshes every active account, then makes the routes follow.
///
/// # Errors
/// In words, when the run ended early or the store failed.
pub async fn refresh_all_and_rebuild(app: &Arc<App>) -> Result<(Vec<RefreshOutcome>, RebuildCounts), String> {
    let outcomes = refresh_all(app).await.map_err(|Interrupted| "the refresh was interrupted".to_owned())?;
    let counts = rebuild(app).await.map_err(|error| error.to_string())?;
    Ok((outcomes, counts))
}

/// For a request whose model no route knows: refreshes and rebuilds when that was not done within
/// thirty seconds, and waits three seconds at most. The refresh goes on when the wait ends.
pub async fn refresh_for_unknown_model(app: &Arc<App>) {
    let state = &app.model_refresh;
    let work = async {
        if take_turn(&mut lock(&state.unknown_model_at), Instant::now()) {
            let run = || search(app.clone());
            state.unknown_model.run(&app.crew, "a search for an unknown model", run).await.ok();
        } else {
            state.unknown_model.join().await;
        }
    };
    timeout(UNKNOWN_MODEL_WAIT, work).await.ok();
}

async fn search(app: Arc<App>) {
    if let Err(error) = refresh_all_and_rebuild(&app).await {
        log::warn!("a search for an unknown model failed: {error}");
    }
}

fn take_turn(last: &mut Option<Instant>, now: Instant) -> bool {
    let due = last.is_none_or(|last| now.duration_since(last) >= UNKNOWN_MODEL_INTERVAL);
    if due {
        *last = Some(now);
    }
    due
}

async fn refresh_each(app: Arc<App>) -> Vec<RefreshOutcome> {
    let ids = match accounts::list(&app.store).await {
        Ok(rows) => rows.into_iter().filter(is_active).map(|account| account.id),
        Err(error) => {
            log::error!("the accounts to refresh could not be read: {error}");
            return Vec::new();
        }
    };
    let mut outcomes = Vec::new();
    let mut running = JoinSet::new();
    for id in ids {
        if running.len() == PARALLEL {
            outcomes.extend(running.join_next().await.and_then(Result::ok));
        }
        let app = app.clone();
        running.spawn(async move { refresh_account(&app, id).await });
    }
    while let Some(outcome) = running.join_next().await {
        outcomes.extend(outcome.ok());
    }
    outcomes.sort_by_key(|outcome| outcome.account_id);
    let failed = outcomes.iter().filter(|outcome| outcome.status == RefreshStatus::Failed).count();
    log::info!("models refreshed: {} account(s), {failed} failed", outcomes.len());
    outcomes
}

async fn try_refresh(app: &Arc<App>, id: i64) -> store::Result<RefreshOutcome> {
    let Some(account) = accounts::get(&app.store, id).await? else {
        return Ok(RefreshOutcome::not_found(id));
    };
    let site = sites::get(&app.store, account.site_id).await?;
    let Some(site) = site.filter(|site| site.status == SiteStatus::Active) else {
        return Ok(RefreshOutcome::skipped(id, "site_disabled", "site is disabled"));
    };
    let settings = app.settings.load_full();
    let site = site_of_account(&site, &account, &app.live, settings.system_proxy_url.as_deref());
    if !is_active(&account) {
        return Ok(RefreshOutcome::skipped(id, "adapter_or_status", "account is not active"));
    }
    match discover(app, &site, &account).await {
        Ok(found) => {
            let mut batch = availability::replace_discovered_statements(id, &found);
            batch.push(health(id, "healthy", "models discovered"));
            app.store.batch(batch).await?;
            prices::refresh_soon(app, id);
            let names: Vec<String> = found.into_iter().map(|model| model.model_name).collect();
            Ok(RefreshOutcome::success(id, &names))
        }
        Err(error) => {
            log::warn!("model discovery failed for account {id} on site \"{}\": {error}", site.name);
            app.store.batch(vec![health(id, "unhealthy", &error.message)]).await?;
            Ok(RefreshOutcome::failed(id, error.kind.code(), error.message))
        }
    }
}

fn is_active(account: &AccountRow) -> bool {
    account.status == accounts::AccountStatus::Active
}

fn health(id: i64, state: &str, reason: &str) -> store::Statement {
    let health = Health {
        state: state.to_owned(),
        reason: reason.to_owned(),
        source: "model-discovery".to_owned(),
        checked_at: Some(now_ms()),
    };
    accounts::health_statement(id, &health)
}

/// What all usable credentials of the account give together. Fails when none gives anything, with
/// the first failure.
async fn discover(app: &App, site: &Site, account: &AccountRow) -> Result<Vec<Discovered>, DiscoveryError> {
    let mut found: Vec<Discovered> = Vec::new();
    let mut failure = None;
    for credential in prices::usable([&account.api_token, &account.access_token]) {
        let began = Instant::now();
        match ask(app, site, credential).await {
            Ok(names) => merge(&mut found, names, began.elapsed()),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) if found.is_empty() => Err(error),
        None if found.is_empty() => {
            let message = "the account has no credential that can be used".to_owned();
            Err(DiscoveryError { kind: DiscoveryKind::Unauthorized, status: None, message })
        }
        _ => Ok(found),
    }
}

/// Asks the addresses of the site in the pool's order until one answers. A refusal is an answer.
pub async fn ask(app: &App, site: &Site, credential: &str) -> Result<Vec<String>, DiscoveryError> {
    let unusable = |message: String| DiscoveryError { kind: DiscoveryKind::Unknown, status: None, message };
    if let Some(reason) = &site.misconfigured {
        return Err(unusable(reason.clone()));
    }
    let mut failure = None;
    for endpoint in pool::order(&site.endpoints, now_ms()) {
        let headers = &site.custom_headers;
        let asked = platforms::list_models(
            &app.client,
            &endpoint.base,
            site.platform,
            credential,
            headers,
            DISCOVERY_LIMITS,
        );
        match asked.await {
            Err(error) if error.status.is_none_or(pool::rotates) => failure = Some(error),
            answer => return answer,
        }
    }
    Err(failure.unwrap_or_else(|| unusable("no API endpoint available".to_owned())))
}

/// Adds names not there yet, ignoring case; of a known one the lower latency stays.
fn merge(found: &mut Vec<Discovered>, names: Vec<String>, took: Duration) {
    let latency_ms = i64::try_from(took.as_millis()).ok();
    let mut known: std::collections::HashMap<String, usize> =
        found.iter().enumerate().map(|(index, model)| (model.model_name.to_lowercase(), index)).collect();
    for name in names {
        let name = name.trim();
        if name.is_empty() {
            continue;
        }
        if name.chars().count() > MAX_NAME_CHARS {
            log::warn!("a model name of {} characters is too long and was skipped", name.chars().count());
            continue;
        }
        match known.entry(name.to_lowercase()) {
            std::collections::hash_map::Entry::Occupied(index) => {
                let model = &mut found[*index.get()];
                model.latency_ms = model.latency_ms.min(latency_ms);
            }
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(found.len());
                found.push(Discovered { model_name: name.to_owned(), latency_ms });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_trimmed_and_the_first_spelling_wins() {
        let mut found = Vec::new();
        merge(&mut found, names(&[" gpt-4o ", "GPT-4o", "", "o3"]), Duration::from_millis(40));
        merge(&mut found, names(&["O3", "claude"]), Duration::from_millis(10));
        let seen: Vec<_> = found.iter().map(|model| (model.model_name.as_str(), model.latency_ms)).collect();
        assert_eq!(seen, [("gpt-4o", Some(40)), ("o3", Some(10)), ("claude", Some(10))]);
    }

    #[test]
    fn names_that_no_column_holds_are_skipped() {
        let mut found = Vec::new();
        merge(&mut found, vec!["x".repeat(191), "y".repeat(192)], Duration::ZERO);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn unknown_models_start_a_search_once_in_thirty_seconds() {
        let mut last = None;
        let start = Instant::now();
        assert!(take_turn(&mut last, start));
        assert!(!take_turn(&mut last, start + UNKNOWN_MODEL_INTERVAL - Duration::from_millis(1)));
        assert!(take_turn(&mut last, start + UNKNOWN_MODEL_INTERVAL));
        assert!(!take_turn(&mut last, start + UNKNOWN_MODEL_INTERVAL));
    }
}
