//! Asks for the models of accounts whose tokens or site have changed, or that are enabled, then rebuilds the routes. The
//! answer to a change of tokens reports the result as [`Coverage`]; a failure here never makes the change fail.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::outcome::RefreshOutcome;
use super::refresh;
use crate::ids::{AccountId, SiteId};
use crate::jobs::Jobs;
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;
use crate::store::availability;

/// The number of accounts asked at once.
const PARALLEL: usize = 3;

/// The result, as answers about tokens carry it (`coverageRefresh`).
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    pub refresh: Vec<RefreshOutcome>,
    /// `null` when no account was given.
    pub rebuild: Value,
}

/// Asks these accounts for their models, then rebuilds the routes and publishes.
pub async fn cover(jobs: &Arc<Jobs>, accounts: &[AccountId]) -> Coverage {
    if accounts.is_empty() {
        return Coverage { refresh: Vec::new(), rebuild: Value::Null };
    }
    let mut waiting = accounts.iter().copied();
    let mut running = JoinSet::new();
    let mut refresh = Vec::new();
    loop {
        while running.len() < PARALLEL {
            let Some(id) = waiting.next() else { break };
            let jobs = jobs.clone();
            running.spawn(async move { refresh::refresh_account(&jobs, id).await });
        }
        match running.join_next().await {
            None => break,
            Some(Ok(outcome)) => refresh.push(outcome),
            Some(Err(error)) => log::error!("a refresh of models panicked: {error}"),
        }
    }
    for id in accounts {
        if !refresh.iter().any(|outcome| outcome.account_id == *id) {
            let message = "the models could not be read";
            refresh.push(RefreshOutcome::failed(*id, "coverage_refresh_failed", message));
        }
    }
    refresh.sort_by_key(|outcome| outcome.account_id);
    let rebuild = match rebuild_in(jobs, Scope::of_accounts(accounts.iter().copied())).await {
        Ok(counts) => json!({ "success": true, "result": counts }),
        Err(error) => {
            log::warn!("routes could not be rebuilt after a refresh of models: {error}");
            json!({ "success": false, "error": "the routes could not be rebuilt" })
        }
    };
    Coverage { refresh, rebuild }
}

/// Sites or accounts that are to be active. As long as one is disabled, it is not asked for models.
pub enum Enabled {
    Sites(Vec<SiteId>),
    Accounts(Vec<AccountId>),
}

/// Covers the enabled accounts that have no discovered models yet, in the background.
pub fn cover_undiscovered(jobs: &Arc<Jobs>, enabled: Enabled) {
    let owned = jobs.clone();
    jobs.core.background.spawn("the first model refresh of accounts", async move {
        let store = &owned.core.store;
        let undiscovered = match enabled {
            Enabled::Sites(sites) => availability::undiscovered_at(store, &sites).await,
            Enabled::Accounts(accounts) => availability::undiscovered_among(store, &accounts).await,
        };
        match undiscovered {
            Ok(accounts) => drop(cover(&owned, &accounts).await),
            Err(error) => log::warn!("the enabled accounts without models could not be read: {error}"),
        }
    });
}
