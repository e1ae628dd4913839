//! One check for updates: asks for releases, image tags and the helper at once, each by itself, and reports a new
//! version once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::saved::{self, CheckResult, Helper, STATE, UpdateState};
use super::versions::{self, Running, Version};
use crate::core::Core;
use crate::jobs::Jobs;
use crate::notify::Notice;
use crate::routing::{BaseUrl, OutboundProxy, path_segments};
use crate::settings::update_center::UpdateConfig;
use crate::store::events::{EventLevel, NewEvent};
use crate::store::{self, settings};
use crate::time::{iso, now_ms};
use crate::upstream::FetchLimits;

/// The interval of the checks that the service makes by itself.
pub const INTERVAL: Duration = Duration::from_secs(900);
/// The limits of one call: enough for a list of a hundred releases with their notes.
const LIMITS: FetchLimits = FetchLimits { timeout: Duration::from_secs(5), max_bytes: 8 << 20 };

/// Checks for updates, stores the result, and notifies the operator of a new version.
pub async fn check(jobs: &Arc<Jobs>) -> store::Result<UpdateState> {
    let _turn = jobs.update_checks.lock().await;
    let core = &jobs.core;
    let resets = core.resets();
    let config = saved::config(&core.store).await?;
    let (release, tags, helper) =
        tokio::join!(releases(core, &config), image_tags(core, &config), helper(core, &config));
    let mut problems = Vec::new();
    let mut kept = |source: &str, problem: String| problems.push(format!("{source}: {problem}"));
    let github_release = release.unwrap_or_else(|problem| {
        kept("releases", problem);
        None
    });
    let (docker_hub_tag, docker_hub_recent_tags) = tags.unwrap_or_else(|problem| {
        kept("image tags", problem);
        (None, Vec::new())
    });
    if let Some(problem) = helper.error.clone().filter(|_| !config.helper_base_url.is_empty()) {
        kept("helper", problem);
    }
    let found = CheckResult { github_release, docker_hub_tag, docker_hub_recent_tags, helper };
    let mut state = saved::state(&core.store).await?;
    state.last_checked_at = Some(iso(now_ms()));
    state.last_check_error = (!problems.is_empty()).then(|| problems.join("; "));
    let news = note_candidate(&mut state, &found);
    state.status_snapshot = Some(found);
    if core.resets() != resets {
        return Ok(UpdateState::default());
    }
    keep(core, &state, news.clone()).await?;
    if let Some(event) = news {
        let report = core.notifier.deliver(&Notice::from(&event).always()).await;
        let failed: Vec<_> = report
            .channels
            .into_iter()
            .filter_map(|(name, sent)| sent.err().map(|why| (name, why)))
            .collect();
        if !failed.is_empty() {
            let failed: Vec<_> = failed.into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
            let unsent = format!("the notification was not sent: {}", failed.join("; "));
            let known = state.last_check_error.take();
            state.last_check_error = Some(known.into_iter().chain([unsent]).collect::<Vec<_>>().join("; "));
            keep(core, &state, None).await?;
        }
    }
    Ok(state)
}

/// Forgets what the last check found, because something else is asked for or runs now: the next reader of the status checks
/// again.
pub async fn forget_findings(jobs: &Jobs) -> store::Result<()> {
    let _turn = jobs.update_checks.lock().await;
    let core = &jobs.core;
    let resets = core.resets();
    let mut state = saved::state(&core.store).await?;
    if state.status_snapshot.take().is_none() || core.resets() != resets {
        return Ok(());
    }
    keep(core, &state, None).await
}

/// Records the candidate in the state; returns the event for a candidate that was not reported before.
fn note_candidate(state: &mut UpdateState, found: &CheckResult) -> Option<NewEvent> {
    let running = Running {
        version: env!("CARGO_PKG_VERSION"),
        tag: found.helper.image_tag.as_deref(),
        digest: found.helper.image_digest.as_deref(),
    };
    let (release, image) = (found.github_release.as_ref(), found.docker_hub_tag.as_ref());
    let candidate = versions::candidate(release, image, running);
    let Some((key, version)) = candidate else {
        (state.last_resolved_source, state.last_resolved_display_version) = (None, None);
        state.last_resolved_candidate_key = None;
        return None;
    };
    let shown = version.display_version.clone().unwrap_or_else(|| version.raw_version.clone());
    state.last_resolved_source = Some(version.source.clone());
    state.last_resolved_display_version = Some(shown.clone());
    state.last_resolved_candidate_key = Some(key.clone());
    let notified = &mut state.last_notified_candidate_keys;
    if notified.is_empty() {
        notified.extend(state.last_notified_candidate_key.clone());
    }
    if notified.contains(&key) {
        return None;
    }
    notified.retain(|other| !other.starts_with(&format!("{}:", version.source)));
    notified.push(key.clone());
    state.last_notified_candidate_key = Some(key);
    state.last_notified_at = Some(iso(now_ms()));
    let url = version.url.as_deref().map(|url| format!(" {url}")).unwrap_or_default();
    Some(NewEvent {
        kind: "status",
        title: format!("Update available: {shown}"),
        message: Some(format!(
            "The running version is {}. Updates are not deployed automatically.{url}",
            running.version
        )),
        level: EventLevel::Info,
        related_id: None,
        related_type: Some("update_center"),
    })
}

