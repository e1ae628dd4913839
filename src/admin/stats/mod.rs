//! Usage and availability statistics, and their cache.

pub mod cached;
pub mod dashboard;
pub mod kept;
pub mod schema;
pub mod sites;
