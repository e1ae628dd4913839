//! `/api/settings/backup/webdav`: a backup as a file on a WebDAV server.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::handlers::what;
use super::passphrase;
use super::running::{self, Source};
use super::schema;
use super::upload::Form;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::secrets;
use crate::backup::ImportOptions;
use crate::http::{self, Request, Response};
use crate::jobs::backups::remote::{self, State};
use crate::settings::{WEBDAV_KEY, WebDav, is_password_mask, mask_password};
use crate::store::settings;

/// `GET /api/settings/backup/webdav`
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    answer(&admin).await
}

/// `PUT /api/settings/backup/webdav`: changes the fields that are sent; the rest stays.
pub async fn put(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::WEBDAV_CHANGE, request.json_object().await?);
    {
        let _turn = admin.core.settings_edits.lock().await;
        let config = changed(saved(&admin), &fields)?;
        let value = serde_json::to_string(&config)
            .map_err(|error| AdminError::internal("writing the WebDAV configuration", error))?;
        settings::put(&admin.core.store, vec![(WEBDAV_KEY.to_owned(), value)]).await?;
        admin.core.reload_settings().await?;
    }
    answer(&admin).await
}

/// `POST /api/settings/backup/webdav/export`: writes the file to the server.
pub async fn export(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::WEBDAV_EXPORT, request.json_object().await?);
    let config = usable(&admin)?;
    let asked = fields.text("type")?.filter(|word| !word.trim().is_empty());
    let what = what(Some(asked.unwrap_or(&config.export_type)))?;
    let written = remote::write(&admin.jobs, &config, what).await.map_err(AdminError::bad_request)?;
    let mut answer = json!({"success": true, "fileUrl": config.file_url, "exportType": what.as_str(),
        "syncedAt": written.at, "lastSyncAt": written.at, "lastError": null});
    if let Some(warning) = written.warning {
        answer["warnings"] = json!([warning]);
    }
    Ok(http::json(StatusCode::OK, &answer))
}

/// `POST /api/settings/backup/webdav/import`: reads the file from the server and imports it.
pub async fn import(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let config = usable(&admin)?;
    let passphrase = passphrase::opening(&request)?;
    let imported = take_over(&admin, &config, &request, passphrase).await;
    // A failure of the local disk or store is not the server's: it is answered as elsewhere.
    let told = imported.as_ref().map(|_| None).map_err(|error| error.message().to_owned());
    let at = remote::note(&admin.jobs, told).await;
    let (mut answer, at) = (imported?, at.map_err(AdminError::bad_request)?);
    for (name, value) in [
        ("fileUrl", json!(config.file_url)),
        ("syncedAt", json!(at)),
        ("lastSyncAt", json!(at)),
        ("lastError", Value::Null),
    ] {
        answer.insert(name.to_owned(), value);
    }
    Ok(http::json(StatusCode::OK, &answer))
}

async fn take_over(
    admin: &Arc<Admin>,
    config: &WebDav,
    request: &Request,
    passphrase: Option<String>,
) -> Result<serde_json::Map<String, Value>> {
    let file = remote::read(&admin.jobs, config).await.map_err(AdminError::bad_request)?;
    let options = ImportOptions { caller: Some(request.client_ip), ..ImportOptions::default() };
    let source = Source { file, form: Form::Document, passphrase, merges_foreign: true };
    running::import(admin, source, options).await
}

fn saved(admin: &Admin) -> WebDav {
    admin.core.settings.load().webdav.clone().unwrap_or_default()
}

/// Returns the saved configuration; fails unless it is enabled and has an address.
fn usable(admin: &Admin) -> Result<WebDav> {
    let config = saved(admin);
    if !config.enabled || config.file_url.is_empty() {
        return Err(AdminError::bad_request(
            "WebDAV backups are disabled, or have no fileUrl: set enabled and fileUrl first",
        ));
    }
    Ok(config)
}

fn changed(mut config: WebDav, fields: &Fields) -> Result<WebDav> {
    if let Some(enabled) = fields.bool("enabled")? {
        config.enabled = enabled;
    }
    if let Some(url) = fields.text("fileUrl")? {
        config.file_url = url.trim().to_owned();
    }
    if let Some(username) = fields.text("username")? {
        config.username = username.trim().to_owned();
    }
    let clears = fields.bool("clearPassword")?.unwrap_or(false);
    match fields.text("password")? {
        _ if clears => config.password.clear(),
        Some(password) if password == mask_password(&config.password) => {}
        Some(password) if is_password_mask(password) => {
            return Err(Invalid::field("password", secrets::WHOLE).into());
        }
        Some(password) => password.clone_into(&mut config.password),
        None => {}
    }
    if let Some(word) = fields.text("exportType")? {
        let kind = crate::backup::BackupScope::parse(word);
        let kind = kind.ok_or_else(|| Invalid::field("exportType", "all, accounts or preferences"))?;
        kind.as_str().clone_into(&mut config.export_type);
    }
    if let Some(auto) = fields.bool("autoSyncEnabled")? {
        config.auto_sync_enabled = auto;
    }
    if let Some(cron) = fields.text("autoSyncCron")? {
        cron.trim().clone_into(&mut config.auto_sync_cron);
    }
    config.auto_sync_enabled &= config.enabled;
    config.check().map_err(Invalid::from)?;
    Ok(config)
}

async fn answer(admin: &Admin) -> Result<Response> {
    let config = saved(admin);
    let state = State::load(&admin.core.store).await?;
    let config = json!({
        "enabled": config.enabled,
        "fileUrl": config.file_url,
        "username": config.username,
        "exportType": config.export_type,
        "autoSyncEnabled": config.auto_sync_enabled,
        "autoSyncCron": config.auto_sync_cron,
        "hasPassword": !config.password.is_empty(),
        "passwordMasked": mask_password(&config.password),
    });
    Ok(http::json(StatusCode::OK, &json!({"success": true, "config": config, "state": state.json()})))
}
