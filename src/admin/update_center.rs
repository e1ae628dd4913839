//! `/api/update-center/*`: checks for newer versions, and their deployment.

pub mod schema;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use super::errors::{AdminError, Result};
use super::input::{Fields, Invalid};
use crate::admin::Admin;
use crate::dialect::sse::KEEP_ALIVE;
use crate::http::{self, Request, Response, event_stream};
use crate::jobs::tasks::Started;
use crate::jobs::update_center::check;
use crate::jobs::update_center::deploy::{self, HelperRequest};
use crate::jobs::update_center::saved::{self, UpdateState};
use crate::jobs::update_center::versions;
use crate::settings::update_center::{IMAGE_TAG, RELEASE, UpdateConfig};

/// The maximum number of log events that wait for a slow reader.
const MAX_WAITING_EVENTS: usize = 64;
const LOOK: Duration = Duration::from_millis(200);
const HEARTBEAT: Duration = Duration::from_secs(15);

/// `GET /api/update-center/status`: shows the result of the last check; runs the first check itself.
pub async fn status(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let mut state = saved::state(&admin.core.store).await?;
    if state.status_snapshot.is_none() {
        state = check::check(&admin.jobs).await?;
    }
    answer(&admin, state).await
}

/// `POST /api/update-center/check`
pub async fn check(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let state = check::check(&admin.jobs).await?;
    answer(&admin, state).await
}

/// `PUT /api/update-center/config`: changes the fields that are sent.
pub async fn configure(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CONFIG_CHANGE, request.json_object().await?);
    let turn = admin.core.settings_edits.lock().await;
    let before = saved::config(&admin.core.store).await?;
    let mut config = before.clone();
    change(&mut config, &fields)?;
    saved::save_config(&admin.core.store, &config).await?;
    // A check that is under way takes a while.
    drop(turn);
    if config != before
        && let Err(error) = check::forget_findings(&admin.jobs).await
    {
        log::warn!("the status of the update center is that of its former configuration: {error}");
    }
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
        (helper_base_url, "helperBaseUrl"),
        (&mut *namespace, "namespace"),
        (release_name, "releaseName"),
        (chart_ref, "chartRef"),
        (image_repository, "imageRepository"),
        (default_deploy_source, "defaultDeploySource"),
    ] {
        if let Some(sent) = fields.text(name)? {
            *text = sent.trim().to_owned();
        }
    }
    if namespace.is_empty() {
        *namespace = UpdateConfig::default().namespace;
    }
    Ok(config.check()?)
}

async fn answer(admin: &Admin, state: UpdateState) -> Result<Response> {
    let config = saved::config(&admin.core.store).await?;
    let found = state.status_snapshot.clone().unwrap_or_default();
    let tasks = admin.jobs.tasks.list(usize::MAX).into_iter().filter(|task| task.kind == deploy::TASK);
    let (finished, running): (Vec<_>, Vec<_>) = tasks.partition(|task| task.status.has_ended());
    let (finished, running) = (finished.first(), running.first());
    let status = json!({
        "currentVersion": env!("CARGO_PKG_VERSION"),
        "config": config,
        "releaseRepository": admin.core.config.updates.release_repository,
        "githubRelease": found.github_release,
        "dockerHubTag": found.docker_hub_tag,
        "dockerHubRecentTags": found.docker_hub_recent_tags,
        "helper": found.helper,
        "runningTask": running,
        "lastFinishedTask": finished,
        "runtime": state,
    });
    Ok(http::json(StatusCode::OK, &status))
}

/// `POST /api/update-center/deploy`
pub async fn deploy(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::DEPLOY, request.json_object().await?);
    let config = saved::config(&admin.core.store).await?;
    require_helper(&admin, &config)?;
    for (value, name) in [(&config.chart_ref, "chartRef"), (&config.image_repository, "imageRepository")] {
        require(value, name)?;
    }
    let source = fields.text("source")?.map(str::trim).unwrap_or(&config.default_deploy_source);
    if ![RELEASE, IMAGE_TAG].contains(&source) {
        return Err(Invalid::field("source", &format!("{RELEASE} or {IMAGE_TAG}")).into());
    }
    let named = |name| Ok::<_, Invalid>(fields.text(name)?.map(str::trim).filter(|text| !text.is_empty()));
    let tag = match named("targetTag")? {
        Some(tag) => tag,
        None => named("targetVersion")?
            .ok_or_else(|| AdminError::bad_request("targetTag or targetVersion is required"))?,
    };
    let digest = fields.nullable_text("targetDigest")?.flatten().and_then(versions::digest);
    // A running task is joined, whatever it deploys.
    if admin.jobs.tasks.running(deploy::TASK).is_none() {
        refuse_running_version(&admin, &config, tag, digest.as_deref()).await?;
    }
    let order = HelperRequest::deployment(&config, source, tag, digest.as_deref());
    Ok(started(&admin, &deploy::start(&admin.jobs, &config, order)))
}

