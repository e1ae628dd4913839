//! `GET /api/stats/dashboard`: an overview of the whole service. Only active sites count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use jiff::ToSpan;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cached::hit_ratio;
use super::kept;
use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, SiteId};
use crate::jobs::balances::income;
use crate::json_number::shortest;
use crate::money::Usd;
use crate::store::checkins::{self, CheckinStatus, RewardRow};
use crate::store::stats::{self, ActiveAccount, Sums};
use crate::time::{DAY, MINUTE, Millis, iso, local_day, local_day_start, local_hour_start, now_ms};

const SUMMARY_TTL: Duration = Duration::from_secs(12);
const INSIGHTS_TTL: Duration = Duration::from_secs(20);
const SUMMARY_CACHE: HeaderName = HeaderName::from_static("x-dashboard-summary-cache");
const INSIGHTS_CACHE: HeaderName = HeaderName::from_static("x-dashboard-insights-cache");

/// The period of the rates, in milliseconds.
const WINDOW: Millis = MINUTE;
const AVAILABILITY_HOURS: usize = 24;
const ANALYSIS_DAYS: i64 = 7;
/// Maximum length of a list of models.
const MAX_LISTED: usize = 10;

/// `GET /api/stats/dashboard`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let view = request.query.get("view").unwrap_or_default();
    let refresh = request.query.is_on("refresh");
    let (mut shown, mut headers) = (Map::new(), Vec::new());
    if view != "insights" {
        let load = summary(admin.core.clone());
        let (summary, origin) =
            kept::get(&admin.stats, &admin.core, "summary", SUMMARY_TTL, refresh, load).await?;
        shown.extend(summary.as_object().cloned().unwrap_or_default());
        shown.insert("inFlight".to_owned(), json!(admin.core.metrics.in_flight.get()));
        headers.push((SUMMARY_CACHE, origin.as_str()));
    }
    if view != "summary" {
        let load = insights(admin.core.clone());
        let (insights, origin) =
            kept::get(&admin.stats, &admin.core, "insights", INSIGHTS_TTL, refresh, load).await?;
        let summary_made = shown.get("generatedAt").cloned();
        shown.extend(insights.as_object().cloned().unwrap_or_default());
        shown.extend(summary_made.map(|made| ("generatedAt".to_owned(), made)));
        headers.push((INSIGHTS_CACHE, origin.as_str()));
    }
    let mut response = http::json(StatusCode::OK, &shown);
    for (name, state) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(state));
    }
    Ok(response)
}

async fn summary(core: Arc<Core>) -> Result<Value> {
    core.store.flush().await;
    let (store, zone, now) = (&core.store, &core.config.time_zone, now_ms());
    let today = local_day(now, zone).to_string();
    let holders = stats::active_accounts(store).await?;
    let spent = |sums: Vec<(SiteId, Sums)>| sums.iter().map(|(_, sums)| sums.cost).sum::<Usd>();
    let used = spent(stats::by_site(store, None).await?);
    let used_today = spent(stats::by_site(store, Some(&today)).await?);
    let checkins = checkins::since_at_active_sites(store, local_day_start(now, zone)).await?;
    let failed = checkins.iter().filter(|checkin| checkin.status == CheckinStatus::Failed).count();
    let day = stats::logged_since(store, now - DAY).await?;
    let minute = stats::logged_since(store, now - WINDOW).await?;
    Ok(json!({
        "generatedAt": iso(now),
        "totalBalance": holders.iter().map(|holder| holder.balance).sum::<Usd>().rounded(),
        "totalUsed": used.rounded(),
        "todaySpend": used_today.rounded(),
        "todayReward": reward_of_today(&holders, &checkins, &today).rounded(),
        "activeAccounts": holders.iter().filter(|holder| holder.is_active).count(),
        "totalAccounts": holders.len(),
        "todayCheckin": { "success": checkins.len() - failed, "failed": failed, "total": checkins.len() },
        "proxy24h": {
            "success": day.ok,
            "failed": day.calls - day.ok,
            "total": day.calls,
            "totalTokens": day.tokens,
        },
        "cacheHitRatio": hit_ratio(&day.cached),
        "performance": {
            "windowSeconds": WINDOW / 1000,
            "requestsPerMinute": minute.calls,
            "tokensPerMinute": minute.tokens,
        },
    }))
}

