//! Statistics by site and model.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use jiff::ToSpan;
use serde::Serialize;
use serde_json::{Value, json};

use super::cached::CacheUse;
use super::kept;
use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::admin::input::Invalid;
use crate::core::Core;
use crate::http::{self, Query, Request, Response};
use crate::ids::SiteId;
use crate::money::Usd;
use crate::store::stats::{self, Sums};
use crate::time::{local_day, now_ms};

const TTL: Duration = Duration::from_secs(15);
const DEFAULT_DAYS: i64 = 7;
const MAX_DAYS: i64 = 366;

#[derive(Serialize)]
struct Spent {
    spend: Usd,
    calls: i64,
    #[serde(flatten)]
    cached: Option<CacheUse>,
}

/// The balance and spend of an active site.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SiteShare {
    site_id: SiteId,
    site_name: String,
    platform: String,
    total_balance: Usd,
    total_spend: Usd,
    account_count: i64,
    #[serde(flatten)]
    cached: Option<CacheUse>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpentAtSite<'a> {
    #[serde(flatten)]
    spent: Spent,
    site_name: &'a str,
}

#[derive(Serialize)]
struct SpentOnModel<'a> {
    #[serde(flatten)]
    spent: Spent,
    model: &'a str,
    tokens: i64,
}

/// `GET /api/stats/site-distribution`: current balances, and the amounts spent of all time.
pub async fn distribution(admin: Arc<Admin>, request: Request) -> Result<Response> {
    // `days` is checked for compatibility, but has no effect.
    days_of(&request.query)?;
    let refresh = request.query.is_on("refresh");
    let load = load_distribution(admin.core.clone());
    let (found, _) = kept::get(&admin.stats, &admin.core, "site-distribution", TTL, refresh, load).await?;
    Ok(http::json(StatusCode::OK, &json!({ "distribution": *found })))
}

async fn load_distribution(core: Arc<Core>) -> Result<Value> {
    core.store.flush().await;
    let spent: HashMap<SiteId, Sums> = stats::by_site(&core.store, None).await?.into_iter().collect();
    let mut held: HashMap<SiteId, (Usd, i64)> = HashMap::new();
    for holder in stats::active_accounts(&core.store).await? {
        let (balance, count) = held.entry(holder.site_id).or_default();
        *balance += holder.balance;
        *count += 1;
    }
    let sites = stats::active_sites(&core.store).await?;
    let shown = sites.into_iter().filter_map(|site| {
        let (balance, count) = held.get(&site.id)?;
        let spent = spent.get(&site.id).copied().unwrap_or_default();
        Some(json!(SiteShare {
            site_id: site.id,
            site_name: site.name,
            platform: site.platform,
            total_balance: balance.rounded(),
            total_spend: spent.cost.rounded(),
            account_count: *count,
            cached: CacheUse::of(&spent.cached),
        }))
    });
    Ok(shown.collect())
}

/// `GET /api/stats/site-trend`: lists the days with calls, by site name and by site id, since names may be equal. With
/// `model` it covers that model only; these are few rows, which are read each time.
pub async fn trend(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let days = days_of(&request.query)?;
    if let Some(model) = request.query.get("model").filter(|model| !model.is_empty()) {
        let found = load_trend(admin.core.clone(), days, Some(model)).await?;
        return Ok(http::json(StatusCode::OK, &json!({ "trend": found })));
    }
    let refresh = request.query.is_on("refresh");
    let load = load_trend(admin.core.clone(), days, None);
    let (found, _) =
        kept::get(&admin.stats, &admin.core, format!("site-trend:{days}"), TTL, refresh, load).await?;
    Ok(http::json(StatusCode::OK, &json!({ "trend": *found })))
}

async fn load_trend(core: Arc<Core>, days: i64, model: Option<String>) -> Result<Value> {
    core.store.flush().await;
    let sites = stats::active_sites(&core.store).await?;
    let names: HashMap<SiteId, String> = sites.into_iter().map(|site| (site.id, site.name)).collect();
    let mut by_day: BTreeMap<String, Vec<(SiteId, &str, Sums)>> = BTreeMap::new();
    let from = first_day(&core, days);
    for (day, site, sums) in stats::by_day_and_site(&core.store, &from, model.as_deref()).await? {
        let Some(name) = names.get(&site) else { continue };
        by_day.entry(day).or_default().push((site, name, sums));
    }
    let shown = by_day.into_iter().map(|(day, of_sites)| {
        let (mut by_name, mut by_id) = (BTreeMap::<&str, Sums>::new(), BTreeMap::new());
        for (site, name, sums) in &of_sites {
            by_name.entry(name).or_default().add(sums);
            by_id.insert(site.to_string(), SpentAtSite { spent: Spent::of(sums), site_name: name });
        }
        let by_name: BTreeMap<&str, Spent> =
            by_name.into_iter().map(|(name, sums)| (name, Spent::of(&sums))).collect();
        json!({ "date": day, "sites": by_name, "sitesById": by_id })
    });
    Ok(shown.collect())
}

/// `GET /api/stats/model-by-site`
pub async fn models(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let days = days_of(&request.query)?;
    let site = match request.query.get("siteId").map(|text| text.trim().to_owned()) {
        None => None,
        Some(text) if text.is_empty() => None,
        Some(text) => {
            let id = text.parse().ok().filter(|id| *id > 0).map(SiteId::new);
            Some(id.ok_or_else(|| Invalid::field("siteId", "positive integer"))?)
        }
    };
    admin.core.store.flush().await;
    let mut models = stats::by_model(&admin.core.store, &first_day(&admin.core, days), site).await?;
    models.sort_by(|(one, a), (other, b)| b.calls.cmp(&a.calls).then_with(|| one.cmp(other)));
    let shown = models.iter().map(|(model, sums)| SpentOnModel {
        spent: Spent::of(sums),
        model,
        tokens: sums.tokens,
    });
    Ok(http::json(StatusCode::OK, &json!({ "models": shown.collect::<Vec<_>>() })))
}

impl Spent {
    fn of(sums: &Sums) -> Self {
        Self { spend: sums.cost.rounded(), calls: sums.calls, cached: CacheUse::of(&sums.cached) }
    }
}

/// Reads the number of local days, today included.
fn days_of(query: &Query) -> Result<i64, Invalid> {
    let Some(text) = query.get("days").filter(|text| !text.trim().is_empty()) else {
        return Ok(DEFAULT_DAYS);
    };
    let days = text.trim().parse().ok().filter(|days| (1..=MAX_DAYS).contains(days));
    days.ok_or_else(|| Invalid::field("days", "integer from 1 to 366"))
}

fn first_day(core: &Core, days: i64) -> String {
    local_day(now_ms(), &core.config.time_zone).saturating_sub((days - 1).days()).to_string()
}
