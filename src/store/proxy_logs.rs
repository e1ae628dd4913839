//! The proxy log as operators read it: lists, totals, and deletion of old rows. Kept apart from configuration
//! so that history survives deletes.

use std::collections::HashSet;

use serde::Serialize;

use super::log_sums::{Block, MODEL_SUMS, Parts, SITE_SUMS, SUMS, SumTable};
use super::sql::{Fields, Row, SqlDialect, Value, contains_pattern, list_contains_pattern};
pub use super::telemetry::log_row::{ChargedUsage, LogStatus, ProxyLogRow, UsageSource};
use super::telemetry::log_spans;
use super::{Result, Store, prune};
use crate::ids::{AccountId, ChannelId, KeyId, LogId, RouteId, SiteId};
use crate::money::Usd;
use crate::time::Millis;

/// A stored row, with the current names of its ids (`None` once deleted).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogItem {
    pub id: LogId,
    #[serde(skip)]
    pub created_at: Millis,
    pub request_id: Option<String>,
    pub route_id: Option<RouteId>,
    pub channel_id: Option<ChannelId>,
    pub account_id: Option<AccountId>,
    pub site_id: Option<SiteId>,
    pub downstream_api_key_id: Option<KeyId>,
    pub model_requested: Option<String>,
    pub model_actual: Option<String>,
    pub status: LogStatus,
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
    pub estimated_cost: Usd,
    /// Only filled by [`get`], not in lists.
    #[serde(skip)]
    pub billing_details: Option<String>,
    pub client_family: Option<String>,
    pub client_app_id: Option<String>,
    pub client_app_name: Option<String>,
    pub client_confidence: Option<String>,
    #[serde(skip)]
    pub session_id: Option<String>,
    #[serde(skip)]
    pub downstream_path: Option<String>,
    #[serde(skip)]
    pub upstream_path: Option<String>,
    #[serde(skip)]
    pub error_message: Option<String>,
    pub retry_count: i64,
    pub decision_reason: Option<String>,
    pub username: Option<String>,
    pub site_name: Option<String>,
    pub site_url: Option<String>,
    pub downstream_key_name: Option<String>,
    pub downstream_key_group_name: Option<String>,
    /// JSON text of an array.
    #[serde(skip)]
    pub downstream_key_tags: Option<String>,
}

/// The filter of rows by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusFilter {
    #[default]
    All,
    Success,
    /// Every outcome other than success.
    Failed,
}

/// The filter of rows by client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFilter {
    App(String),
    Family(String),
}

/// The filter of a log list.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    pub status: StatusFilter,
    /// A substring of the requested or actual model, or of the key's name, group or tags; case is ignored.
    pub search: Option<String>,
    /// A substring of the requested model alone.
    pub model_requested: Option<String>,
    pub client: Option<ClientFilter>,
    pub site_id: Option<SiteId>,
    /// Inclusive.
    pub from: Option<Millis>,
    /// Exclusive.
    pub to: Option<Millis>,
}

impl LogFilter {
    /// Returns the narrowest table of sums that has the columns of the filter.
    fn sum_table(&self) -> SumTable {
        let names_model = self.search.is_some() || self.model_requested.is_some();
        match (names_model, self.site_id) {
            (false, _) => SITE_SUMS,
            (true, None) => MODEL_SUMS,
            (true, Some(_)) => SUMS,
        }
    }
}

/// A query over the rows of a filter, which are summed in one part of the log and counted in the others.
struct SplitQuery<'a> {
    filter: &'a LogFilter,
    /// The columns to select from sums, and how sums are grouped.
    of_sums: &'a str,
    grouped: &'a str,
    /// The columns to select from rows.
    of_rows: &'a str,
}

struct SplitRows {
    /// The rows from the sums.
    summed: Vec<Row>,
    /// The rows of each counted part, newest first.
    counted: Vec<Vec<Row>>,
}

