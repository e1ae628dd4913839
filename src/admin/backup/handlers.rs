//! Handlers of export and import.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, HeaderValue};
use serde_json::Value;
use tokio::task::block_in_place;

use super::running::{self, Source};
use super::{passphrase, upload};
use crate::admin::Admin;
use crate::admin::arrival::admit_late;
use crate::admin::errors::Result;
use crate::admin::input::Invalid;
use crate::backup::sealed::Sealing;
use crate::backup::{self, BackupScope, Conflict, ImportError, ImportOptions};
use crate::http::{self, Request, Response};
use crate::time::{local_day, now_ms};

/// `GET /api/settings/backup/export`: exports the document, with every credential in clear, or sealed with the
/// passphrase of the request.
pub async fn export(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let what = what(request.query.get("type").as_deref())?;
    let passphrase = passphrase::sealing(&request)?;
    let file = backup::scratch_file(&admin.core.config.data_dir).map_err(ImportError::from)?;
    let (file, kind, ending) = match passphrase {
        None => (backup::export(&admin.core, what, file).await?, "application/json; charset=utf-8", "json"),
        Some(passphrase) => {
            let sealing = block_in_place(|| Sealing::new(file, &passphrase)).map_err(ImportError::from)?;
            let sealing = backup::export(&admin.core, what, sealing).await?;
            let file = block_in_place(|| sealing.finish()).map_err(ImportError::from)?;
            (file, "application/octet-stream", "json.sealed")
        }
    };
    let mut response = http::file(StatusCode::OK, kind, file).map_err(ImportError::from)?;
    let day = local_day(now_ms(), &admin.core.config.time_zone);
    let name = match what {
        BackupScope::All => format!("switchyard-backup-{day}.{ending}"),
        what => format!("switchyard-{}-{day}.{ending}", what.as_str()),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// `POST /api/settings/backup/import`: imports `{data: document}`, a sealed backup or a file of another gateway as it
/// is; applies all of it or nothing.
pub async fn import(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let options = options(&request)?;
    let passphrase = passphrase::opening(&request)?;
    let resets = admin.core.resets();
    let upload = upload::spool(&admin.core, &mut request).await?;
    admit_late(&admin, &request, resets)?;
    let source = Source {
        file: upload.file,
        form: upload.form,
        passphrase,
        merges_foreign: request.query.get("mode").is_none(),
    };
    let answer = running::import(&admin, source, options).await?;
    Ok(http::json(StatusCode::OK, &Value::Object(answer)))
}

/// Reads which sections are wanted; everything if `word` is absent or blank.
pub fn what(word: Option<&str>) -> Result<BackupScope> {
    let word = word.filter(|word| !word.trim().is_empty());
    let parsed = word.map_or(Some(BackupScope::All), BackupScope::parse);
    Ok(parsed.ok_or_else(|| Invalid::field("type", "all, accounts or preferences"))?)
}

/// Reads the import options. A given `conflict` implies a merge unless `mode` says otherwise, because it is about rows
/// to keep.
fn options(request: &Request) -> Result<ImportOptions> {
    let query = |name: &str| request.query.get(name).map(|word| word.trim().to_ascii_lowercase());
    let conflict = match query("conflict").as_deref() {
        None => None,
        Some("skip") => Some(Conflict::Skip),
        Some("overwrite") => Some(Conflict::Overwrite),
        Some("fill" | "fill-empty") => Some(Conflict::Fill),
        Some(_) => return Err(Invalid::field("conflict", "skip, overwrite or fill").into()),
    };
    let merge = match query("mode").as_deref() {
        None => conflict.is_some(),
        Some("replace") => false,
        Some("merge") => true,
        Some(_) => return Err(Invalid::field("mode", "replace or merge").into()),
    };
    let dry_run = match query("dryrun").or_else(|| query("dryRun")).as_deref() {
        None | Some("0" | "false") => false,
        Some("1" | "true") => true,
        Some(_) => return Err(Invalid::field("dryRun", "1 or true").into()),
    };
    Ok(ImportOptions {
        merge,
        conflict: conflict.unwrap_or_default(),
        dry_run,
        caller: Some(request.client_ip),
        ..ImportOptions::default()
    })
}
