//! Model discovery: which models each account can reach.
//!
//! ```text
//! refresh_account   asks one site with one account's credentials, stores rows and health
//! refresh_all       every active account, three at a time; one run at a time for the process
//! refresh_for_unknown_model   refreshes all and rebuilds for a client's request: rarely, and waited for briefly
//! ```
//!
//! The rows are replaced in one transaction and only after an answer: an upstream that is down for an hour costs the
//! account its healthy state, never its models. [`rebuild`](crate::jobs::rebuild) decides which routes follow from the
//! rows.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::discovery::{DiscoveredModels, MAX_MODELS, MAX_TOKEN_MODELS, discover};
use super::outcome::{RebuildCounts, RefreshDetail, RefreshOutcome};
use crate::flight::Interrupted;
use crate::ids::{AccountId, TokenId};
use crate::jobs::Jobs;
use crate::jobs::accounts::health::lacks_another;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::oauth::discovery as connected;
use crate::jobs::oauth::renewal;
use crate::jobs::pace::{PAGE, Pace, run_off_workers};
use crate::jobs::prices;
use crate::jobs::probe::after_refresh;
use crate::jobs::probe::after_refresh::ProbeScope;
use crate::jobs::rebuild::rebuild;
use crate::jobs::rebuild_rows::serves_by;
use crate::jobs::run_status::RunStatus;
use crate::jobs::sessions::site_client::site_client_of;
use crate::jobs::tokens::sync;
use crate::jobs::tokens::sync::SyncOutcome;
use crate::platform::{OAuthProvider, Platform};
use crate::routing::rebuild::ServesBy;
use crate::store;
use crate::store::accounts::{self, AccountRow, AccountStatus, Health, HealthSource, HealthState};
use crate::store::availability::{self, ModelRow, TokenModelRow};
use crate::store::connections::note_statement;
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::store::snapshot::site_of_account;
use crate::store::tokens::{self, TokenRow};
use crate::store::{Statement, Store};
use crate::sync::lock;
use crate::upstream::platforms::{DiscoveryError, DiscoveryKind};

/// The number of accounts asked at once. A site that hangs leaves a place for others.
const CONCURRENCY: Concurrency = Concurrency { total: 3, per_site: 2 };
/// How often discovery is tried for an account whose credential is changed meanwhile.
const ATTEMPTS: usize = 3;
/// The time that a site has to list the keys of an account that has none stored here.
const KEY_WAIT: Duration = Duration::from_secs(8);
/// The shortest time between two refreshes that clients' requests for unknown models start.
const UNKNOWN_MODEL_INTERVAL: Duration = Duration::from_secs(30);
/// The longest time that such a request waits for the refresh.
const UNKNOWN_MODEL_WAIT: Duration = Duration::from_secs(3);

/// Asks the account's site for its models and stores them. Does not change routes yet.
pub async fn refresh_account(jobs: &Arc<Jobs>, id: AccountId) -> RefreshOutcome {
    refresh_at(&Pace::default(), jobs, id).await
}

/// Refreshes as [`refresh_account`] does, whatever the account's status; one that is disabled or expired stays so.
pub async fn refresh_whatever_status(jobs: &Arc<Jobs>, id: AccountId) -> RefreshOutcome {
    outcome_of(id, try_refresh(&Pace::default(), jobs, id, AccountStatuses::AnyStatus).await)
}

async fn refresh_at(pace: &Pace, jobs: &Arc<Jobs>, id: AccountId) -> RefreshOutcome {
    outcome_of(id, try_refresh(pace, jobs, id, AccountStatuses::ActiveOnly).await)
}

fn outcome_of(id: AccountId, refreshed: store::Result<RefreshOutcome>) -> RefreshOutcome {
    match refreshed {
        Ok(outcome) => outcome,
        Err(error) => {
            log::error!("the models of account {id} could not be stored: {error}");
            RefreshOutcome::failed(id, "unknown", "the models could not be stored")
        }
    }
}

