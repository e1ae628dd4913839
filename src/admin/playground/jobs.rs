//! Playground requests that run as jobs: kept in memory for ten minutes after their last change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Refused;
use super::answer::Answer;
use crate::admin::Admin;
use crate::proxy::internal::{self, InternalRequest};
use crate::sync::lock;
use crate::time::{Millis, iso, now_ms};
use crate::uuid;

/// How long after its last change a job is kept, and a cancelled one.
const KEPT: Millis = 600_000;
const CANCELLED_KEPT: Millis = 30_000;
/// How many jobs there may be at once.
const MAX_JOBS: usize = 200;

/// The jobs of the playground.
#[derive(Default)]
pub struct Jobs(Mutex<HashMap<String, Job>>);

struct Job {
    state: JobState,
    created_at: Millis,
    updated_at: Millis,
    expires_at: Millis,
}

/// A job as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobView<'a> {
    job_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    expires_at: String,
}

enum JobState {
    /// Dropping it stops the work.
    Pending {
        _running: oneshot::Sender<()>,
    },
    Succeeded(Value),
    Failed(Value),
    Cancelled,
}

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

impl Jobs {
    /// Forgets what is kept no longer.
    pub(super) fn sweep(&self, now: Millis) {
        lock(&self.0).retain(|_, job| !job.is_expired(now));
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    pub(super) fn add(&self, id: &str, running: oneshot::Sender<()>, now: Millis) -> Result<Value, Refused> {
        let mut jobs = lock(&self.0);
        jobs.retain(|_, job| !job.is_expired(now));
        if jobs.len() >= MAX_JOBS {
            let status = hyper::StatusCode::SERVICE_UNAVAILABLE;
            return Err(Refused::failed(status, format!("There are {MAX_JOBS} jobs already")));
        }
        let job = Job {
            state: JobState::Pending { _running: running },
            created_at: now,
            updated_at: now,
            expires_at: now + KEPT,
        };
        // Nothing has changed since it was made.
        let view = json!(JobView { updated_at: None, ..job.view(id) });
        jobs.insert(id.to_owned(), job);
        Ok(view)
    }

    pub(super) fn end(&self, id: &str, outcome: Result<Value, Value>, now: Millis) {
        let mut jobs = lock(&self.0);
        // A cancelled job stays cancelled, whatever came in the same moment.
        if let Some(job) = jobs.get_mut(id).filter(|job| matches!(job.state, JobState::Pending { .. })) {
            job.becomes(outcome.map_or_else(JobState::Failed, JobState::Succeeded), now, KEPT);
        }
    }

    /// A job as answers show it.
    pub(super) fn show(&self, id: &str, now: Millis) -> Option<Value> {
        let mut jobs = lock(&self.0);
        jobs.retain(|_, job| !job.is_expired(now));
        jobs.get(id).map(|job| json!(job.view(id)))
    }

    /// Stops a job, or forgets one that has ended; false when there is none.
    pub(super) fn cancel(&self, id: &str, now: Millis) -> bool {
        let mut jobs = lock(&self.0);
        jobs.retain(|_, job| !job.is_expired(now));
        match jobs.get_mut(id) {
            None => false,
            Some(job) if matches!(job.state, JobState::Pending { .. }) => {
                job.becomes(JobState::Cancelled, now, CANCELLED_KEPT);
                true
            }
            Some(_) => jobs.remove(id).is_some(),
        }
    }
}

impl Job {
    fn becomes(&mut self, state: JobState, now: Millis, kept: Millis) {
        self.state = state;
        self.updated_at = now;
        self.expires_at = now + kept;
    }

    /// Work that is still going on then goes with its job.
    fn is_expired(&self, now: Millis) -> bool {
        now >= self.expires_at
    }

    fn view<'a>(&'a self, id: &'a str) -> JobView<'a> {
        let (status, result, error) = match &self.state {
            JobState::Pending { .. } => ("pending", None, None),
            JobState::Succeeded(result) => ("succeeded", Some(result), None),
            JobState::Failed(error) => ("failed", None, Some(error.clone())),
            JobState::Cancelled => {
                ("cancelled", None, Some(json!({ "message": "The job was cancelled", "type": "cancelled" })))
            }
        };
        JobView {
            job_id: id,
            status,
            result,
            error,
            created_at: iso(self.created_at),
            updated_at: Some(iso(self.updated_at)),
            expires_at: iso(self.expires_at),
        }
    }
}
