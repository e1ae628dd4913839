//! `POST /api/accounts/{id}/balance`: reads the balance of an account from its site.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;

use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::require_id;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::balances::balance;
use crate::jobs::balances::balance::{BalanceReading, Failure, summary_json};
use crate::money::Usd;

/// `POST /api/accounts/{id}/balance`
pub async fn refresh(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let reading = read(&admin.jobs, require_id(&request)?).await?;
    Ok(http::json(StatusCode::OK, &BalanceView::of(&reading)))
}

/// Reads the balance from the site, stores it and publishes it.
pub async fn read(jobs: &Arc<Jobs>, id: AccountId) -> Result<BalanceReading> {
    let reading = balance::refresh(jobs, id).await.map_err(|failure| match failure {
        Failure::NoAccount => AdminError::not_found("Account"),
        Failure::NoAdapter(platform) => {
            AdminError::new(StatusCode::NOT_FOUND, format!("Platform {platform} not found"))
        }
        Failure::Site(_) => AdminError::bad_request(failure.to_string()),
        Failure::Store(error) => error.into(),
    })?;
    if matches!(reading, BalanceReading::Read(_)) {
        jobs.core.publish().await?;
    }
    Ok(reading)
}

/// A balance in a response: as just read, with what else the site reported, or as stored, with the reason why it was
/// not read.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BalanceView {
    balance: Usd,
    used: Usd,
    quota: Usd,
    #[serde(skip_serializing_if = "Option::is_none")]
    today_income: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    today_quota_consumption: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription_summary: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl BalanceView {
    fn of(reading: &BalanceReading) -> Self {
        match reading {
            BalanceReading::Read(read) => Self {
                balance: read.balance.rounded(),
                used: read.used.rounded(),
                quota: read.quota.rounded(),
                today_income: read.today_income.map(Usd::rounded),
                today_quota_consumption: read.today_quota_consumption.map(Usd::rounded),
                subscription_summary: read.subscriptions.as_ref().map(summary_json),
                ..Self::default()
            },
            BalanceReading::Stored { balance, used, quota, reason } => Self {
                balance: balance.rounded(),
                used: used.rounded(),
                quota: quota.rounded(),
                skipped: true,
                reason: Some(reason.as_str()),
                ..Self::default()
            },
        }
    }
}