/// Refreshes every active account. A call during a run returns the result of that run.
pub async fn refresh_all(jobs: &Arc<Jobs>) -> Result<Vec<RefreshOutcome>, Interrupted> {
    let run = || refresh_each(jobs.clone());
    jobs.model_refresh.all.run(&jobs.core.background, "a model refresh", run).await
}

/// Waits for the refresh of every active account that is under way, if there is one.
pub async fn wait_for_run(jobs: &Jobs) {
    jobs.model_refresh.all.join().await;
}

/// Refreshes every active account, then rebuilds the routes.
///
/// # Errors
/// Returns a message when the run ended early or the store failed.
pub async fn refresh_all_and_rebuild(
    jobs: &Arc<Jobs>,
) -> Result<(Vec<RefreshOutcome>, RebuildCounts), String> {
    let outcomes = refresh_all(jobs).await.map_err(|Interrupted| "the refresh was interrupted".to_owned())?;
    let counts = rebuild(jobs).await?;
    Ok((outcomes, counts))
}

/// Refreshes and rebuilds for a request whose model no route knows, unless that was done within thirty seconds. Waits
/// three seconds at most; the refresh goes on when the wait ends.
pub async fn refresh_for_unknown_model(jobs: &Arc<Jobs>) {
    let state = &jobs.model_refresh;
    let work = async {
        if take_turn(&mut lock(&state.unknown_model_at), Instant::now()) {
            let run = || search(jobs.clone());
            state.unknown_model.run(&jobs.core.background, "a search for an unknown model", run).await.ok();
        } else {
            state.unknown_model.join().await;
        }
    };
    timeout(UNKNOWN_MODEL_WAIT, work).await.ok();
}

async fn search(jobs: Arc<Jobs>) {
    if let Err(error) = refresh_all_and_rebuild(&jobs).await {
        log::warn!("the refresh of all models for an unknown model failed: {error}");
    }
}

fn take_turn(last: &mut Option<Instant>, now: Instant) -> bool {
    let due = last.is_none_or(|last| now.duration_since(last) >= UNKNOWN_MODEL_INTERVAL);
    if due {
        *last = Some(now);
    }
    due
}

async fn refresh_each(jobs: Arc<Jobs>) -> Vec<RefreshOutcome> {
    let active = |account: AccountRow| is_asked(&account).then_some((account.site_id, account.id));
    let accounts = match accounts::pick(&jobs.core.store, active).await {
        Ok(accounts) => accounts,
        Err(error) => {
            log::error!("the accounts to refresh could not be read: {error}");
            return Vec::new();
        }
    };
    let pace = Arc::new(Pace::default());
    let mut outcomes = run_concurrently(accounts, CONCURRENCY, |id| {
        let (jobs, pace) = (jobs.clone(), pace.clone());
        let work = async move { Ok(refresh_at(&pace, &jobs, id).await) };
        async move {
            let stopping = |_| RefreshOutcome::failed(id, "unknown", "the service is stopping");
            run_off_workers(work).await.unwrap_or_else(stopping)
        }
    })
    .await;
    outcomes.sort_by_key(|outcome| outcome.account_id);
    let failed = outcomes.iter().filter(|outcome| outcome.status == RunStatus::Failed).count();
    log::info!("models refreshed: {} account(s), {failed} failed", outcomes.len());
    outcomes
}

/// The account statuses for which a site is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AccountStatuses {
    ActiveOnly,
    AnyStatus,
}

async fn try_refresh(
    pace: &Pace,
    jobs: &Arc<Jobs>,
    id: AccountId,
    asked: AccountStatuses,
) -> store::Result<RefreshOutcome> {
    for attempt in 0..ATTEMPTS {
        if let Some(outcome) = refresh_once(pace, jobs, id, asked, attempt == 0).await? {
            return Ok(outcome);
        }
    }
    Ok(RefreshOutcome::skipped(
        id,
        "adapter_or_status",
        "the credential kept being changed during the refresh",
    ))
}

