//! `GET /api/openapi.json`: every route of the service in OpenAPI 3.1, for people and their tools.
//!
//! What a route is for stands in [`OPERATIONS`], by hand. Method, path, parameters and authentication
//! come from the router, and a test holds the two against each other: a route without a line here, or a
//! line without a route, does not pass.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::errors::Result;
use crate::admin::Admin;
use crate::http::{self, Access, Endpoint, Request, Response};

/// What one route is for.
struct Operation {
    route: &'static str,
    summary: &'static str,
    /// What its query may say, by blanks.
    query: &'static str,
}

const fn op(route: &'static str, summary: &'static str) -> Operation {
    Operation { route, summary, query: "" }
}

const fn asks(route: &'static str, summary: &'static str, query: &'static str) -> Operation {
    Operation { route, summary, query }
}

#[rustfmt::skip]
static OPERATIONS: &[Operation] = &[
    op("GET /api/desktop/health", "The process answers"),
    op("GET /api/openapi.json", "This description"),
    op("GET /metrics", "State of the process in the Prometheus text form"),
    op("GET /api/settings/auth/info", "The admin token, masked"),
    op("POST /api/settings/auth/change", "Change the admin token"),
    op("GET /api/settings/runtime", "Runtime settings as they hold, secrets masked"),
    op("PUT /api/settings/runtime", "Change runtime settings: all of the request, or nothing"),
    op("POST /api/settings/system-proxy/test", "Whether an outbound proxy gives a way out"),
    op("GET /api/update-center/status", "What the last check for updates found"),
    op("POST /api/update-center/check", "Check for updates now"),
    op("PUT /api/update-center/config", "Change where updates are looked for and what they would be deployed to"),
    op("POST /api/update-center/deploy", "Deploy a release or an image through the helper in the cluster, as a task"),
    op("POST /api/update-center/rollback", "Go back to an earlier revision through the helper, as a task"),
    op("GET /api/update-center/tasks/{id}/stream", "The log of a task as server-sent events: `log`, then `done`"),
    op("POST /api/search", "Look for a text in sites, accounts, tokens, logs and models"),
    op("POST /api/settings/notify/test", "Send a test message on every notification channel"),
    op("GET /api/settings/brand-list", "Brands that can be blocked"),
    asks("GET /api/settings/backup/export", "Everything that was set up, as one document with its credentials in clear", "type"),
    asks("POST /api/settings/backup/import", "Take a document's configuration over: all of it, or nothing", "mode conflict dryRun"),
    op("GET /api/settings/backup/webdav", "How a backup is kept on a WebDAV server, and what became of it last"),
    op("PUT /api/settings/backup/webdav", "Change how a backup is kept on a WebDAV server"),
    op("POST /api/settings/backup/webdav/export", "Write the backup on the WebDAV server, and read it back"),
    op("POST /api/settings/backup/webdav/import", "Import the backup on the WebDAV server"),
    op("POST /api/settings/maintenance/clear-usage", "Forget the log, all sums, counters and cooldowns"),
    op("POST /api/settings/maintenance/clear-cache", "Forget what was discovered and ask for it anew"),
    op("POST /api/settings/maintenance/rotate-seal-key", "Seal all stored credentials with a new key, as a task"),
    op("POST /api/settings/maintenance/replace-index-key", "Make the look-up hashes of all keys anew with a new key, as a task"),
    op("POST /api/settings/maintenance/factory-reset", "Forget everything"),
    op("GET /api/sites", "Sites with their balances"),
    op("POST /api/sites", "Add a site"),
    op("GET /api/sites/presets", "Vendors' addresses to choose from"),
    op("POST /api/sites/detect", "Find out what platform an address is"),
    op("POST /api/sites/batch", "Enable, disable, delete or proxy several sites"),
    op("PUT /api/sites/{id}", "Change a site"),
    op("DELETE /api/sites/{id}", "Delete a site with everything under it"),
    op("GET /api/sites/{id}/disabled-models", "Models switched off at a site"),
    op("PUT /api/sites/{id}/disabled-models", "Replace the models switched off at a site"),
    op("GET /api/sites/{id}/available-models", "Models that a site's accounts offer"),
    op("POST /api/sites/{id}/probe-now", "Try models of a site, and switch off those it does not serve"),
    op("GET /api/sites/{id}/probe-stream", "The same, told as it happens, as server-sent events"),
    asks("GET /api/accounts", "Accounts and their sites", "refresh limit offset"),
    op("POST /api/accounts", "Add a verified account"),
    op("POST /api/accounts/verify-token", "Prove a credential without saving it"),
    op("POST /api/accounts/login", "Add an account by name and password, kept sealed to log in again"),
    op("POST /api/accounts/batch", "Enable, disable, delete or refresh several accounts"),
    op("POST /api/accounts/health/refresh", "Ask one or all accounts how they are"),
    op("PUT /api/accounts/{id}", "Change an account"),
    op("DELETE /api/accounts/{id}", "Delete an account with everything under it"),
    op("POST /api/accounts/{id}/rebind-session", "Give an account a new session"),
    op("POST /api/accounts/{id}/balance", "Ask the site what an account has left"),
    op("POST /api/accounts/{id}/clear-cooldown", "End the cooldowns and limits of an account's channels"),
    op("GET /api/accounts/{id}/models", "Models of an account"),
    op("POST /api/accounts/{id}/models/manual", "Add models to an account by hand"),
    asks("GET /api/account-tokens", "Keys of session accounts, masked", "accountId"),
    op("POST /api/account-tokens", "Add a key, or have the site make one"),
    op("POST /api/account-tokens/batch", "Enable, disable or delete several keys"),
    op("POST /api/account-tokens/sync-all", "Bring the keys of all accounts from their sites"),
    op("POST /api/account-tokens/sync/{id}", "Bring the keys of an account from its site"),
    op("GET /api/account-tokens/groups/{id}", "Groups that an account's keys may be in"),
    op("GET /api/account-tokens/account/{id}/default", "Default key of an account"),
    op("PUT /api/account-tokens/{id}", "Change a key"),
    op("DELETE /api/account-tokens/{id}", "Delete a key, at its site too"),
    op("POST /api/account-tokens/{id}/default", "Make a key the default of its account"),
    op("GET /api/account-tokens/{id}/value", "A key in full"),
    asks("GET /api/routes", "Routes with their channels", "limit offset"),
    asks("GET /api/routes/summary", "Routes with the count of their channels", "limit offset"),
    op("GET /api/routes/lite", "Routes without channels"),
    op("POST /api/routes", "Add a route"),
    op("POST /api/routes/batch", "Enable, disable or delete several routes"),
    op("POST /api/routes/rebuild", "Rebuild the routes from what accounts offer"),
    op("PUT /api/routes/{id}", "Change a route"),
    op("DELETE /api/routes/{id}", "Delete a route"),
    op("POST /api/routes/{id}/cooldown/clear", "End the cooldowns of a route's channels"),
    asks("GET /api/routes/decision", "Why a request for a model would go where it goes", "model"),
    op("POST /api/routes/decision/batch", "Where requests for several models would go, and why"),
    op("POST /api/routes/decision/by-route/batch", "Where requests for models of named routes would go, and why"),
    op("POST /api/routes/decision/route-wide/batch", "Where requests to whole routes would go, and why"),
    op("POST /api/routes/decision/refresh", "Work out the decisions of all routes anew"),
    op("GET /api/routes/{id}/channels", "Channels of a route"),
    op("POST /api/routes/{id}/channels", "Add a channel to a route"),
    op("POST /api/routes/{id}/channels/batch", "Add several channels to a route"),
    op("PUT /api/channels/batch", "Change the priorities of several channels"),
    op("PUT /api/channels/{id}", "Change a channel"),
    op("DELETE /api/channels/{id}", "Delete a channel"),
    op("GET /api/downstream-keys", "Keys of clients, masked"),
    op("POST /api/downstream-keys", "Add a key"),
    op("POST /api/downstream-keys/batch", "Enable, disable, delete, reset or label several keys"),
    asks("GET /api/downstream-keys/summary", "What each key used", "range status search group tags tagMatch"),
    op("PUT /api/downstream-keys/{id}", "Change a key"),
    op("DELETE /api/downstream-keys/{id}", "Delete a key"),
    op("POST /api/downstream-keys/{id}/reset-usage", "Count a key's usage from zero"),
    op("GET /api/downstream-keys/{id}/value", "The key itself"),
    op("GET /api/downstream-keys/{id}/overview", "What one key used"),
    asks("GET /api/downstream-keys/{id}/trend", "What one key used by hour or day", "range timeZone"),
    asks("GET /api/stats/dashboard", "The state of the whole at a glance", "view refresh"),
    asks("GET /api/stats/site-distribution", "Balance and spend of each active site", "days refresh"),
    asks("GET /api/stats/site-trend", "Spend and calls of each active site by local day, of all models or one", "days model refresh"),
    asks("GET /api/stats/model-by-site", "Calls, spend and tokens by model", "siteId days"),
    asks("GET /api/stats/proxy-logs", "The log of attempts, newest first", "limit offset status search client siteId from to view"),
    op("DELETE /api/stats/proxy-logs", "Empty the log; the sums stay"),
    op("GET /api/stats/live", "The log of attempts as it grows, as server-sent events: `log` (a row of the list), `skipped` (how many rows were not shown)"),
    op("GET /api/stats/proxy-logs/{id}", "One attempt with its billing details"),
    asks("GET /api/stats/proxy-debug/traces", "Requests recorded in full, newest first", "limit"),
    op("GET /api/stats/proxy-debug/traces/{id}", "One recorded request with its attempts"),
    asks("GET /api/models/marketplace", "Models that can be had, from whom and for how much", "refresh includePricing"),
    op("GET /api/models/token-candidates", "Which tokens offer each model, and which accounts lack one"),
    op("POST /api/models/check/{id}", "Ask a site for an account's models, then rebuild the routes"),
    op("POST /api/models/probe", "Try which models are really served"),
    op("GET /api/oauth/providers", "Providers whose accounts are connected by a login in a browser"),
    op("POST /api/oauth/providers/{provider}/start", "Begin a login: where to send the browser"),
    op("GET /api/oauth/sessions/{state}", "How far a login is"),
    op("POST /api/oauth/sessions/{state}/manual-callback", "End a login with the address that the browser was sent to"),
    asks("GET /api/oauth/callback/{provider}", "The browser comes back from a provider", "state code error error_description"),
    op("POST /api/oauth/connections/{id}/rebind", "Begin a login for an account that is connected already"),
    asks("GET /api/oauth/connections", "Accounts connected by a login in a browser, newest first", "limit offset"),
    op("POST /api/oauth/import", "Connect accounts by credentials that were exported elsewhere"),
    op("DELETE /api/oauth/connections/{id}", "Delete a connected account with everything under it"),
    op("PATCH /api/oauth/connections/{id}/proxy", "Change the outbound proxy of a connected account"),
    op("POST /api/oauth/connections/{id}/quota/refresh", "Ask a provider how much of its limits an account has used"),
    op("POST /api/oauth/connections/quota/refresh-batch", "The same for several accounts"),
    op("POST /api/oauth/route-units", "Make several connected accounts one channel per route"),
    op("PATCH /api/oauth/route-units/{id}", "Change the name of a route unit, or how its next member is picked"),
    op("DELETE /api/oauth/route-units/{id}", "Give each account of a route unit channels of its own again"),
    op("POST /api/test/proxy", "Try a request to the proxy as an operator"),
    op("POST /api/test/proxy/stream", "The same, answered as server-sent events"),
    op("POST /api/test/proxy/jobs", "The same, answered later"),
    op("GET /api/test/proxy/jobs/{id}", "How a try goes, or what it gave"),
    op("DELETE /api/test/proxy/jobs/{id}", "Stop a try, or forget one that has ended"),
    op("POST /api/test/chat", "Try a plain conversation"),
    op("POST /api/test/chat/stream", "The same, answered as server-sent events"),
    op("POST /api/test/chat/jobs", "The same, answered later"),
    op("GET /api/test/chat/jobs/{id}", "How a try goes, or what it gave"),
    op("DELETE /api/test/chat/jobs/{id}", "Stop a try, or forget one that has ended"),
    asks("GET /api/tasks", "Long operations, newest first", "limit"),
    op("GET /api/tasks/{id}", "One long operation with its log"),
    op("POST /api/checkin/trigger", "Check all accounts in, as a task"),
    op("POST /api/checkin/trigger/{id}", "Check one account in"),
    asks("GET /api/checkin/logs", "Check-ins, newest first, and why they ended so", "limit offset accountId"),
    op("PUT /api/checkin/schedule", "When check-ins happen by themselves"),
    asks("GET /api/site-announcements", "What sites announce", "limit offset siteId platform read status"),
    op("DELETE /api/site-announcements", "Clear the announcements; their events stay"),
    op("POST /api/site-announcements/read-all", "Mark all announcements as read"),
    op("POST /api/site-announcements/sync", "Ask sites for their announcements, as a task"),
    op("POST /api/site-announcements/{id}/read", "Mark an announcement as read"),
    asks("GET /api/events", "What the operator should notice, newest first", "limit offset type read"),
    op("DELETE /api/events", "Delete all events"),
    op("GET /api/events/count", "How many events are unread"),
    op("POST /api/events/read-all", "Mark all events as read"),
    op("POST /api/events/{id}/read", "Mark an event as read"),
    op("POST /v1/chat/completions", "Chat completion"),
    op("POST /chat/completions", "Chat completion"),
    op("POST /v1/responses", "Response"),
    op("POST /responses", "Response"),
    op("GET /v1/responses", "A WebSocket with a conversation; 426 without an upgrade"),
    op("GET /responses", "A WebSocket with a conversation; 426 without an upgrade"),
    op("POST /v1/responses/compact", "Compact a conversation"),
    op("POST /responses/compact", "Compact a conversation"),
    op("GET /v1/responses/compact", "Refused with 426"),
    op("GET /responses/compact", "Refused with 426"),
    op("POST /v1/messages", "Message"),
    op("POST /v1/messages/count_tokens", "Count the tokens of a message"),
    op("POST /anthropic/v1/messages", "Message"),
    op("POST /anthropic/v1/messages/count_tokens", "Count the tokens of a message"),
    op("GET /v1beta/models", "Models in gemini's shape"),
    op("GET /gemini/{version}/models", "Models in gemini's shape"),
    op("POST /v1beta/models/{model}", "Gemini's generateContent, streamGenerateContent and countTokens, and embedContent and predict of Google's own, behind the model and a colon"),
    op("POST /v1/models/{model}", "The same in gemini's version 1"),
    op("POST /gemini/{version}/models/{model}", "The same under gemini's prefix"),
    op("GET /v1beta/models/{model}", "One model in gemini's shape"),
    op("GET /gemini/{version}/models/{model}", "One model in gemini's shape"),
    op("POST /v1internal:generateContent", "The same in the envelope of Google's command line"),
    op("POST /v1internal:streamGenerateContent", "The same, streamed"),
    op("POST /v1internal:countTokens", "The same, counting tokens"),
    op("POST /v1/search", "Search the web"),
    op("POST /v1/completions", "Legacy completion"),
    op("POST /v1/embeddings", "Embeddings"),
    op("POST /v1/images/generations", "Image generation"),
    op("POST /v1/images/edits", "Change an image: a form, or JSON"),
    op("POST /v1/images/variations", "Not offered: refused with 400"),
    op("POST /v1/files", "Upload a file"),
    op("GET /v1/files", "Files of the caller"),
    op("GET /v1/files/{id}", "About a file"),
    op("DELETE /v1/files/{id}", "Delete a file"),
    op("GET /v1/files/{id}/content", "The bytes of a file"),
    op("POST /v1/videos", "Begin a video: a form, or JSON"),
    op("GET /v1/videos/{id}", "How far a video is"),
    op("DELETE /v1/videos/{id}", "Delete a video"),
    asks("GET /v1/videos/{id}/content", "The bytes of a video", "variant"),
    op("GET /v1/models", "Models the caller may ask for"),
    op("GET /v1/models/{model}", "One model"),
    op("GET /v1/usage", "What the caller's key has used, and what is left of its budgets"),
    op("GET /v1/dashboard/billing/subscription", "The limit of the caller's key, in OpenAI's form"),
    op("GET /dashboard/billing/subscription", "The same"),
    op("GET /v1/dashboard/billing/usage", "What the caller's key has cost, in OpenAI's form"),
    op("GET /dashboard/billing/usage", "The same"),
];

