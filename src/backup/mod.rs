//! Backups: everything an operator has set up, as one JSON document, and back.
//!
//! ```text
//! export   rows of one moment ─▶ canonical JSON ─▶ any `Write`
//! import   any `Read` ─▶ Document ─▶ checked ─▶ staged ─▶ planned ─▶ one transaction ─▶ in force
//!                                                                      └▶ a dry run ends here: Report
//! ```
//!
//! Who takes over from elsewhere and who works from a command line use the same three things, none of which knows HTTP:
//!
//! - [`Document::read`] takes a file of any size. Looking into it before it is imported: [`Document::rows`],
//!   [`Document::value`], [`Document::members`].
//! - [`import()`] puts it in force, or with `dry_run` tells what it would do; all of it holds, or nothing. It publishes what
//!   requests are routed by. Who keeps caches above the core clears them afterwards, and rebuilds the routes.
//! - [`export()`] writes one; through [`sealed::Sealing`] it is encrypted with a passphrase, and [`sealed::open`] reads it.
//!
//! All of them block and take long: they run on threads of their own. What is in memory is a row, not the document.
//!
//! | module | what it is for |
//! |---|---|
//! | `document`, `canonical`, `scratch` | a document on disk; the text that its checksum is of; files without a name |
//! | `sections` | which parts a document has, and whether it is whole |
//! | `rows`, `accounts`, `preferences` | rows and settings in documents and here |
//! | `doubts` | rows that are taken and not used |
//! | `import`, `options`, `progress` | the import; how; how far it is |
//! | `plan`, `report` | what it compares with; what it tells |
//! | `export`, `sealed` | writing; a document under a passphrase |

mod accounts;
mod amend;
mod canonical;
mod document;
mod doubts;
mod export;
mod import;
mod options;
mod plan;
mod preferences;
mod progress;
mod report;
mod rows;
mod scratch;
pub mod sealed;
mod sections;

pub use canonical::pretty;
pub use document::Document;
pub use export::{What, export};
pub use import::import;
pub use options::ImportOptions;
pub use progress::{Progress, Stage};
pub use report::{ImportError, Report};
pub use scratch::file as scratch_file;

pub use crate::store::staging::{Conflict, Counts};
