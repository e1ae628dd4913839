//! The table of routes: method, path and handler, and the one place where an error becomes a response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper::Method;

use super::arrival::admit_late;
use super::errors::{AdminError, Result};
use super::{
    accounts, announcements, auth, backup, channels, checkins, decisions, events, health, keys, logs,
    metrics, models, oauth, openapi, playground, routes, search, settings, sites, stats, tasks, tokens,
    update_center,
};
use crate::admin::Admin;
use crate::http::{Access, Request, Response, Route};
use crate::metrics::Surface;

/// Every route of the admin API.
pub fn routes() -> Vec<Route<Admin>> {
    vec![
        public("/api/desktop/health", health::get),
        admin(Method::GET, "/api/settings/auth/info", auth::info),
        admin(Method::POST, "/api/settings/auth/change", auth::change),
        admin(Method::GET, "/api/settings/runtime", settings::runtime::get),
        admin(Method::PUT, "/api/settings/runtime", settings::runtime::put),
        admin(Method::GET, "/api/settings/database/runtime", settings::database::get),
        admin(Method::PUT, "/api/settings/database/runtime", settings::database::put),
        query("/api/settings/database/test-connection", settings::database::test),
        admin(Method::POST, "/api/settings/database/migrate", settings::database::migrate),
        query("/api/settings/system-proxy/test", settings::system_proxy::test),
        action("/api/settings/notify/test", settings::notifications::send_test),
        admin(Method::GET, "/api/settings/brand-list", settings::runtime::brand_list),
        admin(Method::GET, "/api/settings/backup/export", backup::handlers::export),
        upload("/api/settings/backup/import", backup::handlers::import),
        admin(Method::GET, "/api/settings/backup/webdav", backup::webdav::get),
        admin(Method::PUT, "/api/settings/backup/webdav", backup::webdav::put),
        admin(Method::POST, "/api/settings/backup/webdav/export", backup::webdav::export),
        action("/api/settings/backup/webdav/import", backup::webdav::import),
        admin(Method::GET, "/api/sites", sites::handlers::list),
        admin(Method::POST, "/api/sites", sites::handlers::create),
        admin(Method::GET, "/api/sites/presets", sites::handlers::list_presets),
        query("/api/sites/detect", sites::handlers::detect_platform),
        admin(Method::POST, "/api/sites/batch", sites::batch::batch),
        admin(Method::PUT, "/api/sites/{id}", sites::handlers::update),
        removal("/api/sites/{id}", sites::handlers::delete),
        admin(Method::GET, "/api/sites/{id}/disabled-models", sites::models::disabled_models),
        admin(Method::PUT, "/api/sites/{id}/disabled-models", sites::models::set_disabled_models),
        admin(Method::GET, "/api/sites/{id}/available-models", sites::models::available_models),
        admin(Method::POST, "/api/sites/{id}/probe-now", sites::probes::now),
        admin(Method::GET, "/api/sites/{id}/probe-stream", sites::probes::stream),
        admin(Method::GET, "/api/accounts", accounts::handlers::list),
        admin(Method::POST, "/api/accounts", accounts::create::create),
        admin(Method::GET, "/api/accounts/cooling", accounts::cooling::list),
        query("/api/accounts/verify-token", accounts::verify::verify_token),
        admin(Method::POST, "/api/accounts/login", accounts::login::login),
        admin(Method::POST, "/api/accounts/batch", accounts::handlers::batch),
        admin(Method::POST, "/api/accounts/health/refresh", accounts::checks::refresh),
        admin(Method::PUT, "/api/accounts/{id}", accounts::update::update),
        removal("/api/accounts/{id}", accounts::handlers::delete),
        admin(Method::POST, "/api/accounts/{id}/rebind-session", accounts::rebind::rebind),
        action("/api/accounts/{id}/balance", accounts::balance::refresh),
        action("/api/accounts/{id}/clear-cooldown", routes::handlers::clear_cooldown_of_account),
        admin(Method::GET, "/api/accounts/{id}/models", accounts::models::list),
        admin(Method::POST, "/api/accounts/{id}/models/manual", accounts::models::add_manual),
        admin(Method::GET, "/api/account-tokens", tokens::handlers::list),
        admin(Method::POST, "/api/account-tokens", tokens::create::create),
        admin(Method::POST, "/api/account-tokens/batch", tokens::handlers::batch),
        admin(Method::POST, "/api/account-tokens/sync-all", tokens::sync::sync_all),
        action("/api/account-tokens/sync/{id}", tokens::sync::sync),
        admin(Method::GET, "/api/account-tokens/groups/{id}", tokens::sync::groups),
        admin(Method::GET, "/api/account-tokens/account/{id}/default", tokens::handlers::default_of),
        admin(Method::PUT, "/api/account-tokens/{id}", tokens::handlers::update),
        removal("/api/account-tokens/{id}", tokens::handlers::delete),
        action("/api/account-tokens/{id}/default", tokens::handlers::set_default),
        admin(Method::GET, "/api/account-tokens/{id}/value", tokens::handlers::value),
        admin(Method::GET, "/api/oauth/providers", oauth::providers::list),
        admin(Method::POST, "/api/oauth/providers/{provider}/start", oauth::login::begin),
        admin(Method::GET, "/api/oauth/sessions/{state}", oauth::login::session),
        admin(Method::POST, "/api/oauth/sessions/{state}/manual-callback", oauth::login::paste),
        public("/api/oauth/callback/{provider}", oauth::callback::get),
        admin(Method::POST, "/api/oauth/connections/{id}/rebind", oauth::login::rebind),
        admin(Method::GET, "/api/routes", routes::list::list),
        admin(Method::GET, "/api/routes/summary", routes::list::summary),
        admin(Method::GET, "/api/routes/lite", routes::handlers::lite),
        admin(Method::POST, "/api/routes/rebuild", routes::handlers::rebuild),
        admin(Method::GET, "/api/routes/decision", decisions::handlers::get),
        query("/api/routes/decision/batch", decisions::handlers::batch),
        query("/api/routes/decision/by-route/batch", decisions::handlers::by_route),
        query("/api/routes/decision/route-wide/batch", decisions::handlers::route_wide),
        action("/api/routes/decision/refresh", decisions::handlers::refresh),
        admin(Method::POST, "/api/routes", routes::handlers::create),
        admin(Method::POST, "/api/routes/batch", routes::handlers::batch),
        admin(Method::PUT, "/api/routes/{id}", routes::handlers::update),
        removal("/api/routes/{id}", routes::handlers::delete),
        action("/api/routes/{id}/cooldown/clear", routes::handlers::clear_cooldown),
        admin(Method::GET, "/api/routes/{id}/channels", channels::handlers::list),
        admin(Method::POST, "/api/routes/{id}/channels", channels::handlers::add),
        admin(Method::POST, "/api/routes/{id}/channels/batch", channels::handlers::add_batch),
        admin(Method::PUT, "/api/channels/batch", channels::handlers::update_batch),
        admin(Method::PUT, "/api/channels/{id}", channels::handlers::update),
        removal("/api/channels/{id}", channels::handlers::delete),
        admin(Method::GET, "/api/downstream-keys", keys::handlers::list),
        admin(Method::POST, "/api/downstream-keys", keys::handlers::create),
        admin(Method::POST, "/api/downstream-keys/batch", keys::handlers::batch),
        admin(Method::GET, "/api/downstream-keys/summary", keys::usage::summary),
        admin(Method::PUT, "/api/downstream-keys/{id}", keys::handlers::update),
        removal("/api/downstream-keys/{id}", keys::handlers::delete),
        action("/api/downstream-keys/{id}/reset-usage", keys::handlers::reset_usage),
        admin(Method::GET, "/api/downstream-keys/{id}/value", keys::handlers::value),
        admin(Method::GET, "/api/downstream-keys/{id}/overview", keys::usage::overview),
        admin(Method::GET, "/api/downstream-keys/{id}/trend", keys::usage::trend),
        action("/api/settings/maintenance/clear-usage", settings::maintenance::clear_usage),
        action("/api/settings/maintenance/clear-cache", settings::maintenance::clear_cache),
        action("/api/settings/maintenance/rotate-seal-key", settings::maintenance::rotate_seal_key),
        action("/api/settings/maintenance/replace-index-key", settings::maintenance::replace_index_key),
        admin(Method::POST, "/api/settings/maintenance/factory-reset", settings::maintenance::factory_reset),
        admin(Method::GET, "/api/stats/dashboard", stats::dashboard::get),
        admin(Method::GET, "/api/stats/site-distribution", stats::sites::distribution),
        admin(Method::GET, "/api/stats/site-trend", stats::sites::trend),
        admin(Method::GET, "/api/stats/model-by-site", stats::sites::models),
        admin(Method::GET, "/api/stats/proxy-logs", logs::proxy_logs::list),
        removal("/api/stats/proxy-logs", logs::proxy_logs::clear),
        admin(Method::GET, "/api/stats/proxy-logs/{id}", logs::proxy_logs::get),
        admin(Method::GET, "/api/stats/live", logs::live::stream),
        admin(Method::GET, "/api/stats/proxy-debug/traces", logs::debug_traces::list),
        admin(Method::GET, "/api/stats/proxy-debug/traces/{id}", logs::debug_traces::get),
        admin(Method::GET, "/api/models/marketplace", models::marketplace::list),
        admin(Method::GET, "/api/models/token-candidates", models::candidates::list),
        action("/api/models/check/{id}", models::checks::check),
        admin(Method::POST, "/api/models/probe", models::checks::probe),
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
        admin(Method::GET, "/api/update-center/status", update_center::status),
        action("/api/update-center/check", update_center::check),
        admin(Method::PUT, "/api/update-center/config", update_center::configure),
        admin(Method::POST, "/api/update-center/deploy", update_center::deploy),
        admin(Method::POST, "/api/update-center/rollback", update_center::rollback),
        admin(Method::GET, "/api/update-center/tasks/{id}/stream", update_center::stream),
        query("/api/search", search::search),
        admin(Method::GET, "/api/events", events::list),
        removal("/api/events", events::clear),
        admin(Method::GET, "/api/events/count", events::count),
        action("/api/events/read-all", events::mark_all_read),
        action("/api/events/{id}/read", events::mark_read),
        query("/api/test/proxy", playground::handlers::proxy),
        query("/api/test/proxy/stream", playground::handlers::proxy_stream),
        admin(Method::POST, "/api/test/proxy/jobs", playground::handlers::start_proxy_job),
        admin(Method::GET, "/api/test/proxy/jobs/{id}", playground::handlers::proxy_job),
        removal("/api/test/proxy/jobs/{id}", playground::handlers::cancel_proxy_job),
        query("/api/test/chat", playground::handlers::chat),
        query("/api/test/chat/stream", playground::handlers::chat_stream),
        admin(Method::POST, "/api/test/chat/jobs", playground::handlers::start_chat_job),
        admin(Method::GET, "/api/test/chat/jobs/{id}", playground::handlers::chat_job),
        removal("/api/test/chat/jobs/{id}", playground::handlers::cancel_chat_job),
        admin(Method::GET, "/api/oauth/connections", oauth::connections::list),
        removal("/api/oauth/connections/{id}", oauth::connections::delete),
        admin(Method::POST, "/api/oauth/import", oauth::import::import),
        admin(Method::PATCH, "/api/oauth/connections/{id}/proxy", oauth::connections::set_proxy),
        action("/api/oauth/connections/{id}/quota/refresh", oauth::quota::refresh),
        admin(Method::POST, "/api/oauth/connections/quota/refresh-batch", oauth::quota::refresh_batch),
        admin(Method::POST, "/api/oauth/route-units", oauth::route_units::create),
        admin(Method::PATCH, "/api/oauth/route-units/{id}", oauth::route_units::update),
        removal("/api/oauth/route-units/{id}", oauth::route_units::delete),
        admin(Method::GET, "/api/openapi.json", openapi::get),
        admin(Method::GET, "/metrics", metrics::get),
    ]
}