impl SplitQuery<'_> {
    async fn run(&self, store: &Store, parts: &Parts) -> Result<SplitRows> {
        let Self { filter, of_sums, grouped, of_rows } = self;
        let (conditions, filter_args) = conditions(store.database().dialect(), filter);
        let mut summed = Vec::new();
        if let Some((in_range, mut args)) = parts.of_sums() {
            args.extend(filter_args.iter().cloned());
            let table = filter.sum_table().name;
            let sql = format!("SELECT {of_sums} FROM {table} l WHERE {in_range}{conditions}{grouped}");
            summed = store.query(sql, args).await?;
        }
        let status = status(filter);
        let sql = format!("SELECT {of_rows} FROM proxy_logs l WHERE {IN_RANGE}{status}{conditions}");
        let mut counted = Vec::new();
        for (from, to) in &parts.counted {
            let mut args = vec![(*from).into(), (*to).into()];
            args.extend(filter_args.iter().cloned());
            counted.push(store.query(sql.clone(), args).await?);
        }
        Ok(SplitRows { summed, counted })
    }
}

impl SplitRows {
    fn all(&self) -> impl Iterator<Item = &Row> {
        self.summed.iter().chain(self.counted.iter().flatten())
    }
}

/// Totals over the rows that match a filter, ignoring its status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogSummary {
    pub total_count: i64,
    pub success_count: i64,
    pub failed_count: i64,
    pub total_cost: Usd,
    pub total_tokens: i64,
}

/// A client that occurs in the rows that match a filter, ignoring its client filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientOption {
    App { id: String, name: String },
    Family(String),
}

/// Returns one page, newest first, and the total number of rows.
pub async fn list(store: &Store, filter: &LogFilter, limit: i64, offset: i64) -> Result<(Vec<LogItem>, i64)> {
    let blocks = blocks(store, filter).await?;
    let total = blocks.iter().map(|block| block.count).sum();
    let (conditions, filter_args) = conditions(store.database().dialect(), filter);
    // The rows before the page are skipped by an index, or at least without reading the columns to show.
    let sql = format!(
        "SELECT {ITEM}, NULL FROM (SELECT l.id FROM proxy_logs l WHERE {IN_RANGE}{}{conditions} \
         ORDER BY l.created_at DESC, l.id DESC LIMIT ? OFFSET ?) page \
         JOIN proxy_logs l ON l.id = page.id {NAMED} ORDER BY l.created_at DESC, l.id DESC",
        status(filter)
    );
    let (mut items, mut left_out) = (Vec::new(), offset);
    for block in blocks {
        let missing = limit - i64::try_from(items.len()).unwrap_or(limit);
        if missing <= 0 {
            break;
        }
        if left_out >= block.count {
            left_out -= block.count;
            continue;
        }
        let mut args = vec![block.from.into(), block.to.into()];
        args.extend(filter_args.iter().cloned());
        args.extend([missing.into(), left_out.into()]);
        left_out = 0;
        items.append(&mut store.rows(sql.clone(), args, read).await?);
    }
    Ok((items, total))
}

/// Returns the parts of the log with the number of matching rows in each, newest first.
async fn blocks(store: &Store, filter: &LogFilter) -> Result<Vec<Block>> {
    let parts = Parts::of(store, filter.from, filter.to).await?;
    let of_sums = match filter.status {
        StatusFilter::All => "l.start_at, SUM(l.calls)",
        StatusFilter::Success => "l.start_at, SUM(l.ok)",
        StatusFilter::Failed => "l.start_at, SUM(l.calls - l.ok)",
    };
    let query = SplitQuery { filter, of_sums, grouped: " GROUP BY l.start_at", of_rows: "COUNT(*)" };
    let SplitRows { summed, counted } = query.run(store, &parts).await?;
    let mut blocks = Vec::with_capacity(summed.len() + counted.len());
    for row in &summed {
        let mut row = row.fields();
        blocks.push(Block::of_span(row.int()?, row.int()?));
    }
    for ((from, to), rows) in parts.counted.iter().zip(&counted) {
        let count = rows.first().map_or(Ok(0), |row| row.fields().int())?;
        blocks.push(Block { from: *from, to: *to, count });
    }
    blocks.sort_unstable_by_key(|block| std::cmp::Reverse(block.from));
    Ok(blocks)
}

/// Returns one row with its billing details.
pub async fn get(store: &Store, id: LogId) -> Result<Option<LogItem>> {
    let sql = format!("SELECT {ITEM}, l.billing_details FROM proxy_logs l {NAMED} WHERE l.id = ?");
    store.row(sql, vec![id.into()], read).await
}

/// The longest time between two rows of one request, in milliseconds.
const OF_REQUEST: Millis = 300_000;

