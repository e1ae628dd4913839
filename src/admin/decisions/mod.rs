//! Why a request would go where it goes, and the answers that are kept with the routes.

pub mod cache;
pub mod handlers;
pub mod schema;
pub mod view;
