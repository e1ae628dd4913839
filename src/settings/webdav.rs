//! The saved configuration of the WebDAV file that holds a backup.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::cron::Cron;

/// The name of the setting in the store.
pub const WEBDAV_KEY: &str = "backup_webdav_config_v1";

/// The saved configuration. Carries a password, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebDav {
    pub enabled: bool,
    /// The address of the file itself, not of its collection.
    pub file_url: String,
    pub username: String,
    pub password: String,
    /// `all`, `accounts` or `preferences`.
    pub export_type: String,
    pub auto_sync_enabled: bool,
    pub auto_sync_cron: String,
}

impl Default for WebDav {
    fn default() -> Self {
        Self {
            enabled: false,
            file_url: String::new(),
            username: String::new(),
            password: String::new(),
            export_type: "all".to_owned(),
            auto_sync_enabled: false,
            auto_sync_cron: "0 */6 * * *".to_owned(),
        }
    }
}

impl WebDav {
    /// Reads the saved configuration; `None` if there is none, or if it cannot be read.
    pub fn of(saved: &HashMap<String, String>) -> Option<Self> {
        let text = saved.get(WEBDAV_KEY)?;
        serde_json::from_str(text)
            .inspect_err(|error| log::warn!("the saved WebDAV configuration is ignored: {error}"))
            .ok()
    }

    /// Returns the schedule of automatic exports; `None` if they are off.
    pub fn schedule(&self) -> Option<Cron> {
        let is_on = self.enabled && self.auto_sync_enabled && !self.file_url.is_empty();
        Cron::parse(&self.auto_sync_cron).ok().filter(|_| is_on)
    }
}
