//! `/api/tasks`: the tasks that operators started on this instance, and the instances on this database.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::errors::{AdminError, Result};
use super::paging;
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::jobs::tasks::Started;
use crate::store::instances::Instance;
use crate::time;

/// `GET /api/tasks`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let limit = paging::number(&request.query, "limit", 50, 1..=200);
    let tasks = admin.jobs.tasks.list(usize::try_from(limit).unwrap_or(1));
    let instances: Vec<Value> =
        admin.core.all_instances().iter().map(|one| instance_view(one, &admin.core.instance)).collect();
    Ok(http::json(StatusCode::OK, &json!({ "tasks": tasks, "instances": instances })))
}

/// Shows a process on this database; `isThis` marks the one that answers.
fn instance_view(instance: &Instance, me: &str) -> Value {
    json!({
        "id": instance.id,
        "name": instance.name,
        "version": instance.version,
        "startedAt": time::iso(instance.started_at),
        "lastSeenAt": time::iso(instance.last_seen_at),
        "isThis": instance.id == me,
    })
}

/// `GET /api/tasks/{id}`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let task = admin.jobs.tasks.get(request.params.get("id")).ok_or_else(|| AdminError::not_found("Task"))?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "task": task })))
}

/// Builds the response of an operation that continues as a task.
pub fn queued(started: &Started) -> Response {
    http::json(StatusCode::ACCEPTED, &queued_body(started))
}

/// Builds the body of that response, for operations that add fields to it.
pub fn queued_body(started: &Started) -> Value {
    json!({
        "success": true,
        "queued": true,
        "reused": started.reused,
        "jobId": started.id,
        "status": started.status,
        "message": started.message,
    })
}
