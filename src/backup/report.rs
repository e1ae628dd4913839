//! The report of an import: what it did, or in a dry run would do.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde_json::{Map, Value, json};

use crate::idle_thread::ThreadSpawnError;
use crate::store;
use crate::store::staging::{Action, Counts};

/// The sections of a document that were imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sections {
    pub accounts: bool,
    pub preferences: bool,
}

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub dry_run: bool,
    pub sections: Sections,
    /// The settings that were stored, secrets masked.
    pub applied_settings: Vec<(String, Value)>,
    pub warnings: Vec<String>,
    /// By array of the document; settings are under `settings`.
    pub counts: BTreeMap<&'static str, Counts>,
    /// What happens to each row; only in a dry run.
    pub rows: Vec<RowReport>,
    /// The number of rows that the report has no room for.
    pub rows_omitted: u64,
}

/// What happens to one row. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowReport {
    pub section: &'static str,
    pub id: Option<i64>,
    pub label: String,
    pub action: Action,
    pub reason: String,
}

/// Why nothing was imported.
#[derive(Debug)]
pub enum ImportError {
    /// The document cannot be imported; the text is for people.
    Refused(String),
    /// The disk failed, not the document.
    Io(io::Error),
    Store(store::Error),
    /// No thread could be started at the moment.
    ThreadSpawnError(ThreadSpawnError),
}

// === impl Report ===

impl Report {
    /// Returns the sum over all arrays.
    pub fn total(&self) -> Counts {
        self.counts.values().fold(Counts::default(), |sum, counts| Counts {
            created: sum.created + counts.created,
            updated: sum.updated + counts.updated,
            skipped: sum.skipped + counts.skipped,
            refused: sum.refused + counts.refused,
            deleted: sum.deleted + counts.deleted,
        })
    }

    /// Returns a one-line summary for people.
    pub fn message(&self) -> String {
        let total = self.total();
        let sums = format!(
            "{} row(s) created, {} updated, {} skipped, {} deleted",
            total.created, total.updated, total.skipped, total.deleted
        );
        match (self.dry_run, total.refused) {
            (true, 0) => format!("Dry run, nothing was written: {sums}"),
            (true, refused) => {
                format!(
                    "Dry run, nothing was written: {refused} row(s) are refused, so the import would be \
                     refused; {sums}"
                )
            }
            (false, _) => format!("Import finished: {sums}"),
        }
    }

    /// Returns the report as sent in responses.
    pub fn json(&self) -> Map<String, Value> {
        let counts = |counts: &Counts| {
            json!({"created": counts.created, "updated": counts.updated, "skipped": counts.skipped,
                "refused": counts.refused, "deleted": counts.deleted})
        };
        let mut answer = Map::new();
        let mut say = |name: &str, value: Value| drop(answer.insert(name.to_owned(), value));
        say("success", true.into());
        say("message", self.message().into());
        // A document that cannot be imported as a whole is refused, which a dry run only foretells.
        say("allImported", (self.total().refused == 0).into());
        say(
            "sections",
            json!({"accounts": self.sections.accounts, "preferences": self.sections.preferences}),
        );
        let applied = self.applied_settings.iter().map(|(key, value)| json!({"key": key, "value": value}));
        say("appliedSettings", applied.collect());
        say("counts", counts(&self.total()));
        say(
            "arrays",
            Value::Object(self.counts.iter().map(|(array, c)| ((*array).to_owned(), counts(c))).collect()),
        );
        if !self.warnings.is_empty() {
            say("warnings", self.warnings.clone().into());
        }
        if self.dry_run {
            say("dryRun", true.into());
            say("rows", self.rows.iter().map(RowReport::json).collect());
            say("rowsOmitted", self.rows_omitted.into());
        }
        answer
    }
}

impl RowReport {
    fn json(&self) -> Value {
        json!({"section": self.section, "id": self.id, "name": self.label, "action": self.action.as_str(),
            "reason": self.reason})
    }
}

// === impl ImportError ===

impl From<store::Error> for ImportError {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<ThreadSpawnError> for ImportError {
    fn from(error: ThreadSpawnError) -> Self {
        Self::ThreadSpawnError(error)
    }
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Refused(error.to_string()),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Store(store::Error::Full(error.to_string()))
            }
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => out.write_str(why),
            Self::Io(error) => write!(out, "the disk: {error}"),
            Self::Store(error) => write!(out, "{error}"),
            Self::ThreadSpawnError(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for ImportError {}
