//! The proxy log, as operators read it: lists, totals, what is old. Kept apart from configuration so that history
//! survives deletes.

use super::sql::{Row, Value, anywhere};
pub use super::telemetry::log_row::{LogStatus, ProxyLogRow, UsageSource};
use super::{Result, Store, prune};
use crate::time::Millis;

/// A stored row, with the names its ids have today (`None` once deleted).
#[derive(Debug, Clone, PartialEq)]
pub struct LogItem {
    pub id: i64,
    pub created_at: Millis,
    pub request_id: Option<String>,
    pub route_id: Option<i64>,
    pub channel_id: Option<i64>,
    pub account_id: Option<i64>,
    pub site_id: Option<i64>,
    pub downstream_api_key_id: Option<i64>,
    pub model_requested: Option<String>,
    pub model_actual: Option<String>,
    pub status: String,
    pub http_status: Option<i64>,
    pub is_stream: Option<bool>,
    pub first_byte_latency_ms: Option<i64>,
    pub latency_ms: Option<i64>,
    pub prompt_tokens: Option<i64>,
    pub completion_tokens: Option<i64>,
    pub total_tokens: Option<i64>,
    pub cache_read_tokens: Option<i64>,
    pub cache_creation_tokens: Option<i64>,
    pub usage_source: Option<String>,
    pub estimated_cost: f64,
    /// Only in [`get`], not in lists.
    pub billing_details: Option<String>,
    pub client_family: Option<String>,
    pub client_app_id: Option<String>,
    pub client_app_name: Option<String>,
    pub client_confidence: Option<String>,
    pub session_id: Option<String>,
    pub downstream_path: Option<String>,
    pub upstream_path: Option<String>,
    pub error_message: Option<String>,
    pub retry_count: i64,
    pub decision_reason: Option<String>,
    pub username: Option<String>,
    pub site_name: Option<String>,
    pub site_url: Option<String>,
    pub downstream_key_name: Option<String>,
    pub downstream_key_group_name: Option<String>,
    /// JSON text of an array.
    pub downstream_key_tags: Option<String>,
}

/// Which rows by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusFilter {
    #[default]
    All,
    Success,
    /// Everything that is not a success.
    Failed,
}

/// Which rows by their client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFilter {
    App(String),
    Family(String),
}

/// Which rows to list.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    pub status: StatusFilter,
    /// A substring of the requested or actual model, or of the key's name, group or tags; case is ignored.
    pub search: Option<String>,
    /// A substring of the requested model alone.
    pub model_requested: Option<String>,
    pub client: Option<ClientFilter>,
    pub site_id: Option<i64>,
    /// Inclusive.
    pub from: Option<Millis>,
    /// Exclusive.
    pub to: Option<Millis>,
}

impl LogFilter {
    /// What the conditions need. Counting a month of rows must not look up names for each.
    fn tables(&self) -> &'static str {
        match &self.search {
            Some(_) => "FROM proxy_logs l LEFT JOIN downstream_api_keys k ON k.id = l.downstream_api_key_id",
            None => "FROM proxy_logs l",
        }
    }
}

/// Totals over the rows of a filter, whatever their status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogSummary {
    pub total_count: i64,
    pub success_count: i64,
    pub failed_count: i64,
    pub total_cost: f64,
    pub total_tokens: i64,
}

/// A client that occurs in the rows of a filter, whatever its client filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOption {
    App { id: String, name: String },
    Family(String),
}

/// One page, newest first, and how many rows there are in all.
pub async fn list(store: &Store, filter: &LogFilter, limit: i64, offset: i64) -> Result<(Vec<LogItem>, i64)> {
    let (filtered, args) = condition(filter, true, true);
    let from = filter.tables();
    let total = store.query(format!("SELECT COUNT(*) {from} {filtered}"), args.clone()).await?;
    let total = total.first().map_or(Ok(0), |row| row.fields().int())?;
    let mut page_args = args;
    page_args.extend([limit.into(), offset.into()]);
    let sql = format!(
        "SELECT {ITEM}, NULL {FROM_NAMED} {filtered} ORDER BY l.created_at DESC, l.id DESC LIMIT ? OFFSET ?"
    );
    let items = store.query(sql, page_args).await?.iter().map(read).collect::<Result<_>>()?;
    Ok((items, total))
}

