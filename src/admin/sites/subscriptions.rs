//! Summarises the subscriptions of a site's accounts, from what each account's `extraConfig` stored when they were last
//! read.

use serde_json::{Value, json};

use crate::money::Usd;
use crate::time::{self, iso};

/// Summarises the `extraConfig` texts of one site's accounts; `null` if none has subscriptions.
pub fn summary<'a>(extras: impl IntoIterator<Item = &'a str>) -> Value {
    let kept: Vec<Value> = extras.into_iter().filter_map(stored_summary).collect();
    if kept.is_empty() {
        return Value::Null;
    }
    let plans: Vec<&Value> =
        kept.iter().filter_map(|kept| kept.get("subscriptions")?.as_array()).flatten().collect();
    let mut names: Vec<&str> = Vec::new();
    for name in plans.iter().filter_map(|plan| field(plan, "groupName", "group_name")?.as_str()) {
        let name = name.trim();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    let count = |kept: &Value| field(kept, "activeCount", "active_count").and_then(Value::as_i64);
    let used: f64 =
        kept.iter().filter_map(|kept| field(kept, "totalUsedUsd", "total_used_usd")?.as_f64()).sum();
    let limits: Vec<f64> = plans
        .iter()
        .filter_map(|plan| field(plan, "monthlyLimitUsd", "monthly_limit_usd")?.as_f64())
        .collect();
    let limit = (!limits.is_empty()).then(|| limits.iter().sum::<f64>());
    let next = plans.iter().filter_map(|plan| time::from_json(field(plan, "expiresAt", "expires_at")?)).min();
    let updated =
        kept.iter().filter_map(|kept| time::from_json(field(kept, "updatedAt", "updated_at")?)).max();
    let usd = |amount: f64| Usd::new(amount).rounded();
    json!({
        "activeCount": kept.iter().filter_map(count).sum::<i64>(),
        "totalUsedUsd": usd(used),
        "totalMonthlyLimitUsd": limit.map(usd),
        "totalRemainingUsd": limit.map(|limit| usd((limit - used).max(0.0))),
        "nextExpiresAt": next.map(iso),
        "planNames": names,
        "updatedAt": updated,
    })
}

fn stored_summary(extra: &str) -> Option<Value> {
    let mut extra: Value = serde_json::from_str(extra).ok()?;
    extra.get_mut("sub2apiSubscription").map(Value::take).filter(Value::is_object)
}

/// Returns the field under either name, because imported rows may use both spellings.
fn field<'a>(value: &'a Value, name: &str, other: &str) -> Option<&'a Value> {
    value.get(name).or_else(|| value.get(other)).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use crate::admin::sites::subscriptions::*;

    #[test]
    fn accounts_are_summed_up_and_unknown_limits_stay_unknown() {
        let first = json!({"credentialMode": "session", "sub2apiSubscription": {"activeCount": 2,
            "totalUsedUsd": 3.25, "updatedAt": 1_795_000_000_000_i64, "subscriptions": [
                {"groupName": "pro", "monthlyLimitUsd": 20, "expiresAt": "2027-04-01T00:00:00.000Z"},
                {"groupName": "max", "monthlyLimitUsd": null}]}});
        let second = json!({"sub2apiSubscription": {"active_count": 1, "total_used_usd": 30.1,
            "updated_at": 1_795_000_000_001_i64, "subscriptions": [
                {"group_name": "pro", "monthly_limit_usd": 5.5, "expires_at": "2027-03-01T00:00:00Z"}]}});
        let (first, second) = (first.to_string(), second.to_string());
        assert_eq!(
            summary([first.as_str(), "{}", "no JSON", second.as_str()]),
            json!({"activeCount": 3, "totalUsedUsd": 33.35, "totalMonthlyLimitUsd": 25.5, "totalRemainingUsd": 0,
                "nextExpiresAt": "2027-03-01T00:00:00.000Z", "planNames": ["pro", "max"],
                "updatedAt": 1_795_000_000_001_i64})
        );
        assert_eq!(summary([first.as_str()])["totalRemainingUsd"], 16.75);
        let unlimited = r#"{"sub2apiSubscription":{"activeCount":0,"totalUsedUsd":0,"subscriptions":[]}}"#;
        assert_eq!(
            summary([unlimited]),
            json!({"activeCount": 0, "totalUsedUsd": 0, "totalMonthlyLimitUsd": null, "totalRemainingUsd": null,
                "nextExpiresAt": null, "planNames": [], "updatedAt": null})
        );
        assert_eq!(summary(["{}", r#"{"sub2apiSubscription":null}"#]), Value::Null);
    }
}
