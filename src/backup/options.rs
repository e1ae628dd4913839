//! The options of an import.

use std::net::IpAddr;

use super::progress::ImportProgress;
use crate::store::staging::Conflict;

/// The options that the caller of an import chooses.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whether the import only adds and updates; otherwise it also deletes what the document does not have.
    pub merge: bool,
    /// What a row of the document does to the stored row that it matches.
    pub conflict: Conflict,
    /// Whether the import only reports what it would do.
    pub dry_run: bool,
    /// Whether rows that cannot be imported are skipped, and listed; otherwise one of them refuses the document. For
    /// files of other programs, which may have broken references and odd values.
    pub leaves_out: bool,
    /// The address of whoever imports: a list of admin addresses that excludes it is not imported. `None` means
    /// this machine.
    pub caller: Option<IpAddr>,
    /// Receives the progress of the import.
    pub progress: ImportProgress,
}