/// Builds a route; the handler of one that is not a GET starts when the whole body has arrived.
fn admin<H, F>(method: Method, path: &'static str, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    let starts = if method == Method::GET { Starts::AtOnce } else { Starts::WithBody };
    route(method, path, starts, handler)
}

/// Builds a POST route that changes nothing.
fn query<H, F>(path: &'static str, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    route(Method::POST, path, Starts::AtOnce, handler).only_asks()
}

/// Builds a POST route whose handler reads a long body in pieces. It checks itself what may have happened meanwhile.
fn upload<H, F>(path: &'static str, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    route(Method::POST, path, Starts::AtOnce, handler)
}

/// Builds a POST route that takes no input.
fn action<H, F>(path: &'static str, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    route(Method::POST, path, Starts::WithoutInput, handler)
}

/// Builds a DELETE route; its path says what is deleted.
fn removal<H, F>(path: &'static str, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    route(Method::DELETE, path, Starts::WithoutInput, handler)
}

/// When the handler of a route starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Starts {
    AtOnce,
    /// When the whole body has arrived.
    WithBody,
    /// Like `WithBody`; the body must be empty or a JSON object: a malformed one was meant to say something.
    WithoutInput,
}

/// A handler, its answer behind a type that all handlers share.
type SharedHandler = Arc<dyn Fn(Arc<Admin>, Request) -> BoxedAnswer + Send + Sync>;
type BoxedAnswer = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;

