//! `/api/events`: events that the operator should notice.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::errors::Result;
use super::{paging, require_id};
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::ids::EventId;
use crate::store::events::{self, EventFilter, EventRow};
use crate::time;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    id: EventId,
    #[serde(rename = "type")]
    kind: String,
    title: String,
    message: Option<String>,
    level: &'static str,
    read: bool,
    related_id: Option<i64>,
    related_type: Option<String>,
    created_at: String,
}

impl From<EventRow> for Event {
    fn from(row: EventRow) -> Self {
        Self {
            id: row.id,
            kind: row.kind,
            title: row.title,
            message: row.message,
            level: row.level.as_str(),
            read: row.read,
            related_id: row.related_id,
            related_type: row.related_type,
            created_at: time::iso(row.created_at),
        }
    }
}

/// `GET /api/events`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let query = &request.query;
    let filter = EventFilter {
        kind: query.get("type").filter(|kind| !kind.is_empty()),
        read: query.get("read").and_then(|read| read.parse().ok()),
        limit: paging::number(query, "limit", 30, 1..=500),
        offset: paging::offset(query),
    };
    let events: Vec<Event> =
        events::list(&admin.core.store, &filter).await?.into_iter().map(Event::from).collect();
    Ok(http::json(StatusCode::OK, &events))
}

/// `GET /api/events/count`: the number of unread events.
pub async fn count(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let count = events::count_unread(&admin.core.store).await?;
    Ok(http::json(StatusCode::OK, &json!({ "count": count })))
}

/// `POST /api/events/{id}/read`
pub async fn mark_read(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    events::mark_read(&admin.core.store, id).await?;
    Ok(done())
}

/// `POST /api/events/read-all`
pub async fn mark_all_read(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    events::mark_all_read(&admin.core.store).await?;
    Ok(done())
}

/// `DELETE /api/events`
pub async fn clear(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    events::delete_all(&admin.core.store).await?;
    Ok(done())
}

fn done() -> Response {
    http::json(StatusCode::OK, &json!({ "success": true }))
}
