//! The reset to the first day: every row is deleted except those that the database itself needs.

use super::sql::Statement;
use super::{Result, Store, settings};
use crate::time::now_ms;

/// Every table with the service's data; tables that refer to others come first.
pub(super) const TABLES: &[&str] = &[
    "proxy_debug_attempts",
    "proxy_debug_traces",
    "proxy_logs",
    "proxy_log_sums",
    "proxy_log_site_sums",
    "proxy_log_model_sums",
    "proxy_log_key_quarters",
    "proxy_log_spans",
    "usage_hour",
    "usage_day",
    "channel_stats",
    "route_channels",
    "route_group_sources",
    "token_routes",
    "oauth_route_unit_members",
    "oauth_route_units",
    "token_model_availability",
    "model_availability",
    "checkin_logs",
    "account_tokens",
    "accounts",
    "oauth_sessions",
    "site_announcements",
    "site_disabled_models",
    "site_api_endpoints",
    "sites",
    "downstream_key_budgets",
    "downstream_key_days",
    "downstream_api_keys",
    "proxy_file_chunks",
    "proxy_file_blobs",
    "proxy_files",
    "proxy_video_tasks",
    "proxy_response_ids",
    "proxy_background_responses",
    "proxy_batches",
    "events",
    "job_leases",
    "job_runs",
    "notification_throttle",
    "admin_snapshots",
];

/// Empties every table in one transaction and saves this admin token. The keys that seal secrets stay, and ids
/// are not reused. A [`wipe`] is due from then on.
pub async fn everything(store: &Store, auth_token: &str) -> Result<()> {
    let delete = |table: &&str| Statement::new(format!("DELETE FROM {table}"), Vec::new());
    let mut batch: Vec<Statement> = TABLES.iter().map(delete).collect();
    batch.push(settings::forget_all());
    let token = serde_json::Value::from(auth_token).to_string();
    batch.push(settings::put_statement(store, "auth_token", &token, now_ms())?);
    batch.push(settings::put_statement(store, settings::WIPE_DUE, "true", now_ms())?);
    store.batch(batch).await.map(drop)
}

/// Removes all traces of deleted rows from the database files.
pub async fn wipe(store: &Store) -> Result<()> {
    store.database().wipe().await?;
    store.batch(vec![settings::forget_internal(settings::WIPE_DUE)]).await.map(drop)
}

/// Wipes the database of a reset whose process ended before it had done so, or could not.
pub async fn wipe_if_due(store: &Store) -> Result<()> {
    if settings::get(store, settings::WIPE_DUE).await?.is_some() { wipe(store).await } else { Ok(()) }
}