/// Returns the rows of one request, oldest first; `near` is when one of them was written.
pub async fn of_request(store: &Store, request_id: &str, near: Millis) -> Result<Vec<LogItem>> {
    let sql = format!(
        "SELECT {ITEM}, NULL FROM proxy_logs l {NAMED} WHERE {IN_RANGE} AND l.request_id = ? ORDER BY l.id"
    );
    let args = vec![(near - OF_REQUEST).into(), (near + OF_REQUEST).into(), request_id.into()];
    store.rows(sql, args, read).await
}

/// Returns the id of the newest row; 0 when there is none.
pub async fn newest_id(store: &Store) -> Result<LogId> {
    let newest = store.row("SELECT COALESCE(MAX(id), 0) FROM proxy_logs", Vec::new(), |row| row.id()).await?;
    Ok(newest.unwrap_or(LogId::ZERO))
}

/// Returns the first `limit` rows with an id above `above` and at most `to`, oldest first.
pub async fn between(store: &Store, above: LogId, to: LogId, limit: usize) -> Result<Vec<LogItem>> {
    let sql = format!(
        "SELECT {ITEM}, NULL FROM proxy_logs l {NAMED} WHERE l.id > ? AND l.id <= ? ORDER BY l.id LIMIT ?"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    store.rows(sql, vec![above.into(), to.into(), limit.into()], read).await
}

/// Returns totals over every row that matches the filter, ignoring its status.
pub async fn summary(store: &Store, filter: &LogFilter) -> Result<LogSummary> {
    let parts = Parts::of(store, filter.from, filter.to).await?;
    let query = SplitQuery {
        filter: &LogFilter { status: StatusFilter::All, ..filter.clone() },
        of_sums: "COALESCE(SUM(l.calls), 0), COALESCE(SUM(l.ok), 0), COALESCE(SUM(l.cost), 0), \
                  COALESCE(SUM(l.tokens), 0)",
        grouped: "",
        of_rows: "COUNT(*), COALESCE(SUM(CASE WHEN l.status = 'success' THEN 1 ELSE 0 END), 0), \
                  COALESCE(SUM(l.estimated_cost), 0), COALESCE(SUM(l.total_tokens), 0)",
    };
    let rows = query.run(store, &parts).await?;
    let mut summary = LogSummary::default();
    for row in rows.all() {
        let mut row = row.fields();
        let (calls, ok) = (row.int()?, row.int()?);
        summary.total_count += calls;
        summary.success_count += ok;
        summary.failed_count += calls - ok;
        summary.total_cost += row.usd()?;
        summary.total_tokens = summary.total_tokens.saturating_add(row.int()?);
    }
    Ok(summary)
}

/// Returns the clients of every row that matches the filter, ignoring its client; unordered.
pub async fn client_options(store: &Store, filter: &LogFilter) -> Result<HashSet<ClientOption>> {
    let parts = Parts::of(store, filter.from, filter.to).await?;
    let clients = "DISTINCT l.client_family, l.client_app_id, l.client_app_name";
    let of_sums = match filter.status {
        StatusFilter::All => clients.to_owned(),
        StatusFilter::Success => format!("{clients}, CASE WHEN l.ok > 0 THEN 1 ELSE 0 END"),
        StatusFilter::Failed => format!("{clients}, CASE WHEN l.ok < l.calls THEN 1 ELSE 0 END"),
    };
    let filter = &LogFilter { client: None, ..filter.clone() };
    let query = SplitQuery { filter, of_sums: &of_sums, grouped: "", of_rows: clients };
    let rows = query.run(store, &parts).await?;
    let mut options = HashSet::new();
    for row in rows.all() {
        let mut row = row.fields();
        let (family, app, name) = (row.opt_text()?, row.opt_text()?, row.opt_text()?);
        // Skips sums without a row of this status.
        if row.value().is_ok_and(|has| *has == Value::Int(0)) {
            continue;
        }
        if let (Some(id), Some(name)) = (app, name) {
            options.insert(ClientOption::App { id, name });
        }
        if let Some(family) = family.filter(|family| family != "generic") {
            options.insert(ClientOption::Family(family));
        }
    }
    Ok(options)
}

/// Deletes rows older than the cutoff; returns the number deleted.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    let sums = log_spans::forget(store.database().dialect(), cutoff);
    prune::older_than_with(store, "proxy_logs", cutoff, &sums).await
}

