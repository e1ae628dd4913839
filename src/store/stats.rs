//! Queries of the dashboard and the statistics: sums over the usage tables, which outlive the log, and over the
//! log where single requests matter.

use super::account_state::AccountStatus;
use super::cached_tokens::CachedTokens;
use super::log_sums::{OF_ROWS, Parts, SITE_SUMS};
use super::sql::Statement;
pub use super::sums::Sums;
use super::{Result, Store};
use crate::ids::{AccountId, SiteId};
use crate::money::Usd;
use crate::time::{DAY, Millis};

/// An account on an active site, with what the dashboard needs of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveAccount {
    pub id: AccountId,
    pub site_id: SiteId,
    pub balance: Usd,
    pub is_active: bool,
    /// JSON text: the members that have no column, among them `todayIncomeSnapshot`.
    pub extra: Option<String>,
}

/// An active site.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveSite {
    pub id: SiteId,
    pub name: String,
    pub url: String,
    pub platform: String,
}

const SUMS: &str = "COALESCE(SUM(u.calls), 0), COALESCE(SUM(u.ok), 0), COALESCE(SUM(u.tokens), 0), \
     COALESCE(SUM(u.cost), 0), COALESCE(SUM(u.latency_ms), 0), COALESCE(SUM(u.latency_n), 0), \
     COALESCE(SUM(u.cache_input_tokens), 0), COALESCE(SUM(u.cache_read_tokens), 0), \
     COALESCE(SUM(u.cache_creation_tokens), 0)";
/// The condition for rows that count: usage at a deleted site is kept, usage at a disabled one is left out.
const COUNTED: &str = "site_id > 0 AND site_id NOT IN (SELECT id FROM sites WHERE status <> 'active')";

/// Returns the active sites in display order.
pub async fn active_sites(store: &Store) -> Result<Vec<ActiveSite>> {
    let sql = "SELECT id, name, url, platform FROM sites WHERE status = 'active' \
               ORDER BY is_pinned DESC, sort_order, name, id";
    store
        .rows(sql, Vec::new(), |row| {
            Ok(ActiveSite { id: row.id()?, name: row.text()?, url: row.text()?, platform: row.text()? })
        })
        .await
}

/// Returns every account on an active site.
pub async fn active_accounts(store: &Store) -> Result<Vec<ActiveAccount>> {
    let sql = "SELECT a.id, a.site_id, a.balance, a.status, a.extra FROM accounts a \
               JOIN sites s ON s.id = a.site_id AND s.status = 'active' ORDER BY a.id";
    store
        .rows(sql, Vec::new(), |row| {
            Ok(ActiveAccount {
                id: row.id()?,
                site_id: row.id()?,
                balance: row.usd()?,
                is_active: AccountStatus::parse(row.str()?) == Some(AccountStatus::Active),
                extra: row.opt_text()?,
            })
        })
        .await
}

/// Sums the logged calls since `from`, except those at disabled sites. Latency is left out.
pub async fn logged_since(store: &Store, from: Millis) -> Result<Sums> {
    let parts = Parts::of(store, Some(from), None).await?;
    let mut rows = Vec::new();
    if let Some((range, args)) = parts.of_sums() {
        let sql = format!(
            "SELECT COALESCE(SUM(l.calls), 0), COALESCE(SUM(l.ok), 0), COALESCE(SUM(l.tokens), 0), \
             COALESCE(SUM(l.cost), 0), 0, 0, COALESCE(SUM(l.cache_input_tokens), 0), \
             COALESCE(SUM(l.cache_read_tokens), 0), COALESCE(SUM(l.cache_creation_tokens), 0) \
             FROM {} l WHERE {range} AND {COUNTED}",
            SITE_SUMS.name
        );
        rows = store.query(sql, args).await?;
    }
    for (from, to) in &parts.counted {
        let sql = format!(
            "SELECT {OF_ROWS}, 0, 0, {} FROM proxy_logs l \
             WHERE l.created_at >= ? AND l.created_at < ? AND {COUNTED}",
            CachedTokens::OF_LOGS
        );
        rows.extend(store.query(sql, vec![(*from).into(), (*to).into()]).await?);
    }
    let mut sums = Sums::default();
    for row in &rows {
        sums.add(&Sums::read(&mut row.fields())?);
    }
    Ok(sums)
}

/// Returns the sums of each site that is not disabled, including deleted ones, from a local day on (`None`: all
/// time).
pub async fn by_site(store: &Store, from_day: Option<&str>) -> Result<Vec<(SiteId, Sums)>> {
    let sql = format!(
        "SELECT u.site_id, {SUMS} FROM usage_day u WHERE u.local_day >= ? AND {COUNTED} GROUP BY u.site_id"
    );
    store.rows(sql, vec![from_day.unwrap_or_default().into()], |row| Ok((row.id()?, Sums::read(row)?))).await
}

