//! `/api/stats/proxy-debug/traces`: requests that were recorded because an operator asked for it.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::{paging, require_id};
use crate::http::{self, Request, Response};
use crate::ids::{ChannelId, TraceId};
use crate::store;
use crate::store::debug_traces::{self, AttemptRow, TraceDetail, TraceItem};
use crate::time::iso;

/// `GET /api/stats/proxy-debug/traces`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let limit = paging::number(&request.query, "limit", 50, 1..=100);
    admin.core.store.flush().await;
    let items = debug_traces::list(&admin.core.store, limit).await?;
    let items: Vec<ItemView> = items.iter().map(ItemView::of).collect();
    Ok(http::json(StatusCode::OK, &json!({ "items": items })))
}

/// `GET /api/stats/proxy-debug/traces/{id}`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    admin.core.store.flush().await;
    let found = debug_traces::get(&admin.core.store, id)
        .await?
        .ok_or_else(|| AdminError::not_found("Debug trace"))?;
    let attempts: Vec<AttemptView> = found.attempts.iter().map(|row| AttemptView::of(id, row)).collect();
    Ok(http::json(StatusCode::OK, &json!({ "trace": DetailView::of(&found), "attempts": attempts })))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemView<'a> {
    id: TraceId,
    created_at: String,
    downstream_path: &'a str,
    client_kind: Option<&'a str>,
    session_id: Option<&'a str>,
    requested_model: Option<&'a str>,
    selected_channel_id: Option<ChannelId>,
    final_status: Option<&'a str>,
    final_http_status: Option<i64>,
    final_upstream_path: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailView<'a> {
    #[serde(flatten)]
    item: ItemView<'a>,
    updated_at: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttemptView {
    id: i64,
    trace_id: TraceId,
    attempt_index: i64,
    created_at: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl<'a> ItemView<'a> {
    fn of(trace: &'a TraceItem) -> Self {
        Self {
            id: trace.id,
            created_at: iso(trace.created_at),
            downstream_path: &trace.downstream_path,
            client_kind: trace.client_kind.as_deref(),
            session_id: trace.session_id.as_deref(),
            requested_model: trace.requested_model.as_deref(),
            selected_channel_id: trace.selected_channel_id,
            final_status: trace.final_status.as_deref(),
            final_http_status: trace.final_http_status,
            final_upstream_path: trace.final_upstream_path.as_deref(),
        }
    }
}

impl<'a> DetailView<'a> {
    fn of(trace: &'a TraceDetail) -> Self {
        let rest = members(&trace.rest);
        Self { item: ItemView::of(&trace.item), updated_at: iso(trace.updated_at), rest }
    }
}

impl AttemptView {
    fn of(trace_id: TraceId, row: &AttemptRow) -> Self {
        let (attempt_index, created_at) = (row.attempt_index, iso(row.created_at));
        Self { id: row.id, trace_id, attempt_index, created_at, rest: members(&row.rest) }
    }
}

/// Converts named columns to members of a response.
fn members(fields: &[(&'static str, store::Value)]) -> Map<String, Value> {
    let member = |(name, value): &(&'static str, store::Value)| {
        let value = match value {
            store::Value::Int(number) if matches!(*name, "recoverApplied" | "downgradeDecision") => {
                (*number != 0).into()
            }
            store::Value::Int(number) => (*number).into(),
            store::Value::Bool(flag) => (*flag).into(),
            store::Value::Text(text) => text.as_str().into(),
            _ => Value::Null,
        };
        ((*name).to_owned(), value)
    };
    fields.iter().map(member).collect()
}