/// Tries the discovery once. Returns `None` when the account's credential was changed while its site was asked, since
/// the answer says nothing about the new one. If `may_renew`, also after the renewal of a token that its provider
/// refused.
async fn refresh_once(
    pace: &Pace,
    jobs: &Arc<Jobs>,
    id: AccountId,
    asked: AccountStatuses,
    may_renew: bool,
) -> store::Result<Option<RefreshOutcome>> {
    let (row, account) = match rows_to_refresh(&jobs.core.store, id, asked).await? {
        Ok(rows) => rows,
        Err(outcome) => return Ok(Some(outcome)),
    };
    let settings = jobs.core.settings.load_full();
    let site_client = site_client_of(&jobs.core, &row, &account);
    let site = site_of_account(&row, &account, &jobs.core.live, settings.system_proxy_url.as_deref());
    let RoutedTokens { rows: tokens, were_fetched } = tokens_of(jobs, &account).await?;
    let provider = account.oauth_provider.as_deref().and_then(OAuthProvider::parse);
    let found = match provider {
        Some(provider) => connected::discover(&jobs.core, &site, &account, provider).await,
        None => discover(&jobs.core, &site, &account, &tokens, site_client.as_ref().ok()).await,
    };
    let by_tokens = serves_by(&account) == ServesBy::Tokens;
    let is_same = |now: AccountRow| {
        now.access_token == account.access_token && (by_tokens || now.api_token == account.api_token)
    };
    if !accounts::get(&jobs.core.store, id).await?.is_some_and(is_same) {
        return Ok(None);
    }
    match found {
        Ok(found) => take_found(pace, jobs, (&row, &account), found, were_fetched).await,
        Err(mut error) => {
            if let Err(why) = site_client
                && account.is_session()
                && site.misconfigured.is_none()
            {
                error.message = format!("{}; nor can its session be used: {why}", error.message);
            }
            let is_renewed = provider.is_some()
                && may_renew
                && error.kind == DiscoveryKind::Unauthorized
                && renewal::renew(jobs, id, account.access_token.as_ref()).await.is_ok();
            if is_renewed {
                return Ok(None);
            }
            log::warn!("model discovery failed for account {id} on site \"{}\": {error}", site.name);
            note_failure(jobs, &account, provider.is_some(), error).await.map(Some)
        }
    }
}

/// Reads the site and the account; returns the outcome where its models are not asked for.
async fn rows_to_refresh(
    store: &Store,
    id: AccountId,
    asked: AccountStatuses,
) -> store::Result<Result<(SiteRow, AccountRow), RefreshOutcome>> {
    let Some(account) = accounts::get(store, id).await? else {
        return Ok(Err(RefreshOutcome::not_found(id)));
    };
    let site = sites::get(store, account.site_id).await?;
    let Some(site) = site.filter(|site| site.status == SiteStatus::Active) else {
        return Ok(Err(RefreshOutcome::skipped(id, "site_disabled", "site is disabled")));
    };
    if Platform::parse(&site.platform).is_none() {
        let message = format!("the platform \"{}\" is unknown to this release", site.platform);
        return Ok(Err(RefreshOutcome::skipped(id, "adapter_or_status", message)));
    }
    if asked == AccountStatuses::ActiveOnly && !is_asked(&account) {
        return Ok(Err(RefreshOutcome::skipped(id, "adapter_or_status", "account is not active")));
    }
    Ok(Ok((site, account)))
}

