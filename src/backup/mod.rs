//! Backups: everything an operator has set up, exported as one JSON document and imported again.
//!
//! ```text
//! export   rows as of one moment ─▶ canonical JSON ─▶ any `Write`
//! import   any `Read` ─▶ Document ─▶ checked ─▶ staged ─▶ planned ─▶ one transaction ─▶ in force
//!                                                                      └▶ a dry run ends here: Report
//! ```
//!
//! The takeover from other gateways and the command line use the same three functions, none of which depends on
//! HTTP:
//!
//! - [`Document::read`] reads a file of any size. [`Document::rows`], [`Document::value`] and
//!   [`Document::members`] inspect it before it is imported.
//! - [`import()`] applies it, all of it or nothing, or with `dry_run` reports what it would do. It publishes
//!   the new routing data. A caller that keeps caches above the core has to clear them afterwards, and to
//!   rebuild the routes.
//! - [`export()`] writes one; through [`sealed::Sealing`] it is encrypted with a passphrase, and
//!   [`sealed::open`] reads it.
//!
//! All of them block and take long: they run on threads of their own. Only a row is in memory at a time, not
//! the document.
//!
//! | module | what it is for |
//! |---|---|
//! | `document`, `canonical`, `scratch` | a document on disk; the text that its checksum covers; unnamed files |
//! | `sections` | the sections of a document, and whether it is intact |
//! | `rows`, `accounts`, `keys`, `preferences` | conversion of rows and settings between documents and the store |
//! | `amend` | conversion of rows of older documents and of other programs |
//! | `doubts` | warnings about rows that are imported but cannot be used |
//! | `unknown_members` | warnings about members that only a newer release knows |
//! | `import`, `options`, `progress` | the import; its options; its progress |
//! | `plan`, `report` | comparison with the stored rows; the report of an import |
//! | `export`, `scope`, `sealed` | writing a backup; which sections it contains; encryption with a passphrase |

mod accounts;
mod amend;
mod canonical;
mod document;
mod doubts;
mod export;
mod import;
mod keys;
mod options;
mod plan;
mod preferences;
mod progress;
mod report;
mod rows;
mod scope;
mod scratch;
pub mod sealed;
mod sections;
mod unknown_members;

pub use canonical::pretty;
pub use document::Document;
pub use export::{export, installation};
pub use import::import;
pub use options::ImportOptions;
pub use progress::{ImportProgress, Stage};
pub use report::{ImportError, Report};
pub use scope::BackupScope;
pub use scratch::file as scratch_file;

pub use crate::store::staging::{Conflict, Counts};
