//! Export and import.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, HeaderValue};
use serde_json::Value;
use tokio::task::block_in_place;

use super::{foreign, upload};
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Invalid;
use crate::admin::routes::handlers::start_refresh;
use crate::backup::{self, Conflict, Document, ImportError, ImportOptions, Report, What};
use crate::http::{self, Request, Response};
use crate::jobs::rebuild;
use crate::time::{local_day, now_ms};

/// `GET /api/settings/backup/export`: the document itself, with every credential in clear.
pub async fn export(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let what = what(request.query.get("type").as_deref())?;
    let file = backup::scratch_file(&admin.core.config.data_dir).map_err(ImportError::from)?;
    let file = backup::export(&admin.core, what, file).await?;
    let mut response = http::json_file(StatusCode::OK, file).map_err(ImportError::from)?;
    let day = local_day(now_ms(), &admin.core.config.time_zone);
    let name = match what {
        What::All => format!("switchyard-backup-{day}.json"),
        what => format!("switchyard-{}-{day}.json", what.as_str()),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// `POST /api/settings/backup/import`: `{data: document}`, all of it or nothing.
pub async fn import(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let mut options = options(&request)?;
    let file = upload::spool(&admin.core, &mut request).await?;
    let dir = admin.core.config.data_dir.clone();
    let document = tokio::task::spawn_blocking(move || Document::read(file, &dir)).await;
    let document = document.map_err(|error| AdminError::internal("reading a backup", error))?;
    let document = document.map_err(ImportError::from)?.within("data");
    let document = document.ok_or_else(|| Invalid::field("data", "object"))?;
    let Some(taken) = block_in_place(|| foreign::take_over(&document, &admin.core.config))? else {
        let report = import_document(&admin, document, options).await?;
        return Ok(http::json(StatusCode::OK, &report.json()));
    };
    // It has a part of what an operator sets up: the rest stays, unless he says otherwise.
    options.merge |= request.query.get("mode").is_none();
    let text = taken.document.to_string();
    let read = block_in_place(|| Document::read(text.as_bytes(), &admin.core.config.data_dir));
    let report = import_document(&admin, read.map_err(ImportError::from)?, options).await?;
    let mut answer = report.json();
    let left = taken.left_out.iter().map(|left| format!("{}: {}", left.place, left.reason).into());
    let warnings = answer.entry("warnings").or_insert_with(|| Vec::<Value>::new().into());
    if let Value::Array(warnings) = warnings {
        warnings.extend(left);
    }
    if let Some(summary) = taken.summary {
        answer.insert("summary".to_owned(), summary);
    }
    Ok(http::json(StatusCode::OK, &answer))
}

/// Imports a document and has everything follow it that is kept above the core.
pub async fn import_document(
    admin: &Arc<Admin>,
    document: Document,
    options: ImportOptions,
) -> Result<Report> {
    let is_dry = options.dry_run;
    let report = backup::import(&admin.core, document, options).await?;
    if is_dry {
        return Ok(report);
    }
    log::info!("a backup was imported: {}", report.message());
    if report.sections.accounts {
        admin.proxy.formats.clear();
        rebuild::rebuild(&admin.jobs).await?;
        admin.stats.clear();
        admin.decisions().clear();
        admin.marketplace.clear();
    }
    if report.sections.preferences {
        admin.core.notifier.reset_cooldowns().await;
        let filters = ["global_allowed_models", "global_blocked_brands"];
        if report.applied_settings.iter().any(|(key, _)| filters.contains(&key.as_str())) {
            start_refresh(admin, "maintenance");
        }
    }
    Ok(report)
}

/// Which sections; everything when nothing is said.
pub fn what(word: Option<&str>) -> Result<What> {
    let parsed = word.map_or(Some(What::All), What::parse);
    Ok(parsed.ok_or_else(|| Invalid::field("type", "all, accounts or preferences"))?)
}

/// Who says what happens to rows that are there already means to keep others: that is a merge, unless he says otherwise.
fn options(request: &Request) -> Result<ImportOptions> {
    let query = |name: &str| request.query.get(name).map(|word| word.trim().to_ascii_lowercase());
    let conflict = match query("conflict").as_deref() {
        None => None,
        Some("skip") => Some(Conflict::Skip),
        Some("overwrite") => Some(Conflict::Overwrite),
        Some("fill") => Some(Conflict::Fill),
        Some(_) => return Err(Invalid::field("conflict", "skip, overwrite or fill").into()),
    };
    let merge = match query("mode").as_deref() {
        None => conflict.is_some(),
        Some("replace") => false,
        Some("merge") => true,
        Some(_) => return Err(Invalid::field("mode", "replace or merge").into()),
    };
    let dry_run = match query("dryrun").or_else(|| query("dryRun")).as_deref() {
        None | Some("" | "0" | "false") => false,
        Some("1" | "true") => true,
        Some(_) => return Err(Invalid::field("dryRun", "1 or true").into()),
    };
    Ok(ImportOptions {
        merge,
        conflict: conflict.unwrap_or_default(),
        dry_run,
        caller: Some(request.client_ip),
    })
}
