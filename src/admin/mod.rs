//! The admin API, `/api/*`: one file per resource, one table of routes.
//!
//! | file | resource |
//! |---|---|
//! | `auth` | authentication of operators; the change of the admin token |
//! | `runtime_settings`, `runtime_input` | what an operator changes while the service runs, and the reading of it |
//! | `sites`, `site_batch`, `site_models`, `site_input` | sites: their routes, batch, models, the reading of their fields |
//! | `site_probes`, `site_subscriptions` | models of a site probed now, with the results streamed; a summary of its accounts' subscriptions |
//! | `site_url`, `site_view`, `presets`, `detect` | addresses, how a site is shown, vendors' addresses, the platform behind an address |
//! | `accounts`, `account_create`, `account_create_session`, `account_update`, `account_login`, `account_rebind`, `account_models` | accounts by what is done with them |
//! | `account_balance`, `account_checks` | the balance of an account; checks of health, of one account or all |
//! | `account_input`, `account_view`, `verify`, `verdict` | reading, showing and verifying a credential |
//! | `account_tokens`, `account_token_create`, `account_token_sync` | the keys of session accounts |
//! | `account_token_input`, `account_token_view` | reading and showing one |
//! | `routes`, `route_input`, `route_fill`, `route_view` | routes: their endpoints, the reading of their fields, what saving one entails, how they are shown |
//! | `channels`, `channel_input` | the channels of a route, added and changed by hand |
//! | `decisions`, `decision_view` | why a request would go where it goes, and the answers kept with the routes |
//! | `keys`, `key_input`, `key_view`, `key_usage` | downstream keys: changing, reading, showing them, and what they did |
//! | `marketplace`, `token_candidates`, `model_offers` | which models can be had, from whom, for how much |
//! | `model_checks` | discovery and probes of models, started by hand |
//! | `notifications`, `system_proxy` | tests of the notification channels and of the system proxy |
//! | `maintenance` | clearing caches and usage; new keys for what is stored; the factory reset |
//! | `search` | one text over everything |
//! | `playground` | an operator tries the proxy |
//! | `checkins`, `announcements` | daily check-ins and their log; what sites announce |
//! | `events`, `tasks`, `proxy_logs`, `debug_traces`, `metrics` | what happened, what runs |
//! | `dashboard`, `site_stats`, `stats_cache` | usage and availability statistics, and their cache |
//! | `openapi` | every route in a line |
//! | `errors`, `input`, `paging`, `batch`, `secrets`, `rebuild` | what all of them share |
//!
//! A handler takes the app and the request and gives an answer or an [`AdminError`]; [`routes()`] is the
//! one place where an error becomes a response. A change commits, publishes, then answers.

mod account_balance;
mod account_checks;
mod account_create;
mod account_create_session;
mod account_input;
mod account_login;
mod account_models;
mod account_rebind;
mod account_token_create;
mod account_token_input;
mod account_token_sync;
mod account_token_view;
mod account_tokens;
mod account_update;
mod account_view;
pub mod accounts;
mod announcements;
mod auth;
mod batch;
mod channel_input;
mod channels;
mod checkins;
mod dashboard;
mod debug_traces;
mod decision_view;
pub mod decisions;
mod detect;
pub mod errors;
mod events;
mod input;
mod key_input;
mod key_usage;
mod key_view;
mod keys;
mod maintenance;
pub mod marketplace;
mod metrics;
mod model_checks;
mod model_offers;
mod notifications;
mod openapi;
mod paging;
pub mod playground;
mod presets;
mod proxy_logs;
mod rebuild;
mod route_fill;
mod route_input;
mod route_list;
mod route_view;
mod routes;
mod runtime_input;
mod runtime_settings;
mod search;
mod secrets;
mod site_batch;
mod site_input;
mod site_models;
mod site_probes;
mod site_stats;
mod site_subscriptions;
pub mod site_url;
mod site_view;
mod sites;
pub mod stats_cache;
mod system_proxy;
mod tasks;
mod token_candidates;
mod verdict;
mod verify;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

pub use auth::{Caller, authorize};
use errors::{AdminError, Result};

use crate::app::App;
use crate::http::{self, Access, Request, Response, Route};
use crate::limits::{Bucket, RetryAfterSeconds};
use crate::metrics::Surface;
use crate::time::monotonic_ms;

