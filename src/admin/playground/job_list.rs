//! The jobs of the playground, kept in memory for ten minutes after their last change.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::answer::raw;
use super::error::PlaygroundError;
use crate::http::{self, Response};
use crate::sync::lock;
use crate::time::{MINUTE, Millis, iso};

/// The time for which a job is kept after its last change, in milliseconds.
pub(super) const KEPT: Millis = 10 * MINUTE;

const CANCELLED_KEPT: Millis = 30_000;

/// Maximum number of jobs at once.
const MAX_JOBS: usize = 200;

/// Maximum total length of all stored results, in bytes; beyond it the oldest are removed.
const MAX_BYTES: usize = 64 << 20;

/// The jobs of the playground.
#[derive(Default)]
pub struct JobList(Mutex<HashMap<String, Job>>);

pub(super) struct Job {
    pub(super) state: JobState,
    pub(super) created_at: Millis,
    pub(super) updated_at: Millis,
    pub(super) expires_at: Millis,
}

/// A job as responses show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobView<'a> {
    pub(super) job_id: &'a str,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Cow<'a, RawValue>>,
    pub(super) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated_at: Option<String>,
    pub(super) expires_at: String,
}

pub(super) enum JobState {
    /// A job that runs; dropping the sender stops the work.
    Pending {
        _running: oneshot::Sender<()>,
    },
    Succeeded(Box<RawValue>),
    Failed(JobFailure),
    Cancelled,
}

/// Why a job failed.
pub(super) struct JobFailure {
    pub(super) error: Box<RawValue>,
    /// What had come of the answer when it broke off.
    pub(super) result: Option<Box<RawValue>>,
}

impl JobList {
    /// Removes jobs that have expired.
    pub(super) fn sweep(&self, now: Millis) {
        lock(&self.0).retain(|_, job| !job.is_expired(now));
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    pub(super) fn add(
        &self,
        id: &str,
        running: oneshot::Sender<()>,
        now: Millis,
    ) -> Result<Value, PlaygroundError> {
        let mut jobs = lock(&self.0);
        jobs.retain(|_, job| !job.is_expired(now));
        if jobs.len() >= MAX_JOBS {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(PlaygroundError::failed(
                status,
                format!("There are {MAX_JOBS} jobs already: delete one first"),
            ));
        }
        let job = Job {
            state: JobState::Pending { _running: running },
            created_at: now,
            updated_at: now,
            expires_at: now + KEPT,
        };
        // A new job has no time of a change yet.
        let view = json!(JobView { updated_at: None, ..job.view(id) });
        jobs.insert(id.to_owned(), job);
        Ok(view)
    }

    pub(super) fn end(&self, id: &str, outcome: Result<Box<RawValue>, JobFailure>, now: Millis) {
        let mut jobs = lock(&self.0);
        // A cancelled job stays cancelled, even if its result came at the same moment.
        if let Some(job) = jobs.get_mut(id).filter(|job| matches!(job.state, JobState::Pending { .. })) {
            job.becomes(outcome.map_or_else(JobState::Failed, JobState::Succeeded), now, KEPT);
        }
        while jobs.values().map(Job::bytes).sum::<usize>() > MAX_BYTES {
            let ended = jobs.iter().filter(|(_, job)| job.bytes() > 0);
            let Some((oldest, _)) = ended.min_by_key(|(_, job)| job.updated_at) else { return };
            let oldest = oldest.clone();
            jobs.remove(&oldest);
        }
    }

    /// Stops and removes every job.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Builds the response that shows a job; `None` if there is none.
    pub(super) fn show(&self, id: &str, now: Millis) -> Option<Response> {
        let mut jobs = lock(&self.0);
        jobs.retain(|_, job| !job.is_expired(now));
        jobs.get(id).map(|job| http::json(StatusCode::OK, &job.view(id)))
    }

    /// Stops a job, or removes one that has ended; returns false if there is none.
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

    /// Whether the job is no longer kept; work that still runs is stopped with it.
    pub(super) fn is_expired(&self, now: Millis) -> bool {
        now >= self.expires_at
    }

    /// The length of the stored result, in bytes.
    fn bytes(&self) -> usize {
        match &self.state {
            JobState::Succeeded(result) => result.get().len(),
            JobState::Failed(JobFailure { error, result }) => {
                error.get().len() + result.as_ref().map_or(0, |result| result.get().len())
            }
            JobState::Pending { .. } | JobState::Cancelled => 0,
        }
    }

    pub(super) fn view<'a>(&'a self, id: &'a str) -> JobView<'a> {
        let (status, result, error) = match &self.state {
            JobState::Pending { .. } => ("pending", None, None),
            JobState::Succeeded(result) => ("succeeded", Some(&**result), None),
            JobState::Failed(JobFailure { error, result }) => {
                ("failed", result.as_deref(), Some(Cow::Borrowed(&**error)))
            }
            JobState::Cancelled => {
                let error = raw(&json!({ "message": "The job was cancelled", "type": "cancelled" }));
                ("cancelled", None, Some(Cow::Owned(error)))
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
