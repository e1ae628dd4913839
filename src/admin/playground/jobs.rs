//! Playground requests that run as jobs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::answer::{Answer, ErrorBody, raw};
use super::error::PlaygroundError;
use super::job_list::{JobFailure, KEPT};
use crate::admin::Admin;
use crate::proxy::internal::{self, InternalRequest};
use crate::time::now_ms;
use crate::uuid;

/// Starts a job and shows it.
pub(super) fn begin(admin: &Arc<Admin>, request: InternalRequest) -> Result<Value, PlaygroundError> {
    let id = uuid::v4();
    let (running, stopped) = oneshot::channel();
    let shown = admin.playground.add(&id, running, now_ms())?;
    let (worker, name) = (admin.clone(), id.clone());
    let work = async move {
        tokio::select! {
            // Nothing is ever sent: the job's end drops the sender.
            _ = stopped => {}
            outcome = run(&worker, request) => worker.playground.end(&name, outcome, now_ms()),
        }
        // The result may be long, and perhaps nobody ever asks for it.
        tokio::time::sleep(Duration::from_millis(KEPT.unsigned_abs())).await;
        worker.playground.sweep(now_ms());
    };
    if !admin.core.background.spawn("a try of the proxy", work) {
        admin.playground.cancel(&id, now_ms());
    }
    Ok(shown)
}

/// Sends the request; returns the proxy's response, or its error.
async fn run(admin: &Arc<Admin>, request: InternalRequest) -> Result<Box<RawValue>, JobFailure> {
    let failure = |error| JobFailure { error, result: None };
    let Some(response) = internal::send(&admin.proxy, request).await else {
        let error = PlaygroundError::not_found("The proxy has no route for this method and path");
        return Err(failure(raw(&error.error())));
    };
    let answer = Answer::read(response, admin.core.config.request_body_limit)
        .await
        .map_err(|refused| failure(raw(&refused.error())))?;
    let body = answer.json();
    if answer.status.is_success() {
        return match answer.stream_error() {
            Some(error) => Err(JobFailure { error: raw(&error), result: Some(body) }),
            None => Ok(body),
        };
    }
    let refusal: Option<ErrorBody> = serde_json::from_str(body.get()).ok();
    let error = refusal.and_then(|refusal| refusal.error).filter(|error| error.get().starts_with('{'));
    let error = error.unwrap_or_else(|| raw(&json!({ "message": body.get(), "type": "upstream_error" })));
    Err(failure(error))
}