/// Every route of the admin API.
pub fn routes() -> Vec<Route<App>> {
    vec![
        public(Method::GET, "/api/desktop/health", health),
        admin(Method::GET, "/api/settings/auth/info", auth::info),
        admin(Method::POST, "/api/settings/auth/change", auth::change),
        admin(Method::GET, "/api/settings/runtime", runtime_settings::get),
        admin(Method::PUT, "/api/settings/runtime", runtime_settings::put),
        admin(Method::POST, "/api/settings/system-proxy/test", system_proxy::test),
        action("/api/settings/notify/test", notifications::send_test),
        admin(Method::GET, "/api/settings/brand-list", runtime_settings::brand_list),
        admin(Method::GET, "/api/sites", sites::list),
        admin(Method::POST, "/api/sites", sites::create),
        admin(Method::GET, "/api/sites/presets", sites::list_presets),
        admin(Method::POST, "/api/sites/detect", sites::detect_platform),
        admin(Method::POST, "/api/sites/batch", site_batch::batch),
        admin(Method::PUT, "/api/sites/{id}", sites::update),
        removal("/api/sites/{id}", sites::delete),
        admin(Method::GET, "/api/sites/{id}/disabled-models", site_models::disabled_models),
        admin(Method::PUT, "/api/sites/{id}/disabled-models", site_models::set_disabled_models),
        admin(Method::GET, "/api/sites/{id}/available-models", site_models::available_models),
        admin(Method::POST, "/api/sites/{id}/probe-now", site_probes::now),
        admin(Method::GET, "/api/sites/{id}/probe-stream", site_probes::stream),
        admin(Method::GET, "/api/accounts", accounts::list),
        admin(Method::POST, "/api/accounts", account_create::create),
        admin(Method::POST, "/api/accounts/verify-token", verify::verify_token),
        admin(Method::POST, "/api/accounts/login", account_login::login),
        admin(Method::POST, "/api/accounts/batch", accounts::batch),
        admin(Method::POST, "/api/accounts/health/refresh", account_checks::refresh),
        admin(Method::PUT, "/api/accounts/{id}", account_update::update),
        removal("/api/accounts/{id}", accounts::delete),
        admin(Method::POST, "/api/accounts/{id}/rebind-session", account_rebind::rebind),
        action("/api/accounts/{id}/balance", account_balance::refresh),
        action("/api/accounts/{id}/clear-cooldown", routes::clear_cooldown_of_account),
        admin(Method::GET, "/api/accounts/{id}/models", account_models::list),
        admin(Method::POST, "/api/accounts/{id}/models/manual", account_models::add_manual),
        admin(Method::GET, "/api/account-tokens", account_tokens::list),
        admin(Method::POST, "/api/account-tokens", account_token_create::create),
        admin(Method::POST, "/api/account-tokens/batch", account_tokens::batch),
        admin(Method::POST, "/api/account-tokens/sync-all", account_token_sync::sync_all),
        action("/api/account-tokens/sync/{id}", account_token_sync::sync),
        admin(Method::GET, "/api/account-tokens/groups/{id}", account_token_sync::groups),
        admin(Method::GET, "/api/account-tokens/account/{id}/default", account_tokens::default_of),
        admin(Method::PUT, "/api/account-tokens/{id}", account_tokens::update),
        removal("/api/account-tokens/{id}", account_tokens::delete),
        action("/api/account-tokens/{id}/default", account_tokens::set_default),
        admin(Method::GET, "/api/account-tokens/{id}/value", account_tokens::value),
        admin(Method::GET, "/api/routes", route_list::list),
        admin(Method::GET, "/api/routes/summary", route_list::summary),
        admin(Method::GET, "/api/routes/lite", routes::lite),
        admin(Method::POST, "/api/routes/rebuild", routes::rebuild),
        admin(Method::GET, "/api/routes/decision", decisions::get),
        admin(Method::POST, "/api/routes/decision/batch", decisions::batch),
        admin(Method::POST, "/api/routes/decision/by-route/batch", decisions::by_route),
        admin(Method::POST, "/api/routes/decision/route-wide/batch", decisions::route_wide),
        action("/api/routes/decision/refresh", decisions::refresh),
        admin(Method::POST, "/api/routes", routes::create),
        admin(Method::POST, "/api/routes/batch", routes::batch),
        admin(Method::PUT, "/api/routes/{id}", routes::update),
        removal("/api/routes/{id}", routes::delete),
        action("/api/routes/{id}/cooldown/clear", routes::clear_cooldown),
        admin(Method::GET, "/api/routes/{id}/channels", channels::list),
        admin(Method::POST, "/api/routes/{id}/channels", channels::add),
        admin(Method::POST, "/api/routes/{id}/channels/batch", channels::add_batch),
        admin(Method::PUT, "/api/channels/batch", channels::update_batch),
        admin(Method::PUT, "/api/channels/{id}", channels::update),
        removal("/api/channels/{id}", channels::delete),
        admin(Method::GET, "/api/downstream-keys", keys::list),
        admin(Method::POST, "/api/downstream-keys", keys::create),
        admin(Method::POST, "/api/downstream-keys/batch", keys::batch),
        admin(Method::GET, "/api/downstream-keys/summary", key_usage::summary),
        admin(Method::PUT, "/api/downstream-keys/{id}", keys::update),
        removal("/api/downstream-keys/{id}", keys::delete),
        action("/api/downstream-keys/{id}/reset-usage", keys::reset_usage),
        admin(Method::GET, "/api/downstream-keys/{id}/value", keys::value),
        admin(Method::GET, "/api/downstream-keys/{id}/overview", key_usage::overview),
        admin(Method::GET, "/api/downstream-keys/{id}/trend", key_usage::trend),
        action("/api/settings/maintenance/clear-usage", maintenance::clear_usage),
        action("/api/settings/maintenance/clear-cache", maintenance::clear_cache),
        action("/api/settings/maintenance/rotate-seal-key", maintenance::rotate_seal_key),
        action("/api/settings/maintenance/replace-index-key", maintenance::replace_index_key),
        admin(Method::POST, "/api/settings/maintenance/factory-reset", maintenance::factory_reset),
        admin(Method::GET, "/api/stats/dashboard", dashboard::get),
        admin(Method::GET, "/api/stats/site-distribution", site_stats::distribution),
        admin(Method::GET, "/api/stats/site-trend", site_stats::trend),
        admin(Method::GET, "/api/stats/model-by-site", site_stats::models),
        admin(Method::GET, "/api/stats/proxy-logs", proxy_logs::list),
        removal("/api/stats/proxy-logs", proxy_logs::clear),
        admin(Method::GET, "/api/stats/proxy-logs/{id}", proxy_logs::get),
        admin(Method::GET, "/api/stats/proxy-debug/traces", debug_traces::list),
        admin(Method::GET, "/api/stats/proxy-debug/traces/{id}", debug_traces::get),
        admin(Method::GET, "/api/models/marketplace", marketplace::list),
        admin(Method::GET, "/api/models/token-candidates", token_candidates::list),
        action("/api/models/check/{id}", model_checks::check),
        admin(Method::POST, "/api/models/probe", model_checks::probe),
        admin(Method::GET, "/api/tasks", tasks::list),
        admin(Method::GET, "/api/tasks/{id}", tasks::get),
        action("/api/checkin/trigger", checkins::trigger_all),
        action("/api/checkin/trigger/{id}", checkins::trigger),
        admin(Method::GET, "/api/checkin/logs", checkins::logs),
        admin(Method::PUT, "/api/checkin/schedule", checkins::schedule),
        admin(Method::GET, "/api/site-announcements", announcements::list),
        removal("/api/site-announcements", announcements::clear),
        action("/api/site-announcements/read-all", announcements::mark_all_read),
        admin(Method::POST, "/api/site-announcements/sync", announcements::sync),
        action("/api/site-announcements/{id}/read", announcements::mark_read),
        admin(Method::POST, "/api/search", search::search),
        admin(Method::GET, "/api/events", events::list),
        removal("/api/events", events::clear),
        admin(Method::GET, "/api/events/count", events::count),
        action("/api/events/read-all", events::mark_all_read),
        action("/api/events/{id}/read", events::mark_read),
        admin(Method::POST, "/api/test/proxy", playground::proxy),
        admin(Method::POST, "/api/test/proxy/stream", playground::proxy_stream),
        admin(Method::POST, "/api/test/proxy/jobs", playground::start_proxy_job),
        admin(Method::GET, "/api/test/proxy/jobs/{id}", playground::job),
        removal("/api/test/proxy/jobs/{id}", playground::cancel_job),
        admin(Method::POST, "/api/test/chat", playground::chat),
        admin(Method::POST, "/api/test/chat/stream", playground::chat_stream),
        admin(Method::POST, "/api/test/chat/jobs", playground::start_chat_job),
        admin(Method::GET, "/api/test/chat/jobs/{id}", playground::job),
        removal("/api/test/chat/jobs/{id}", playground::cancel_job),
        admin(Method::GET, "/api/openapi.json", openapi::get),
        admin(Method::GET, "/metrics", metrics::get),
    ]
}

