//! A pass over the models of one account, or of all accounts, as a task.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ask::{Probed, Question, probe};
use super::busy::Probes;
use super::target::{ProbeTarget, targets};
use super::verdict::{ProbeVerdict, is_conversational};
use crate::core::Core;
use crate::fence;
use crate::ids::{AccountId, SiteId};
use crate::jobs::Jobs;
use crate::jobs::rebuild::rebuild;
use crate::jobs::run_status::RunStatus;
use crate::jobs::tasks::{Done, Outcome, Spec, Started, TaskEvents, TaskProgress};
use crate::routing::Site;
use crate::store;
use crate::store::Store;
use crate::store::accounts::{self, AccountRow, AccountStatus};
use crate::store::availability::{self, ProbeRecord};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::store::snapshot::site_of_account;
use crate::sync::lock;
use crate::time::now_ms;

/// The number of models in a row without a real answer after which a site is asked for no other.
const MAX_TROUBLED: usize = 3;

/// The result of a pass over one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountProbed {
    pub account_id: AccountId,
    pub site_id: SiteId,
    pub status: RunStatus,
    pub scanned: usize,
    pub supported: usize,
    pub unsupported: usize,
    pub inconclusive: usize,
    /// Models that are not asked for because they take no part in conversations.
    pub skipped: usize,
    pub updated_rows: usize,
    pub message: String,
    #[serde(skip)]
    has_changed: bool,
}

/// The totals of a pass over all its accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub total_accounts: usize,
    pub success: usize,
    pub failed: usize,
    pub skipped: usize,
    pub scanned: usize,
    pub supported: usize,
    pub unsupported: usize,
    pub inconclusive: usize,
    pub skipped_models: usize,
    pub updated_rows: usize,
    pub rebuilt_routes: bool,
}

/// Starts a task that probes one account, or all; returns the running task if there is one.
pub fn start(jobs: &Arc<Jobs>, account: Option<AccountId>) -> Started {
    let scope = account.map_or_else(|| "all".to_owned(), |id| id.to_string());
    let spec = Spec {
        kind: "model-probe",
        title: "Probe which models are served".to_owned(),
        dedupe_key: Some(format!("model-availability-probe-{scope}")),
        events: TaskEvents::Sent,
    };
    let work = jobs.clone();
    jobs.tasks.start(spec, move |progress| async move { task(&work, account, &progress).await })
}

async fn task(jobs: &Arc<Jobs>, account: Option<AccountId>, progress: &TaskProgress) -> Outcome {
    let (results, summary) = pass(jobs, account, progress).await?;
    let message = format!(
        "{} model(s) probed: {} supported, {} unsupported, {} inconclusive",
        summary.scanned, summary.supported, summary.unsupported, summary.inconclusive
    );
    Ok(Done { message, result: json!({ "results": results, "summary": summary }) })
}

/// Whether the account can be probed: it exists and is active, at an active site.
pub async fn can_be_probed(store: &Store, id: AccountId) -> store::Result<bool> {
    Ok(accounts_to_probe(store, Some(id)).await?.len() == 1)
}

async fn accounts_to_probe(
    store: &Store,
    only: Option<AccountId>,
) -> store::Result<Vec<(SiteRow, AccountRow)>> {
    let sites = sites::list(store).await?;
    let active: HashMap<SiteId, &SiteRow> =
        sites.iter().filter(|site| site.status == SiteStatus::Active).map(|site| (site.id, site)).collect();
    let is_chosen =
        |row: &AccountRow| row.status == AccountStatus::Active && only.is_none_or(|id| id == row.id);
    accounts::pick(store, |row| is_chosen(&row).then_some(((*active.get(&row.site_id)?).clone(), row))).await
}

async fn pass(
    jobs: &Arc<Jobs>,
    only: Option<AccountId>,
    progress: &TaskProgress,
) -> store::Result<(Vec<AccountProbed>, Summary)> {
    let mut results = Vec::new();
    for (site, account) in accounts_to_probe(&jobs.core.store, only).await? {
        let result = probe_account(jobs, &site, &account).await;
        let name = account.username.as_deref().unwrap_or("(no name)");
        progress.log(format!("{name} @ {}: {}", site.name, result.message));
        results.push(result);
    }
    let mut summary = Summary::of(&results);
    if results.iter().any(|result| result.has_changed) {
        rebuild(jobs).await?;
        summary.rebuilt_routes = true;
    }
    Ok((results, summary))
}

async fn probe_account(jobs: &Arc<Jobs>, site: &SiteRow, account: &AccountRow) -> AccountProbed {
    let mut result = AccountProbed::new(account, RunStatus::Success);
    let Some(_lease) = ProbeTurn::take(&jobs.probes, account.id) else {
        return AccountProbed {
            message: "a probe of this account is under way".to_owned(),
            ..AccountProbed::new(account, RunStatus::Skipped)
        };
    };
    match probe_models(jobs, site, account, &mut result).await {
        Ok(()) => result,
        Err(error) => {
            log::error!("the models of account {} could not be probed: {error}", account.id);
            AccountProbed { status: RunStatus::Failed, message: "the store failed".to_owned(), ..result }
        }
    }
}