/// The joins that name what rows `l` refer to by id.
const NAMED: &str = "LEFT JOIN accounts a ON a.id = l.account_id \
     LEFT JOIN sites s ON s.id = l.site_id LEFT JOIN downstream_api_keys k ON k.id = l.downstream_api_key_id";

const ITEM: &str = "l.id, l.created_at, l.request_id, l.route_id, l.channel_id, l.account_id, \
     l.site_id, l.downstream_api_key_id, l.model_requested, l.model_actual, l.status, \
     l.http_status, l.is_stream, l.first_byte_latency_ms, l.latency_ms, l.prompt_tokens, \
     l.completion_tokens, l.total_tokens, l.cache_read_tokens, l.cache_creation_tokens, l.usage_source, l.estimated_cost, l.client_family, \
     l.client_app_id, l.client_app_name, l.client_confidence, l.session_id, l.downstream_path, \
     l.upstream_path, l.error_message, l.retry_count, l.decision_reason, a.username, s.name, s.url, k.name, k.group_name, k.tags";

const IN_RANGE: &str = "l.created_at >= ? AND l.created_at < ?";

/// Returns the SQL condition for the filter's status.
fn status(filter: &LogFilter) -> &'static str {
    match filter.status {
        StatusFilter::All => "",
        StatusFilter::Success => " AND l.status = 'success'",
        StatusFilter::Failed => " AND l.status <> 'success'",
    }
}

/// Returns the SQL conditions for the filter's other fields, which apply to rows and to sums of rows alike.
fn conditions(dialect: SqlDialect, filter: &LogFilter) -> (String, Vec<Value>) {
    let mut parts: Vec<String> = Vec::new();
    let mut args: Vec<Value> = Vec::new();
    if let Some(site) = filter.site_id {
        parts.push("l.site_id = ?".to_owned());
        args.push(site.into());
    }
    match &filter.client {
        Some(ClientFilter::App(id)) => {
            let lower = dialect.lower(id);
            parts.push(format!("{lower}(l.client_app_id) = {lower}(?)"));
            args.push(id.as_str().into());
        }
        Some(ClientFilter::Family(id)) => {
            let lower = dialect.lower(id);
            parts.push(format!("{lower}(l.client_family) = {lower}(?)"));
            args.push(id.as_str().into());
        }
        None => {}
    }
    if let Some(search) = filter.search.as_deref().filter(|text| !text.is_empty()) {
        // Both sides are lowered by the database, because databases differ in which letters they lower. Keys are looked up
        // once, not for each row.
        let lower = dialect.lower(search);
        parts.push(format!(
            "({lower}(l.model_requested) LIKE {lower}(?) ESCAPE '!' \
             OR {lower}(l.model_actual) LIKE {lower}(?) ESCAPE '!' \
             OR l.downstream_api_key_id IN (SELECT sought.id FROM downstream_api_keys sought \
             WHERE {lower}(sought.name) LIKE {lower}(?) ESCAPE '!' \
             OR {lower}(sought.group_name) LIKE {lower}(?) ESCAPE '!' \
             OR REPLACE({lower}(sought.tags), '\",\"', '\n') LIKE {lower}(?) ESCAPE '!'))"
        ));
        args.extend(std::iter::repeat_n(contains_pattern(search), 4));
        args.push(list_contains_pattern(search));
    }
    if let Some(model) = &filter.model_requested {
        let lower = dialect.lower(model);
        parts.push(format!("{lower}(l.model_requested) LIKE {lower}(?) ESCAPE '!'"));
        args.push(contains_pattern(model));
    }
    (parts.iter().map(|part| format!(" AND {part}")).collect(), args)
}

fn read(row: &mut Fields<'_>) -> Result<LogItem> {
    Ok(LogItem {
        id: row.id()?,
        created_at: row.int()?,
        request_id: row.opt_text()?,
        route_id: row.opt_id()?,
        channel_id: row.opt_id()?,
        account_id: row.opt_id()?,
        site_id: row.opt_id()?,
        downstream_api_key_id: row.opt_id()?,
        model_requested: row.opt_text()?,
        model_actual: row.opt_text()?,
        status: LogStatus::parse(row.str()?),
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
        estimated_cost: row.usd()?,
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