/// One row with its billing details.
pub async fn get(store: &Store, id: i64) -> Result<Option<LogItem>> {
    let sql = format!("SELECT {ITEM}, l.billing_details {FROM_NAMED} WHERE l.id = ?");
    store.query(sql, vec![id.into()]).await?.first().map(read).transpose()
}

/// The number of the newest row; 0 without any.
pub async fn newest_id(store: &Store) -> Result<i64> {
    let rows = store.query("SELECT COALESCE(MAX(id), 0) FROM proxy_logs", Vec::new()).await?;
    rows.first().map_or(Ok(0), |row| row.fields().int())
}

/// The first rows above one number and not above another, oldest first.
pub async fn between(store: &Store, above: i64, to: i64, limit: usize) -> Result<Vec<LogItem>> {
    let sql = format!("SELECT {ITEM}, NULL {FROM_NAMED} WHERE l.id > ? AND l.id <= ? ORDER BY l.id LIMIT ?");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    store.query(sql, vec![above.into(), to.into(), limit.into()]).await?.iter().map(read).collect()
}

/// Totals of every row the filter lets through, its status aside.
pub async fn summary(store: &Store, filter: &LogFilter) -> Result<LogSummary> {
    let (filtered, args) = condition(filter, false, true);
    let sql = format!(
        "SELECT COUNT(*), COALESCE(SUM(CASE WHEN l.status = 'success' THEN 1 ELSE 0 END), 0), \
         COALESCE(SUM(l.estimated_cost), 0), COALESCE(SUM(l.total_tokens), 0) {} {filtered}",
        filter.tables()
    );
    let rows = store.query(sql, args).await?;
    let Some(row) = rows.first() else { return Ok(LogSummary::default()) };
    let mut row = row.fields();
    let (total_count, success_count) = (row.int()?, row.int()?);
    Ok(LogSummary {
        total_count,
        success_count,
        failed_count: total_count - success_count,
        total_cost: row.real()?,
        total_tokens: row.int()?,
    })
}

/// The clients of every row the filter lets through, its client aside; unordered.
pub async fn client_options(store: &Store, filter: &LogFilter) -> Result<Vec<ClientOption>> {
    let (filtered, args) = condition(filter, true, false);
    let sql = format!(
        "SELECT DISTINCT l.client_family, l.client_app_id, l.client_app_name {} {filtered}",
        filter.tables()
    );
    let mut options = Vec::new();
    for row in store.query(sql, args).await? {
        let mut row = row.fields();
        let (family, app, name) = (row.opt_text()?, row.opt_text()?, row.opt_text()?);
        if let (Some(id), Some(name)) = (app, name) {
            options.push(ClientOption::App { id, name });
        }
        if let Some(family) = family.filter(|family| family != "generic") {
            options.push(ClientOption::Family(family));
        }
    }
    let mut seen = Vec::with_capacity(options.len());
    for option in options {
        if !seen.contains(&option) {
            seen.push(option);
        }
    }
    Ok(seen)
}

/// Deletes rows older than the cutoff; returns how many went.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, "proxy_logs", cutoff).await
}

const FROM_NAMED: &str = "FROM proxy_logs l LEFT JOIN accounts a ON a.id = l.account_id \
     LEFT JOIN sites s ON s.id = l.site_id LEFT JOIN downstream_api_keys k ON k.id = l.downstream_api_key_id";

const ITEM: &str = "l.id, l.created_at, l.request_id, l.route_id, l.channel_id, l.account_id, \
     l.site_id, l.downstream_api_key_id, l.model_requested, l.model_actual, l.status, \
     l.http_status, l.is_stream, l.first_byte_latency_ms, l.latency_ms, l.prompt_tokens, \
     l.completion_tokens, l.total_tokens, l.cache_read_tokens, l.cache_creation_tokens, l.usage_source, l.estimated_cost, l.client_family, \
     l.client_app_id, l.client_app_name, l.client_confidence, l.session_id, l.downstream_path, \
     l.upstream_path, l.error_message, l.retry_count, l.decision_reason, a.username, s.name, s.url, k.name, k.group_name, k.tags";

