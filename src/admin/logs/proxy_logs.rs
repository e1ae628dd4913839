//! `/api/stats/proxy-logs`: the requests of clients and the result of each attempt.
//!
//! Rows wait up to a quarter of a second for their transaction; every read here waits for the rows that were handed
//! over before it, so that an operator sees a request that was just made.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::try_join;

use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::{paging, require_id};
use crate::http::{self, Query, Request, Response};
use crate::ids::{KeyId, SiteId, TraceId};
use crate::store::proxy_logs::{
    self, ClientFilter, ClientOption, LogFilter, LogItem, LogSummary, StatusFilter,
};
use crate::store::sites::{self, SiteRow};
use crate::store::{self, Store, admin_snapshots, debug_traces};
use crate::time::{self, Millis, now_ms};

/// The maximum number of applications to choose from: clients name themselves, so there may be any number.
const MAX_APPS: usize = 1000;

/// The list of the log: a page of its rows, the options of its filters, or both.
#[derive(Serialize)]
struct LogList {
    #[serde(flatten)]
    page: Option<LogPage>,
    #[serde(flatten)]
    meta: Option<LogMeta>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogPage {
    items: Vec<Item>,
    total: i64,
    /// The page's number, from 1.
    page: i64,
    page_size: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogMeta {
    client_options: Value,
    summary: Value,
    sites: Value,
}

/// `GET /api/stats/proxy-logs`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let query = &request.query;
    let filter = filter_of(query);
    let limit = paging::number(query, "limit", 50, 1..=100);
    let offset = paging::offset(query);
    let view = query.get("view");
    admin.core.store.flush().await;

    let store = &admin.core.store;
    // A database server answers them in parallel.
    let (page, meta) = match view.as_deref() {
        Some("query") => (Some(page_of(store, &filter, limit, offset).await?), None),
        Some("meta") => (None, Some(meta_of(store, &filter).await?)),
        _ => {
            let (page, meta) = try_join!(page_of(store, &filter, limit, offset), meta_of(store, &filter))?;
            (Some(page), Some(meta))
        }
    };
    Ok(http::json(StatusCode::OK, &LogList { page, meta }))
}

async fn page_of(store: &Store, filter: &LogFilter, limit: i64, offset: i64) -> store::Result<LogPage> {
    let (items, total) = proxy_logs::list(store, filter, limit, offset).await?;
    let items = items.into_iter().map(Item::from).collect();
    Ok(LogPage { items, total, page: (offset / limit).saturating_add(1), page_size: limit })
}

async fn meta_of(store: &Store, filter: &LogFilter) -> store::Result<LogMeta> {
    let (options, summary, sites) = try_join!(
        proxy_logs::client_options(store, filter),
        proxy_logs::summary(store, filter),
        site_options(store)
    )?;
    Ok(LogMeta { client_options: client_options(options), summary: summary_json(&summary), sites })
}

/// `GET /api/stats/proxy-logs/{id}`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    admin.core.store.flush().await;
    let mut row =
        proxy_logs::get(&admin.core.store, id).await?.ok_or_else(|| AdminError::not_found("Proxy log"))?;
    let billing_details = row.billing_details.take().and_then(|text| serde_json::from_str(&text).ok());
    let (attempts, trace_id) = match &row.request_id {
        Some(request) => (
            proxy_logs::of_request(&admin.core.store, request, row.created_at).await?,
            debug_traces::of_request(&admin.core.store, request).await?,
        ),
        None => (vec![row.clone()], None),
    };
    let attempts = attempts.into_iter().map(Item::from).collect();
    Ok(http::json(StatusCode::OK, &Detail { item: row.into(), billing_details, attempts, trace_id }))
}

/// `DELETE /api/stats/proxy-logs`: deletes all present rows. The usage tables keep their sums.
pub async fn clear(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    admin.core.store.flush().await;
    // Rows that arrive in the meantime stay: under load a moving end would never be reached.
    let deleted = proxy_logs::prune(&admin.core.store, now_ms() + 1).await?;
    admin.core.store.batch(vec![admin_snapshots::void(&admin.core.store)]).await?;
    admin.stats.clear();
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "deletedProxyLogs": deleted })))
}

/// Returns the newest rows whose requested model contains a text, as the list shows them.
pub async fn of_models(store: &Store, text: &str, limit: i64) -> Result<Value> {
    let filter = LogFilter { model_requested: Some(text.to_owned()), ..LogFilter::default() };
    let (items, _) = proxy_logs::list(store, &filter, limit, 0).await?;
    Ok(json!(items.into_iter().map(Item::from).collect::<Vec<_>>()))
}

