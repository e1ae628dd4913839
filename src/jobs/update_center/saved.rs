//! The settings of the update center: what an operator set up, and the result of the last check. Each is one setting.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::versions::{self, Version};
use crate::settings::update_center::{KEY, UpdateConfig};
use crate::store::{self, Store, settings};

pub(super) const STATE: &str = "update_center_runtime_state_v1";

/// The state that is kept from check to check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateState {
    pub last_checked_at: Option<String>,
    pub last_check_error: Option<String>,
    pub last_resolved_source: Option<String>,
    pub last_resolved_display_version: Option<String>,
    pub last_resolved_candidate_key: Option<String>,
    pub last_notified_candidate_key: Option<String>,
    /// The last candidate reported of each source: while one source fails, the other's candidate is current.
    pub last_notified_candidate_keys: Vec<String>,
    pub last_notified_at: Option<String>,
    pub status_snapshot: Option<CheckResult>,
}

/// The result of a check; a source that is off, or failed, found nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckResult {
    pub github_release: Option<Version>,
    pub docker_hub_tag: Option<Version>,
    pub docker_hub_recent_tags: Vec<Version>,
    pub helper: Helper,
}

/// The release that runs in the cluster, as the helper there reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Helper {
    pub ok: bool,
    pub release_name: Option<String>,
    pub namespace: Option<String>,
    pub revision: Option<String>,
    pub image_repository: Option<String>,
    pub image_tag: Option<String>,
    pub image_digest: Option<String>,
    pub healthy: bool,
    pub error: Option<String>,
    pub history: Vec<Revision>,
}

/// An earlier state of the release in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Revision {
    pub revision: String,
    #[serde(deserialize_with = "read_time")]
    pub updated_at: Option<String>,
    pub status: Option<String>,
    pub description: Option<String>,
    pub image_repository: Option<String>,
    pub image_tag: Option<String>,
    pub image_digest: Option<String>,
}

/// Reads a time of the helper in the form that all answers have; another helper may write it otherwise.
fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Value::deserialize(deserializer).map(|value| versions::time(&value))
}

/// Reads the configuration that was saved last.
pub async fn config(store: &Store) -> store::Result<UpdateConfig> {
    settings::read(store, KEY).await
}

pub async fn save_config(store: &Store, config: &UpdateConfig) -> store::Result<()> {
    settings::put(store, vec![(KEY.to_owned(), text(config)?)]).await
}

/// Reads the state that the last check left.
pub async fn state(store: &Store) -> store::Result<UpdateState> {
    settings::read(store, STATE).await
}

pub(super) fn text(value: &impl Serialize) -> store::Result<String> {
    serde_json::to_string(value).map_err(|error| store::Error::Database(error.to_string()))
}