fn condition(filter: &LogFilter, by_status: bool, by_client: bool) -> (String, Vec<Value>) {
    let mut parts: Vec<&str> = vec!["1 = 1"];
    let mut args: Vec<Value> = Vec::new();
    if let Some(from) = filter.from {
        parts.push("l.created_at >= ?");
        args.push(from.into());
    }
    if let Some(to) = filter.to {
        parts.push("l.created_at < ?");
        args.push(to.into());
    }
    match filter.status {
        StatusFilter::Success if by_status => parts.push("l.status = 'success'"),
        StatusFilter::Failed if by_status => parts.push("l.status <> 'success'"),
        _ => {}
    }
    if let Some(site) = filter.site_id {
        parts.push("l.site_id = ?");
        args.push(site.into());
    }
    match &filter.client {
        Some(ClientFilter::App(id)) if by_client => {
            parts.push("LOWER(l.client_app_id) = ?");
            args.push(id.to_lowercase().into());
        }
        Some(ClientFilter::Family(id)) if by_client => {
            parts.push("LOWER(l.client_family) = ?");
            args.push(id.to_lowercase().into());
        }
        _ => {}
    }
    if let Some(search) = filter.search.as_deref().filter(|text| !text.is_empty()) {
        // Both sides are lowered by the database: SQLite leaves letters beyond ASCII as they are.
        parts.push(
            "(LOWER(l.model_requested) LIKE LOWER(?) ESCAPE '!' \
             OR LOWER(l.model_actual) LIKE LOWER(?) ESCAPE '!' OR LOWER(k.name) LIKE LOWER(?) ESCAPE '!' \
             OR LOWER(k.group_name) LIKE LOWER(?) ESCAPE '!' OR LOWER(k.tags) LIKE LOWER(?) ESCAPE '!')",
        );
        args.extend(std::iter::repeat_n(anywhere(search), 5));
    }
    if let Some(model) = &filter.model_requested {
        parts.push("LOWER(l.model_requested) LIKE LOWER(?) ESCAPE '!'");
        args.push(anywhere(model));
    }
    (format!("WHERE {}", parts.join(" AND ")), args)
}

fn read(row: &Row) -> Result<LogItem> {
    let mut row = row.fields();
    Ok(LogItem {
        id: row.int()?,
        created_at: row.int()?,
        request_id: row.opt_text()?,
        route_id: row.opt_int()?,
        channel_id: row.opt_int()?,
        account_id: row.opt_int()?,
        site_id: row.opt_int()?,
        downstream_api_key_id: row.opt_int()?,
        model_requested: row.opt_text()?,
        model_actual: row.opt_text()?,
        status: row.text()?,
        http_status: row.opt_int()?,
        is_stream: row.opt_bool()?,
        first_byte_latency_ms: row.opt_int()?,
        latency_ms: row.opt_int()?,
        prompt_tokens: row.opt_int()?,
        completion_tokens: row.opt_int()?,
        total_tokens: row.opt_int()?,
        cache_read_tokens: row.opt_int()?,
        cache_creation_tokens: row.opt_int()?,
        usage_source: row.opt_text()?,
        estimated_cost: row.real()?,
        client_family: row.opt_text()?,
        client_app_id: row.opt_text()?,
        client_app_name: row.opt_text()?,
        client_confidence: row.opt_text()?,
        session_id: row.opt_text()?,
        downstream_path: row.opt_text()?,
        upstream_path: row.opt_text()?,
        error_message: row.opt_text()?,
        retry_count: row.int()?,
        decision_reason: row.opt_text()?,
        username: row.opt_text()?,
        site_name: row.opt_text()?,
        site_url: row.opt_text()?,
        downstream_key_name: row.opt_text()?,
        downstream_key_group_name: row.opt_text()?,
        downstream_key_tags: row.opt_text()?,
        billing_details: row.opt_text()?,
    })
}
