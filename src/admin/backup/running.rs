//! Runs one import as a task that shows its progress; the caller waits for its answer.

use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::interval;

use super::foreign;
use super::upload::Form;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Invalid;
use crate::admin::routes::handlers::start_refresh;
use crate::backup::sealed::{self, Passphrase};
use crate::backup::{self, Document, ImportError, ImportOptions, ImportProgress, Report, Stage};
use crate::config::Config;
use crate::idle_thread::run_on_idle_thread;
use crate::jobs::rebuild;
use crate::jobs::tasks::{self, Done, Spec, TaskEvents};
use crate::takeover::{Kind, TakenOver};

/// Query parameters of an import.
const OPTIONS: [&str; 3] = ["dryRun", "mode", "conflict"];
/// The interval at which the task's message is updated.
const TICK: Duration = Duration::from_millis(250);

/// A file to import.
pub struct Source {
    /// The file, positioned at its beginning.
    pub file: File,
    pub form: Form,
    /// The passphrase that came with the file.
    pub passphrase: Option<String>,
    /// Whether a file of another gateway is merged, whatever the options say.
    pub merges_foreign: bool,
}

/// Imports a file and returns the answer. The import runs to its end even if the caller stops waiting.
pub async fn import(
    admin: &Arc<Admin>,
    source: Source,
    options: ImportOptions,
) -> Result<Map<String, Value>> {
    let (reply, answer) = oneshot::channel();
    let (kind, title) = if options.dry_run {
        ("backup-dry-run", "Dry run of an import")
    } else {
        ("backup-import", "Import of a backup")
    };
    let spec = Spec { kind, title: title.to_owned(), dedupe_key: None, events: TaskEvents::None };
    let importer = admin.clone();
    admin.jobs.tasks.start(spec, |task| async move {
        let progress = options.progress.clone();
        let answer = follow(&task, &progress, import_file(&importer, source, options)).await;
        let outcome = match &answer {
            Ok(answer) => Ok(Done {
                message: answer["message"].as_str().unwrap_or_default().to_owned(),
                result: answer["counts"].clone(),
            }),
            Err(error) => Err(error.message().to_owned()),
        };
        // The caller may be gone.
        let _ = reply.send(answer);
        outcome
    });
    let stopped = || AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "The import was stopped");
    answer.await.unwrap_or_else(|_| Err(stopped()))
}

/// Runs an import to its end and shows its progress in the task.
async fn follow<T>(
    task: &tasks::TaskProgress,
    progress: &ImportProgress,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut ticks = interval(TICK);
    let log_begun = || progress.take_begun().into_iter().for_each(|line| task.log(line));
    loop {
        tokio::select! {
            done = &mut work => {
                log_begun();
                return done;
            }
            _ = ticks.tick() => {
                log_begun();
                if let Some(now) = progress.now() {
                    task.show(now);
                }
            }
        }
    }
}

async fn import_file(
    admin: &Arc<Admin>,
    source: Source,
    mut options: ImportOptions,
) -> Result<Map<String, Value>> {
    let (reader, progress) = (admin.clone(), options.progress.clone());
    let Source { file, form, passphrase, merges_foreign } = source;
    let read = run_on_idle_thread(move || read(&reader, file, form, passphrase.as_deref(), &progress)).await;
    let (document, taken_over) = read??;
    // The file of another gateway has only part of the configuration; a metapi backup has all of it.
    let is_partial = taken_over.as_ref().is_some_and(|taken| taken.kind != Kind::MetapiBackup);
    options.merge |= is_partial && merges_foreign;
    options.leaves_out = taken_over.is_some();
    let mut answer = import_document(admin, document, options).await?.json();
    let Some(taken) = taken_over else { return Ok(answer) };
    let left = taken.left_out.iter().map(|left| format!("{}: {}", left.place, left.reason).into());
    let warnings = answer.entry("warnings").or_insert_with(|| Vec::<Value>::new().into());
    if let Value::Array(warnings) = warnings {
        warnings.extend(left);
    }
    if let Some(summary) = taken.summary {
        answer.insert("summary".to_owned(), summary);
    }
    Ok(answer)
}

/// Reads the document, converted if another gateway wrote the file; then also returns the conversion's result.
fn read(
    admin: &Admin,
    file: File,
    form: Form,
    given: Option<&str>,
    progress: &ImportProgress,
) -> Result<(Document, Option<TakenOver>)> {
    let config = &admin.core.config;
    let passphrase = match (given, config.backups.passphrase.as_deref()) {
        (Some(given), _) => Passphrase::Given(given),
        (None, Some(own)) => Passphrase::Configured(own),
        (None, None) => Passphrase::Missing,
    };
    progress.begin(Stage::Reading, file.metadata().map_or(0, |file| file.len()));
    if form == Form::Foreign {
        if given.is_some() {
            let message =
                "A passphrase was sent, but the body is not a sealed backup, or its first line is damaged";
            return Err(AdminError::bad_request(message));
        }
        return ours(foreign::take_over_file(file, config)?, config);
    }
    let text = sealed::open(progress.counting(file), passphrase).map_err(ImportError::from)?;
    let mut document = Document::read(text, &config.data_dir).map_err(ImportError::from)?;
    if form == Form::Enclosed {
        if let Some(option) = OPTIONS.into_iter().find(|option| document.has(&[option])) {
            let message = format!(
                "Send {option} in the query string (?{option}=…), not in the body; beside data the body \
                 takes no other member"
            );
            return Err(AdminError::bad_request(message));
        }
        document = document.within("data").ok_or_else(|| Invalid::field("data", "object"))?;
    }
    match foreign::take_over(&document, config)? {
        Some(taken) => ours(taken, config),
        None => Ok((document, None)),
    }
}

/// Parses the converted document.
fn ours(taken: TakenOver, config: &Config) -> Result<(Document, Option<TakenOver>)> {
    let text = taken.document.to_string();
    let ours = Document::read(text.as_bytes(), &config.data_dir).map_err(ImportError::from)?;
    Ok((ours, Some(taken)))
}

/// Imports a document and updates what the rooms above the core keep: caches, routes and statistics.
async fn import_document(admin: &Arc<Admin>, document: Document, options: ImportOptions) -> Result<Report> {
    let is_dry = options.dry_run;
    let report = backup::import(&admin.core, document, options).await?;
    if is_dry {
        return Ok(report);
    }
    log::info!("a backup was imported: {}", report.message());
    if report.sections.accounts {
        admin.proxy.dialect_memory.clear();
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
