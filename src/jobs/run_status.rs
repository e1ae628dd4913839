//! How work on one account ended, for lists of results.

use serde::Serialize;

/// The end of the work; `Skipped` where there was nothing to do, or somebody else was doing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    Success,
    Failed,
    Skipped,
}
