//! `switchyard import`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use super::failure::{DATA, Failure, NO_INPUT, OTHER, USAGE};
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
    if is_standard_input(path) && matches!(passphrase, PassphraseFrom::File(from) if from == path) {
        let message = "standard input cannot be both the backup and its passphrase";
        return Err(Failure::new(USAGE, message));
    }
    let mut source = Source::open(path, &config.data_dir)?;
    let head = source.head()?;
    if byte_order_mark::strip(&head).trim_ascii_start().starts_with(b"{") {
        let is_sealed = sealed::is_sealed(&head);
        let document = source.read_backup(is_sealed, passphrase, config, progress)?;
        if is_sealed || document.is_own() {
            return Ok(Opened { document, name: "a backup of Switchyard", taken_over: None });
        }
        source.rewind()?;
    } else {
        progress.step("Reading");
    }
    source.take_over(config)
}

/// A file that is imported, at its start.
struct Source<'p> {
    path: &'p Path,
    /// The name of the file in messages.
    name: Cow<'p, str>,
    file: File,
    /// Whether `file` is a copy, because the content of `path` can be read only once.
    is_copy: bool,
}

impl<'p> Source<'p> {
    fn open(path: &'p Path, scratch: &Path) -> Result<Self, Failure> {
        if is_standard_input(path) {
            let file = copied(std::io::stdin().lock(), scratch)?;
            return Ok(Self { path, name: "standard input".into(), file, is_copy: true });
        }
        let name = path.to_string_lossy();
        let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
        let is_copy = is_stream(path);
        let file = if is_copy { copied(file, scratch)? } else { file };
        Ok(Self { path, name, file, is_copy })
    }

    /// Returns the first bytes, by which the format is recognised.
    fn head(&mut self) -> Result<Vec<u8>, Failure> {
        let mut head = Vec::new();
        let read = (&mut self.file).take(512).read_to_end(&mut head);
        read.map_err(|error| unreadable(&self.name, &error))?;
        self.rewind().map(|()| head)
    }

    fn rewind(&mut self) -> Result<(), Failure> {
        self.file.rewind().map_err(|error| unreadable(&self.name, &error))
    }

    /// Reads a document in our own form, sealed or not.
    fn read_backup(
        &mut self,
        is_sealed: bool,
        passphrase: &PassphraseFrom,
        config: &Config,
        progress: &Progress,
    ) -> Result<Document, Failure> {
        let length = self.file.metadata().map_err(|error| unreadable(&self.name, &error))?.len();
        let given = passphrase.read()?;
        let passphrase = match (given.as_deref(), config.backups.passphrase.as_deref()) {
            (Some(given), _) => Passphrase::Given(given),
            (None, Some(own)) => Passphrase::Configured(own),
            (None, None) if is_sealed => {
                return Err(Failure::new(USAGE, format!("{}: {SEALED}", self.name)));
            }
            (None, None) => Passphrase::Missing,
        };
        let metered = progress.metered("Reading", length, &mut self.file);
        let document =
            sealed::open(metered, passphrase).and_then(|text| Document::read(text, &config.data_dir));
        document.map_err(|error| unimportable(&self.name, error))
    }

    /// Converts a file of another gateway.
    fn take_over(self, config: &Config) -> Result<Opened, Failure> {
        let Self { path, name, file, is_copy } = self;
        let scratch = &config.data_dir;
        let context = Context {
            secrets: config.secrets_of_imports(),
            variable: Some(variable),
            zone: config.time_zone.clone(),
        };
        // A database file is read together with the files beside it.
        let taken_over = if is_copy {
            takeover::read_sent(file, scratch, &context)
        } else {
            takeover::read(path, scratch, &context)
        };
        let taken_over = taken_over.map_err(|error| Failure::new(DATA, format!("{name}: {}", error.0)))?;
        let text = taken_over.document.to_string();
        let document = Document::read(text.as_bytes(), scratch);
        let document = document.map_err(|error| unimportable(&name, error))?;
        Ok(Opened { document, name: taken_over.kind.name(), taken_over: Some(taken_over) })
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    let code = if error.kind() == std::io::ErrorKind::NotFound { NO_INPUT } else { 1 };
    Failure::new(code, format!("{name}: {error}"))
}

/// Converts the error of a file whose content is no document.
fn unimportable(name: &str, error: std::io::Error) -> Failure {
    match ImportError::from(error) {
        ImportError::Refused(why) => Failure::new(DATA, format!("{name}: {why}")),
        other => failure(other),
    }
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
            Failure::new(OTHER, format!("nothing was imported: the disk is full ({what}): {advice}"))
        }
        other => Failure::new(OTHER, format!("nothing was imported: {other}")),
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
