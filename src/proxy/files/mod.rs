//! `/v1/files`: files that clients upload once and refer to later.
//!
//! ```text
//! POST  ─ multipart, part by part ─ chunk by chunk into the store     upload
//! GET   ─ list, one                                                   object
//! GET   ─ content, chunk by chunk out of the store                    content
//! DELETE ─ hidden at once                                             object
//! ```
//!
//! Files that a model call names are put into its body before any upstream is asked: [`resolve()`]. A file that a batch
//! names is read [`whole()`].
//!
//! Every look-up is by owner: a file of one key does not exist for another. Which media types are accepted
//! is in `mime`.

mod content;
mod lookup;
mod mime;
mod object;
mod refusal;
mod resolve;
mod shown;
mod upload;
mod whole;

pub(super) use content::content;
pub(super) use object::{delete, get, list};
pub(super) use resolve::resolve;
pub(super) use upload::upload;
pub(super) use whole::{NamedFile, whole};