/// Stores the models that were found, and probes them where the site asks for it. Returns `None` if the account, or one of
/// its tokens, was deleted meanwhile.
async fn take_found(
    pace: &Pace,
    jobs: &Arc<Jobs>,
    (site, account): (&SiteRow, &AccountRow),
    found: DiscoveredModels,
    discovered_api_token: bool,
) -> store::Result<Option<RefreshOutcome>> {
    match store_found(pace, &jobs.core.store, account, &found).await {
        Err(store::Error::Dangling(_) | store::Error::NotFound) => return Ok(None),
        stored => stored?,
    }
    prices::refresh_soon(jobs, account.id);
    let detail = RefreshDetail::Tried {
        token_scanned: found.tokens_asked,
        discovered_by_credential: found.by_credential,
        discovered_api_token,
    };
    let names = found.models.into_names();
    let post_probe_result = match ProbeScope::of(site) {
        Some(scope) => Some(after_refresh::run(&jobs.core, site, account, &names, &scope).await?),
        None => None,
    };
    Ok(Some(RefreshOutcome { detail, post_probe_result, ..RefreshOutcome::success(account.id, &names) }))
}

/// Stores that no models were found, and why.
async fn note_failure(
    jobs: &Jobs,
    account: &AccountRow,
    is_connected: bool,
    error: DiscoveryError,
) -> store::Result<RefreshOutcome> {
    let mut batch = vec![health(account.id, HealthState::Unhealthy, &error.message)];
    if is_connected {
        let notes = connected::noted(account.extra.as_deref(), Err(&error.message));
        batch.push(note_statement(account, &notes));
    }
    jobs.core.store.batch(batch).await?;
    Ok(RefreshOutcome::failed(account.id, error.kind.code(), error.message))
}

/// Reads the stored models of an account.
async fn known_models(pace: &Pace, store: &Store, id: AccountId) -> store::Result<Vec<ModelRow>> {
    let after = |last: Option<&ModelRow>| {
        let name = last.map(|last| last.model_name.clone()).unwrap_or_default();
        async move { availability::of_account_after(store, id, &name, PAGE).await }
    };
    pace.pages(after, |row| row).await
}

/// Stores the models that an account's site lists, and the health that follows from them.
async fn store_found(
    pace: &Pace,
    store: &Store,
    account: &AccountRow,
    found: &DiscoveredModels,
) -> store::Result<()> {
    let known = known_models(pace, store, account.id).await?;
    pace.piece(store_changes(store, account, known, found)).await
}

async fn store_changes(
    store: &Store,
    account: &AccountRow,
    mut known: Vec<ModelRow>,
    found: &DiscoveredModels,
) -> store::Result<()> {
    let (id, dialect) = (account.id, store.database().dialect());
    let by_tokens = !found.of_tokens.is_empty() || !found.failed_tokens.is_empty();
    let known_of_tokens = if by_tokens { availability::of_tokens_of(store, id).await? } else { Vec::new() };
    let of_token = |token| models_of_token(&known_of_tokens, token);
    let UnlistedTokens { staying, going } = UnlistedTokens::of(found, &known_of_tokens);
    // A model that a token is still routed by stays with the account.
    let of_failed = found.failed_tokens.iter().filter(|token| staying.contains(token));
    let of_failed = of_failed.flat_map(|token| of_token(*token));
    let kept: HashSet<String> =
        of_failed.map(|row| row.model_name.to_lowercase()).filter(|name| !found.models.has(name)).collect();
    known.retain(|row| kept.is_empty() || !kept.contains(&row.model_name.to_lowercase()));
    let mut batch = availability::replace_discovered_statements(dialect, id, &known, found.models.models());
    for (token, models) in &found.of_tokens {
        let known = of_token(*token);
        batch.extend(availability::replace_discovered_by_token_statements(dialect, *token, known, models));
    }
    for token in &going {
        batch.extend(availability::replace_discovered_by_token_statements(
            dialect,
            *token,
            of_token(*token),
            &[],
        ));
    }
    if account.status == AccountStatus::Unhealthy {
        batch.push(accounts::revive_statement(id));
    }
    batch.extend(health_of(account, found, !going.is_empty()).map(Statement::must_change));
    if account.oauth_provider.is_some() {
        let notes = connected::noted(account.extra.as_deref(), Ok(found));
        batch.push(note_statement(account, &notes));
    }
    store.batch(batch).await.map(drop)
}

