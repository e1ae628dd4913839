//! Usage and availability statistics, and their cache.

pub mod cache;
pub mod cached;
pub mod dashboard;
pub mod schema;
pub mod sites;
