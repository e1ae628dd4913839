//! What the log says once the service serves: where, what is unsafe, and what to do next.

use std::net::IpAddr;
use std::sync::Arc;

use crate::app::App;
use crate::store::events::{self, EventFilter, EventLevel, NewEvent};

/// Logs the start. Tokens are named by their variables, never printed.
pub fn started(app: &Arc<App>) {
    let config = &app.config;
    let shown = match config.host.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => config.host.clone(),
    };
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{shown}:{}", config.port);
    log::info!(
        "switchyard {} serves on {} port {}, data in {}, time zone {}",
        env!("CARGO_PKG_VERSION"),
        config.host,
        config.port,
        config.data_dir.display(),
        config.time_zone_name
    );
    let settings = app.settings.load();
    let mut built_in = Vec::new();
    for (placeholder, name) in [
        (settings.uses_placeholder_auth_token(), "AUTH_TOKEN"),
        (settings.uses_placeholder_proxy_token(), "PROXY_TOKEN"),
    ] {
        if placeholder {
            built_in.push(name);
            log::warn!(
                "{name} has its built-in value, which works from this machine only: set a secret of your own"
            );
        }
    }
    if config.credential_secret_weak {
        log::warn!(
            "AUTH_TOKEN seals stored credentials, because ACCOUNT_CREDENTIAL_SECRET is not set or is the same: set one of its own, and keep it"
        );
    }
    log::info!("admin API:  curl -H \"Authorization: Bearer $AUTH_TOKEN\" {base}/api/sites");
    log::info!("proxy API:  curl -H \"Authorization: Bearer $PROXY_TOKEN\" {base}/v1/models");
    if app.snapshot.load().routes().is_empty() {
        log::info!("next: add a site and an account (README.md, \"First steps\"), or run `switchyard demo`");
    }
    if !built_in.is_empty() {
        let app_of_event = app.clone();
        app.background.spawn("the event of built-in tokens", async move {
            if let Err(error) = warn_of_built_in_tokens(&app_of_event, &built_in.join(" and ")).await {
                log::warn!("the event of built-in tokens could not be stored: {error}");
            }
        });
    }
}

/// One warning for the operators' list, not one for each start.
async fn warn_of_built_in_tokens(app: &App, names: &str) -> crate::store::Result<()> {
    let title = format!("{names} still built-in");
    let recent = EventFilter { kind: Some("token".to_owned()), limit: 50, ..EventFilter::default() };
    if events::list(&app.store, &recent).await?.iter().any(|event| event.title == title) {
        return Ok(());
    }
    let event = NewEvent {
        kind: "token",
        title,
        message: Some(
            "Built-in tokens work from this machine only. Set secrets of your own and restart.".to_owned(),
        ),
        level: EventLevel::Warning,
        related_id: None,
        related_type: Some("settings"),
    };
    events::insert(&app.store, event).await.map(drop)
}