/// The tokens with known models that got no list.
struct UnlistedTokens {
    /// Tokens that keep their models, as long as there is room for them.
    staying: Vec<TokenId>,
    going: Vec<TokenId>,
}

impl UnlistedTokens {
    fn of(found: &DiscoveredModels, known: &[TokenModelRow]) -> Self {
        let mut room = MAX_TOKEN_MODELS.saturating_sub(found.token_models());
        let (staying, going) = found.not_listed(known).into_iter().partition(|token| {
            let count = models_of_token(known, *token).len();
            let fits = count <= room;
            room -= if fits { count } else { 0 };
            fits
        });
        Self { staying, going }
    }
}

/// Returns the models of one token from rows that are sorted by token.
fn models_of_token(known: &[TokenModelRow], token: TokenId) -> &[TokenModelRow] {
    let from = known.partition_point(|row| row.token_id < token);
    let to = known.partition_point(|row| row.token_id <= token);
    &known[from..to]
}

/// Builds the health that follows from a discovery; none where a missing check-in stays the account's health. `has_lost`
/// tells that tokens lost known models for lack of room.
fn health_of(account: &AccountRow, found: &DiscoveredModels, has_lost: bool) -> Option<Statement> {
    let id = account.id;
    let reason = if found.models.is_cut() {
        format!("more than {MAX_MODELS} models are listed: the first {MAX_MODELS} are used")
    } else if found.is_token_cut || has_lost {
        format!(
            "the keys list more than {MAX_TOKEN_MODELS} models in all: keys beyond that serve fewer or none"
        )
    } else {
        let is_kept = lacks_another(account, &HealthSource::ModelDiscovery);
        return (!is_kept).then(|| health(id, HealthState::Healthy, "models discovered"));
    };
    log::warn!("account {id}: {reason}");
    Some(health(id, HealthState::Degraded, &reason))
}

/// The tokens that an account is routed by.
#[derive(Default)]
struct RoutedTokens {
    rows: Vec<TokenRow>,
    /// Whether they had to be read from the site first, and one of them is usable.
    were_fetched: bool,
}

/// Returns the tokens that the account is routed by, from its site if none is stored: without any it serves nothing.
/// Returns none for an account that is not routed by tokens.
async fn tokens_of(jobs: &Arc<Jobs>, account: &AccountRow) -> store::Result<RoutedTokens> {
    if serves_by(account) != ServesBy::Tokens {
        return Ok(RoutedTokens::default());
    }
    let rows = tokens::of_account(&jobs.core.store, account.id).await?;
    if !rows.is_empty() {
        return Ok(RoutedTokens { rows, were_fetched: false });
    }
    let fetched = timeout(KEY_WAIT, sync::sync_without_event(jobs, account.id)).await;
    if !matches!(fetched, Ok(Ok(Some(SyncOutcome { synced: true, .. })))) {
        return Ok(RoutedTokens::default());
    }
    let rows = tokens::of_account(&jobs.core.store, account.id).await?;
    let were_fetched = rows.iter().any(TokenRow::is_usable);
    Ok(RoutedTokens { rows, were_fetched })
}

/// Whether the account's models are asked for: an unhealthy account is active again once they are found.
fn is_asked(account: &AccountRow) -> bool {
    matches!(account.status, AccountStatus::Active | AccountStatus::Unhealthy)
}

fn health(id: AccountId, state: HealthState, reason: &str) -> Statement {
    accounts::health_statement(id, &Health::now(state, reason, HealthSource::ModelDiscovery))
}

#[cfg(test)]
mod tests {
    use crate::jobs::models::refresh::*;

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