async fn site_options(store: &Store) -> store::Result<Value> {
    let sites = sites::list(store).await?;
    let option = |site: SiteRow| json!({ "id": site.id, "name": site.name, "status": site.status.as_str() });
    Ok(sites.into_iter().map(option).collect())
}

/// Reads all filters; those that cannot be read are ignored. Times are rounded down to whole seconds.
fn filter_of(query: &Query) -> LogFilter {
    let whole_second = |at: Millis| at - at.rem_euclid(1000);
    let moment = |name| query.get(name).and_then(|text| time::parse(&text)).map(whole_second);
    LogFilter {
        status: match query.get("status").as_deref() {
            Some("success") => StatusFilter::Success,
            Some("failed") => StatusFilter::Failed,
            _ => StatusFilter::All,
        },
        search: query.get("search").map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()),
        model_requested: None,
        client: query.get("client").and_then(|text| client_filter(&text)),
        site_id: query
            .get("siteId")
            .and_then(|text| text.trim().parse().ok())
            .filter(|id| *id > 0)
            .map(SiteId::new),
        from: moment("from"),
        to: moment("to"),
    }
}

fn client_filter(text: &str) -> Option<ClientFilter> {
    let text = text.trim().to_lowercase();
    match text.split_once(':')? {
        (_, "") => None,
        ("app", id) => Some(ClientFilter::App(id.to_owned())),
        ("family", id) => Some(ClientFilter::Family(id.to_owned())),
        _ => None,
    }
}

/// Lists applications first, then protocols, each sorted by label.
fn client_options(clients: impl IntoIterator<Item = ClientOption>) -> Value {
    let (mut apps, mut families) = (Vec::new(), Vec::new());
    for client in clients {
        match client {
            ClientOption::App { id, name } => {
                apps.push((format!("App · {name}"), format!("app:{}", id.to_lowercase())));
            }
            ClientOption::Family(id) => {
                let label = format!("Protocol · {}", family_name(&id));
                families.push((label, format!("family:{}", id.to_lowercase())));
            }
        }
    }
    apps.sort();
    families.sort();
    // Two spellings of one id filter alike, so they become one option.
    let mut seen = HashSet::new();
    apps.retain(|(_, value)| seen.insert(value.clone()));
    families.retain(|(_, value)| seen.insert(value.clone()));
    apps.truncate(MAX_APPS);
    apps.into_iter().chain(families).map(|(label, value)| json!({ "value": value, "label": label })).collect()
}

fn family_name(id: &str) -> &str {
    match id {
        "codex" => "Codex",
        "claude_code" => "Claude Code",
        "gemini_cli" => "Gemini CLI",
        other => other,
    }
}

fn summary_json(summary: &LogSummary) -> Value {
    json!({
        "totalCount": summary.total_count,
        "successCount": summary.success_count,
        "failedCount": summary.failed_count,
        "totalCost": summary.total_cost.rounded(),
        "totalTokensAll": summary.total_tokens,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(flatten)]
    item: Item,
    billing_details: Option<Value>,
    /// All attempts of the same request, this one included.
    attempts: Vec<Item>,
    trace_id: Option<TraceId>,
}

/// A log row as the list shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    #[serde(flatten)]
    row: LogItem,
    error_message: Option<String>,
    created_at: String,
    /// `None` for a deleted key, whose id is only in `downstreamApiKeyId`.
    downstream_key_id: Option<KeyId>,
    downstream_key_tags: Vec<String>,
}

impl From<LogItem> for Item {
    fn from(mut row: LogItem) -> Self {
        row.estimated_cost = row.estimated_cost.rounded();
        let tags = row.downstream_key_tags.as_deref().and_then(|tags| serde_json::from_str(tags).ok());
        Self {
            error_message: tagged_message(&row),
            created_at: time::iso(row.created_at),
            downstream_key_id: row.downstream_api_key_id.filter(|_| row.downstream_key_name.is_some()),
            downstream_key_tags: tags.unwrap_or_default(),
            row,
        }
    }
}

