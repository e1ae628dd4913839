//! The helper's operations in the cluster: status, deployment, rollback. They block the thread.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::names::{Deployment, Order, Rollback, Target};
use super::programs::{self, Tell};
use crate::jobs::update_center::saved::{Helper, Revision};
use crate::jobs::update_center::versions;

/// The time limits of a query and of a change.
const LOOK: Duration = Duration::from_secs(30);
const CHANGE: Duration = Duration::from_secs(600);
/// The time that pods have to become ready, as passed to kubectl; it gets a little longer to report.
const ROLLOUT_SECONDS: &str = "--timeout=300s";
const ROLLOUT: Duration = Duration::from_secs(330);
/// Maximum number of earlier revisions shown.
const MOST_REVISIONS: usize = 5;

/// The result of a change.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_tag: Option<String>,
    target_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_revision: Option<String>,
    previous_revision: Option<String>,
    final_revision: Option<String>,
    rolled_back: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) log_lines: Vec<String>,
}

impl Summary {
    pub(super) fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// Returns the status of a release: what runs, and its history.
pub(super) fn status(target: &Target) -> Result<Helper, String> {
    let status = helm_json(target, &["status"])?;
    let values = values(target, &[]);
    let pods = kubectl_pods(target)?;
    let image = Image::of(values.as_ref());
    let state = status["info"]["status"].as_str().unwrap_or_default();
    Ok(Helper {
        ok: true,
        release_name: Some(target.release.clone()),
        namespace: Some(target.namespace.clone()),
        revision: text_of(&status["version"]),
        image_repository: image.repository,
        image_tag: image.tag,
        image_digest: running_digest(&pods).or(image.digest),
        healthy: state == "deployed" || state == "failed" && all_ready(&pods),
        error: None,
        history: history(target)?,
    })
}

/// Makes the change.
pub(super) fn carry_out(order: &Order, tell: Tell<'_>) -> Summary {
    match order {
        Order::Deploy(deployment) => deploy(deployment, tell),
        Order::Rollback(to) => rollback(to, tell),
    }
}

/// Upgrades a release; if its pods do not become ready, rolls back to the previous revision.
fn deploy(deployment: &Deployment, tell: Tell<'_>) -> Summary {
    let Deployment { target, source, tag, digest, .. } = deployment;
    let mut summary = Summary {
        target_source: Some(source.clone()),
        target_tag: Some(tag.clone()),
        target_digest: digest.clone(),
        ..Summary::default()
    };
    let done = upgrade(deployment, &mut summary, tell);
    settle(target, summary, done)
}

/// Rolls back to an earlier revision.
fn rollback(rollback: &Rollback, tell: Tell<'_>) -> Summary {
    let Rollback { target, revision } = rollback;
    let summary = Summary { target_revision: Some(revision.clone()), ..Summary::default() };
    let done = go_back(target, revision, tell).and_then(|()| await_rollout(target, tell));
    settle(target, summary, done)
}

fn upgrade(deployment: &Deployment, summary: &mut Summary, tell: Tell<'_>) -> Result<(), String> {
    let Deployment { target, chart, repository, tag, digest, .. } = deployment;
    let listed = helm_history(target)?;
    let previous =
        listed.iter().filter_map(|row| row["revision"].as_i64()).max().map(|number| number.to_string());
    summary.previous_revision = previous.clone();
    let (repository, tag) = (format!("image.repository={repository}"), format!("image.tag={tag}"));
    let digest = format!("image.digest={}", digest.as_deref().unwrap_or_default());
    let arguments = [
        "upgrade",
        &target.release,
        chart,
        "--namespace",
        &target.namespace,
        "--reuse-values",
        "--set",
        &repository,
        "--set",
        &tag,
        "--set-string",
        &digest,
    ];
    programs::run("helm", &arguments, CHANGE, tell)?;
    let Err(failed) = await_rollout(target, tell) else { return Ok(()) };
    let Some(previous) = previous else { return Err(failed) };
    tell(&format!("{failed}; going back to revision {previous}"));
    go_back(target, &previous, tell).map_err(|why| format!("{failed}; going back failed, too: {why}"))?;
    summary.rolled_back = true;
    Err(failed)
}

fn go_back(target: &Target, revision: &str, tell: Tell<'_>) -> Result<(), String> {
    let arguments = ["rollback", &target.release, revision, "-n", &target.namespace];
    programs::run("helm", &arguments, CHANGE, tell).map(drop)
}

fn await_rollout(target: &Target, tell: Tell<'_>) -> Result<(), String> {
    let label = instance(target);
    let arguments =
        ["rollout", "status", "deployment", "-n", &target.namespace, "-l", &label, ROLLOUT_SECONDS];
    programs::run("kubectl", &arguments, ROLLOUT, tell).map(drop)
}

/// Completes the summary with the release's revision and the result.
fn settle(target: &Target, mut summary: Summary, done: Result<(), String>) -> Summary {
    let status = helm_json(target, &["status"]);
    summary.final_revision = status.as_ref().ok().and_then(|status| text_of(&status["version"]));
    let done = done.and_then(|()| status.map(drop));
    summary.success = done.is_ok();
    summary.error = done.err();
    summary
}

/// Returns the newest revisions, with their images.
fn history(target: &Target) -> Result<Vec<Revision>, String> {
    let mut listed = helm_history(target)?;
    listed.sort_by_key(|row| std::cmp::Reverse(row["revision"].as_i64()));
    let revisions = listed.into_iter().take(MOST_REVISIONS).filter_map(|row| {
        let revision = text_of(&row["revision"])?;
        let text = |name: &str| row[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let values = values(target, &["--revision", &revision]);
        let image = Image::of(values.as_ref());
        Some(Revision {
            updated_at: versions::time(&row["updated"]),
            status: text("status"),
            description: text("description"),
            revision,
            image_repository: image.repository,
            image_tag: image.tag,
            image_digest: image.digest,
        })
    });
    Ok(revisions.collect())
}

/// Returns the values of a chart, which name the image; the log says why there are none.
fn values(target: &Target, options: &[&str]) -> Option<Value> {
    let read = helm_json(target, &[&["get", "values"], options].concat());
    read.inspect_err(|why| log::warn!("the values of {target} could not be read: {why}")).ok()
}

fn helm_history(target: &Target) -> Result<Vec<Value>, String> {
    let listed = helm_json(target, &["history"])?;
    Ok(listed.as_array().cloned().unwrap_or_default())
}

/// Runs `helm WORDS RELEASE -n NAMESPACE -o json`; options among the words go behind the release.
fn helm_json(target: &Target, words: &[&str]) -> Result<Value, String> {
    let options = words.iter().position(|word| word.starts_with("--")).unwrap_or(words.len());
    let (words, options) = words.split_at(options);
    let mut arguments = words.to_vec();
    arguments.extend([target.release.as_str(), "-n", &target.namespace]);
    if words.ends_with(&["values"]) {
        arguments.push("--all");
    }
    arguments.extend(options);
    arguments.extend(["-o", "json"]);
    programs::json("helm", &arguments, LOOK)
}

fn kubectl_pods(target: &Target) -> Result<Value, String> {
    let label = instance(target);
    programs::json("kubectl", &["get", "pods", "-n", &target.namespace, "-l", &label, "-o", "json"], LOOK)
}

fn instance(target: &Target) -> String {
    format!("app.kubernetes.io/instance={}", target.release)
}

/// Reads a text that helm may write as a number: a revision in some of its outputs, and a value that looks like one.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The image that a chart's values name.
struct Image {
    repository: Option<String>,
    tag: Option<String>,
    digest: Option<String>,
}

impl Image {
    fn of(values: Option<&Value>) -> Self {
        let text = |name: &str| text_of(&values?["image"][name]).filter(|text| !text.is_empty());
        Self {
            repository: text("repository"),
            tag: text("tag"),
            digest: text("digest").and_then(|digest| versions::digest(&digest)),
        }
    }
}

fn containers(pods: &Value) -> impl Iterator<Item = &Value> {
    let pods = pods["items"].as_array().into_iter().flatten();
    pods.flat_map(|pod| pod["status"]["containerStatuses"].as_array().into_iter().flatten())
}

fn running_digest(pods: &Value) -> Option<String> {
    containers(pods).find_map(|container| {
        let id = container["imageID"].as_str()?;
        versions::digest(&id[id.find("sha256:")?..])
    })
}

fn all_ready(pods: &Value) -> bool {
    let items = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    !items.is_empty()
        && items.iter().all(|pod| pod["status"]["phase"] == "Running")
        && containers(pods).all(|container| container["ready"] == true)
}
