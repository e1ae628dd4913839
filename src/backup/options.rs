//! How a document is imported.

use std::net::IpAddr;

use super::progress::Progress;
use crate::store::staging::Conflict;

/// What whoever imports decides.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Adds and updates, and deletes nothing; else the configuration becomes the document's.
    pub merge: bool,
    /// What a row of the document does to a stored one that it is.
    pub conflict: Conflict,
    /// Tells what it would do, and does nothing.
    pub dry_run: bool,
    /// Who imports: a list of admins' addresses that leaves him out is not taken. This machine, unless somebody is named.
    pub caller: Option<IpAddr>,
    /// Where the import says how far it is.
    pub progress: Progress,
}