/// Sums what today's check-ins earned for the accounts of active sites.
fn reward_of_today(holders: &[ActiveAccount], checkins: &[RewardRow], today: &str) -> Usd {
    let extra: HashMap<AccountId, Option<&str>> =
        holders.iter().map(|holder| (holder.id, holder.extra.as_deref())).collect();
    let rewards =
        income::rewards(checkins, |account| income::stored(extra.get(&account).copied().flatten(), today));
    rewards.into_values().sum()
}

async fn insights(core: Arc<Core>) -> Result<Value> {
    core.store.flush().await;
    let now = now_ms();
    Ok(json!({
        "generatedAt": iso(now),
        "siteAvailability": availability(&core, now).await?,
        "modelAnalysis": analysis(&core, now).await?,
    }))
}

/// The counts of requests by result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestCounts {
    total_requests: i64,
    success_count: i64,
    failed_count: i64,
    /// `null` without requests.
    availability_percent: Option<Value>,
    average_latency_ms: Option<i64>,
}

/// The requests to a site in one local hour.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bucket {
    #[serde(flatten)]
    answered: RequestCounts,
    start_utc: String,
    label: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SiteAvailability {
    #[serde(flatten)]
    answered: RequestCounts,
    site_id: SiteId,
    site_name: String,
    site_url: String,
    platform: String,
    buckets: Vec<Bucket>,
}

/// Returns each site's availability in the last local hours, the current one last.
async fn availability(core: &Core, now: Millis) -> Result<Vec<SiteAvailability>> {
    let zone = &core.config.time_zone;
    let hours = last_hours(now, zone);
    let first = hours.first().copied().unwrap_or(now);
    let mut found: HashMap<(SiteId, Millis), Sums> = HashMap::new();
    for (bucket, site, sums) in stats::by_hour_and_site(&core.store, first).await? {
        found.entry((site, local_hour_start(bucket, zone))).or_default().add(&sums);
    }
    let sites = stats::active_sites(&core.store).await?;
    let shown = sites.into_iter().map(|site| {
        let mut total = Sums::default();
        let buckets = hours
            .iter()
            .map(|hour| {
                let sums = found.get(&(site.id, *hour)).copied().unwrap_or_default();
                total.add(&sums);
                Bucket {
                    answered: RequestCounts::of(&sums),
                    start_utc: iso(*hour),
                    label: label(*hour, zone),
                }
            })
            .collect();
        SiteAvailability {
            answered: RequestCounts::of(&total),
            site_id: site.id,
            site_name: site.name,
            site_url: site.url,
            platform: site.platform,
            buckets,
        }
    });
    Ok(shown.collect())
}

/// Returns the starts of the last local hours, ascending.
fn last_hours(now: Millis, zone: &TimeZone) -> Vec<Millis> {
    let mut hours = vec![local_hour_start(now, zone)];
    while hours.len() < AVAILABILITY_HOURS {
        let later = hours.last().copied().unwrap_or(now);
        hours.push(local_hour_start(later - 1, zone));
    }
    hours.reverse();
    hours
}

