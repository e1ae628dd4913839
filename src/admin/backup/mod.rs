//! `/api/settings/backup/*`: what an operator set up, out as a document and in again.

mod foreign;
pub mod handlers;
mod passphrase;
mod running;
pub mod schema;
mod upload;
pub mod webdav;
