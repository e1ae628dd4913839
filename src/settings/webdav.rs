//! The saved configuration of the WebDAV file that holds a backup.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::UnusableMember;
use crate::cron::Cron;
use crate::mask;
use crate::routing::BaseUrl;
use crate::site_url::without_user_info;

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

    /// Checks the values, except for the kind of export.
    ///
    /// # Errors
    /// When an export could not use one.
    pub fn check(&self) -> Result<(), UnusableMember> {
        // A name with a colon cannot be sent (RFC 7617 §2).
        if self.username.contains(|c: char| c == ':' || c.is_control()) {
            return Err(UnusableMember::new("username", "string without colons and control characters"));
        }
        Cron::parse(&self.auto_sync_cron)
            .map_err(|why| UnusableMember::new("autoSyncCron", format!("cron expression: {why}")))?;
        if without_user_info(&self.file_url).is_some() {
            let expected = "address without user name and password: those are members of their own";
            return Err(UnusableMember::new("fileUrl", expected));
        }
        // While it is disabled, the address may be a draft.
        if !self.enabled {
            return Ok(());
        }
        BaseUrl::parse(&self.file_url, None).map_err(|why| {
            UnusableMember::new("fileUrl", format!("http or https address of a file: {why}"))
        })?;
        if !names_file(&self.file_url) {
            return Err(UnusableMember::new("fileUrl", "address of a file, with a path and without #"));
        }
        Ok(())
    }
}

/// Whether an address has a path, or a query that may name the file.
fn names_file(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let target = rest.find(['/', '?']).map_or("/", |start| &rest[start..]);
    target != "/" && !url.contains('#')
}

/// Masks a password: a short one entirely, a longer one except for two characters at each end.
pub fn mask_password(password: &str) -> String {
    let characters: Vec<char> = password.chars().collect();
    match characters.as_slice() {
        [] => String::new(),
        [first, second, _, .., third, last] if characters.len() > 4 => {
            format!("{first}{second}****{third}{last}")
        }
        _ => "****".to_owned(),
    }
}

/// Whether a text is the mask of a password, as the configuration or a report shows it.
pub fn is_password_mask(text: &str) -> bool {
    !text.is_empty() && (mask_password(text) == text || mask::is_of_secret(text))
}