fn label(at: Millis, zone: &TimeZone) -> String {
    let stamp = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    stamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

impl RequestCounts {
    fn of(sums: &Sums) -> Self {
        let percent = || rounded(sums.ok as f64 * 100.0 / sums.calls as f64, 10.0);
        Self {
            total_requests: sums.calls,
            success_count: sums.ok,
            failed_count: sums.calls - sums.ok,
            availability_percent: (sums.calls > 0).then(percent),
            average_latency_ms: sums.latency(),
        }
    }
}

/// Summarises the usage of models in the last local days, today included.
async fn analysis(core: &Core, now: Millis) -> Result<Value> {
    let today = local_day(now, &core.config.time_zone);
    let first = today.saturating_sub((ANALYSIS_DAYS - 1).days());
    let from = first.to_string();
    let mut models = stats::by_model(&core.store, &from, None).await?;
    let mut total = Sums::default();
    models.iter().for_each(|(_, sums)| total.add(sums));
    let mut by_day: HashMap<String, Usd> = HashMap::new();
    for (day, _, sums) in stats::by_day_and_site(&core.store, &from, None).await? {
        *by_day.entry(day).or_default() += sums.cost;
    }
    let trend: Vec<Value> = (0..ANALYSIS_DAYS)
        .map(|days| first.saturating_add(days.days()).to_string())
        .map(|day| json!({ "day": day, "spend": by_day.get(&day).copied().unwrap_or_default().rounded() }))
        .collect();
    models.sort_by(|(one, a), (other, b)| {
        b.cost.dollars().total_cmp(&a.cost.dollars()).then_with(|| one.cmp(other))
    });
    let spend = |(model, sums): &(String, Sums)| json!({ "model": model, "spend": sums.cost.rounded(), "calls": sums.calls });
    let by_spend: Vec<Value> = models.iter().take(MAX_LISTED).map(spend).collect();
    models.sort_by(|(one, a), (other, b)| b.calls.cmp(&a.calls).then_with(|| one.cmp(other)));
    let share = |(model, sums): &(String, Sums)| json!({ "model": model, "calls": sums.calls, "share": part(sums.calls, total.calls) });
    let by_calls: Vec<Value> = models.iter().take(MAX_LISTED).map(share).collect();
    let rank = |(model, sums): &(String, Sums)| {
        json!({
            "model": model,
            "calls": sums.calls,
            "successRate": part(sums.ok, sums.calls),
            "avgLatencyMs": sums.latency().unwrap_or(0),
            "spend": sums.cost.rounded(),
            "tokens": sums.tokens,
        })
    };
    let ranking: Vec<Value> = models.iter().take(MAX_LISTED).map(rank).collect();
    Ok(json!({
        "window": { "start": from, "end": today.to_string(), "days": ANALYSIS_DAYS },
        "totals": { "calls": total.calls, "tokens": total.tokens, "spend": total.cost.rounded() },
        "spendDistribution": by_spend,
        "spendTrend": trend,
        "callsDistribution": by_calls,
        "callRanking": ranking,
    }))
}

/// Returns a percentage with two decimals; 0 if `of` is 0.
fn part(count: i64, of: i64) -> Value {
    if of == 0 { 0.into() } else { rounded(count as f64 * 100.0 / of as f64, 100.0) }
}

fn rounded(value: f64, by: f64) -> Value {
    shortest((value * by).round() / by)
}

#[cfg(test)]
mod tests {
    use crate::admin::stats::dashboard::*;

    #[test]
    fn the_last_hours_follow_the_local_clock() {
        for (zone, now, first, last) in [
            ("Asia/Kolkata", "2026-05-01T18:45:00Z", "2026-04-30T19:30:00.000Z", "2026-05-01T18:30:00.000Z"),
            (
                "America/New_York",
                "2026-03-08T12:00:00Z",
                "2026-03-07T13:00:00.000Z",
                "2026-03-08T12:00:00.000Z",
            ),
        ] {
            let zone = TimeZone::get(zone).expect("a zone");
            let hours = last_hours(crate::time::parse(now).expect("a time"), &zone);
            assert_eq!(hours.len(), AVAILABILITY_HOURS);
            assert_eq!((iso(hours[0]), iso(hours[23])), (first.to_owned(), last.to_owned()));
        }
    }

    #[test]
    fn a_part_has_two_decimals_and_of_nothing_it_is_0() {
        assert_eq!((part(1, 3), part(2, 2), part(0, 0)), (json!(33.33), json!(100), json!(0)));
    }
}