/// `POST /api/update-center/rollback`
pub async fn rollback(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::ROLLBACK, request.json_object().await?);
    let config = saved::config(&admin.core.store).await?;
    require_helper(&admin, &config)?;
    let revision = fields.text("targetRevision")?.map(str::trim).filter(|text| !text.is_empty());
    let revision = revision.ok_or_else(|| AdminError::bad_request("targetRevision is required"))?;
    Ok(started(&admin, &deploy::start(&admin.jobs, &config, HelperRequest::rollback(&config, revision))))
}

/// `GET /api/update-center/tasks/{id}/stream`: streams the log of any task until it ends, from its beginning or from
/// behind `Last-Event-ID`.
pub async fn stream(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = request.params.get("id").to_owned();
    if admin.jobs.tasks.get(&id).is_none() {
        return Err(AdminError::not_found("Task"));
    }
    let seen = request.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let follower = admin.clone();
    let follow = |events| async move { follow(&follower, &id, seen.unwrap_or(0), &events).await };
    Ok(event_stream::of_work(&admin.core.background, "the log of a task", MAX_WAITING_EVENTS, follow))
}

async fn follow(admin: &Admin, id: &str, mut seen: u64, events: &mpsc::Sender<Bytes>) {
    let mut looks = interval(LOOK);
    let mut sent_at = Instant::now();
    while !admin.core.is_stopping() {
        looks.tick().await;
        let Some(task) = admin.jobs.tasks.get(id) else { return };
        for line in task.logs.iter().filter(|line| line.seq > seen) {
            let event = format!("id: {}\nevent: log\ndata: {}\n\n", line.seq, json!(line));
            if events.send(event.into()).await.is_err() {
                return;
            }
            sent_at = Instant::now();
        }
        seen = task.logs.back().map_or(seen, |line| line.seq.max(seen));
        if task.status.has_ended() {
            // If sending fails, the reader is gone and nobody needs this event.
            let _ = events.send(event_stream::event("done", &json!({ "status": task.status }))).await;
            return;
        }
        if sent_at.elapsed() >= HEARTBEAT {
            sent_at = Instant::now();
            if events.send(Bytes::from_static(KEEP_ALIVE)).await.is_err() {
                return;
            }
        }
    }
}

fn started(admin: &Admin, started: &Started) -> Response {
    let task = admin.jobs.tasks.get(&started.id);
    let body = json!({ "success": true, "reused": started.reused, "task": task });
    http::json(StatusCode::ACCEPTED, &body)
}

fn require_helper(admin: &Admin, config: &UpdateConfig) -> Result<()> {
    if !config.enabled {
        return Err(AdminError::bad_request("The update center is disabled: set enabled to true first"));
    }
    for (value, name) in [
        (&config.helper_base_url, "helperBaseUrl"),
        (&config.namespace, "namespace"),
        (&config.release_name, "releaseName"),
        (&admin.core.config.updates.helper_token, "DEPLOY_HELPER_TOKEN"),
    ] {
        require(value, name)?;
    }
    Ok(())
}

fn require(value: &str, name: &str) -> Result<()> {
    if value.is_empty() { Err(AdminError::bad_request(format!("{name} is not set"))) } else { Ok(()) }
}

/// Refuses to deploy what already runs, compared by the digest if one is given, else by the version. An unreachable
/// helper prevents nothing.
async fn refuse_running_version(
    admin: &Admin,
    config: &UpdateConfig,
    tag: &str,
    digest: Option<&str>,
) -> Result<()> {
    let runs = match digest {
        Some(digest) => check::helper(&admin.core, config).await.image_digest.as_deref() == Some(digest),
        None => {
            versions::stable(tag).is_some()
                && versions::stable(tag) == versions::stable(env!("CARGO_PKG_VERSION"))
        }
    };
    if runs { Err(AdminError::conflict(format!("{tag} is already running"))) } else { Ok(()) }
}
