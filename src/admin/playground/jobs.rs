//! Playground requests that run as jobs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::answer::Answer;
use super::job_list::KEPT;
use super::refused::Refused;
use crate::admin::Admin;
use crate::proxy::internal::{self, InternalRequest};
use crate::time::now_ms;
use crate::uuid;

/// Begins a job and shows it.
pub(super) fn begin(admin: &Arc<Admin>, request: InternalRequest) -> Result<Value, Refused> {
    let id = uuid::v4();
    let (running, stopped) = oneshot::channel();
    let shown = admin.playground.add(&id, running, now_ms())?;
    let (worker, name) = (admin.clone(), id.clone());
    let work = async move {
        tokio::select! {
            // The sender is never used: it only goes.
            _ = stopped => {}
            outcome = run(&worker, request) => worker.playground.end(&name, outcome, now_ms()),
        }
        // What it gave may be long, and nobody may ever ask for it.
        tokio::time::sleep(Duration::from_millis(KEPT.unsigned_abs())).await;
        worker.playground.sweep(now_ms());
    };
    if !admin.core.background.spawn("a try of the proxy", work) {
        admin.playground.cancel(&id, now_ms());
    }
    Ok(shown)
}

/// What the proxy answered, or the error that it answered.
async fn run(admin: &Arc<Admin>, request: InternalRequest) -> Result<Value, Value> {
    let Some(response) = internal::send(&admin.proxy, request).await else {
        return Err(Refused::not_found("The service has no such route").error());
    };
    let answer = Answer::read(response, admin.core.config.request_body_limit)
        .await
        .map_err(|refused| refused.error())?;
    let value = answer.value();
    if answer.status.is_success() {
        return Ok(value);
    }
    let error = value.get("error").filter(|error| error.is_object()).cloned();
    Err(error.unwrap_or_else(|| json!({ "message": value.to_string(), "type": "upstream_error" })))
}
