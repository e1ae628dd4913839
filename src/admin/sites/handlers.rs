//! `/api/sites`: list, create, update, delete, detect, presets.
//!
//! A change commits first, then the new snapshot is published, then the response is sent: the next request already sees
//! what the operator was told.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::detect::{Detected, detect};
use super::input::{SiteInput, no_address};
use super::presets;
use super::presets::PRESETS;
use super::schema;
use super::subscriptions;
use super::view::{ListedSite, SiteView};
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result, failure};
use crate::admin::input::{Fields, Invalid};
use crate::admin::require_id;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::secrets;
use crate::http::{self, Request, Response};
use crate::ids::SiteId;
use crate::jobs::models::coverage::{Enabled, cover_undiscovered};
use crate::jobs::rebuild_scope::Scope;
use crate::money::Usd;
use crate::platform::Platform;
use crate::site_url::SiteUrl;
use crate::store::Store;
use crate::store::accounts::AccountRow;
use crate::store::events::{self, EventLevel, NewEvent};
use crate::store::sites::{self, NewSite, SitePatch, SiteRow, SiteStatus};
use crate::store::{self, Secret, accounts};

/// The message if nothing shows the platform.
const UNDETECTED: &str = "Could not detect platform";

/// `GET /api/sites`: lists all sites by id.
pub async fn list(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    // The state of endpoints waits in the writer for a moment; an operator wants to see the latest.
    admin.core.store.flush().await;
    let mut accounts_of: HashMap<SiteId, Vec<AccountRow>> = HashMap::new();
    for account in accounts::list(&admin.core.store).await? {
        accounts_of.entry(account.site_id).or_default().push(account);
    }
    let rows = sites::list(&admin.core.store).await?;
    let listed: Vec<ListedSite> = rows
        .iter()
        .map(|site| {
            let accounts = accounts_of.get(&site.id).map_or(&[][..], Vec::as_slice);
            let balance = accounts.iter().map(|account| account.balance).sum::<Usd>();
            let extras = accounts.iter().filter_map(|account| account.extra.as_deref());
            ListedSite {
                site: SiteView::of(site),
                total_balance: balance.rounded(),
                subscription_summary: subscriptions::summary(extras),
            }
        })
        .collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// `GET /api/sites/presets`
pub async fn list_presets(_app: Arc<Admin>, _request: Request) -> Result<Response> {
    let presets: Vec<Value> = PRESETS
        .iter()
        .map(|preset| {
            json!({
                "id": preset.id,
                "label": preset.label,
                "providerLabel": preset.provider_label,
                "description": preset.description,
                "platform": preset.platform.id(),
                "defaultUrl": preset.default_url,
                "initialSegment": "apikey",
                "recommendedSkipModelFetch": true,
                "recommendedModels": preset.recommended_models,
                "docsUrl": preset.docs_url,
            })
        })
        .collect();
    Ok(http::json(StatusCode::OK, &json!({ "presets": presets })))
}

/// `POST /api/sites/detect`: detects the platform behind an address. Finding nothing is not a refusal: status 200 with
/// `error`.
pub async fn detect_platform(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::DETECT, request.json_object().await?);
    let text = fields.text("url")?.unwrap_or_default();
    if text.trim().is_empty() {
        return Err(Invalid::field("url", "non-empty string").into());
    }
    let url = SiteUrl::parse(text).map_err(|error| no_address("url", error))?;
    let platform = fields.text("platform")?.and_then(Platform::parse);
    let preset = platform.and_then(|platform| presets::by_url_on(&url, Some(platform)));
    let detected = match preset {
        Some(preset) => Ok(Some(Detected { platform: preset.platform, preset: Some(preset) })),
        None => detect(&admin.core, &url, None).await,
    };
    let detected = match detected {
        Ok(Some(detected)) => detected,
        Ok(None) => return Ok(failure(UNDETECTED, Map::new())),
        Err(problem) => return Ok(undetectable(&problem)),
    };
    let mut answer = json!({"url": url.persisted(), "platform": detected.platform.id()});
    if let Some(preset) = detected.preset {
        answer["initializationPresetId"] = preset.id.into();
    }
    Ok(http::json(StatusCode::OK, &answer))
}

fn undetectable(problem: &str) -> Response {
    failure(&format!("{UNDETECTED}: {problem}"), Map::new())
}