/// `GET /api/openapi.json`
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    Ok(http::json(StatusCode::OK, &description(admin.endpoints())))
}

fn description<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let path = shown_path(endpoint.path);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[endpoint.method.as_str().to_lowercase()] = operation(endpoint);
    }
    let error = |properties: Value| json!({ "type": "object", "properties": properties });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Switchyard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Many upstream AI sites, each with accounts, behind one address.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "admin": { "type": "http", "scheme": "bearer", "description": "AUTH_TOKEN" },
                "client": { "type": "http", "scheme": "bearer", "description": "PROXY_TOKEN or a downstream key" },
            },
            "schemas": {
                "AdminError": error(json!({
                    "success": { "const": false },
                    "message": { "type": "string" },
                    "error": { "type": "string" },
                })),
                "ProxyError": error(json!({ "error": { "type": "object" } })),
            },
        },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let name = name_of(endpoint);
    let known = OPERATIONS.iter().find(|operation| operation.route == name);
    let (scheme, error) = match endpoint.access {
        Access::Public => (None, "AdminError"),
        Access::Admin => (Some("admin"), "AdminError"),
        Access::Proxy => (Some("client"), "ProxyError"),
    };
    let in_path = shown_path(endpoint.path);
    let in_path = in_path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let kind = if name == "id" && endpoint.access == Access::Admin { "integer" } else { "string" };
        // Tasks have names of their own.
        let kind = if endpoint.path.starts_with("/api/tasks") { "string" } else { kind };
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": kind } })
    });
    let in_query = known.map_or("", |operation| operation.query).split_whitespace();
    let in_query =
        in_query.map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let refused = format!("#/components/schemas/{error}");
    let mut shown = json!({
        "summary": known.map(|operation| operation.summary),
        "security": scheme.map_or_else(|| json!([]), |scheme| json!([{ scheme: [] }])),
        "responses": {
            "2XX": { "description": "Done" },
            "default": {
                "description": "Refused or failed",
                "content": { "application/json": { "schema": { "$ref": refused } } },
            },
        },
    });
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    if matches!(endpoint.method.as_str(), "POST" | "PUT") {
        let media_type =
            if endpoint.path == "/v1/files" { "multipart/form-data" } else { "application/json" };
        shown["requestBody"] = json!({ "content": { media_type: { "schema": { "type": "object" } } } });
    }
    shown
}

fn name_of(endpoint: &Endpoint) -> String {
    format!("{} {}", endpoint.method, shown_path(endpoint.path))
}

/// The path as OpenAPI writes it: a parameter that takes the rest of the path is one like any other.
fn shown_path(path: &str) -> String {
    path.replace("{*", "{")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::Route;
    use crate::{admin, proxy};

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let (admin, proxy) = (admin::table_of_routes(), proxy::routes());
        let routes = admin.iter().map(Route::endpoint).chain(proxy.iter().map(Route::endpoint));
        let routes: BTreeSet<String> = routes.map(name_of).collect();
        let described: BTreeSet<String> =
            OPERATIONS.iter().map(|operation| operation.route.to_owned()).collect();
        assert_eq!(described.len(), OPERATIONS.len(), "a route is described twice");
        let undescribed: Vec<_> = routes.difference(&described).collect();
        let unserved: Vec<_> = described.difference(&routes).collect();
        assert!(undescribed.is_empty(), "add to OPERATIONS in src/admin/openapi.rs: {undescribed:?}");
        assert!(unserved.is_empty(), "take out of OPERATIONS in src/admin/openapi.rs: {unserved:?}");
    }
}
