//! A budget as it is shown to its operator and to the holder of the key.

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::money::Usd;
use crate::time::{Millis, iso};

use super::budget::{Budget, Used};
use super::period::Period;

/// A budget with its current usage.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownBudget {
    period: Period,
    max_cost: Option<Usd>,
    max_requests: Option<i64>,
    max_tokens: Option<i64>,
    models: Option<Vec<String>>,
    used: ShownUse,
    /// When the usage resets; null where it never does, and where the next request begins the window.
    resets_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct ShownUse {
    cost: Usd,
    requests: i64,
    tokens: i64,
}

impl ShownBudget {
    pub fn new(budget: &Budget, now: Millis, zone: &TimeZone) -> Self {
        let (used, end) = budget.live.used(now).unwrap_or_else(|| {
            let end = match budget.period {
                Period::FiveHours => Millis::MAX,
                period => period.end(period.start(now, zone), zone),
            };
            (Used::default(), end)
        });
        let models = budget.models.iter().map(|pattern| pattern.as_str().to_owned()).collect();
        Self {
            period: budget.period,
            max_cost: budget.bounds.cost.map(Usd::rounded),
            max_requests: budget.bounds.requests,
            max_tokens: budget.bounds.tokens,
            models: Some(models).filter(|models: &Vec<_>| !models.is_empty()),
            used: ShownUse { cost: used.cost.rounded(), requests: used.requests, tokens: used.tokens },
            resets_at: (end != Millis::MAX).then(|| iso(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::keys::{Bounds, BudgetLive};
    use crate::time::parse;

    #[test]
    fn a_budget_shows_what_is_used_of_the_window_of_this_moment() {
        let [start, end] =
            ["2026-05-01T08:00:00Z", "2026-05-01T13:00:00Z"].map(|at| parse(at).expect("a time"));
        let live = Arc::new(BudgetLive::new("5h 1".to_owned()));
        live.open(start, end, Used { requests: 2, cost: Usd::new(0.1 + 0.2), tokens: 40 });
        let bounds = Bounds { cost: Some(Usd::new(10.0)), requests: None, tokens: Some(50) };
        let budget = Budget { period: Period::FiveHours, bounds, models: Vec::new(), live };
        let shown = |budget: &Budget, now| {
            serde_json::to_value(ShownBudget::new(budget, now, &TimeZone::UTC)).expect("JSON")
        };
        let wanted = json!({"period": "5h", "maxCost": 10, "maxRequests": null, "maxTokens": 50, "models": null,
            "used": {"cost": 0.3, "requests": 2, "tokens": 40}, "resetsAt": "2026-05-01T13:00:00.000Z"});
        assert_eq!(shown(&budget, end - 1), wanted);
        let nothing = json!({"cost": 0, "requests": 0, "tokens": 0});
        let ended = shown(&budget, end);
        assert_eq!((&ended["used"], &ended["resetsAt"]), (&nothing, &json!(null)));
        let day = Budget { period: Period::Day, ..budget };
        let ended = shown(&day, end);
        assert_eq!((&ended["used"], &ended["resetsAt"]), (&nothing, &json!("2026-05-02T00:00:00.000Z")));
        assert_eq!(shown(&Budget { period: Period::Total, ..day }, end)["resetsAt"], json!(null));
    }
}
