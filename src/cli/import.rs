//! `switchyard import`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use super::failure::{DATA, Failure, NO_INPUT, USAGE};
use super::passphrase::PassphraseFrom;
use super::progress::Progress;
use super::transfer::Import;
use crate::backup::sealed::{self, Passphrase};
use crate::backup::{self, Document, ImportError, ImportOptions, Report};
use crate::byte_order_mark;
use crate::config::Config;
use crate::core::Core;
use crate::one_line::is_direction;
use crate::store;
use crate::takeover::{self, Context, TakenOver};

/// A file that can be imported.
pub struct Opened {
    pub document: Document,
    /// The name of its format, for people.
    pub name: &'static str,
    pub taken_over: Option<TakenOver>,
}

/// Imports the document of a file. Returns the report, and whether the import of which it is a dry run would be refused.
///
/// # Errors
/// Says why nothing was imported.
pub async fn run(
    core: &Arc<Core>,
    opened: Opened,
    import: &Import,
    progress: &Progress,
) -> Result<(String, bool), Failure> {
    let options = ImportOptions {
        merge: !import.replaces,
        conflict: import.conflict,
        dry_run: import.dry_run,
        leaves_out: opened.taken_over.is_some(),
        ..ImportOptions::default()
    };
    let at = options.progress.clone();
    let imported = progress.following(&at, backup::import(core, opened.document, options)).await;
    let report = imported.map_err(failure)?;
    let text = summary(opened.name, &report, opened.taken_over.as_ref());
    Ok((text, report.total().refused > 0))
}

/// Opens a file of any known format.
///
/// # Errors
/// Says what the file is, or what is wrong with it.
pub fn open(
    path: &Path,
    passphrase: &PassphraseFrom,
    config: &Config,
    progress: &Progress,
) -> Result<Opened, Failure> {
    let is_input = path.as_os_str() == "-";
    let is_piped = is_input || is_stream(path);
    let shown = if is_input { "standard input".into() } else { path.to_string_lossy() };
    let failed = |error: std::io::Error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { NO_INPUT } else { 1 };
        Failure::new(code, format!("{shown}: {error}"))
    };
    let refused = |why: String| Failure::new(DATA, format!("{shown}: {why}"));
    let unread = |error: std::io::Error| match ImportError::from(error) {
        ImportError::Refused(why) => refused(why),
        other => failure(other),
    };
    let scratch = &config.data_dir;
    if is_input && matches!(passphrase, PassphraseFrom::File(from) if from == path) {
        let message = "standard input cannot be both the backup and its passphrase";
        return Err(Failure::new(USAGE, message));
    }
    let mut file = if is_input {
        copied(std::io::stdin().lock(), scratch)?
    } else {
        let file = File::open(path).map_err(failed)?;
        if is_piped { copied(file, scratch)? } else { file }
    };
    let mut head = Vec::new();
    (&mut file).take(512).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let begins = byte_order_mark::strip(&head).trim_ascii_start();
    if begins.starts_with(b"{") {
        let length = file.metadata().map_err(failed)?.len();
        let is_sealed = sealed::is_sealed(&head);
        let given = passphrase.read()?;
        let passphrase = match (given.as_deref(), config.backups.passphrase.as_deref()) {
            (Some(given), _) => Passphrase::Given(given),
            (None, Some(own)) => Passphrase::Configured(own),
            (None, None) if is_sealed => return Err(Failure::new(USAGE, format!("{shown}: {SEALED}"))),
            (None, None) => Passphrase::Missing,
        };
        let metered = progress.metered("Reading", length, &mut file);
        let document = sealed::open(metered, passphrase).and_then(|text| Document::read(text, scratch));
        let document = document.map_err(unread)?;
        if is_sealed || document.is_own() {
            return Ok(Opened { document, name: "a backup of Switchyard", taken_over: None });
        }
        file.rewind().map_err(failed)?;
    } else {
        progress.step("Reading");
    }
    let context = Context {
        secrets: config.secrets_of_imports(),
        variable: Some(variable),
        zone: config.time_zone.clone(),
    };
    // A database file is read together with the files beside it.
    let taken_over = if is_piped {
        takeover::read_sent(file, scratch, &context)
    } else {
        takeover::read(path, scratch, &context)
    };
    let taken_over = taken_over.map_err(|error| refused(error.0))?;
    let text = taken_over.document.to_string();
    let document = Document::read(text.as_bytes(), scratch).map_err(unread)?;
    Ok(Opened { document, name: taken_over.kind.name(), taken_over: Some(taken_over) })
}