/// Formats the message as older clients read it: values that have columns of their own precede the text, as tags.
fn tagged_message(row: &LogItem) -> Option<String> {
    let tags = [
        ("client", row.client_family.as_deref().filter(|family| *family != "generic")),
        ("session", row.session_id.as_deref()),
        ("downstream", row.downstream_path.as_deref()),
        ("upstream", row.upstream_path.as_deref()),
        ("usage", row.usage_source.as_deref()),
    ];
    // A client chooses its session's id, and must not forge other tags with it.
    let plain = |value: &str| value.replace(['[', ']'], "_");
    let tags =
        tags.into_iter().filter_map(|(name, value)| value.map(|value| format!("[{name}:{}]", plain(value))));
    let mut parts: Vec<String> = tags.collect();
    if let Some(text) = &row.error_message {
        // The upstream's message may already begin with a tag.
        let repeated = parts.iter().find_map(|tag| text.strip_prefix(tag.as_str()));
        parts.push(repeated.unwrap_or(text).trim_start().to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use crate::admin::logs::proxy_logs::*;
    use crate::ids::LogId;
    use crate::money::Usd;
    use crate::store::proxy_logs::LogStatus;

    fn row() -> LogItem {
        LogItem {
            id: LogId::new(1),
            created_at: 1_777_622_400_123,
            downstream_api_key_id: Some(KeyId::new(4)),
            status: LogStatus::Success,
            http_status: Some(200),
            estimated_cost: Usd::new(0.123_456_78),
            downstream_key_tags: Some(r#"["a","b"]"#.to_owned()),
            ..LogItem::default()
        }
    }

    #[test]
    fn the_message_carries_the_tags_of_what_is_known() {
        assert_eq!(tagged_message(&row()), None);
        let text = LogItem { error_message: Some("refused".to_owned()), ..row() };
        assert_eq!(tagged_message(&text).as_deref(), Some("refused"));
        let full = LogItem {
            client_family: Some("codex".to_owned()),
            session_id: Some("s1".to_owned()),
            downstream_path: Some("/v1/responses".to_owned()),
            upstream_path: Some("/v1/chat/completions".to_owned()),
            usage_source: Some("upstream".to_owned()),
            ..text
        };
        assert_eq!(
            tagged_message(&full).as_deref(),
            Some(
                "[client:codex] [session:s1] [downstream:/v1/responses] [upstream:/v1/chat/completions] \
                 [usage:upstream] refused"
            )
        );
        let named = LogItem {
            upstream_path: Some("/v1/messages".to_owned()),
            error_message: Some("[upstream:/v1/messages] Upstream returned HTTP 500".to_owned()),
            ..row()
        };
        assert_eq!(
            tagged_message(&named).as_deref(),
            Some("[upstream:/v1/messages] Upstream returned HTTP 500")
        );
    }

    #[test]
    fn times_filter_by_whole_seconds() {
        let filter = filter_of(&Query::new("from=2026-05-01T08:00:00.900Z&to=1777622401999"));
        assert_eq!((filter.from, filter.to), (Some(1_777_622_400_000), Some(1_777_622_401_000)));
    }

    #[test]
    fn unknown_counts_stay_null_and_lists_carry_no_billing_details() {
        let item = serde_json::to_value(Item::from(row())).expect("it serializes");
        assert_eq!(item["promptTokens"], Value::Null);
        assert_eq!(item["estimatedCost"], 0.123457);
        assert_eq!(item["createdAt"], "2026-05-01T08:00:00.123Z");
        assert_eq!(item["downstreamKeyTags"], json!(["a", "b"]));
        assert_eq!((&item["downstreamApiKeyId"], &item["downstreamKeyId"]), (&json!(4), &Value::Null));
        assert!(item.get("billingDetails").is_none());
    }

    #[test]
    fn filters_that_cannot_be_read_do_not_filter() {
        let filter = filter_of(&Query::new("client=codex&siteId=-1&from=soon&status=odd&search=++"));
        assert_eq!(filter.status, StatusFilter::All);
        assert_eq!((filter.client, filter.site_id, filter.from, filter.search), (None, None, None, None));
        let filter = filter_of(&Query::new(
            "client=APP:Cursor&siteId=3&from=2026-05-01&to=1777622400000&status=failed&search=GPT",
        ));
        assert_eq!(filter.status, StatusFilter::Failed);
        assert_eq!(filter.client, Some(ClientFilter::App("cursor".to_owned())));
        assert_eq!((filter.site_id, filter.to), (Some(SiteId::new(3)), Some(1_777_622_400_000)));
        assert_eq!(filter.search.as_deref(), Some("GPT"));
        assert!(filter.from < filter.to);
    }

    #[test]
    fn client_options_list_applications_before_protocols() {
        let app = |id: &str, name: &str| ClientOption::App { id: id.to_owned(), name: name.to_owned() };
        let family = |id: &str| ClientOption::Family(id.to_owned());
        let options = client_options(vec![
            family("zed"),
            app("b", "Beta"),
            family("codex"),
            app("A", "Alpha"),
            app("a", "alpha"),
        ]);
        assert_eq!(
            options,
            json!([
                {"value": "app:a", "label": "App · Alpha"},
                {"value": "app:b", "label": "App · Beta"},
                {"value": "family:codex", "label": "Protocol · Codex"},
                {"value": "family:zed", "label": "Protocol · zed"},
            ])
        );
    }
}