fn admin<H, F>(method: Method, path: &'static str, handler: H) -> Route<App>
where
    H: Fn(Arc<App>, Request) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    Route::new(method, path, Access::Admin, Surface::Admin, move |app, request| {
        answered(Box::pin(handler(app, request)))
    })
}

/// A POST that takes nothing from its body.
fn action<H, F>(path: &'static str, handler: H) -> Route<App>
where
    H: Fn(Arc<App>, Request) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    without_input(Method::POST, path, handler)
}

/// A DELETE: what goes is said by the path.
fn removal<H, F>(path: &'static str, handler: H) -> Route<App>
where
    H: Fn(Arc<App>, Request) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    without_input(Method::DELETE, path, handler)
}

/// A route that takes nothing from its body, which has to be an object or nothing all the same: a body that is broken
/// was meant to say something.
fn without_input<H, F>(method: Method, path: &'static str, handler: H) -> Route<App>
where
    H: Fn(Arc<App>, Request) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    Route::new(method, path, Access::Admin, Surface::Admin, move |app, mut request| {
        answered(Box::pin(async move {
            request.json_object().await?;
            handler(app, request).await
        }))
    })
}

fn public<H, F>(method: Method, path: &'static str, handler: H) -> Route<App>
where
    H: Fn(Arc<App>, Request) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    Route::new(method, path, Access::Public, Surface::Admin, move |app, request| {
        answered(Box::pin(handler(app, request)))
    })
}

