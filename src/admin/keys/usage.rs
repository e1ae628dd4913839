//! The usage of downstream keys from the proxy log: summary, overview, trend.

use std::sync::Arc;

use hyper::StatusCode;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::handlers::find;
use super::view::KeyItem;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::require_id;
use crate::admin::stats::cached::CacheUse;
use crate::http::{self, Query, Request, Response};
use crate::json_number::shortest;
use crate::store::key_usage::{self, KeyUsage};
use crate::store::keys;
use crate::time::{DAY, HOUR, Millis, iso, local_day_start, local_hour_start, now_ms};

const UNGROUPED: &str = "__ungrouped__";
const MAX_SEARCH_CHARS: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Day,
    Week,
    All,
}

impl Range {
    fn of(query: &Query) -> Self {
        match query.get("range").as_deref() {
            Some("7d") => Self::Week,
            Some("all") => Self::All,
            _ => Self::Day,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Day => "24h",
            Self::Week => "7d",
            Self::All => "all",
        }
    }

    fn start(self, now: Millis) -> Millis {
        match self {
            Self::Day => now - DAY,
            Self::Week => now - 7 * DAY,
            Self::All => 0,
        }
    }
}

/// The keys of a summary, by whether they are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum StatusFilter {
    Enabled,
    Disabled,
    All,
}

/// How many of the tags in a filter a key must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TagMatch {
    Any,
    All,
}

/// The filter of a summary; parameters that cannot be read have their defaults.
#[derive(Debug, PartialEq)]
struct Filter {
    range: Range,
    status: StatusFilter,
    search: String,
    group: String,
    tags: Vec<String>,
    tag_match: TagMatch,
}

impl Filter {
    fn of(query: &Query) -> Self {
        let text = |name: &str| query.get(name).unwrap_or_default().trim().to_owned();
        let sent = query.pairs().filter(|(name, _)| name == "tags");
        let tags =
            sent.flat_map(|(_, value)| value.split(',').map(|tag| tag.trim().to_owned()).collect::<Vec<_>>());
        Self {
            range: Range::of(query),
            status: match query.get("status").as_deref() {
                Some("enabled") => StatusFilter::Enabled,
                Some("disabled") => StatusFilter::Disabled,
                _ => StatusFilter::All,
            },
            search: text("search").chars().take(MAX_SEARCH_CHARS).collect(),
            group: keys::cut_group(&text("group")),
            tags: keys::distinct_tags(tags.filter(|tag| !tag.is_empty())),
            tag_match: match query.get("tagMatch").as_deref() {
                Some("all") => TagMatch::All,
                _ => TagMatch::Any,
            },
        }
    }

    fn shows(&self, row: &keys::KeyRow, item: &KeyItem) -> bool {
        let settings = &row.settings;
        let status = match self.status {
            StatusFilter::Enabled => settings.enabled,
            StatusFilter::Disabled => !settings.enabled,
            StatusFilter::All => true,
        };
        let group = match self.group.as_str() {
            "" => true,
            UNGROUPED => settings.group_name.is_none(),
            group => settings.group_name.as_deref() == Some(group),
        };
        let has = |tag: &String| settings.tags.iter().any(|own| own.to_lowercase() == tag.to_lowercase());
        let tags = match self.tag_match {
            TagMatch::All => self.tags.iter().all(has),
            TagMatch::Any => self.tags.is_empty() || self.tags.iter().any(has),
        };
        status && group && tags && item.is_found_by(&self.search.to_lowercase())
    }
}

/// `GET /api/downstream-keys/summary`
pub async fn summary(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let filter = Filter::of(&request.query);
    admin.core.store.flush().await;
    let used = key_usage::by_key_since(&admin.core.store, filter.range.start(now_ms())).await?;
    let mut items = Vec::new();
    for row in keys::list(&admin.core.store).await? {
        let item = KeyItem::new(&admin.core, &row);
        if filter.shows(&row, &item) {
            let mut item =
                serde_json::to_value(&item).map_err(|error| AdminError::internal("writing a key", error))?;
            item["rangeUsage"] = Value::Object(usage(used.get(&row.id).copied().unwrap_or_default()));
            items.push(item);
        }
    }
    let answer = json!({
        "success": true,
        "range": filter.range.name(),
        "status": filter.status,
        "search": filter.search,
        "group": filter.group,
        "tags": filter.tags,
        "tagMatch": filter.tag_match,
        "items": items,
    });
    Ok(http::json(StatusCode::OK, &answer))
}

/// `GET /api/downstream-keys/{id}/overview`
pub async fn overview(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let row = find(&admin.core.store, require_id(&request)?).await?;
    admin.core.store.flush().await;
    let now = now_ms();
    let mut sums = Map::new();
    for (name, range) in [("last24h", Range::Day), ("last7d", Range::Week), ("all", Range::All)] {
        let used = key_usage::since(&admin.core.store, row.id, range.start(now)).await?;
        sums.insert(name.to_owned(), Value::Object(usage(used)));
    }
    let answer = json!({ "success": true, "item": KeyItem::new(&admin.core, &row), "usage": sums });
    Ok(http::json(StatusCode::OK, &answer))
}

