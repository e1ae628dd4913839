//! Debug traces: single requests recorded in full when an operator asks for it.
//!
//! Texts named `*_json` are JSON.

use super::sql::{Fields, Row, Statement, Value};
pub use super::telemetry::debug_trace::{DebugAttempt, DebugTrace};
use super::{Result, Store};
use crate::ids::{ChannelId, TraceId};
use crate::time::Millis;

/// The size limit of all traces together, in bytes; the oldest are deleted first.
pub const MAX_STORED_BYTES: i64 = 256 << 20;
/// The number of traces that one statement deletes.
const PRUNE_CHUNK: i64 = 200;

/// A stored trace as shown in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceItem {
    pub id: TraceId,
    pub created_at: Millis,
    pub downstream_path: String,
    pub client_kind: Option<String>,
    pub session_id: Option<String>,
    pub requested_model: Option<String>,
    pub selected_channel_id: Option<ChannelId>,
    pub final_status: Option<String>,
    pub final_http_status: Option<i64>,
    pub final_upstream_path: Option<String>,
}

/// A stored trace with its details and attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceDetail {
    pub item: TraceItem,
    /// Named fields in the order of [`DETAIL`].
    pub rest: Vec<(&'static str, Value)>,
    pub updated_at: Millis,
    pub attempts: Vec<AttemptRow>,
}

/// A stored attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRow {
    pub id: i64,
    pub attempt_index: i64,
    pub created_at: Millis,
    /// Named fields in the order of [`ATTEMPT`].
    pub rest: Vec<(&'static str, Value)>,
}

const ITEM: &str = "id, created_at, downstream_path, client_kind, session_id, requested_model, \
     selected_channel_id, final_status, final_http_status, final_upstream_path";

/// The columns of a trace that are shown as stored, with their names in responses.
const DETAIL: [(&str, &str); 15] = [
    ("traceHint", "trace_hint"),
    ("downstreamApiKeyId", "downstream_api_key_id"),
    ("requestHeadersJson", "request_headers_json"),
    ("requestBodyJson", "request_body_json"),
    ("stickySessionKey", "sticky_session_key"),
    ("stickyHitChannelId", "sticky_hit_channel_id"),
    ("selectedRouteId", "selected_route_id"),
    ("selectedAccountId", "selected_account_id"),
    ("selectedSiteId", "selected_site_id"),
    ("selectedSitePlatform", "selected_site_platform"),
    ("endpointCandidatesJson", "endpoint_candidates_json"),
    ("endpointRuntimeStateJson", "endpoint_runtime_state_json"),
    ("decisionSummaryJson", "decision_summary_json"),
    ("finalResponseHeadersJson", "final_response_headers_json"),
    ("finalResponseBodyJson", "final_response_body_json"),
];

/// The columns of an attempt, with their names in responses.
const ATTEMPT: [(&str, &str); 14] = [
    ("endpoint", "endpoint"),
    ("requestPath", "request_path"),
    ("targetUrl", "target_url"),
    ("runtimeExecutor", "runtime_executor"),
    ("requestHeadersJson", "request_headers_json"),
    ("requestBodyJson", "request_body_json"),
    ("responseStatus", "response_status"),
    ("responseHeadersJson", "response_headers_json"),
    ("responseBodyJson", "response_body_json"),
    ("rawErrorText", "raw_error_text"),
    ("recoverApplied", "recover_applied"),
    ("downgradeDecision", "downgrade_decision"),
    ("downgradeReason", "downgrade_reason"),
    ("memoryWriteJson", "memory_write_json"),
];

/// Returns at most `limit` traces, newest first.
pub async fn list(store: &Store, limit: i64) -> Result<Vec<TraceItem>> {
    let sql = format!("SELECT {ITEM} FROM proxy_debug_traces ORDER BY created_at DESC, id DESC LIMIT ?");
    store.rows(sql, vec![limit.into()], read_item).await
}