/// Takes every handler's future behind one type, so that it is compiled once and not for each of more than a hundred.
async fn answered(answer: Pin<Box<dyn Future<Output = Result<Response>> + Send>>) -> Response {
    answer.await.unwrap_or_else(AdminError::into_response)
}

/// `GET /api/desktop/health`: the process answers, and what it lacks. Public, and asks nothing else.
async fn health(app: Arc<App>, _request: Request) -> Result<Response> {
    Ok(health_answer(app.core.is_stopping(), app.core.store.database().is_full()))
}

/// 503 once the process is stopping: a balancer looks elsewhere while requests in flight end. With a full disk it goes on
/// serving, which a restart would not mend: it is told, and no failure.
fn health_answer(is_stopping: bool, is_full: bool) -> Response {
    let status = if is_stopping { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let mut health = json!({ "ok": !is_stopping });
    if is_full {
        health["storage"] = json!("full");
        health["message"] = json!(crate::store::FULL);
    }
    http::json(status, &health)
}

/// The path's `id`, a strict positive integer.
fn require_id(request: &Request) -> Result<i64> {
    request.params.id("id").map_err(AdminError::bad_request)
}

/// Counts a request against a route guard of its source address.
fn guard(app: &App, request: &Request, bucket: &Bucket) -> Result<()> {
    let checked = app.guards.check(bucket, request.client_ip, monotonic_ms());
    checked.map_err(|RetryAfterSeconds(seconds)| AdminError::too_many_requests(seconds))
}

/// USD rounded as answers show it: six decimals, and no negative zero.
fn money(usd: f64) -> f64 {
    (usd * 1e6).round() / 1e6 + 0.0
}

/// A number as people write it: `1`, not `1.0`.
fn number(value: f64) -> Value {
    input::whole(value).map_or_else(|| value.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Endpoint;

    #[test]
    fn numbers_show_no_needless_decimals() {
        for (value, shown) in [(1.0, "1"), (-0.0, "0"), (0.1 + 0.2, "0.30000000000000004"), (2.5, "2.5")] {
            assert_eq!(number(value).to_string(), shown);
        }
        for (usd, shown) in [(0.1 + 0.2, "0.3"), (1e-9, "0"), (-1e-9, "0"), (12.3456789, "12.345679")] {
            assert_eq!(number(money(usd)).to_string(), shown);
        }
    }

    #[test]
    fn a_process_that_stops_is_not_healthy() {
        assert_eq!(health_answer(false, false).status(), 200);
        assert_eq!(health_answer(true, false).status(), 503);
    }

    #[test]
    fn every_route_is_listed_once() {
        let routes = routes();
        for (index, route) in routes.iter().enumerate() {
            let Endpoint { method, path, .. } = route.endpoint();
            let same =
                |other: &Route<App>| other.endpoint().method == method && other.endpoint().path == *path;
            assert!(!routes[..index].iter().any(same), "{method} {path}");
        }
    }
}