/// `GET /api/downstream-keys/{id}/trend`
pub async fn trend(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let row = find(&admin.core.store, require_id(&request)?).await?;
    let range = Range::of(&request.query);
    let asked = request.query.get("timeZone").and_then(|name| TimeZone::get(name.trim()).ok());
    let zone = asked.unwrap_or_else(|| admin.core.config.time_zone.clone());
    admin.core.store.flush().await;
    let quarters = key_usage::by_quarter(&admin.core.store, row.id, range.start(now_ms())).await?;
    let listed: Vec<Value> = buckets(&quarters, range, &zone)
        .into_iter()
        .map(|(start, used)| {
            let mut bucket = usage(used);
            bucket.insert("startUtc".to_owned(), iso(start).into());
            Value::Object(bucket)
        })
        .collect();
    let answer = json!({
        "success": true,
        "range": range.name(),
        "item": { "id": row.id, "name": row.settings.name },
        "bucketSeconds": if range == Range::All { DAY / 1000 } else { HOUR / 1000 },
        "timeZone": zone.iana_name().unwrap_or("UTC"),
        "buckets": listed,
    });
    Ok(http::json(StatusCode::OK, &answer))
}

/// Sums usage by local days for all of time, by local hours for shorter ranges; ascending, without empty buckets.
fn buckets(quarters: &[(Millis, KeyUsage)], range: Range, zone: &TimeZone) -> Vec<(Millis, KeyUsage)> {
    let mut buckets: Vec<(Millis, KeyUsage)> = Vec::new();
    for &(quarter, used) in quarters {
        let start = match range {
            Range::All => local_day_start(quarter, zone),
            Range::Day | Range::Week => local_hour_start(quarter, zone),
        };
        match buckets.last_mut() {
            Some((last, sum)) if *last == start => *sum += used,
            _ => buckets.push((start, used)),
        }
    }
    buckets
}

fn usage(used: KeyUsage) -> Map<String, Value> {
    let rate = (used.requests > 0)
        .then(|| shortest((used.successes as f64 * 1000.0 / used.requests as f64).round() / 10.0));
    let mut map = Map::new();
    for (name, value) in [
        ("totalRequests", used.requests.into()),
        ("successRequests", used.successes.into()),
        ("failedRequests", (used.requests - used.successes).into()),
        ("successRate", rate.unwrap_or(Value::Null)),
        ("totalTokens", used.tokens.into()),
        ("totalCost", used.cost.rounded().into()),
    ] {
        map.insert(name.to_owned(), value);
    }
    if let Ok(Value::Object(cached)) = serde_json::to_value(CacheUse::of(&used.cached)) {
        map.extend(cached);
    }
    map
}

#[cfg(test)]
mod tests {
    use crate::admin::keys::usage::*;
    use crate::money::Usd;

    fn at(text: &str) -> Millis {
        crate::time::parse(text).expect("a time")
    }

    #[test]
    fn days_begin_where_the_asked_zone_has_midnight() {
        let one =
            KeyUsage { requests: 1, successes: 1, tokens: 5, cost: Usd::new(0.5), ..KeyUsage::default() };
        let quarters = ["2026-04-05T23:30:00Z", "2026-04-06T01:00:00Z", "2026-04-06T16:30:00Z"];
        let quarters = quarters.map(|time| (at(time), one));
        let zone = TimeZone::get("Asia/Shanghai").expect("a zone");
        let found: Vec<_> = buckets(&quarters, Range::All, &zone)
            .into_iter()
            .map(|(start, used)| (iso(start), used.requests))
            .collect();
        let expected =
            [("2026-04-05T16:00:00.000Z".to_owned(), 2), ("2026-04-06T16:00:00.000Z".to_owned(), 1)];
        assert_eq!(found, expected);
    }

    #[test]
    fn hours_begin_where_the_asked_zone_has_a_full_hour() {
        let zone = TimeZone::get("Asia/Kolkata").expect("a zone");
        assert_eq!(local_hour_start(at("2026-05-01T18:45:00Z"), &zone), at("2026-05-01T18:30:00Z"));
    }

    #[test]
    fn what_a_filter_cannot_read_is_its_default() {
        let filter = Filter::of(&Query::new("range=1y&status=odd&tags=a,B&tags=b&tagMatch=some&search=%20x"));
        let expected = Filter {
            range: Range::Day,
            status: StatusFilter::All,
            search: "x".into(),
            group: String::new(),
            tags: vec!["a".into(), "B".into()],
            tag_match: TagMatch::Any,
        };
        assert_eq!(filter, expected);
    }

    #[test]
    fn tags_and_groups_are_cut_like_those_of_a_key() {
        let (tag, group) = ("t".repeat(33), "g".repeat(65));
        let filter = Filter::of(&Query::new(&format!("tags={tag},{tag}x&group={group}")));
        assert_eq!((filter.tags, filter.group), (vec!["t".repeat(32)], "g".repeat(64)));
    }

    #[test]
    fn a_rate_has_one_decimal_and_needs_a_request() {
        let used = KeyUsage {
            requests: 3,
            successes: 2,
            tokens: 7,
            cost: Usd::new(0.1 + 0.2),
            ..KeyUsage::default()
        };
        let shown = json!({"totalRequests": 3, "successRequests": 2, "failedRequests": 1,
            "successRate": 66.7, "totalTokens": 7, "totalCost": 0.3});
        assert_eq!(Value::Object(usage(used)), shown);
        assert_eq!(usage(KeyUsage::default())["successRate"], Value::Null);
    }
}
