//! Deploys a release, or goes back to an earlier one, through the helper in the cluster. That is a task, whose log has
//! what the helper tells line by line; one at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::check;
use crate::dialect::sse::Scanner;
use crate::jobs::Jobs;
use crate::jobs::tasks::{Done, Outcome, Spec, Started, TaskEvents, TaskProgress};
use crate::routing::BaseUrl;
use crate::settings::update_center::UpdateConfig;

/// The kind and dedupe key of the tasks that deploy or go back.
pub const TASK: &str = "update-center.deploy";
/// The longest time for all of it. `SILENCE` is how long the helper may be silent: it sends heartbeats.
const LIMIT: Duration = Duration::from_secs(1800);
const SILENCE: Duration = Duration::from_secs(90);
/// The longest event, in bytes. `MAX_REFUSAL` is the longest answer that is no stream.
const MAX_EVENT: usize = 4 << 20;
const MAX_REFUSAL: usize = 64 * 1024;

/// A request to the helper.
pub struct HelperRequest {
    path: &'static str,
    title: String,
    body: Value,
}

impl HelperRequest {
    pub fn deployment(config: &UpdateConfig, source: &str, tag: &str, digest: Option<&str>) -> Self {
        let UpdateConfig { namespace, release_name, chart_ref, image_repository, .. } = config;
        let body = json!({ "namespace": namespace, "releaseName": release_name, "chartRef": chart_ref,
            "imageRepository": image_repository, "source": source, "targetTag": tag, "targetDigest": digest });
        Self { path: "/deploy", title: format!("Deploy {tag}"), body }
    }

    pub fn rollback(config: &UpdateConfig, revision: &str) -> Self {
        let UpdateConfig { namespace, release_name, .. } = config;
        let body = json!({ "namespace": namespace, "releaseName": release_name, "targetRevision": revision });
        Self { path: "/rollback", title: format!("Go back to revision {revision}"), body }
    }
}

/// Starts a deployment or a rollback, or returns the one under way.
pub fn start(jobs: &Arc<Jobs>, config: &UpdateConfig, order: HelperRequest) -> Started {
    let (title, dedupe_key) = (order.title.clone(), Some(TASK.to_owned()));
    let spec = Spec { kind: TASK, title, dedupe_key, events: TaskEvents::Sent };
    let (work, base) = (jobs.clone(), config.helper_base_url.clone());
    jobs.tasks.start(spec, move |progress| async move {
        let done = timeout(LIMIT, carry_out(&work, &base, &order, &progress)).await;
        if let Err(error) = check::forget_findings(&work).await {
            log::warn!("the status of the update center is that from before {}: {error}", order.title);
        }
        done.unwrap_or_else(|_| Err(format!("not finished within {} s", LIMIT.as_secs())))
    })
}

async fn carry_out(jobs: &Jobs, base: &str, order: &HelperRequest, progress: &TaskProgress) -> Outcome {
    let core = &jobs.core;
    let base = BaseUrl::parse(base, None)?;
    let request = Request::post(format!("{}{}", base.path, order.path))
        .header(AUTHORIZATION, format!("Bearer {}", core.config.updates.helper_token))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(Bytes::from(order.body.to_string()))
        .map_err(|error| error.to_string())?;
    let silent = |_| format!("the helper was silent for {} s", SILENCE.as_secs());
    let sent = timeout(SILENCE, core.client.send(&base.origin, request)).await.map_err(silent)?;
    let mut answer = sent.map_err(|error| error.to_string())?;
    let status = answer.head.status;
    let (mut scanner, mut refusal, mut result) = (Scanner::new(MAX_EVENT), Vec::new(), None);
    while let Some(data) = timeout(SILENCE, answer.body.data()).await.map_err(silent)? {
        let data = data.map_err(|error| format!("the helper's answer broke off: {error}"))?;
        if !status.is_success() {
            refusal.extend_from_slice(&data);
            refusal.truncate(MAX_REFUSAL);
            continue;
        }
        scanner.feed(&data, |event| {
            let data: Value = serde_json::from_slice(event.data).unwrap_or_default();
            match event.name {
                b"log" => progress.log(data["message"].as_str().unwrap_or_default()),
                b"result" => result = Some(data),
                _ => {}
            }
        });
    }
    if !status.is_success() {
        let refusal: Value = serde_json::from_slice(&refusal).unwrap_or_default();
        let why = refusal["message"].as_str().unwrap_or("no reason given");
        return Err(format!("the helper refused ({}): {why}", status.as_u16()));
    }
    let mut result = result.ok_or("the helper's answer ended without a result")?;
    if result["success"] != true {
        let why = result["error"].as_str().unwrap_or("the helper says that it failed");
        let back = if result["rolledBack"] == true { "; the release is back where it was" } else { "" };
        return Err(format!("{why}{back}"));
    }
    if let Some(result) = result.as_object_mut() {
        // The task's log has those lines.
        result.remove("logLines");
    }
    let revision = result["finalRevision"].as_str().unwrap_or("unknown");
    Ok(Done { message: format!("{}: revision {revision} is running", order.title), result })
}