const SEALED: &str = "the backup is sealed: give its passphrase with --passphrase-file FILE (- for standard input), or in \
                      BACKUP_PASSPHRASE";

/// Whether the path names a pipe or a device, whose content can be read or written only once.
pub fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Copies what can be read only once into a file without a name.
fn copied(mut from: impl Read, scratch: &Path) -> Result<File, Failure> {
    let copied = backup::scratch_file(scratch).and_then(|mut file| {
        std::io::copy(&mut from, &mut file)?;
        file.rewind().map(|()| file)
    });
    copied.map_err(|error| failure(error.into()))
}

/// Returns a variable that a file names in place of a key. The gateway's own variables are refused: the file also says
/// to which address the key would be sent.
fn variable(name: &str) -> Option<String> {
    const OWN: [&str; 12] = [
        "AUTH_TOKEN",
        "PROXY_TOKEN",
        "HELPER_TOKEN",
        "BOT_TOKEN",
        "SECRET",
        "PASS",
        "DB_URL",
        "SYSTEM_PROXY_URL",
        "WEBHOOK_URL",
        "BARK_URL",
        "PUSH_",
        "SERVERCHAN_KEY",
    ];
    if OWN.iter().any(|own| name.contains(own)) {
        return None;
    }
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Converts a failed import, with the matching exit status.
pub fn failure(error: ImportError) -> Failure {
    match error {
        ImportError::Refused(why) => Failure::new(DATA, format!("nothing was imported: {why}")),
        ImportError::Store(store::Error::Full(what)) => {
            let advice = "free some space where DATA_DIR is";
            Failure::new(1, format!("nothing was imported: the disk is full ({what}): {advice}"))
        }
        other => Failure::new(1, format!("nothing was imported: {other}")),
    }
}

/// Describes the result, for people. Rows carry no secrets.
fn summary(name: &str, report: &Report, taken_over: Option<&TakenOver>) -> String {
    let mut text = format!("This is {name}.\n{}.\n", report.message().trim_end_matches('.'));
    let filled = report.counts.iter().filter(|(_, counts)| **counts != backup::Counts::default());
    for (index, (array, counts)) in filled.enumerate() {
        if index == 0 {
            let _ = writeln!(
                text,
                "\n{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}",
                "", "created", "updated", "skipped", "refused", "deleted"
            );
        }
        let _ = writeln!(
            text,
            "{array:<24}{:>9}{:>9}{:>9}{:>9}{:>9}",
            counts.created, counts.updated, counts.skipped, counts.refused, counts.deleted
        );
    }
    if !report.rows.is_empty() {
        text.push_str("\nRow by row:\n");
    }
    for row in &report.rows {
        let id = row.id.map(|id| format!(" {id}")).unwrap_or_default();
        let reason = if row.reason.is_empty() { String::new() } else { format!(": {}", row.reason) };
        let _ = writeln!(
            text,
            "  {} {}{id} ({}){reason}",
            row.action.as_str(),
            row.section,
            printable(&row.label)
        );
    }
    if report.rows_omitted > 0 {
        let _ = writeln!(text, "  and {} more", report.rows_omitted);
    }
    if !report.warnings.is_empty() {
        text.push_str("\nWarnings:\n");
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "  {}", printable(warning));
    }
    let Some(taken_over) = taken_over else { return text };
    if !taken_over.left_out.is_empty() {
        text.push_str("\nNot taken:\n");
    }
    for left in &taken_over.left_out {
        let _ = writeln!(text, "  {}: {}", printable(&left.place), printable(&left.reason));
    }
    if taken_over.more_left_out > 0 {
        let _ = writeln!(text, "  and {} more", taken_over.more_left_out);
    }
    text
}

/// Removes control characters and those that change the direction of what follows: names in a file are untrusted and
/// could control the terminal, or be shown as others.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !is_direction(*c)).collect()
}
