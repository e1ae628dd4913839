//! `/api/site-announcements`: the announcements that sites publish.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::errors::Result;
use super::input::Fields;
use super::{paging, require_id};
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::ids::SiteId;
use crate::jobs::announcements::start_sync;
use crate::store::announcements::{self, AnnouncementRow, AnnouncementState, Filter};
use crate::time::{Millis, iso, now_ms};

/// `GET /api/site-announcements`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let query = &request.query;
    let filter = Filter {
        site_id: query.get("siteId").and_then(|id| id.trim().parse().ok().map(SiteId::new)),
        platform: query.get("platform").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
        read: query.get("read").and_then(|read| read.parse().ok()),
        state: match query.get("status").unwrap_or_default().as_str() {
            "active" => Some(AnnouncementState::Active),
            "expired" => Some(AnnouncementState::Expired),
            "dismissed" => Some(AnnouncementState::Dismissed),
            _ => None,
        },
        limit: paging::number(query, "limit", 50, 1..=500),
        offset: paging::offset(query),
    };
    let rows = announcements::list(&admin.core.store, &filter, now_ms()).await?;
    let views: Vec<Value> = rows.iter().map(view).collect();
    Ok(http::json(StatusCode::OK, &views))
}

fn view(row: &AnnouncementRow) -> Value {
    let time = |at: Option<Millis>| at.map(iso);
    let seen = &row.seen;
    json!({
        "id": row.id,
        "siteId": row.site_id,
        "platform": row.platform,
        "sourceKey": seen.source_key,
        "title": seen.title,
        "content": seen.content,
        "level": seen.level,
        "sourceUrl": seen.source_url,
        "startsAt": time(seen.starts_at),
        "endsAt": time(seen.ends_at),
        "upstreamCreatedAt": time(seen.upstream_created_at),
        "upstreamUpdatedAt": time(seen.upstream_updated_at),
        "firstSeenAt": time(row.first_seen_at),
        "lastSeenAt": time(row.last_seen_at),
        "readAt": time(row.read_at),
        "dismissedAt": time(row.dismissed_at),
        "rawPayload": seen.raw_payload,
    })
}

/// `POST /api/site-announcements/{id}/read`
pub async fn mark_read(admin: Arc<Admin>, request: Request) -> Result<Response> {
    announcements::mark_read(&admin.core.store, require_id(&request)?, now_ms()).await?;
    Ok(done())
}

/// `POST /api/site-announcements/read-all`
pub async fn mark_all_read(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    announcements::mark_all_read(&admin.core.store, now_ms()).await?;
    Ok(done())
}

/// `DELETE /api/site-announcements`: deletes all announcements; the events about them stay.
pub async fn clear(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    announcements::clear(&admin.core.store, now_ms()).await?;
    Ok(done())
}

/// `POST /api/site-announcements/sync`
pub async fn sync(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::SYNC, request.json_object().await?);
    let site = match fields.get("siteId") {
        None | Some(Value::Null) => None,
        Some(_) => Some(fields.required_id("siteId")?),
    };
    let started = start_sync(&admin.jobs, site);
    let body = json!({ "success": true, "queued": true, "reused": started.reused, "taskId": started.id });
    Ok(http::json(StatusCode::OK, &body))
}

fn done() -> Response {
    http::json(StatusCode::OK, &json!({ "success": true }))
}
