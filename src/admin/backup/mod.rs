//! `/api/settings/backup/*`: export and import of the configuration as a document.

mod foreign;
pub mod handlers;
mod passphrase;
mod running;
pub mod schema;
mod upload;
pub mod webdav;