async fn probe_models(
    jobs: &Arc<Jobs>,
    site: &SiteRow,
    account: &AccountRow,
    result: &mut AccountProbed,
) -> store::Result<()> {
    let (core, probes) = (&jobs.core, &jobs.probes);
    let settings = core.settings.load_full();
    let reached = Arc::new(site_of_account(site, account, &core.live, settings.system_proxy_url.as_deref()));
    if let Some(problem) = &reached.misconfigured {
        result.status = RunStatus::Failed;
        result.message = problem.to_string();
        return Ok(());
    }
    let put_off = lock(&probes.put_off).get(&account.id).cloned().unwrap_or_default();
    let mut waiting = targets(&core.store, account, &put_off).await?.into_iter();
    let mut running = JoinSet::new();
    let (mut troubled, mut trouble) = (0, None);
    let is_login = account.oauth_provider.is_some();
    loop {
        let goes_on = trouble.is_none() && !core.is_stopping();
        while goes_on && running.len() < core.config.jobs.probe_concurrency {
            let Some(target) = waiting.next() else { break };
            result.scanned += 1;
            if is_conversational(&target.model) {
                running.spawn(fence::inherited(ask_for(core.clone(), reached.clone(), is_login, target)));
            } else {
                result.skipped += 1;
            }
        }
        let Some(ended) = running.join_next().await else { break };
        let (target, probed) = match ended {
            Ok(Some(probed)) => probed,
            Ok(None) => return Err(store::Error::Superseded),
            Err(panic) => {
                log::error!("a model probe panicked: {panic}");
                result.inconclusive += 1;
                continue;
            }
        };
        troubled = if probed.trouble.is_some() { troubled + 1 } else { 0 };
        trouble = trouble.or(probed.trouble.filter(|_| troubled == MAX_TROUBLED));
        probes.note(account.id, target.name(), probed.trouble.is_some());
        result.take(&core.store, account.id, &target, probed).await?;
    }
    result.message = format!(
        "{} supported, {} unsupported, {} inconclusive, {} skipped",
        result.supported, result.unsupported, result.inconclusive, result.skipped
    );
    if let Some(trouble) = trouble.filter(|_| waiting.len() > 0) {
        result.message += &format!("; {trouble}, the rest was not probed");
    }
    Ok(())
}

async fn ask_for(
    core: Arc<Core>,
    site: Arc<Site>,
    is_login: bool,
    target: ProbeTarget,
) -> (ProbeTarget, Probed) {
    let probed = match &target.credential {
        Some(credential) => {
            let question = Question { site: &site, credential, is_login, model: &target.model };
            probe(&core, question, core.config.jobs.probe_timeout).await
        }
        None => Probed::unanswered("the account has no usable key"),
    };
    (target, probed)
}

/// The right to probe an account, which one pass at a time has.
struct ProbeTurn<'a> {
    probes: &'a Probes,
    account: AccountId,
}

impl<'a> ProbeTurn<'a> {
    fn take(probes: &'a Probes, account: AccountId) -> Option<Self> {
        // Not created, and so not dropped, where another pass has the account.
        lock(&probes.busy).insert(account).then(|| Self { probes, account })
    }
}

impl Drop for ProbeTurn<'_> {
    fn drop(&mut self) {
        lock(&self.probes.busy).remove(&self.account);
    }
}

// === impl AccountProbed ===

impl AccountProbed {
    fn new(account: &AccountRow, status: RunStatus) -> Self {
        Self {
            account_id: account.id,
            site_id: account.site_id,
            status,
            scanned: 0,
            supported: 0,
            unsupported: 0,
            inconclusive: 0,
            skipped: 0,
            updated_rows: 0,
            message: String::new(),
            has_changed: false,
        }
    }

    async fn take(
        &mut self,
        store: &Store,
        account: AccountId,
        target: &ProbeTarget,
        probed: Probed,
    ) -> store::Result<()> {
        let available = match probed.verdict {
            ProbeVerdict::Inconclusive => {
                self.inconclusive += 1;
                return Ok(());
            }
            ProbeVerdict::Supported => {
                self.supported += 1;
                true
            }
            ProbeVerdict::Unsupported => {
                self.unsupported += 1;
                false
            }
        };
        let checked = ProbeRecord { available, latency_ms: probed.latency_ms, at: now_ms() };
        let updated = match target.token {
            Some(token) => availability::check_token(store, token, &target.model, checked).await?,
            None => availability::check(store, account, &target.model, checked).await?,
        };
        self.updated_rows += usize::from(updated);
        self.has_changed |= updated && available != target.available;
        Ok(())
    }
}

// === impl Summary ===

impl Summary {
    fn of(results: &[AccountProbed]) -> Self {
        let sum = |count: fn(&AccountProbed) -> usize| results.iter().map(count).sum();
        let ended = |status| results.iter().filter(|result| result.status == status).count();
        Self {
            total_accounts: results.len(),
            success: ended(RunStatus::Success),
            failed: ended(RunStatus::Failed),
            skipped: ended(RunStatus::Skipped),
            scanned: sum(|result| result.scanned),
            supported: sum(|result| result.supported),
            unsupported: sum(|result| result.unsupported),
            inconclusive: sum(|result| result.inconclusive),
            skipped_models: sum(|result| result.skipped),
            updated_rows: sum(|result| result.updated_rows),
            rebuilt_routes: false,
        }
    }
}

/// Returns the results and the summary from the result of a task of [`start`], for answers that waited for it.
pub fn parts(result: &Value) -> Option<(&Value, &Value)> {
    result.get("results").zip(result.get("summary"))
}
