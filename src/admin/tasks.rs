//! `/api/tasks`: what an operator started and how it goes.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::errors::{AdminError, Result};
use super::paging;
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::jobs::tasks::Started;

/// `GET /api/tasks`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let limit = paging::number(&request.query, "limit", 50, 1..=200);
    let tasks = admin.jobs.tasks.list(usize::try_from(limit).unwrap_or(1));
    Ok(http::json(StatusCode::OK, &json!({ "tasks": tasks })))
}

/// `GET /api/tasks/{id}`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let task = admin.jobs.tasks.get(request.params.get("id")).ok_or_else(|| AdminError::not_found("Task"))?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "task": task })))
}

/// The answer of an operation that goes on as a task.
pub fn queued(started: &Started) -> Response {
    http::json(StatusCode::ACCEPTED, &queued_body(started))
}

/// The body of that answer, for operations that say more.
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
