//! `/api/stats/proxy-debug/traces`: requests recorded on an operator's word (admin-ops-2.md 18).

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::errors::{AdminError, Result};
use super::{paging, require_id};
use crate::app::App;
use crate::http::{self, Request, Response};
use crate::store;
use crate::store::debug_traces::{self, AttemptRow, TraceDetail, TraceItem};
use crate::time::iso;

/// `GET /api/stats/proxy-debug/traces`
pub async fn list(app: Arc<App>, request: Request) -> Result<Response> {
    let limit = paging::number(&request.query, "limit", 50, 1..=100);
    app.store.flush().await;
    let items = debug_traces::list(&app.store, limit).await?;
    let items: Vec<Map<String, Value>> = items.iter().map(item).collect();
    Ok(http::json(StatusCode::OK, &json!({ "items": items })))
}

/// `GET /api/stats/proxy-debug/traces/{id}`
pub async fn get(app: Arc<App>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    app.store.flush().await;
    let found =
        debug_traces::get(&app.store, id).await?.ok_or_else(|| AdminError::not_found("Debug trace"))?;
    let attempts: Vec<Map<String, Value>> = found.attempts.iter().map(|row| attempt(id, row)).collect();
    Ok(http::json(StatusCode::OK, &json!({ "trace": detail(&found), "attempts": attempts })))
}

fn item(trace: &TraceItem) -> Map<String, Value> {
    let mut shown = Map::new();
    for (name, value) in [
        ("id", json!(trace.id)),
        ("createdAt", json!(iso(trace.created_at))),
        ("downstreamPath", json!(trace.downstream_path)),
        ("clientKind", json!(trace.client_kind)),
        ("sessionId", json!(trace.session_id)),
        ("requestedModel", json!(trace.requested_model)),
        ("selectedChannelId", json!(trace.selected_channel_id)),
        ("finalStatus", json!(trace.final_status)),
        ("finalHttpStatus", json!(trace.final_http_status)),
        ("finalUpstreamPath", json!(trace.final_upstream_path)),
    ] {
        shown.insert(name.to_owned(), value);
    }
    shown
}

fn detail(trace: &TraceDetail) -> Map<String, Value> {
    let mut shown = item(&trace.item);
    shown.insert("updatedAt".to_owned(), iso(trace.updated_at).into());
    add(&mut shown, &trace.rest);
    shown
}

fn attempt(trace: i64, row: &AttemptRow) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), row.id.into());
    shown.insert("traceId".to_owned(), trace.into());
    shown.insert("attemptIndex".to_owned(), row.attempt_index.into());
    shown.insert("createdAt".to_owned(), iso(row.created_at).into());
    add(&mut shown, &row.rest);
    shown
}

fn add(shown: &mut Map<String, Value>, fields: &[(&'static str, store::Value)]) {
    for (name, value) in fields {
        let value = match value {
            store::Value::Int(number) if matches!(*name, "recoverApplied" | "downgradeDecision") => {
                (*number != 0).into()
            }
            store::Value::Int(number) => (*number).into(),
            store::Value::Bool(flag) => (*flag).into(),
            store::Value::Text(text) => text.as_str().into(),
            _ => Value::Null,
        };
        shown.insert((*name).to_owned(), value);
    }
}
