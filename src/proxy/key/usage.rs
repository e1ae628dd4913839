//! What the holder of a key can ask about it: what it has used, and what is left of its budgets.
//!
//! `/v1/usage` has our own form. The billing forms are those that chat clients know from OpenAI: a limit, and what is used
//! of it. These calls count towards nothing, and a key that has used up its limits may still ask; they read the database,
//! so no model call waits for them. The holder of the proxy token gets the sums of all callers.

use std::sync::Arc;

use hyper::StatusCode;
use jiff::Span;
use serde_json::{Value, json};

use crate::http::{self, Request, Response};
use crate::keys::{Key, ShownBudget};
use crate::money::Usd;
use crate::proxy::Proxy;
use crate::store;
use crate::store::key_days::{self, DayUsage, TotalUsage};
use crate::time::{Millis, iso, local_day, now_ms};

use crate::proxy::auth::Caller;
use crate::proxy::reply::ErrorShape;

/// The number of days that are listed, including today.
const DAYS: i64 = 30;
/// The limit that clients take for none, in USD.
const UNLIMITED: Usd = Usd::new(100_000_000.0);

/// Serves `GET /v1/usage`.
pub(in crate::proxy) async fn usage(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    answer(&request, report(&proxy, &caller, now_ms()).await)
}

/// Serves `GET /v1/dashboard/billing/subscription`.
pub(in crate::proxy) async fn subscription(_: Arc<Proxy>, _: Request, caller: Caller) -> Response {
    let limit = caller.key.as_ref().and_then(|key| hard_limit(key, now_ms()));
    let limit = limit.unwrap_or(UNLIMITED).rounded();
    let until = caller.key.as_ref().and_then(|key| key.expires_at).map_or(0, |at| at / 1000);
    let body = json!({
        "object": "billing_subscription",
        "has_payment_method": true,
        "soft_limit_usd": limit,
        "hard_limit_usd": limit,
        "system_hard_limit_usd": limit,
        "access_until": until,
    });
    http::json(StatusCode::OK, &body)
}

/// Serves `GET /v1/dashboard/billing/usage`: in cents, and of all time whatever dates are asked for, so that the limit minus
/// the usage is what is left.
pub(in crate::proxy) async fn billing_usage(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let used = match &caller.key {
        Some(key) => Ok(key.live.used_cost()),
        None => all_usage(&proxy, &caller).await.map(|total| total.cost),
    };
    answer(&request, used.map(|used| json!({ "object": "list", "total_usage": (used * 100.0).rounded() })))
}

async fn report(proxy: &Proxy, caller: &Caller, now: Millis) -> store::Result<Value> {
    let (store, zone) = (&proxy.core.store, proxy.core.store.time_zone());
    let total = all_usage(proxy, caller).await?;
    let today = local_day(now, zone);
    let days: Vec<String> = (0..DAYS)
        .rev()
        .filter_map(|ago| Some(today.checked_sub(Span::new().days(ago)).ok()?.to_string()))
        .collect();
    let first = days.first().map_or("", String::as_str);
    let used = key_days::since(store, caller.key_id(), first).await?;
    let day = |date: String| {
        let DayUsage { requests, cost, tokens } = used.get(&date).copied().unwrap_or_default();
        json!({ "date": date, "requests": requests, "cost": cost.rounded(), "tokens": tokens })
    };
    let daily: Vec<Value> = days.into_iter().map(day).collect();
    let key = caller.key.as_deref();
    let limits = key.and_then(|key| key.limits.as_deref());
    let budgets = limits.iter().flat_map(|limits| &limits.budgets);
    let budgets: Vec<_> = budgets.map(|budget| ShownBudget::new(budget, now, zone)).collect();
    Ok(json!({
        "object": "usage",
        "key": {
            "name": key.map_or("PROXY_TOKEN", |key| &key.name),
            "expiresAt": key.and_then(|key| key.expires_at).map(iso),
        },
        "totals": {
            "requests": total.requests,
            "cost": total.cost.rounded(),
            "inputTokens": total.input_tokens,
            "outputTokens": total.output_tokens,
            "cacheReadTokens": total.cache_read_tokens,
        },
        "budgets": budgets,
        "daily": daily,
    }))
}

/// Returns all that the caller has used; for a key the requests and cost that its limits count.
async fn all_usage(proxy: &Proxy, caller: &Caller) -> store::Result<TotalUsage> {
    proxy.core.store.flush().await;
    let total = key_days::total(&proxy.core.store, caller.key_id()).await?;
    Ok(match &caller.key {
        Some(key) => TotalUsage { requests: key.live.requests.used(), cost: key.live.used_cost(), ..total },
        None => total,
    })
}

/// Returns the total cost at which the key is refused: its limit or, if that is less, its cost so far plus the rest of a budget
/// for all models.
fn hard_limit(key: &Key, now: Millis) -> Option<Usd> {
    let used = key.live.used_cost();
    let of_budgets = key.limits.iter().flat_map(|limits| &limits.budgets).filter_map(|budget| {
        let most = budget.bounds.cost.filter(|_| budget.models.is_empty())?;
        let spent = budget.live.used(now).map_or(Usd::ZERO, |(used, _)| used.cost);
        Some(used + (most - spent).max(Usd::ZERO))
    });
    key.max_cost.into_iter().chain(of_budgets).reduce(Usd::min)
}

fn answer(request: &Request, body: store::Result<Value>) -> Response {
    match body {
        Ok(body) => http::json(StatusCode::OK, &body),
        Err(error) => {
            log::error!("the usage of a key could not be read: {error}");
            let shape = ErrorShape::of(&request.headers, None, request.id);
            shape.refuse(503, "The usage could not be read", None, None)
        }
    }
}