/// `POST /api/sites`
pub async fn create(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CREATE, request.json_object().await?);
    let input = SiteInput::for_create(&fields)?;
    let (Some(name), Some(url)) = (input.name, input.url) else {
        return Err(AdminError::bad_request("Invalid name or url. Expected non-empty strings."));
    };
    let proxy_url = secrets::sent_proxy(input.proxy_url, None)?.flatten();
    let custom_headers = input.custom_headers.flatten();
    let custom_headers = custom_headers.map(|sent| secrets::unmask_headers(&sent, None)).transpose()?;
    let resets = admin.core.resets();
    let (platform, preset) = match (input.platform, input.preset) {
        (Some(platform), Some(preset)) if platform != preset.platform => {
            let message =
                format!("Invalid platform. Preset {} needs platform {}.", preset.id, preset.platform.id());
            return Err(AdminError::bad_request(message));
        }
        (Some(platform), preset) => (platform, preset),
        (None, Some(preset)) => (preset.platform, Some(preset)),
        (None, None) => match detect(&admin.core, &url, proxy_url.as_deref()).await {
            Ok(Some(detected)) => (detected.platform, detected.preset),
            Ok(None) => return Ok(failure(UNDETECTED, Map::new())),
            Err(problem) => return Ok(undetectable(&problem)),
        },
    };
    let site = NewSite {
        name,
        url: url.persisted(),
        platform: platform.id().to_owned(),
        status: input.status.unwrap_or(SiteStatus::Active),
        proxy_url: proxy_url.map(Secret::from),
        use_system_proxy: input.use_system_proxy.unwrap_or(false),
        custom_headers: custom_headers.map(Secret::from),
        external_checkin_url: input.external_checkin_url.flatten(),
        is_pinned: input.is_pinned.unwrap_or(false),
        sort_order: input.sort_order,
        global_weight: input.global_weight.unwrap_or(1.0),
        max_concurrency: input.max_concurrency.flatten(),
        initialization_preset_id: preset.map(|preset| preset.id.to_owned()),
        endpoints: input.endpoints.unwrap_or_default(),
    };
    let id = sites::insert(&admin.core.store, site).await.map_err(address_conflict)?;
    // A reset that is counted only after this check deletes the site with everything else.
    if admin.core.resets() != resets {
        sites::delete(&admin.core.store, id).await?;
        return Err(AdminError::conflict(
            "A factory reset took place while the site was being checked; the site was not stored",
        ));
    }
    admin.core.publish().await?;
    Ok(http::json(StatusCode::OK, &SiteView::of(&find(&admin.core.store, id).await?)))
}

/// `PUT /api/sites/{id}`
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::UPDATE, request.json_object().await?);
    let input = SiteInput::for_update(&fields)?;
    let before = find(&admin.core.store, id).await?;
    let patch = patch(input, &before)?;
    let moved = match sites::update(&admin.core.store, id, patch).await {
        Ok(moved) => moved,
        Err(store::Error::NotFound) => return Err(AdminError::not_found("Site")),
        Err(error) => return Err(address_conflict(error)),
    };
    if let Some(status) = moved {
        events::insert(&admin.core.store, status_event(&before, status)).await?;
    }
    admin.core.publish().await?;
    if moved.is_some() {
        rebuild_best_effort(&admin.jobs, Scope::of_sites(&admin.core.store, &[id]).await?).await;
    }
    if moved == Some(SiteStatus::Active) {
        cover_undiscovered(&admin.jobs, Enabled::Sites(vec![id]));
    }
    Ok(http::json(StatusCode::OK, &SiteView::of(&find(&admin.core.store, id).await?)))
}

/// `DELETE /api/sites/{id}`: deletes a site with everything under it; also succeeds if there is no such site.
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let scope = Scope::of_sites(&admin.core.store, &[id]).await?;
    sites::delete(&admin.core.store, id).await?;
    admin.core.publish().await?;
    rebuild_best_effort(&admin.jobs, scope).await;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// Returns the site; fails with 404 if there is none.
pub async fn find(store: &Store, id: SiteId) -> Result<SiteRow> {
    sites::get(store, id).await?.ok_or_else(|| AdminError::not_found("Site"))
}

/// Builds the event for a change of a site's status.
pub fn status_event(site: &SiteRow, status: SiteStatus) -> NewEvent {
    let (title, message, level) = match status {
        SiteStatus::Disabled => {
            ("Site disabled", format!("{} and its accounts are disabled", site.name), EventLevel::Warning)
        }
        SiteStatus::Active => {
            let message = format!("{} is enabled; its accounts have their former status again", site.name);
            ("Site enabled", message, EventLevel::Info)
        }
    };
    NewEvent {
        kind: "status",
        title: title.to_owned(),
        message: Some(message),
        level,
        related_id: Some(site.id.get()),
        related_type: Some("site"),
    }
}

/// Converts a refusal of the unique index to the message that clients know.
fn address_conflict(error: store::Error) -> AdminError {
    match error {
        store::Error::Conflict(_) => AdminError::conflict("A site with this platform and URL already exists"),
        other => other.into(),
    }
}

/// Builds the change to store. A mask that is sent back means that the value is unchanged.
fn patch(input: SiteInput, before: &SiteRow) -> Result<SitePatch, Invalid> {
    let stored_proxy = before.proxy_url.as_ref().map(Secret::expose);
    let stored_headers = before.custom_headers.as_ref().map(Secret::expose);
    let proxy_url = secrets::sent_proxy(input.proxy_url, stored_proxy)?;
    let unmasked = |sent: String| secrets::unmask_headers(&sent, stored_headers).map(Secret::from);
    let custom_headers = input.custom_headers.map(|sent| sent.map(unmasked).transpose()).transpose()?;
    Ok(SitePatch {
        name: input.name,
        url: input.url.map(|url| url.persisted()),
        platform: input.platform.map(|platform| platform.id().to_owned()),
        status: input.status,
        proxy_url: proxy_url.map(|sent| sent.map(Secret::from)),
        use_system_proxy: input.use_system_proxy,
        custom_headers,
        external_checkin_url: input.external_checkin_url,
        is_pinned: input.is_pinned,
        sort_order: input.sort_order,
        global_weight: input.global_weight,
        max_concurrency: input.max_concurrency,
        post_refresh_probe_enabled: input.probe_enabled,
        post_refresh_probe_model: input.probe_model,
        post_refresh_probe_scope: input.probe_scope,
        post_refresh_probe_latency_threshold_ms: input.probe_latency_threshold_ms,
        endpoints: input.endpoints,
    })
}