/// Returns sums by local day and site from a day on, ascending, except for disabled sites: of one model, or of
/// all.
pub async fn by_day_and_site(
    store: &Store,
    from_day: &str,
    model: Option<&str>,
) -> Result<Vec<(String, SiteId, Sums)>> {
    let mut args = vec![from_day.into()];
    let of_model = model.map_or("", |_| "AND u.model = ?");
    args.extend(model.map(Into::into));
    let sql = format!(
        "SELECT u.local_day, u.site_id, {SUMS} FROM usage_day u WHERE u.local_day >= ? {of_model} AND {COUNTED} \
         GROUP BY u.local_day, u.site_id ORDER BY u.local_day, u.site_id"
    );
    store.rows(sql, args, |row| Ok((row.text()?, row.id()?, Sums::read(row)?))).await
}

/// Returns sums by hour bucket and site from a bucket on, except for disabled sites.
pub async fn by_hour_and_site(store: &Store, from: Millis) -> Result<Vec<(Millis, SiteId, Sums)>> {
    let sql = format!(
        "SELECT u.bucket_start, u.site_id, {SUMS} FROM usage_hour u \
         WHERE u.bucket_start >= ? AND {COUNTED} GROUP BY u.bucket_start, u.site_id"
    );
    store.rows(sql, vec![from.into()], |row| Ok((row.int()?, row.id()?, Sums::read(row)?))).await
}

/// Returns sums by model from a local day on: of one site, or of all but the disabled ones.
pub async fn by_model(store: &Store, from_day: &str, site: Option<SiteId>) -> Result<Vec<(String, Sums)>> {
    let (of, mut args) = match site {
        Some(site) => ("u.site_id = ?", vec![site.into()]),
        None => (COUNTED, Vec::new()),
    };
    args.push(from_day.into());
    let sql =
        format!("SELECT u.model, {SUMS} FROM usage_day u WHERE {of} AND u.local_day >= ? GROUP BY u.model");
    store.rows(sql, args, |row| Ok((row.text()?, Sums::read(row)?))).await
}

/// Deletes the sums of hours that began before the cutoff, those of a day at a time. Returns how many were deleted.
pub async fn prune_hours(store: &Store, cutoff: Millis) -> Result<u64> {
    let mut deleted = 0;
    loop {
        let oldest = "SELECT MIN(bucket_start) FROM usage_hour WHERE bucket_start < ?";
        let oldest: Vec<Option<Millis>> =
            store.rows(oldest, vec![cutoff.into()], |row| row.opt_int()).await?;
        let Some(Some(oldest)) = oldest.first() else { return Ok(deleted) };
        let before = cutoff.min(*oldest + DAY);
        let delete = Statement::new("DELETE FROM usage_hour WHERE bucket_start < ?", vec![before.into()]);
        deleted += store.batch(vec![delete]).await?[0].rows;
    }
}

/// Builds the statements that reset all usage: the usage tables, the counters and cooldowns of channels and of
/// members of route units, and the used balance of accounts. Other instances learn that the cooldowns are over.
pub fn forget_usage(store: &Store, now: Millis) -> Vec<Statement> {
    let stamp = store.database().dialect().now().unwrap_or("NULL");
    let counters = |table: &str| {
        let sql = format!(
            "UPDATE {table} SET success_count = 0, fail_count = 0, total_latency_ms = 0, total_cost = 0, \
             cache_input_tokens = 0, cache_read_tokens = 0, \
             consecutive_fail_count = 0, cooldown_level = 0, last_used_at = NULL, last_selected_at = NULL, \
             last_fail_at = NULL, cooldown_until = NULL, provider_cooldown_until = NULL, rest_changed_at = {stamp}, \
             cleared_at = CASE WHEN COALESCE(rested_at, 0) > ? THEN rested_at ELSE ? END"
        );
        Statement::new(sql, vec![now.into(), now.into()])
    };
    let statement = |sql: &'static str| Statement::new(sql, Vec::new());
    vec![
        statement("DELETE FROM usage_hour"),
        // The days of the proxy token; keys have a reset of their own.
        statement("DELETE FROM downstream_key_days WHERE key_id = 0").touching_nothing(),
        statement("DELETE FROM usage_day"),
        counters("channel_stats"),
        counters("oauth_route_unit_members").touching_nothing(),
        statement("UPDATE accounts SET balance_used = 0").touching_nothing(),
    ]
}
