//! `/api/settings/runtime`: the settings that an operator can change while the service runs.
//!
//! A change is read as a whole before any of it applies; then one transaction stores it with its event, and the
//! response is sent once it is in force.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::input;
use super::input::Change;
use super::schema;
use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::admin::input::Fields;
use crate::admin::routes::handlers;
use crate::admin::secrets;
use crate::config::rule::Rule;
use crate::config::runtime::SETTINGS;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::routing::brands;
use crate::store::events::{EventLevel, NewEvent};
use crate::store::settings;
use crate::time::now_ms;

/// Maximum length of a value that an event repeats.
const MAX_EVENT_VALUE: usize = 120;

/// `GET /api/settings/runtime`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(http::json(StatusCode::OK, &runtime_view(&admin.core, &request)))
}

/// `PUT /api/settings/runtime`
pub async fn put(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::RUNTIME_CHANGE, request.json_object().await?);
    let change = change(&admin, &fields, request.client_ip).await?;
    let mut answer = runtime_view(&admin.core, &request);
    answer.insert("success".to_owned(), true.into());
    answer.insert("message".to_owned(), message(&change).into());
    Ok(http::json(StatusCode::OK, &answer))
}

/// Reads a change and applies it entirely, or not at all. Refuses a change that locks `caller` out.
pub async fn change(admin: &Arc<Admin>, fields: &Fields, caller: IpAddr) -> Result<Change> {
    let _turn = admin.core.settings_edits.lock().await;
    let change = input::read(fields, &admin.core.settings.load().values, caller)?;
    if !change.is_empty() {
        save(admin, &change).await?;
    }
    Ok(change)
}

/// `GET /api/settings/brand-list`: the names that `globalBlockedBrands` accepts.
pub async fn brand_list(_app: Arc<Admin>, _request: Request) -> Result<Response> {
    let names: Vec<&str> = brands::names().collect();
    Ok(http::json(StatusCode::OK, &json!({ "brands": names })))
}

async fn save(admin: &Arc<Admin>, change: &Change) -> Result<()> {
    let now = now_ms();
    let mut statements = Vec::new();
    for (key, value) in change.stored() {
        statements.push(settings::put_statement(&admin.core.store, key, &value.to_string(), now)?);
    }
    if let Some(event) = event(change) {
        statements.push(event.insert(now));
    }
    admin.core.store.batch(statements).await?;
    admin.core.reload_settings().await?;
    if change.touches(&["system_proxy_url", "routing_weights", "routing_fallback_unit_cost"]) {
        admin.core.publish().await?;
    }
    if change.touches_channels() {
        admin.core.notifier.reset_cooldowns().await;
    }
    if change.touches(&["global_allowed_models", "global_blocked_brands"]) {
        handlers::start_refresh(admin, "maintenance");
    }
    Ok(())
}

/// Shows every setting in force, with secrets masked.
fn runtime_view(core: &Core, request: &Request) -> Map<String, Value> {
    let settings = core.settings.load();
    let mut view = Map::new();
    for setting in SETTINGS {
        let value = settings.values.get(setting.key);
        let text = value.as_str().unwrap_or_default();
        let (field, value) = match setting.rule {
            Rule::Secret | Rule::ProxyToken => {
                (format!("{}Masked", setting.field), secrets::mask(text).into())
            }
            Rule::Proxy | Rule::BotApi => (setting.field.to_owned(), secrets::mask_proxy_url(text).into()),
            Rule::Target => (setting.field.to_owned(), secrets::mask_target(text).into()),
            _ => (setting.field.to_owned(), value.clone()),
        };
        view.insert(field, value);
    }
    view.insert("currentAdminIp".to_owned(), request.client_ip.to_string().into());
    view.insert("serverTimeZone".to_owned(), core.config.time_zone_name.as_str().into());
    view.insert("credentialSecretWeak".to_owned(), core.config.credential_secret_weak.into());
    view.insert("usingDefaultAdminToken".to_owned(), settings.uses_placeholder_auth_token().into());
    view.insert("usingDefaultProxyToken".to_owned(), settings.uses_placeholder_proxy_token().into());
    view
}

fn message(change: &Change) -> &'static str {
    if change.changed().next().is_none() {
        "Nothing changed"
    } else if change.turns_on("proxy_debug_capture_bodies") {
        "Settings saved. Debug traces now keep request and answer bodies, which hold your users' data."
    } else {
        "Settings saved"
    }
}

/// Builds the event of a change: its items, secrets by name only.
fn event(change: &Change) -> Option<NewEvent> {
    let items: Vec<String> =
        change.changed().map(|(setting, value)| item(setting.field, setting.rule, value)).collect();
    let mut keys = change.changed().map(|(setting, _)| setting.key);
    let kind = match (keys.next()?, keys.next()) {
        ("checkin_cron", None) => "checkin",
        ("balance_refresh_cron", None) => "balance",
        ("proxy_token", None) => "proxy",
        _ => "status",
    };
    Some(NewEvent {
        kind,
        title: "Settings changed".to_owned(),
        message: Some(items.join("; ")),
        level: EventLevel::Info,
        related_id: None,
        related_type: Some("settings"),
    })
}

fn item(field: &str, rule: Rule, value: &Value) -> String {
    let is_secret =
        matches!(rule, Rule::Secret | Rule::ProxyToken | Rule::Proxy | Rule::Target | Rule::BotApi);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if is_secret || text.chars().count() > MAX_EVENT_VALUE {
        return field.to_owned();
    }
    format!("{field}: {}", if text.is_empty() { "(empty)" } else { &text })
}