/// Stores the state and the event. That comes before the notice, so that a restart in between reports nothing twice.
async fn keep(core: &Core, state: &UpdateState, news: Option<NewEvent>) -> store::Result<()> {
    let now = now_ms();
    let mut batch = vec![settings::put_statement(&core.store, STATE, &saved::text(state)?, now)?];
    batch.extend(news.map(|event| event.insert(now)));
    core.store.batch(batch).await.map(drop)
}

/// Whether any source of updates is set up.
pub fn has_update_source(core: &Core, config: &UpdateConfig) -> bool {
    release_repository(core, config).is_some()
        || image_repository(config).is_some()
        || !config.helper_base_url.is_empty()
}

fn release_repository<'c>(core: &'c Core, config: &UpdateConfig) -> Option<&'c str> {
    let repository = core.config.updates.release_repository.as_str();
    (config.github_releases_enabled && !repository.is_empty()).then_some(repository)
}

fn image_repository(config: &UpdateConfig) -> Option<&str> {
    let repository = config.image_repository.as_str();
    (config.docker_hub_tags_enabled && !repository.is_empty()).then_some(repository)
}

async fn releases(core: &Core, config: &UpdateConfig) -> Result<Option<Version>, String> {
    let Some(repository) = release_repository(core, config) else { return Ok(None) };
    let path = format!("/repos/{}/releases?per_page=100", path_segments(repository)?);
    let listed = ask(core, &core.config.updates.releases_url, &path).await?;
    Ok(versions::newest_release(&listed))
}

async fn image_tags(core: &Core, config: &UpdateConfig) -> Result<(Option<Version>, Vec<Version>), String> {
    let Some(repository) = image_repository(config) else { return Ok((None, Vec::new())) };
    let repository = repository.strip_prefix("docker.io/").unwrap_or(repository);
    if repository.split('/').next().is_some_and(|host| host.contains(['.', ':'])) {
        return Err("imageRepository is not at Docker Hub: set dockerHubTagsEnabled to false".to_owned());
    }
    let path =
        format!("/v2/repositories/{}/tags?page_size=100&ordering=last_updated", path_segments(repository)?);
    let listed = ask(core, &core.config.updates.tags_url, &path).await?;
    Ok(versions::newest_tags(&listed, repository))
}

/// Asks a public service, through the system proxy if there is one.
async fn ask(core: &Core, base: &str, path: &str) -> Result<Value, String> {
    let proxy = core.settings.load().system_proxy_url.clone();
    let proxy = proxy.as_deref().map(OutboundProxy::parse).transpose()?.map(Arc::new);
    let base = BaseUrl::parse(base, proxy)?;
    let request = Request::get(format!("{}{path}", base.path)).header(ACCEPT, "application/json");
    fetch(core, &base, request).await
}

async fn fetch(core: &Core, base: &BaseUrl, request: hyper::http::request::Builder) -> Result<Value, String> {
    let request = request.body(Bytes::new()).map_err(|error| error.to_string())?;
    let answer = core.client.fetch(base, request, LIMITS).await.map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let said = said["message"].as_str().map(|words| format!(": {words:.200}")).unwrap_or_default();
        return Err(format!("answered with {}{said}", answer.status().as_u16()));
    }
    serde_json::from_slice(answer.body()).map_err(|_| "the answer is not JSON".to_owned())
}

/// Asks the helper what runs; where it is not set up, or not reached, the answer is not `ok`.
pub async fn helper(core: &Core, config: &UpdateConfig) -> Helper {
    let asked = ask_helper(core, config).await;
    asked.unwrap_or_else(|error| Helper { error: Some(error), ..Helper::default() })
}

async fn ask_helper(core: &Core, config: &UpdateConfig) -> Result<Helper, String> {
    let UpdateConfig { helper_base_url, namespace, release_name, .. } = config;
    for (value, what) in [(helper_base_url, "helperBaseUrl"), (release_name, "releaseName")] {
        if value.is_empty() {
            return Err(format!("{what} is not set"));
        }
    }
    let token = core.config.updates.helper_token.as_str();
    if token.is_empty() {
        return Err("DEPLOY_HELPER_TOKEN is not set".to_owned());
    }
    let base = BaseUrl::parse(helper_base_url, None)?;
    let quoted = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let path =
        format!("{}/status?namespace={}&releaseName={}", base.path, quoted(namespace), quoted(release_name));
    let request = Request::get(path).header(AUTHORIZATION, format!("Bearer {token}"));
    let status = fetch(core, &base, request).await?;
    serde_json::from_value(status)
        .map_err(|_| "the answer is not that of a deploy helper: check helperBaseUrl".to_owned())
}
