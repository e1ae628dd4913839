//! The backup on a WebDAV server: its schedule, writing and reading it, and the last result.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::failure;
use super::webdav::{MAX_SENT, RemoteFile};
use crate::backup::{self, BackupScope};
use crate::jobs::Jobs;
use crate::jobs::schedule::{Pass, Plan};
use crate::settings::WebDav;
use crate::store::{self, settings};
use crate::time::{iso, now_ms};

/// The settings row that holds the last result.
const STATE: &str = "backup_webdav_state_v1";

/// The last result of writing or reading the backup on the WebDAV server.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub last_sync_at: Option<String>,
    pub last_error: Option<String>,
    /// A warning about the last success.
    pub last_warning: Option<String>,
}

/// A backup that was written to the server.
pub struct Written {
    pub at: String,
    /// Says that the server has something other than what was sent, or that this could not be compared.
    pub warning: Option<String>,
}

impl State {
    pub async fn load(store: &store::Store) -> store::Result<Self> {
        let stored: Value = settings::read(store, STATE).await?;
        let text = |member: &str| stored[member].as_str().map(str::to_owned);
        Ok(Self {
            last_sync_at: text("lastSyncAt"),
            last_error: text("lastError"),
            last_warning: text("lastWarning"),
        })
    }

    /// Returns the state as API answers show it.
    pub fn json(&self) -> Value {
        let mut state = json!({ "lastSyncAt": self.last_sync_at, "lastError": self.last_error });
        if let Some(warning) = &self.last_warning {
            state["lastWarning"] = warning.as_str().into();
        }
        state
    }

    async fn save(&self, store: &store::Store) -> store::Result<()> {
        settings::put(store, vec![(STATE.to_owned(), self.json().to_string())]).await
    }
}

/// Returns the schedule of the automatic backup.
pub fn plan(jobs: &Jobs) -> Plan {
    let settings = jobs.core.settings.load();
    settings.webdav.as_ref().and_then(WebDav::schedule).map_or(Plan::Never, Plan::At)
}

/// Writes the scheduled backup. The first failure after a success is an event and a notice: the schedule may be short.
pub async fn sync(jobs: Arc<Jobs>) -> Pass {
    let Some(config) = jobs.core.settings.load().webdav.clone() else { return Ok(None) };
    let synced = write(&jobs, &config, BackupScope::parse(&config.export_type).unwrap_or_default()).await;
    let has_failed = jobs.backups.remote_failed.swap(synced.is_err(), Ordering::Relaxed);
    if let Err(error) = &synced
        && !has_failed
    {
        failure::tell(&jobs, "A backup to the WebDAV server failed", error).await;
    }
    synced.map(|written| {
        let warning = written.warning.map_or_else(String::new, |warning| format!(". {warning}"));
        Some(format!("the backup was written to the WebDAV server{warning}"))
    })
}

/// Writes the file and records the result.
///
/// # Errors
/// Returns what went wrong, in words for people; the state records it, too.
pub async fn write(jobs: &Arc<Jobs>, config: &WebDav, what: BackupScope) -> Result<Written, String> {
    let _turn = jobs.backups.remote.lock().await;
    let written = send(jobs, config, what).await;
    let warning = written.clone().unwrap_or_default();
    let at = note(jobs, written).await?;
    Ok(Written { at, warning })
}

/// Sends the file; returns a warning about the written file, if there is one.
async fn send(jobs: &Arc<Jobs>, config: &WebDav, what: BackupScope) -> Result<Option<String>, String> {
    let core = &jobs.core;
    let file = backup::scratch_file(&core.config.data_dir).map_err(|error| error.to_string())?;
    let file = backup::export(core, what, file).await.map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let too_long = || {
        format!(
            "The backup is larger than {} MiB, too large to send; use local backups instead (BACKUP_CRON)",
            MAX_SENT >> 20
        )
    };
    if length > MAX_SENT / 2 {
        return Err(too_long());
    }
    let text = block_in_place(|| laid_out(file)).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_SENT {
        return Err(too_long());
    }
    remote(jobs, config)?.write(text).await
}

/// Returns the document laid out for people. Its checksum covers the content, not the layout.
fn laid_out(mut file: File) -> std::io::Result<Bytes> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(backup::pretty(&text).into())
}

/// Reads the file from the server. The caller records the result of using it with [`note`].
pub async fn read(jobs: &Arc<Jobs>, config: &WebDav) -> Result<File, String> {
    let _turn = jobs.backups.remote.lock().await;
    remote(jobs, config)?.read().await
}

fn remote<'a>(jobs: &'a Arc<Jobs>, config: &WebDav) -> Result<RemoteFile<'a>, String> {
    let core = &jobs.core;
    RemoteFile::new(&core.client, &config.file_url, &config.username, &config.password, &core.config.data_dir)
}

/// Records the result of writing or reading the file, a success with its warning. Returns the time of a success.
pub async fn note(jobs: &Arc<Jobs>, done: Result<Option<String>, String>) -> Result<String, String> {
    let store = &jobs.core.store;
    let failed = |error: store::Error| error.to_string();
    let now = iso(now_ms());
    let state = match &done {
        Ok(warning) => {
            State { last_sync_at: Some(now.clone()), last_error: None, last_warning: warning.clone() }
        }
        Err(error) => State {
            last_error: Some(error.clone()),
            last_warning: None,
            ..State::load(store).await.map_err(failed)?
        },
    };
    state.save(store).await.map_err(failed)?;
    done.map(|_warning| now)
}
