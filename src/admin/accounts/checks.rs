//! `POST /api/accounts/health/refresh`: checks the health of accounts.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::schema;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::tasks::queued;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::accounts::check::check;
use crate::jobs::tasks::{self, Done};

/// `POST /api/accounts/health/refresh`: runs as a task, or is waited for with `wait`.
pub async fn refresh(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CHECK, request.json_object().await?);
    let only = fields.integer("accountId")?.map(AccountId::new);
    if fields.bool("wait")?.unwrap_or(false) {
        let (summary, results) = check(&admin.jobs, only).await?;
        if only.is_some() && results.is_empty() {
            return Err(AdminError::not_found("Account"));
        }
        let body = json!({ "success": true, "summary": summary, "results": results });
        return Ok(http::json(StatusCode::OK, &body));
    }
    let (title, dedupe_key) = match only {
        Some(id) => {
            (format!("Check the health of account {id}"), format!("refresh-account-runtime-health-{id}"))
        }
        None => {
            ("Check the health of all accounts".to_owned(), "refresh-all-account-runtime-health".to_owned())
        }
    };
    let spec =
        tasks::Spec { kind: "status", title, dedupe_key: Some(dedupe_key), events: tasks::TaskEvents::Sent };
    let for_task = admin.jobs.clone();
    let started = admin.jobs.tasks.start(spec, move |_progress| async move {
        let (summary, results) = check(&for_task, only).await?;
        let message = format!(
            "{} account(s): {} checked, {} failed, {} skipped",
            summary.total, summary.success, summary.failed, summary.skipped
        );
        Ok(Done { message, result: json!({ "summary": summary, "results": results }) })
    });
    Ok(queued(&started))
}