/// Returns the id of a request's trace, if one was recorded.
pub async fn of_request(store: &Store, request_id: &str) -> Result<Option<TraceId>> {
    let sql = "SELECT id FROM proxy_debug_traces WHERE trace_hint = ? ORDER BY id DESC LIMIT 1";
    store.row(sql, vec![request_id.into()], |row| row.id()).await
}

/// Returns one trace with its attempts, in order.
pub async fn get(store: &Store, id: TraceId) -> Result<Option<TraceDetail>> {
    let columns = DETAIL.map(|(_, column)| column).join(", ");
    let sql = format!("SELECT {ITEM}, updated_at, {columns} FROM proxy_debug_traces WHERE id = ?");
    let rows = store.query(sql, vec![id.into()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let columns = ATTEMPT.map(|(_, column)| column).join(", ");
    let sql = format!(
        "SELECT id, attempt_index, created_at, {columns} FROM proxy_debug_attempts WHERE trace_id = ? \
         ORDER BY attempt_index"
    );
    let attempts = store.query(sql, vec![id.into()]).await?;
    let mut fields = row.fields();
    Ok(Some(TraceDetail {
        item: read_item(&mut fields)?,
        updated_at: fields.int()?,
        rest: with_names(row, 11, &DETAIL),
        attempts: attempts.iter().map(read_attempt).collect::<Result<_>>()?,
    }))
}

/// Deletes traces older than the cutoff, and the oldest beyond [`MAX_STORED_BYTES`]; returns the number
/// deleted.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    let old = "DELETE FROM proxy_debug_traces WHERE id IN (SELECT id FROM (SELECT id FROM proxy_debug_traces \
         WHERE created_at < ? ORDER BY created_at, id LIMIT ?) AS oldest)";
    // The limit is in a subquery of its own: MariaDB allows none in the subquery of IN.
    let surplus = "DELETE FROM proxy_debug_traces WHERE id IN (SELECT id FROM (SELECT id FROM (SELECT id, \
         SUM(stored_bytes) OVER (ORDER BY created_at DESC, id DESC) AS total FROM proxy_debug_traces) AS summed \
         WHERE total > ? ORDER BY id LIMIT ?) AS surplus)";
    let mut deleted = 0;
    for (sql, bound) in [(old, cutoff), (surplus, MAX_STORED_BYTES)] {
        loop {
            let chunk = Statement::new(sql, vec![bound.into(), PRUNE_CHUNK.into()]);
            let rows = store.batch(vec![chunk]).await?[0].rows;
            deleted += rows;
            if rows < PRUNE_CHUNK as u64 {
                break;
            }
        }
    }
    if deleted > 0 {
        store.database().reclaim(200).await?;
    }
    Ok(deleted)
}

fn read_item(row: &mut Fields<'_>) -> Result<TraceItem> {
    Ok(TraceItem {
        id: row.id()?,
        created_at: row.int()?,
        downstream_path: row.text()?,
        client_kind: row.opt_text()?,
        session_id: row.opt_text()?,
        requested_model: row.opt_text()?,
        selected_channel_id: row.opt_id()?,
        final_status: row.opt_text()?,
        final_http_status: row.opt_int()?,
        final_upstream_path: row.opt_text()?,
    })
}

fn read_attempt(row: &Row) -> Result<AttemptRow> {
    let mut fields = row.fields();
    Ok(AttemptRow {
        id: fields.int()?,
        attempt_index: fields.int()?,
        created_at: fields.int()?,
        rest: with_names(row, 3, &ATTEMPT),
    })
}

/// Returns the columns from `first` on under their names in responses.
fn with_names(row: &Row, first: usize, columns: &[(&'static str, &str)]) -> Vec<(&'static str, Value)> {
    columns.iter().map(|(name, _)| *name).zip(row.0.iter().skip(first).cloned()).collect()
}