fn route<H, F>(method: Method, path: &'static str, starts: Starts, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    let handler: SharedHandler = Arc::new(move |admin, request| Box::pin(handler(admin, request)));
    Route::new(method, path, Access::Admin, Surface::Admin, move |admin: Arc<Admin>, request: Request| {
        let handler = handler.clone();
        async move { answered(admin, request, starts, handler).await.unwrap_or_else(AdminError::into_response) }
    })
}

async fn answered(
    admin: Arc<Admin>,
    mut request: Request,
    starts: Starts,
    handler: SharedHandler,
) -> Result<Response> {
    admin.copying.admit(&request.method)?;
    if starts != Starts::AtOnce {
        let resets = admin.core.resets();
        request.read_ahead().await?;
        admit_late(&admin, &request, resets)?;
    }
    if starts == Starts::WithoutInput {
        request.json_object().await?;
    }
    handler(admin, request).await
}

fn public<H, F>(path: &'static str, handler: H) -> Route<Admin>
where
    H: Fn(Arc<Admin>, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response>> + Send + 'static,
{
    Route::new(Method::GET, path, Access::Public, Surface::Admin, move |admin, request| {
        let answer = handler(admin, request);
        async move { answer.await.unwrap_or_else(AdminError::into_response) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Endpoint;

    #[test]
    fn every_route_is_listed_once() {
        let routes = super::routes();
        for (index, route) in routes.iter().enumerate() {
            let Endpoint { method, path, .. } = route.endpoint();
            let same =
                |other: &Route<Admin>| other.endpoint().method == method && other.endpoint().path == *path;
            assert!(!routes[..index].iter().any(same), "{method} {path}");
        }
    }
}
