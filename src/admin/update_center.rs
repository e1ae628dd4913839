//! `/api/update-center/*`: whether there is something newer than what runs, and where it would be deployed.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::errors::Result;
use super::input::{Fields, Invalid};
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::jobs::update_center::check;
use crate::jobs::update_center::saved::{self, UpdateConfig, UpdateState};
use crate::jobs::update_center::versions::{IMAGE_TAG, RELEASE};
use crate::routing::BaseUrl;

/// `GET /api/update-center/status`: what the last check found; the first one asks.
pub async fn status(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let mut state = saved::state(&admin.core.store).await?;
    if state.status_snapshot.is_none() {
        state = check::check(&admin.jobs).await?;
    }
    shown(&admin, state).await
}

/// `POST /api/update-center/check`
pub async fn check(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let state = check::check(&admin.jobs).await?;
    shown(&admin, state).await
}

/// `PUT /api/update-center/config`: changes the fields that are sent.
pub async fn configure(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::from(request.json_object().await?);
    let _turn = admin.core.settings_edits.lock().await;
    let mut config = saved::config(&admin.core.store).await?;
    change(&mut config, &fields)?;
    saved::save_config(&admin.core.store, &config).await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "config": config })))
}

fn change(config: &mut UpdateConfig, fields: &Fields) -> Result<(), Invalid> {
    let UpdateConfig {
        enabled,
        helper_base_url,
        namespace,
        release_name,
        chart_ref,
        image_repository,
        github_releases_enabled,
        docker_hub_tags_enabled,
        default_deploy_source,
    } = config;
    for (flag, name) in [
        (enabled, "enabled"),
        (github_releases_enabled, "githubReleasesEnabled"),
        (docker_hub_tags_enabled, "dockerHubTagsEnabled"),
    ] {
        *flag = fields.bool(name)?.unwrap_or(*flag);
    }
    for (text, name) in [
        (&mut *helper_base_url, "helperBaseUrl"),
        (&mut *namespace, "namespace"),
        (release_name, "releaseName"),
        (chart_ref, "chartRef"),
        (image_repository, "imageRepository"),
        (&mut *default_deploy_source, "defaultDeploySource"),
    ] {
        if let Some(sent) = fields.text(name)? {
            *text = sent.trim().to_owned();
        }
    }
    if !helper_base_url.is_empty()
        && let Err(why) = BaseUrl::parse(helper_base_url, None)
    {
        return Err(Invalid::field("helperBaseUrl", &format!("the address of a helper: {why}")));
    }
    if namespace.is_empty() {
        *namespace = UpdateConfig::default().namespace;
    }
    if ![RELEASE, IMAGE_TAG].contains(&default_deploy_source.as_str()) {
        return Err(Invalid::field("defaultDeploySource", &format!("{RELEASE} or {IMAGE_TAG}")));
    }
    Ok(())
}

async fn shown(admin: &Admin, state: UpdateState) -> Result<Response> {
    let config = saved::config(&admin.core.store).await?;
    let found = state.status_snapshot.clone().unwrap_or_default();
    let status = json!({
        "currentVersion": env!("CARGO_PKG_VERSION"),
        "config": config,
        "githubRelease": found.github_release,
        "dockerHubTag": found.docker_hub_tag,
        "dockerHubRecentTags": found.docker_hub_recent_tags,
        "helper": found.helper,
        "runningTask": Value::Null,
        "lastFinishedTask": Value::Null,
        "runtime": state,
    });
    Ok(http::json(StatusCode::OK, &status))
}
