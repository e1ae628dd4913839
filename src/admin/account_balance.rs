//! `POST /api/accounts/{id}/balance`: what an account has left, asked now (admin-core.md 5.8).

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::errors::{AdminError, Result};
use super::{money, number, require_id};
use crate::app::App;
use crate::http::{self, Request, Response};
use crate::jobs::balance::{self, BalanceReading, Failure, summary_json};

/// `POST /api/accounts/{id}/balance`
pub async fn refresh(app: Arc<App>, request: Request) -> Result<Response> {
    let known = read(&app, require_id(&request)?).await?;
    Ok(http::json(StatusCode::OK, &shown(&known)))
}

/// Reads the balance and puts it in force.
pub async fn read(app: &Arc<App>, id: i64) -> Result<BalanceReading> {
    let known = balance::refresh(app, id).await.map_err(|failure| match failure {
        Failure::NoAccount => AdminError::not_found("Account"),
        Failure::NoAdapter(platform) => {
            AdminError::new(StatusCode::NOT_FOUND, format!("Platform {platform} not found"))
        }
        Failure::Site(_) => AdminError::bad_request(failure.to_string()),
        Failure::Store(error) => error.into(),
    })?;
    if matches!(known, BalanceReading::Read(_)) {
        app.publish().await?;
    }
    Ok(known)
}

fn shown(known: &BalanceReading) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut tell = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    let usd = |value: f64| number(money(value));
    match known {
        BalanceReading::Read(read) => {
            tell("balance", usd(read.balance));
            tell("used", usd(read.used));
            tell("quota", usd(read.quota));
            if let Some(income) = read.today_income {
                tell("todayIncome", usd(income));
            }
            if let Some(consumption) = read.today_quota_consumption {
                tell("todayQuotaConsumption", usd(consumption));
            }
            if let Some(summary) = &read.subscriptions {
                tell("subscriptionSummary", summary_json(summary));
            }
        }
        BalanceReading::Stored { balance, used, quota, reason } => {
            tell("balance", usd(*balance));
            tell("used", usd(*used));
            tell("quota", usd(*quota));
            tell("skipped", true.into());
            tell("reason", (*reason).into());
        }
    }
    shown
}
