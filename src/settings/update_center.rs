//! The saved configuration of the update center.

use serde::{Deserialize, Serialize};

use super::UnusableMember;
use crate::routing::BaseUrl;
use crate::site_url::without_user_info;

/// The name of the setting in the store.
pub const KEY: &str = "update_center_k3s_config_v1";
/// The sources of what is deployed.
pub const RELEASE: &str = "github-release";
pub const IMAGE_TAG: &str = "docker-hub-tag";

/// The configuration that an operator set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateConfig {
    /// Whether to look for updates now and then.
    pub enabled: bool,
    pub helper_base_url: String,
    pub namespace: String,
    pub release_name: String,
    pub chart_ref: String,
    pub image_repository: String,
    pub github_releases_enabled: bool,
    pub docker_hub_tags_enabled: bool,
    pub default_deploy_source: String,
}

impl Default for UpdateConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            helper_base_url: String::new(),
            namespace: "default".to_owned(),
            release_name: String::new(),
            chart_ref: String::new(),
            image_repository: String::new(),
            github_releases_enabled: true,
            docker_hub_tags_enabled: true,
            default_deploy_source: RELEASE.to_owned(),
        }
    }
}

impl UpdateConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// When a deployment could not use one.
    pub fn check(&self) -> Result<(), UnusableMember> {
        let Self { helper_base_url, chart_ref, image_repository, default_deploy_source, .. } = self;
        if !helper_base_url.is_empty()
            && let Err(why) = BaseUrl::parse(helper_base_url, None)
        {
            return Err(UnusableMember::new(
                "helperBaseUrl",
                format!("the address of a deploy helper: {why}"),
            ));
        }
        // They are shown as they are stored, and a name has no user.
        for (name, place) in [("chartRef", chart_ref), ("imageRepository", image_repository)] {
            if place.contains('/') && without_user_info(place).is_some() {
                let expected = "address without user name and password: the cluster logs in with its own";
                return Err(UnusableMember::new(name, expected));
            }
        }
        if ![RELEASE, IMAGE_TAG].contains(&default_deploy_source.as_str()) {
            return Err(UnusableMember::new("defaultDeploySource", format!("{RELEASE} or {IMAGE_TAG}")));
        }
        Ok(())
    }
}
