//! `/api/settings/backup/*`: what an operator set up, out as a document and in again.

pub mod handlers;
mod upload;
pub mod webdav;
