//! Checks the health of accounts, one after another, by reading each one's balance.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;

use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::balances::balance;
use crate::jobs::balances::balance::{BalanceReading, Failure, NotAsked};
use crate::jobs::run_status::RunStatus;
use crate::store;
use crate::store::accounts::{self, AccountRow, AccountStatus, Health, HealthSource, HealthState};
use crate::store::sites::{self, SiteStatus};

/// The time limit for the check of one account.
const LIMIT: Duration = Duration::from_secs(10);

/// The counts of a check, by the accounts' health and by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub total: usize,
    pub healthy: usize,
    pub unhealthy: usize,
    pub degraded: usize,
    pub disabled: usize,
    pub unknown: usize,
    pub success: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// The result of the check of one account.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountCheck {
    pub account_id: AccountId,
    pub username: Option<String>,
    pub site_name: String,
    pub status: RunStatus,
    pub state: HealthState,
    pub message: String,
}

/// Checks one account, or all of them. Returns no results when there is no account with the given number.
pub async fn check(jobs: &Arc<Jobs>, only: Option<AccountId>) -> store::Result<(Summary, Vec<AccountCheck>)> {
    let is_meant = |account: &AccountRow| only.is_none_or(|id| id == account.id);
    let accounts = accounts::pick(&jobs.core.store, |row| is_meant(&row).then_some(row)).await?;
    let mut results = Vec::with_capacity(accounts.len());
    for account in &accounts {
        results.push(check_one(jobs, account).await?);
    }
    jobs.core.publish().await?;
    Ok((summary(&results), results))
}

async fn check_one(jobs: &Arc<Jobs>, account: &AccountRow) -> store::Result<AccountCheck> {
    let site = sites::get(&jobs.core.store, account.site_id).await?;
    let checked = |status, state: HealthState, message: &str| AccountCheck {
        account_id: account.id,
        username: account.username.clone(),
        site_name: site.as_ref().map_or_else(String::new, |site| site.name.clone()),
        status,
        state,
        message: message.to_owned(),
    };
    if account.status == AccountStatus::Disabled {
        return Ok(checked(RunStatus::Skipped, HealthState::Disabled, "account disabled"));
    }
    if site.as_ref().is_none_or(|site| site.status != SiteStatus::Active) {
        return Ok(checked(RunStatus::Skipped, HealthState::Disabled, "site disabled"));
    }
    let message = match timeout(LIMIT, balance::refresh(jobs, account.id)).await {
        Ok(Ok(BalanceReading::Read(_))) => {
            let now = accounts::get(&jobs.core.store, account.id).await?.and_then(|account| account.health);
            let state = now.map_or(HealthState::Healthy, |health| health.state);
            return Ok(checked(RunStatus::Success, state, "balance read"));
        }
        Ok(Ok(BalanceReading::Stored { reason: NotAsked::SiteDisabled, .. })) => {
            return Ok(checked(RunStatus::Skipped, HealthState::Disabled, "site disabled"));
        }
        Ok(Ok(BalanceReading::Stored { reason: NotAsked::ProxyOnly, .. })) => {
            return Ok(checked(
                RunStatus::Skipped,
                HealthState::Unknown,
                "an API key has no balance to read",
            ));
        }
        Ok(Err(Failure::NoAccount)) => {
            return Ok(checked(RunStatus::Skipped, HealthState::Unknown, "account not found"));
        }
        Ok(Err(Failure::Store(error))) => return Err(error),
        Ok(Err(failure)) => failure.to_string(),
        Err(_elapsed) => {
            let message = format!("no answer within {} s", LIMIT.as_secs());
            accounts::set_health(
                &jobs.core.store,
                account.id,
                &Health::now(HealthState::Unhealthy, &message, HealthSource::Balance),
            )
            .await?;
            message
        }
    };
    Ok(checked(RunStatus::Failed, HealthState::Unhealthy, &message))
}

fn summary(results: &[AccountCheck]) -> Summary {
    let status = |status| results.iter().filter(|checked| checked.status == status).count();
    let state = |state| results.iter().filter(|checked| checked.state == state).count();
    Summary {
        total: results.len(),
        healthy: state(HealthState::Healthy),
        unhealthy: state(HealthState::Unhealthy),
        degraded: state(HealthState::Degraded),
        disabled: state(HealthState::Disabled),
        unknown: state(HealthState::Unknown),
        success: status(RunStatus::Success),
        failed: status(RunStatus::Failed),
        skipped: status(RunStatus::Skipped),
    }
}
