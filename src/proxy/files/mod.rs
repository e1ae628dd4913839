//! `/v1/files`: what clients upload once and refer to later.
//!
//! ```text
//! POST  ─ multipart, part by part ─ chunk by chunk into the store     upload
//! GET   ─ list, one                                                   object
//! GET   ─ content, chunk by chunk out of the store                    content
//! DELETE ─ hidden at once                                             object
//! ```
//!
//! What a model call names of them is put into its body before anybody is asked: [`resolve()`]. What a batch names of them
//! is read [`whole()`].
//!
//! Every look-up is by owner: a file of one key does not exist for another. Which media types are taken
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
pub(super) use whole::whole;
