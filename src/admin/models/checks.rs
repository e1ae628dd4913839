//! `/api/models/check` and `/api/models/probe`: discovers the models of an account, and probes whether they work.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::schema;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::require_id;
use crate::admin::tasks::queued;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::models::refresh;
use crate::jobs::probe;
use crate::jobs::rebuild::rebuild;
use crate::jobs::tasks::{Started, Status, Task};
use crate::json_number::MAX_EXACT;

/// The interval at which a waiting request checks whether its task has ended.
const LOOK: Duration = Duration::from_millis(50);

/// `POST /api/models/check/{id}`: reads an account's models and rebuilds the routes; also succeeds if the account gives
/// no models.
pub async fn check(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let refresh = refresh::refresh_account(&admin.jobs, id).await;
    let rebuild = rebuild(&admin.jobs).await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "refresh": refresh, "rebuild": rebuild })))
}

/// `POST /api/models/probe`
pub async fn probe(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::PROBE, request.json_object().await?);
    let account = account(&fields)?;
    let wait = fields.bool("wait")?.unwrap_or(false);
    if let Some(id) = account
        && wait
        && !probe::can_be_probed(&admin.core.store, id).await?
    {
        return Err(AdminError::not_found("Account"));
    }
    let started = probe::start(&admin.jobs, account);
    if !wait {
        return Ok(queued(&started));
    }
    Ok(finished(&started, ended(&admin.jobs, &started.id).await))
}

/// Reads the account to probe; `None` (all accounts) if none is named. In text only decimal digits are accepted.
fn account(fields: &Fields) -> Result<Option<AccountId>> {
    let refused = || Invalid::field("accountId", "positive integer").into();
    match fields.get("accountId") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => {
            let id = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
            id.filter(|id| (1..=MAX_EXACT).contains(id))
                .map(|id| Some(AccountId::new(id)))
                .ok_or_else(refused)
        }
        Some(_) => Ok(Some(fields.required_id("accountId")?)),
    }
}

/// Waits for the task to end; returns `None` if the task was forgotten.
async fn ended(jobs: &Jobs, id: &str) -> Option<Task> {
    loop {
        let task = jobs.tasks.get(id)?;
        if task.status.has_ended() {
            return Some(task);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn finished(started: &Started, task: Option<Task>) -> Response {
    let status = task.as_ref().map_or(Status::Failed, |task| task.status);
    let result = task.as_ref().and_then(|task| task.result.as_ref()).and_then(probe::parts);
    if let (Status::Succeeded, Some((results, summary))) = (status, result) {
        let body = json!({
            "success": true,
            "reused": started.reused,
            "jobId": started.id,
            "status": status,
            "results": results,
            "summary": summary,
        });
        return http::json(StatusCode::OK, &body);
    }
    let message =
        task.map_or_else(|| "the result of the probe is no longer kept".to_owned(), |task| task.message);
    let body = json!({
        "success": false,
        "reused": started.reused,
        "jobId": started.id,
        "status": status,
        "message": message,
        "error": message,
    });
    http::json(StatusCode::INTERNAL_SERVER_ERROR, &body)
}
