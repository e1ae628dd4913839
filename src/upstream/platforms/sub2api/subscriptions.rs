//! The subscriptions of a sub2api account: the site's own summary, or else one made from the active subscriptions.

use serde_json::Value;

use super::{data, moment};
use crate::json_number::number_or_text;
use crate::money::Usd;
use crate::upstream::Client;
use crate::upstream::platforms::contract::{Allowance, Subscription, SubscriptionSummary};
use crate::upstream::platforms::reply;
use crate::upstream::platforms::site_client::{Call, SiteClient};

/// The most subscriptions of an account that are stored with it.
const MOST_SUBSCRIPTIONS: usize = 100;

/// Reads the summary; `None` when the site tells nothing: a balance is worth knowing without it.
pub(super) async fn summary(site_client: &SiteClient, client: &Client) -> Option<SubscriptionSummary> {
    for path in ["/api/v1/subscriptions/summary", "/api/v1/subscriptions/active"] {
        match data(site_client, client, Call::get(path)).await {
            Ok(found) => {
                if let Some(summary) = read(&found) {
                    return Some(summary);
                }
            }
            Err(error) if !error.is_missing() && error.is_final() => break,
            Err(error) => {
                log::debug!("{}: the subscriptions could not be read: {error}", site_client.base.origin)
            }
        }
    }
    None
}

fn read(found: &Value) -> Option<SubscriptionSummary> {
    let items = found.as_array().or_else(|| found.get("subscriptions")?.as_array());
    let counted = found.get("active_count").and_then(reply::whole).filter(|count| *count >= 0);
    if items.is_none() && counted.is_none() {
        return None;
    }
    let listed = items.into_iter().flatten().take(MOST_SUBSCRIPTIONS);
    let subscriptions: Vec<Subscription> = listed.map(subscription).collect();
    let used = |subscription: &Subscription| subscription.monthly.used_usd.unwrap_or_default();
    let total = amount(found, "total_used_usd");
    Some(SubscriptionSummary {
        // An explicit 0 is kept.
        active_count: counted.unwrap_or_else(|| i64::try_from(subscriptions.len()).unwrap_or(i64::MAX)),
        total_used_usd: total.unwrap_or_else(|| subscriptions.iter().map(used).sum::<Usd>().rounded()),
        subscriptions,
    })
}

fn subscription(item: &Value) -> Subscription {
    let group = item.get("group").unwrap_or(&Value::Null);
    let allowance = |period: &str| {
        let used =
            ["used", "usage"].into_iter().find_map(|word| amount(item, &format!("{period}_{word}_usd")));
        let limit = format!("{period}_limit_usd");
        Allowance { used_usd: used, limit_usd: amount(item, &limit).or_else(|| amount(group, &limit)) }
    };
    let ends = ["expires_at", "end_at", "current_period_end"];
    Subscription {
        id: item.get("id").and_then(reply::whole),
        group_id: item.get("group_id").or_else(|| group.get("id")).and_then(reply::whole),
        group_name: reply::name(item, "group_name").or_else(|| reply::name(group, "name")),
        status: reply::name(item, "status"),
        expires_at: ends.into_iter().find_map(|name| moment(item.get(name)?)),
        daily: allowance("daily"),
        weekly: allowance("weekly"),
        monthly: allowance("monthly"),
    }
}

fn amount(value: &Value, name: &str) -> Option<Usd> {
    let amount = Usd::new(number_or_text(value.get(name)?)?).rounded();
    amount.is_believable().then_some(amount)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::time;

    #[test]
    fn the_sites_summary_is_taken_as_it_is() {
        let found = json!({"active_count": 0, "total_used_usd": 1.23456789, "subscriptions": [
            {"id": 3, "group_id": 2, "group_name": "pro", "status": "active", "daily_used_usd": 0.5,
             "daily_limit_usd": 10, "expires_at": "2026-04-01T00:00:00Z"}]});
        let summary = read(&found).expect("a summary");
        assert_eq!((summary.active_count, summary.total_used_usd), (0, Usd::new(1.234568)));
        let first = &summary.subscriptions[0];
        assert_eq!(first.daily, Allowance { used_usd: Some(Usd::new(0.5)), limit_usd: Some(Usd::new(10.0)) });
        assert_eq!(first.weekly, Allowance::default());
        assert_eq!(first.expires_at, time::parse("2026-04-01T00:00:00Z"));
    }

    #[test]
    fn a_summary_is_made_from_the_active_ones() {
        let found = json!([{"id": 3, "group_id": 2, "status": "active", "monthly_usage_usd": 1.5,
            "expires_at": 1_775_001_600, "group": {"name": "pro", "monthly_limit_usd": 20}},
            {"id": 4, "monthly_usage_usd": 0.25, "current_period_end": 1_775_001_600_000_i64}]);
        let summary = read(&found).expect("a summary");
        assert_eq!((summary.active_count, summary.total_used_usd), (2, Usd::new(1.75)));
        assert_eq!(summary.subscriptions[0].group_name.as_deref(), Some("pro"));
        assert_eq!(summary.subscriptions[0].monthly.limit_usd, Some(Usd::new(20.0)));
        for subscription in &summary.subscriptions {
            assert_eq!(subscription.expires_at, Some(1_775_001_600_000));
        }
        assert_eq!(read(&json!({"error": "x"})), None);
    }
}
